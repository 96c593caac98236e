// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"encoding/binary"
	"fmt"
)

// The fixed places of a file, docs/FORMAT.md sections 1 and 2.
const (
	Magic     = 0x57465146 // on disk "FQFW"
	Align     = 64         // of every tensor
	DirOffset = 448        // of the directory, with both headers
	EntrySize = 64         // of a directory entry
	DataAlign = 4096       // what writers round data_offset to

	headerSize41 = 432
	headerSize45 = 448
	sigSize      = 200
	// MaxTensors bounds the directory a reader accepts.
	MaxTensors = 4096

	fnvTrailer = 8
	tagTrailer = 32
)

// The versions.
const (
	VersionDense = 2
	VersionMoE   = 3
)

// Header is the decoded header, docs/FORMAT.md section 2.
type Header struct {
	Version    uint32
	Flags      Flags
	NTensors   uint32
	Arch       Arch
	DataOffset uint64
	FileLen    uint64 // end of the data area; the trailer follows
	EncIV      [16]byte
	Sig        Signature
	Fields     int // 41 or 45: the header variant
}

// Signature is the signature block, all zero unless SIGNED. Big-endian numbers.
type Signature struct {
	Pub    [64]byte
	R, S   [32]byte
	Digest [32]byte
	ID     [32]byte // zero-padded
	IDLen  uint32
}

// MoE says whether the file holds a mixture of experts: by the flag or by version 3.
func (h *Header) MoE() bool { return h.Flags&FlagMoE != 0 || h.Version == VersionMoE }

// TrailerLen is the length of what follows the data area.
func (h *Header) TrailerLen() uint64 {
	if h.Flags&FlagEnc != 0 {
		return tagTrailer
	}
	return fnvTrailer
}

// tailOffset is where data_offset stands: the rest of the tail follows it.
func tailOffset(fields int) int {
	if fields == 45 {
		return 200
	}
	return 184
}

func headerSize(fields int) int {
	if fields == 45 {
		return headerSize45
	}
	return headerSize41
}

// decodeHeader reads a header from the start of a file of the given size. b
// holds the first 448 bytes of it (fewer only if the file is shorter). Checks
// run in the order magic, version, lengths; the architecture's values are
// checked by checkArch, not here.
func decodeHeader(b []byte, size int64) (Header, error) {
	var h Header
	if len(b) < DirOffset || size < headerSize41+EntrySize {
		return h, badField("file", -1, "%d bytes are too few for a header and one entry (%d)", size, headerSize41+EntrySize)
	}
	le := binary.LittleEndian
	if m := le.Uint32(b); m != Magic {
		hint := ""
		switch {
		case string(b[:4]) == "GGUF":
			hint = " but GGUF: windhover convert makes one of it"
		case b[8] == '{' && le.Uint32(b[4:]) == 0:
			hint = " but safetensors: windhover convert makes one of the directory it belongs to"
		}
		return h, badField("magic", 0, "is %q, want \"FQFW\": not a VQF file%s", b[:4], hint)
	}
	h.Version, h.Flags, h.NTensors = le.Uint32(b[4:]), Flags(le.Uint32(b[8:])), le.Uint32(b[12:])
	switch h.Version {
	case VersionDense, VersionMoE:
	case 1:
		return h, badField("version", 4, "version 1 unsupported (need 2/3): its arithmetic is not known, convert the model again").as(ErrVersion)
	default:
		return h, badField("version", 4, "version %d unsupported (need 2/3)", h.Version).as(ErrVersion)
	}
	if h.NTensors == 0 || h.NTensors > MaxTensors {
		return h, badField("n_tensors", 12, "is %d, want 1 to %d", h.NTensors, MaxTensors)
	}
	r := &wordReader{b[archOffset:]}
	h.Arch.code(r, archFields)
	for _, f := range []struct {
		name string
		v    uint32
	}{
		{"dim", h.Arch.Dim}, {"n_layers", h.Arch.NLayers}, {"n_heads", h.Arch.NHeads},
		{"head_dim", h.Arch.HeadDim}, {"ffn_dim", h.Arch.FFNDim}, {"vocab_size", h.Arch.VocabSize},
	} {
		if f.v == 0 {
			return h, archField(f.name, "is 0: arch geometry invalid")
		}
	}
	var err error
	if h.Fields, err = detectFields(b, &h, uint64(size)); err != nil {
		return h, err
	}
	switch {
	case h.Fields == 41 && h.Version == VersionMoE:
		return h, badField("version", 4, "is 3, but the 41-field header has no place for experts")
	case h.Fields == 41 && h.Flags&FlagMoE != 0:
		return h, badField("flags", 8, "MOE is set, but the 41-field header has no place for experts")
	case h.Fields == 45:
		r = &wordReader{b[archOffset:]}
		h.Arch.code(r, 45)
	}
	return h, h.decodeTail(b)
}

