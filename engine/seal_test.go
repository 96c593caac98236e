// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"windhover/vqf"
	"windhover/vqf/seal"
)

func testKey(t testing.TB, passphrase string) *seal.Key {
	t.Helper()
	k, err := seal.KeyFromPassphrase([]byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sealed encrypts a file by the words of docs/FORMAT.md section 9 and returns the
// path of the result.
func sealed(t testing.TB, path, passphrase string) string {
	t.Helper()
	b := readFile(t, path)
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := f.Header()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	tail, length := 184, 432
	if h.Fields == 45 {
		tail, length = 200, 448
	}
	iv := [16]byte{1, 2, 3, 15: 0xff}
	key := testKey(t, passphrase)
	stream, err := key.Stream(iv)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(b[8:], uint32(h.Flags|vqf.FlagEnc))
	copy(b[tail+16:], iv[:])
	data := b[h.DataOffset:h.FileLen]
	stream.XORKeyStreamAt(data, data, 0)
	canonical := append([]byte{}, b[:length]...)
	clear(canonical[tail+8 : tail+16])
	clear(canonical[tail+48 : tail+248])
	tag := key.NewTag()
	tag.Write(canonical)
	tag.Write(b[448 : 448+64*h.NTensors])
	tag.Write(data)
	out := filepath.Join(t.TempDir(), "sealed.vqf")
	if err := os.WriteFile(out, tag.Sum(b[:h.FileLen:h.FileLen]), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}
