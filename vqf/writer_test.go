// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"windhover/vqf"
)

func newWriter(t *testing.T, path string, s vqf.Spec) (*vqf.Writer, *vqf.Plan) {
	t.Helper()
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	w, err := vqf.Create(path, plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Abort)
	return w, plan
}

// ls lists the directory of a path, which must hold nothing but want.
func ls(t *testing.T, path string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("directory: got %q, want %q", got, want)
	}
}

// TestWritePieces cuts the payload anywhere, across tensors too: the file is
// the same.
func TestWritePieces(t *testing.T) {
	s := miniSpec(vqf.ModeDual, 45)
	ref, res := writeMini(t, s, nil, nil)
	want := readFile(t, ref)
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, e := range plan.Tensors {
		all = append(all, payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name))...)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int{1, 3, 63, 64, 65, 1000, 1 << 20} {
		path := filepath.Join(t.TempDir(), "pieces.vqf")
		w, _ := newWriter(t, path, s)
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(most))
			if got, err := w.Write(rest[:n]); err != nil || got != n {
				t.Fatalf("Write: got %d, %v, want %d", got, err, n)
			}
			rest = rest[n:]
		}
		if _, _, ok := w.Next(); ok {
			t.Error("more is wanted")
		}
		ls(t, path, filepath.Base(tempName(t, path)))
		got, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		if got != res || !bytes.Equal(readFile(t, path), want) {
			t.Errorf("pieces of %d: got %+v, want %+v", most, got, res)
		}
		ls(t, path, "pieces.vqf")
	}
}

// tempName is the file being written beside path.
func tempName(t *testing.T, path string) string {
	t.Helper()
	m, err := filepath.Glob(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp"))
	if err != nil || len(m) != 1 {
		t.Fatalf("temporary files: %q, %v", m, err)
	}
	return m[0]
}

// TestWriterMistakes: the plan is kept to, and a failed file leaves no trace.
func TestWriterMistakes(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 0)
	s.Extra = []vqf.Extra{{Name: vqf.NameMeta, Size: 10}}
	for _, c := range []struct {
		name string
		do   func(w *vqf.Writer, plan *vqf.Plan) error
		say  string
	}{
		{"too little", func(w *vqf.Writer, p *vqf.Plan) error {
			_, err := w.Write(make([]byte, 1000))
			return err
		}, `tensor "token_embed" lacks 24 of 1024 bytes`},
		{"too much", func(w *vqf.Writer, p *vqf.Plan) error {
			_, err := w.Write(make([]byte, p.Size()))
			return err
		}, "bytes more than the plan has"},
		{"wrong tensor", func(w *vqf.Writer, p *vqf.Plan) error {
			return w.WriteTensor("q4_q", make([]byte, 2304))
		}, `"q4_q" is not the next tensor, "token_embed" is`},
		{"in the middle", func(w *vqf.Writer, p *vqf.Plan) error {
			if _, err := w.Write(make([]byte, 1)); err != nil {
				return err
			}
			return w.WriteTensor("token_embed", make([]byte, 1024))
		}, "1023 of 1024 bytes left"},
		{"wrong size", func(w *vqf.Writer, p *vqf.Plan) error {
			return w.WriteTensor("token_embed", make([]byte, 1023))
		}, `1023 bytes for tensor "token_embed", which has 1024`},
		{"extra too long", func(w *vqf.Writer, p *vqf.Plan) error {
			for _, e := range p.Tensors[:14] {
				if err := w.WriteTensor(e.Name, make([]byte, e.Bytes)); err != nil {
					return err
				}
			}
			return w.WriteTensor(vqf.NameMeta, make([]byte, 65))
		}, `65 bytes for tensor "t_meta", which has 64`},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.vqf")
			w, plan := newWriter(t, path, s)
			err := c.do(w, plan)
			if _, cerr := w.Commit(); err == nil {
				err = cerr
			} else if cerr == nil {
				t.Error("Commit passes after an error")
			}
			if err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("got %v, want %q", err, c.say)
			}
			ls(t, path)
			w.Abort()
			if _, err := w.Write([]byte{1}); err == nil {
				t.Error("Write passes after Abort")
			}
			if _, err := w.Commit(); err == nil {
				t.Error("Commit passes after Abort")
			}
		})
	}
}

// TestCommitReadsBack damages the temporary file before Commit: the damage is
// found, and what was there under the name stays.
func TestCommitReadsBack(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 0)
	for _, at := range []int64{3, 16, 44, 440, 500, 4000, 5000, 20400} {
		path := filepath.Join(t.TempDir(), "x.vqf")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		w, plan := newWriter(t, path, s)
		for _, e := range plan.Tensors {
			if err := w.WriteTensor(e.Name, payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name))); err != nil {
				t.Fatal(err)
			}
		}
		damage(t, tempName(t, path), at)
		if _, err := w.Commit(); err == nil {
			t.Errorf("byte %d: damage not found", at)
		}
		if got := string(readFile(t, path)); got != "old" {
			t.Errorf("byte %d: the old file is %.10q", at, got)
		}
		ls(t, path, "x.vqf")
	}
}

// TestCommitReplaces: a good file takes the name, and is readable by all that
// the umask lets.
func TestCommitReplaces(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 0)
	path := filepath.Join(t.TempDir(), "x.vqf")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, plan := newWriter(t, path, s)
	for _, e := range plan.Tensors {
		if err := w.WriteTensor(e.Name, payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name))); err != nil {
			t.Fatal(err)
		}
	}
	var last, total int64
	res, err := w.CommitContext(t.Context(), func(d, n int64) { last, total = d, n })
	if err != nil {
		t.Fatal(err)
	}
	if last != res.Size || total != res.Size {
		t.Errorf("progress: got %d of %d, want %d", last, total, res.Size)
	}
	w.Abort() // nothing to abort any more
	open(t, path, vqf.OpenOptions{FullCheck: true})
	ls(t, path, "x.vqf")
	if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o400 == 0 || st.Mode().Perm()&0o133 != 0 {
		t.Errorf("mode: got %v, %v", st.Mode(), err)
	}
}

// TestCommitCancelled leaves nothing.
func TestCommitCancelled(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 0)
	path := filepath.Join(t.TempDir(), "x.vqf")
	w, plan := newWriter(t, path, s)
	for _, e := range plan.Tensors {
		if err := w.WriteTensor(e.Name, payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name))); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.CommitContext(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	ls(t, path)
}

// TestCreateFails: a directory that is not there.
func TestCreateFails(t *testing.T) {
	plan, err := vqf.NewPlan(miniSpec(vqf.ModeQ4, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := vqf.Create(filepath.Join(t.TempDir(), "no", "x.vqf"), plan); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want not exist", err)
	}
}
