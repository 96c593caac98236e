// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"windhover/control/ota"
)

func TestBuildIndex_P156(t *testing.T) {
	var told int64
	x, err := ota.BuildIndex(t.Context(), bytes.NewReader(content), int64(len(content)), 4096, func(done, total int64) { told = done*1e6 + total })
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(len(content))*1e6 + int64(len(content)); told != want {
		t.Errorf("progress ended at %d, want %d", told, want)
	}
	if x.Count() != 4 || x.Len(3) != len(content)-3*4096 || x.SHA256 != sha256.Sum256(content) {
		t.Errorf("%d blocks, the last one %d bytes, digest %s", x.Count(), x.Len(3), x.SHA256)
	}
	for i := range x.Count() {
		if x.Hash(i) != sha256.Sum256(content[i*4096:][:x.Len(i)]) {
			t.Errorf("digest of block %d is %s", i, x.Hash(i))
		}
	}
	back, err := ota.ParseIndex(x.Encode())
	if err != nil || !bytes.Equal(back.Encode(), x.Encode()) {
		t.Errorf("the index reads back as %+v, %v", back, err)
	}
	short := bytes.NewReader(content[:5000])
	if _, err := ota.BuildIndex(t.Context(), short, int64(len(content)), 4096, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that became shorter: %v", err)
	}
	if _, err := ota.BuildIndex(t.Context(), bytes.NewReader(content), 5000, 4096, nil); err == nil {
		t.Error("a file that became longer has an index")
	}
	if _, err := ota.BuildIndex(t.Context(), bytes.NewReader(content), int64(len(content)), 1000, nil); err == nil {
		t.Error("blocks of 1000 bytes")
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := ota.BuildIndex(stopped, bytes.NewReader(content), int64(len(content)), 4096, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}

func TestDigest(t *testing.T) {
	var d ota.Digest
	for _, bad := range []string{"", "12", string(bytes.Repeat([]byte("g"), 64)), string(bytes.Repeat([]byte("1"), 66))} {
		if err := d.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is a digest", bad)
		}
	}
	if err := d.UnmarshalText(bytes.Repeat([]byte("aB"), 32)); err != nil || d.String() != string(bytes.Repeat([]byte("ab"), 32)) {
		t.Errorf("%s, %v", d, err)
	}
}
