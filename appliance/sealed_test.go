// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/binary"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/internal/testmodel"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// Offsets in a header of 45 fields, docs/FORMAT.md section 2.
const (
	offFlags   = 8
	offTheta   = 48
	offIV      = 216
	offSig     = 248
	offDir     = 448
	headerSize = 448
)

// sealing says what is done to a plain file.
type sealing struct {
	passphrase string           // "": it stays plain
	signer     *seal.PrivateKey // nil: it stays unsigned
}

// sealedModel is a small model, encrypted and signed by the letter of
// docs/FORMAT.md sections 9 and 10.
func sealedModel(t *testing.T, s sealing, change func(*testmodel.Config)) []byte {
	t.Helper()
	plain := tinyModel(t, func(c *testmodel.Config) {
		c.Fields = 45
		if change != nil {
			change(c)
		}
	})
	le := binary.LittleEndian
	b := append([]byte(nil), plain[:len(plain)-8]...)
	if s.passphrase != "" {
		b[offFlags] |= 0x80
		b[offIV] = 7
	}
	if s.signer != nil {
		b[offFlags+1] |= 1
	}
	canonical := append([]byte(nil), b[:headerSize]...)
	clear(canonical[208:216]) // file_len
	dir, data := b[offDir:dirEnd(b)], b[le.Uint64(b[200:]):]
	if s.signer != nil {
		h := seal.NewSM3()
		for _, part := range [][]byte{canonical, dir, data} {
			h.Write(part)
		}
		digest := [32]byte(h.Sum(nil))
		r, sv, err := s.signer.Sign(seal.IDKestrel, digest)
		if err != nil {
			t.Fatal(err)
		}
		pub := s.signer.Public()
		block := b[offSig:]
		copy(block, pub[:])
		copy(block[64:], r[:])
		copy(block[96:], sv[:])
		copy(block[128:], digest[:])
		copy(block[160:], seal.IDKestrel)
		le.PutUint32(block[192:], uint32(len(seal.IDKestrel)))
	}
	if s.passphrase == "" {
		return le.AppendUint64(b, fnvOf(b))
	}
	key := keyOf(t, s.passphrase)
	stream, err := key.Stream([16]byte(b[offIV:]))
	if err != nil {
		t.Fatal(err)
	}
	stream.XORKeyStreamAt(data, data, 0)
	tag := key.NewTag()
	for _, part := range [][]byte{canonical, dir, data} {
		tag.Write(part)
	}
	return tag.Sum(b)
}

func dirEnd(b []byte) int { return offDir + 64*int(binary.LittleEndian.Uint32(b[12:])) }

// fnvOf is the checksum of a plain file without its trailer.
func fnvOf(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b[offDir:dirEnd(b)])
	h.Write(b[binary.LittleEndian.Uint64(b[200:]):])
	return h.Sum64()
}

func keyOf(t *testing.T, passphrase string) *seal.Key {
	t.Helper()
	k, err := seal.KeyFromPassphrase([]byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// flip changes one bit; again gives a plain file a checksum that is right, as
// whoever changes it on purpose would.
func flip(b []byte, at int, again bool) []byte {
	b = append([]byte(nil), b...)
	b[at] ^= 1
	if again {
		binary.LittleEndian.PutUint64(b[len(b)-8:], fnvOf(b[:len(b)-8]))
	}
	return b
}

func newSM2(t *testing.T) *seal.PrivateKey {
	t.Helper()
	k, err := seal.GenerateSM2()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newMinisign(t *testing.T) *seal.MinisignPrivate {
	t.Helper()
	k, err := seal.GenerateMinisign()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// minisig is the content of a .minisig of data.
func minisig(t *testing.T, k *seal.MinisignPrivate, data []byte) []byte {
	t.Helper()
	h := seal.NewMinisignHash()
	h.Write(data)
	s, err := k.Sign(h.Sum(nil), "for a test")
	if err != nil {
		t.Fatal(err)
	}
	return s.File()
}

// trustSM2Key and trustMinisignKey put a key into the rig's trust directory.
func (r *rig) trustSM2Key(t *testing.T, name string, k seal.PublicKey) string {
	t.Helper()
	path := filepath.Join(r.who.dir, name+".sm2.pub")
	writeBytes(t, path, []byte(k.String()+"\n"))
	return path
}

func (r *rig) trustMinisignKey(t *testing.T, name string, k seal.MinisignKey) string {
	t.Helper()
	path := filepath.Join(r.who.dir, name+".minisign.pub")
	writeBytes(t, path, k.File())
	return path
}

// trustOf is what the document of a model says it is trusted with.
func (r *rig) trustOf(t *testing.T, name string) string {
	t.Helper()
	for _, m := range r.reg.list() {
		if m.Name == name {
			return m.Trust
		}
	}
	t.Fatalf("no model %s", name)
	return ""
}

// reason is the message of a model's failure.
func (r *rig) reason(t *testing.T, name string) string {
	t.Helper()
	for _, m := range r.reg.list() {
		if m.Name == name && m.Error != nil {
			return m.Error.Message
		}
	}
	t.Fatalf("model %s has no failure: %s", name, r.states())
	return ""
}

// says fails the test unless the reason of the model's failure holds all of parts.
func (r *rig) says(t *testing.T, name string, parts ...string) {
	t.Helper()
	msg := r.reason(t, name)
	for _, p := range parts {
		if !strings.Contains(msg, p) {
			t.Errorf("message %q does not say %q", msg, p)
		}
	}
}

// spoil changes a byte of the dropped file of a model, and of the stored one where
// they are two, and leaves no trace in sizes and times: only reading finds out.
func (r *rig) spoil(t *testing.T, name string, at int) {
	t.Helper()
	in := r.book.Models[name]
	for _, path := range []string{r.store.weights(in.Key), filepath.Join(r.drop, in.Entry)} {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, int64(at)); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b, int64(at)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, fi.ModTime(), fi.ModTime()); err != nil {
			t.Fatal(err)
		}
		if shared(fi) {
			return
		}
	}
}

// places are offsets in the data area of a file: of a byte of the embedding table,
// of the last byte of a tensor, and of a byte of padding behind one.
func places(t *testing.T, data []byte) (weight, last, padding int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.vqf")
	writeBytes(t, path, data)
	info, err := vqf.Inspect(path)
	if err != nil || info.Refused != nil {
		t.Fatal(err, info.Refused)
	}
	for _, e := range info.Tensors {
		if e.Bytes%64 != 0 {
			padding = int(e.Offset + e.Bytes)
		}
		last = max(last, int(e.Offset+e.Bytes)-1)
	}
	if padding == 0 {
		t.Fatal("no tensor of the model has padding")
	}
	return int(info.Header.DataOffset) + 1000, last, padding
}

// padded gives a model a tensor that does not fill its last 64 bytes.
func padded(c *testmodel.Config) { c.Layers, c.Heads, c.KVHeads, c.HeadDim = 1, 8, 4, 8 }
