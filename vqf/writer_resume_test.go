// SPDX-License-Identifier: Apache-2.0

package vqf_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"windhover/vqf"
)

// A file that was left anywhere is continued there, and is the one that was
// written in one go. What lies behind the mark is forgotten.
func TestResume(t *testing.T) {
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
	for _, at := range []int{0, 1, 63, 64, 1000, 1024, len(all) / 2, len(all) - 1, len(all)} {
		path := filepath.Join(t.TempDir(), "r.vqf")
		w, err := vqf.CreatePartial(path, plan)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(all[:at]); err != nil {
			t.Fatal(err)
		}
		if err := w.Sync(); err != nil {
			t.Fatal(err)
		}
		m := w.Mark()
		if _, err := w.Write(all[at:min(len(all), at+777)]); err != nil {
			t.Fatal(err)
		}
		w.Leave()
		ls(t, path, ".r.vqf.partial")
		if w, err = vqf.Resume(context.Background(), path, plan, m, nil); err != nil {
			t.Fatalf("at %d: %v", at, err)
		}
		if w.Mark() != m {
			t.Errorf("at %d: got mark %+v, want %+v", at, w.Mark(), m)
		}
		if _, err := w.Write(all[at:]); err != nil {
			t.Fatal(err)
		}
		got, err := w.Commit()
		if err != nil || got != res || !bytes.Equal(readFile(t, path), want) {
			t.Errorf("at %d: got %+v, %v, want %+v", at, got, err, res)
		}
		ls(t, path, "r.vqf")
	}
}

// A partial file that is not what the mark says is refused, and stays.
func TestResumeRefused(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 0)
	plan, err := vqf.NewPlan(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		harm func(t *testing.T, partial string, m *vqf.Mark)
		say  string
	}{
		{"gone", func(t *testing.T, p string, _ *vqf.Mark) { remove(t, p) }, "it is gone"},
		{"shorter", func(t *testing.T, p string, m *vqf.Mark) { truncate(t, p, int64(m.At)-1) }, "want at least"},
		{"a bit of the data", func(t *testing.T, p string, m *vqf.Mark) { flip(t, p, int64(m.At)-1) }, "checksum up to"},
		{"a bit of the header", func(t *testing.T, p string, _ *vqf.Mark) { flip(t, p, 40) }, "header or directory"},
		{"another sum", func(_ *testing.T, _ string, m *vqf.Mark) { m.Sum++ }, "checksum up to"},
		{"between tensors", func(_ *testing.T, _ string, m *vqf.Mark) { m.At = 7 }, "no tensor's data"},
		{"behind the end", func(_ *testing.T, _ string, m *vqf.Mark) { m.At = 1 << 63 }, "no tensor's data"},
	} {
		path := filepath.Join(t.TempDir(), "r.vqf")
		w, err := vqf.CreatePartial(path, plan)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		m := w.Mark()
		w.Leave()
		c.harm(t, vqf.PartialName(path), &m)
		_, err = vqf.Resume(context.Background(), path, plan, m, nil)
		if !errors.Is(err, vqf.ErrResume) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.say)
		}
		if c.name != "gone" {
			ls(t, path, ".r.vqf.partial")
		}
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string, n int64) {
	t.Helper()
	if err := os.Truncate(path, n); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	b := readFile(t, path)
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Two at once do not write the same partial file, and a living one is not removed.
func TestPartialIsHeld(t *testing.T) {
	plan, err := vqf.NewPlan(miniSpec(vqf.ModeQ4, 0))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "r.vqf")
	if was, err := vqf.RemovePartial(path); was || err != nil {
		t.Errorf("without one: got %v, %v", was, err)
	}
	w, err := vqf.CreatePartial(path, plan)
	if err != nil {
		t.Fatal(err)
	}
	const busy = "another process is writing it"
	if _, err := vqf.CreatePartial(path, plan); err == nil || !strings.Contains(err.Error(), busy) {
		t.Errorf("a second one: got %v", err)
	}
	if _, err := vqf.Resume(context.Background(), path, plan, w.Mark(), nil); err == nil || !strings.Contains(err.Error(), busy) {
		t.Errorf("continuing it: got %v", err)
	}
	if _, err := vqf.RemovePartial(path); err == nil || !strings.Contains(err.Error(), busy) {
		t.Errorf("removing it: got %v", err)
	}
	w.Leave()
	if was, err := vqf.RemovePartial(path); !was || err != nil {
		t.Errorf("removing it: got %v, %v", was, err)
	}
	ls(t, path)
}

// What killed processes left is removed by the next that writes the same file;
// what a living one writes, and what only looks alike, is not.
func TestSweep(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 0)
	path := filepath.Join(t.TempDir(), "m.vqf")
	living, _ := newWriter(t, path, s)
	alive := filepath.Base(tempName(t, path))
	others := []string{".m.vqf.ABCDEFG1.tmp", ".m.vqf.abcdefgh.tmp", ".m.vqf.ABCDEFGHI.tmp", ".n.vqf.ABCDEFGH.tmp", "m.vqf.ABCDEFGH.tmp"}
	for _, name := range append(others, ".m.vqf.ABCDEFGH.tmp", ".m.vqf.ZYX76543.tmp") {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte("half"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w, _ := newWriter(t, path, s)
	w.Abort()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, e := range entries {
		left[e.Name()] = true
	}
	for _, name := range append(others, alive) {
		if !left[name] {
			t.Errorf("%s is gone", name)
		}
	}
	if len(left) != len(others)+1 {
		t.Errorf("left: %v", left)
	}
	living.Abort()
}

// What has no room is refused before the work, with the numbers.
func TestNoRoom(t *testing.T) {
	plan, err := vqf.NewPlan(miniSpec(vqf.ModeQ4, 0))
	if err != nil {
		t.Fatal(err)
	}
	last := &plan.Tensors[len(plan.Tensors)-1]
	last.Bytes = 1 << 60
	if err := plan.Rechain(); err != nil {
		t.Fatal(err)
	}
	for name, create := range map[string]func(string, *vqf.Plan) (*vqf.Writer, error){"new": vqf.Create, "partial": vqf.CreatePartial} {
		path := filepath.Join(t.TempDir(), "big.vqf")
		_, err := create(path, plan)
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "needs 1152921504607 MB in "+filepath.Dir(path)+", ") ||
			!strings.Contains(err.Error(), " MB are free: remove something or name another place") {
			t.Errorf("%s: got %v", name, err)
		}
		ls(t, path)
	}
}

// A file that the check refuses does not get its name.
func TestCommitChecked(t *testing.T) {
	s := miniSpec(vqf.ModeQ4, 0)
	path := filepath.Join(t.TempDir(), "c.vqf")
	no := errors.New("no")
	for _, answer := range []error{no, nil} {
		w, plan := newWriter(t, path, s)
		for _, e := range plan.Tensors {
			if err := w.WriteTensor(e.Name, payload(t, s.Arch, s.Mode, e, layoutOf(s, e.Name))); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.CommitChecked(context.Background(), nil, func(tmp string) error {
			if f, err := vqf.Open(tmp, vqf.OpenOptions{FullCheck: true}); err != nil {
				t.Errorf("the file is not complete when it is asked about: %v", err)
			} else if err := f.Close(); err != nil {
				t.Error(err)
			}
			return answer
		})
		if !errors.Is(err, answer) {
			t.Errorf("got %v, want %v", err, answer)
		}
		if answer != nil {
			ls(t, path)
		}
	}
	ls(t, path, "c.vqf")
}