// decodeTail reads what follows the architecture. Bytes that writers leave
// zero must be zero: a reader that ignored them would accept two spellings of
// one header.
func (h *Header) decodeTail(b []byte) error {
	at := tailOffset(h.Fields)
	if i := nonZero(b[at-4 : at]); i >= 0 {
		return badField("pad after arch", int64(at-4+i), "is not zero")
	}
	h.DataOffset = binary.LittleEndian.Uint64(b[at:])
	h.FileLen = binary.LittleEndian.Uint64(b[at+8:])
	copy(h.EncIV[:], b[at+16:])
	if i := nonZero(h.EncIV[:]); i >= 0 && h.Flags&FlagEnc == 0 {
		return badField("enc_iv", int64(at+16+i), "is set, but the ENC flag is not")
	}
	if i := nonZero(b[at+32 : at+48]); i >= 0 {
		return badField("enc_rsvd", int64(at+32+i), "is not zero")
	}
	sig := at + 48
	s := b[sig : sig+sigSize]
	if h.Flags&FlagSigned == 0 {
		if i := nonZero(s); i >= 0 {
			return badField("signature", int64(sig+i), "is set, but the SIGNED flag is not")
		}
		return nil
	}
	copy(h.Sig.Pub[:], s)
	copy(h.Sig.R[:], s[64:])
	copy(h.Sig.S[:], s[96:])
	copy(h.Sig.Digest[:], s[128:])
	copy(h.Sig.ID[:], s[160:])
	h.Sig.IDLen = binary.LittleEndian.Uint32(s[192:])
	if h.Sig.IDLen > uint32(len(h.Sig.ID)) {
		return badField("signature id_len", int64(sig+192), "is %d, want at most %d", h.Sig.IDLen, len(h.Sig.ID))
	}
	if i := nonZero(h.Sig.ID[h.Sig.IDLen:]); i >= 0 {
		return badField("signature id", int64(sig+160)+int64(h.Sig.IDLen)+int64(i), "is not zero past its length")
	}
	if i := nonZero(s[196:]); i >= 0 {
		return badField("signature reserved", int64(sig+196+i), "is not zero")
	}
	return nil
}

// encode returns the header's 432 or 448 bytes.
func (h *Header) encode() []byte {
	w := &wordWriter{make([]byte, 0, headerSize45)}
	flags := uint32(h.Flags)
	w.put(Magic)
	w.put(h.Version)
	w.put(flags)
	w.put(h.NTensors)
	h.Arch.code(w, h.Fields)
	w.put(0)
	b := w.b
	b = binary.LittleEndian.AppendUint64(b, h.DataOffset)
	b = binary.LittleEndian.AppendUint64(b, h.FileLen)
	b = append(b, h.EncIV[:]...)
	b = append(b, make([]byte, 16)...)
	b = append(b, h.Sig.Pub[:]...)
	b = append(b, h.Sig.R[:]...)
	b = append(b, h.Sig.S[:]...)
	b = append(b, h.Sig.Digest[:]...)
	b = append(b, h.Sig.ID[:]...)
	b = binary.LittleEndian.AppendUint32(b, h.Sig.IDLen)
	b = append(b, 0, 0, 0, 0)
	if len(b) != headerSize(h.Fields) {
		panic(fmt.Sprintf("vqf: internal error: header of %d bytes", len(b)))
	}
	return b
}

// nonZero returns the index of the first byte that is not zero, or -1.
func nonZero(b []byte) int {
	for i, c := range b {
		if c != 0 {
			return i
		}
	}
	return -1
}
