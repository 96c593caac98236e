// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// onlyCandidate is the one model in a drop directory.
func onlyCandidate(t *testing.T, drop string) candidate {
	t.Helper()
	v, err := look(drop, func(string) string { return "" })
	if err != nil || len(v.Found) != 1 {
		t.Fatal(v.Found, err)
	}
	return v.Found[0]
}

func TestStoreAdopts(t *testing.T) {
	r := newRig(t, t.TempDir())
	drop, st := r.drop, r.store
	writeBytes(t, filepath.Join(drop, "m", "model.vqf"), tinyModel(t, nil))
	write(t, filepath.Join(drop, "m", "tokenizer.json"), "{}")
	c := onlyCandidate(t, drop)
	in, err := r.install(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(in.Key, "sha256-"+in.SHA256+".") || in.Version != in.SHA256[:12] {
		t.Errorf("key %q version %q of digest %q", in.Key, in.Version, in.SHA256)
	}
	src, err := os.Stat(c.Weights)
	if err != nil {
		t.Fatal(err)
	}
	dst, err := os.Stat(st.weights(in.Key))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(src, dst) {
		t.Error("a file of our own is copied, not linked")
	}
	if dst.Mode().Perm() != 0o440 {
		t.Errorf("mode %v, want 0440", dst.Mode().Perm())
	}
	b := &book{Models: map[string]installed{"m": in}}
	if _, ok := b.knows(c, st); !ok {
		t.Error("what was just installed is not recognised")
	}
	// Somebody writes over the stored file: it must not be trusted again.
	if err := os.Chtimes(st.weights(in.Key), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.knows(c, st); ok {
		t.Error("a stored file that was touched is still trusted")
	}
	// Installing again replaces the entry.
	again, err := r.install(context.Background(), onlyCandidate(t, drop))
	if err != nil {
		t.Fatal(err)
	}
	if again.Key != in.Key {
		t.Errorf("key %q, then %q", in.Key, again.Key)
	}
	if err := st.collect(map[string]bool{}); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(st.dir); err != nil || len(left) != 0 {
		t.Errorf("left in the store: %v, %v", left, err)
	}
}

func TestInstallRefusesCorruption(t *testing.T) {
	r := newRig(t, t.TempDir())
	drop := r.drop
	data := tinyModel(t, nil)
	data[len(data)-100] ^= 1
	writeBytes(t, filepath.Join(drop, "m.vqf"), data)
	_, err := r.install(context.Background(), onlyCandidate(t, drop))
	if err == nil || coded(err, codeForTest).Code.Name != "digest_mismatch" {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(r.store.dir, adopting+"*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// Without a full read the flipped bit is not seen, and the version says so.
	r.check = "size"
	in, err := r.install(context.Background(), onlyCandidate(t, drop))
	if err != nil || !strings.HasPrefix(in.Key, "unread-") || in.SHA256 != "" {
		t.Errorf("check = size: got %+v, %v", in, err)
	}
}

// A file that goes or changes between the look and the adoption leaves nothing.
func TestAdoptOfWhatChanges(t *testing.T) {
	changes := map[string]func(t *testing.T, path string){
		"gone": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"another one": func(t *testing.T, path string) { writeBytes(t, path, []byte("another")) },
		"a link": func(t *testing.T, path string) {
			if err := os.Rename(path, path+".moved"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path+".moved", path); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, change := range changes {
		for _, file := range []string{"model.vqf", "tokenizer.json"} {
			t.Run(name+" "+file, func(t *testing.T) {
				r := newRig(t, t.TempDir())
				writeBytes(t, filepath.Join(r.drop, "m", "model.vqf"), tinyModel(t, nil))
				write(t, filepath.Join(r.drop, "m", "tokenizer.json"), "{}")
				c := onlyCandidate(t, r.drop)
				change(t, filepath.Join(r.drop, "m", file))
				if _, err := r.install(context.Background(), c); !errors.Is(err, errChanged) {
					t.Errorf("got %v", err)
				}
				if left, err := os.ReadDir(r.store.dir); err != nil || len(left) != 0 {
					t.Errorf("left in the store: %v, %v", left, err)
				}
			})
		}
	}
}
