// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"windhover/control"
)

// Index has the SHA-256 of each block of a file, so that a download is checked while
// it comes and goes on where it was cut off.
type Index struct {
	V      int    `json:"v"`
	Size   int64  `json:"size"` // of the file, bytes
	SHA256 Digest `json:"sha256"`
	Block  int64  `json:"block"`  // bytes; the last block may be shorter
	Hashes []byte `json:"hashes"` // 32 bytes a block, one after the other; base64 in JSON
}

// ParseIndex reads the payload of an envelope of TypeIndex. The error is
// control.BadRequest, or control.Unsupported for another version.
func ParseIndex(payload []byte) (*Index, error) {
	x := &Index{V: version}
	if err := decode(payload, x, "block index"); err != nil {
		return nil, err
	}
	if err := supported(x.V); err != nil {
		return nil, err
	}
	x.V = version
	err := checkBlocks(x.Size, x.Block)
	if err == nil && len(x.Hashes) != x.Count()*sha256.Size {
		err = fmt.Errorf("%d bytes of digests, want 32 for each of %d blocks", len(x.Hashes), x.Count())
	}
	if err == nil && x.SHA256 == (Digest{}) {
		err = errors.New("sha256 of the file is needed")
	}
	if err != nil {
		return nil, control.Errorf(control.BadRequest, "block index: %v", err)
	}
	return x, nil
}

// Encode is the index as the payload of an envelope.
func (x *Index) Encode() []byte { return encode(x) }

// Count is the number of blocks.
func (x *Index) Count() int { return int((x.Size + x.Block - 1) / x.Block) }

// Len is the length of block i in bytes.
func (x *Index) Len(i int) int { return int(min(x.Block, x.Size-int64(i)*x.Block)) }

// Hash is the digest of block i.
func (x *Index) Hash(i int) Digest { return Digest(x.Hashes[i*sha256.Size:][:sha256.Size]) }

// BuildIndex reads a file of the given size to its end. progress is told how many
// bytes were read; nil is nobody.
func BuildIndex(ctx context.Context, r io.Reader, size, block int64, progress func(done, total int64)) (*Index, error) {
	if err := checkBlocks(size, block); err != nil {
		return nil, fmt.Errorf("ota: index: %w", err)
	}
	x := &Index{V: version, Size: size, Block: block}
	all, buf := sha256.New(), make([]byte, block)
	for i := range x.Count() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := buf[:x.Len(i)]
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, fmt.Errorf("ota: index: block %d of %d: %w", i, x.Count(), err)
		}
		_, _ = all.Write(b) // a hash takes everything
		sum := sha256.Sum256(b)
		x.Hashes = append(x.Hashes, sum[:]...)
		if progress != nil {
			progress(int64(i)*block+int64(len(b)), size)
		}
	}
	if n, err := io.ReadFull(r, buf[:1]); n != 0 || err != io.EOF {
		return nil, errors.New("ota: index: the file is longer than it was: wait until nobody writes to it, and try again")
	}
	x.SHA256 = Digest(all.Sum(nil))
	return x, nil
}

// OpenIndex judges the envelope that a model's entry leads to. It has to be the very
// one, signed by the role, and of that file; what is another one's is
// control.MixAndMatch.
func OpenIndex(data []byte, m *Model, r Role) (*Index, error) {
	if sha256.Sum256(data) != m.Index.SHA256 {
		return nil, control.Errorf(control.MixAndMatch, "model %q: the block index is not the one that the document names", m.Name)
	}
	e, err := ParseEnvelope(data, MaxIndex)
	if err != nil {
		return nil, err
	}
	payload, _, err := e.Open(TypeIndex, r)
	if err != nil {
		return nil, err
	}
	x, err := ParseIndex(payload)
	if err != nil {
		return nil, err
	}
	if x.Size != m.Size || x.SHA256 != m.SHA256 || x.Block != m.Index.Block {
		return nil, control.Errorf(control.MixAndMatch, "model %q: the block index is of another file: %d bytes in blocks of %d, the document says %d and %d", m.Name, x.Size, x.Block, m.Size, m.Index.Block)
	}
	return x, nil
}
