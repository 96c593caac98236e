// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windhover/vqf"
	"windhover/vqf/convert"
)

// resumable is a model of many pieces, when they are of eight rows.
var resumable = mini{dim: 64, layers: 3, heads: 4, kv: 2, hd: 32, ff: 160, vocab: 400, qnorm: true}

// often is a resumable conversion that writes its journal all the time.
func often(mode string) convert.Options {
	opt := convert.Options{Mode: mode, Resume: true, Chunk: 8, Threads: 2}
	opt.SetCheckpoint(5 * time.Millisecond)
	return opt
}

// interrupt converts until done reaches percent of total, and returns the error.
func interrupt(t *testing.T, src, dst string, opt convert.Options, percent int64) error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := convert.Run(ctx, src, dst, opt, func(done, total int64) {
		if done*100 >= percent*total {
			cancel()
		}
	})
	return err
}

// A conversion that was interrupted anywhere, also twice and while it reads
// back, ends as one that was not; with other threads and pieces, too.
func TestResumeInterrupted(t *testing.T) {
	m := resumable
	m.qnorm = false // a llama: its rows are put in order while they are read
	src := m.ggufFile(t, "llama", "F32", nil)
	for _, mode := range []string{"dual", "q4i", "g256"} {
		ref, whole := run(t, src, convert.Options{Mode: mode})
		want := readFile(t, ref)
		for _, percent := range []int64{1, 7, 23, 40, 49, 51, 80, 99} {
			dir := t.TempDir()
			dst := filepath.Join(dir, "out.vqf")
			for _, p := range []int64{percent, percent + 1} {
				if err := interrupt(t, src, dst, often(mode), p); !errors.Is(err, context.Canceled) {
					t.Fatalf("%s at %d%%: got %v", mode, p, err)
				}
				names(t, dir, ".out.vqf.journal", ".out.vqf.partial")
			}
			r, err := convert.Run(context.Background(), src, dst, convert.Options{Mode: mode, Resume: true, Threads: 1, Chunk: 16}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(readFile(t, dst), want) || r.SHA256 != whole.SHA256 {
				t.Errorf("%s at %d%%: other bytes", mode, percent)
			}
			if r.Resumed == 0 || !strings.Contains(strings.Join(r.Notes, "; "), "continued at ") {
				t.Errorf("%s at %d%%: resumed %d, notes %q", mode, percent, r.Resumed, r.Notes)
			}
			if got, want := fmt.Sprint(r.Quality), fmt.Sprint(whole.Quality); got != want {
				t.Errorf("%s at %d%%: quality\n%s, want\n%s", mode, percent, got, want)
			}
			names(t, dir, "out.vqf")
		}
	}
}

// names lists a directory, which must hold these files and nothing else.
func names(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
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

// What is not the same conversion is begun anew, and the report says why.
func TestResumeDiffers(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(t *testing.T, src, dst string, opt *convert.Options)
		say  string
	}{
		{"mode", func(_ *testing.T, _, _ string, o *convert.Options) { o.Mode = "q8" }, `mode "dual", now "q8"`},
		{"layout", func(_ *testing.T, _, _ string, o *convert.Options) { o.Q8Layout = "4x4" }, `q8-layout "8x8", now "4x4"`},
		{"header", func(_ *testing.T, _, _ string, o *convert.Options) { o.Header = "45" }, `header "41", now "45"`},
		{"bare", func(_ *testing.T, _, _ string, o *convert.Options) { o.Bare = true }, `bare "false", now "true"`},
		{"name", func(_ *testing.T, _, _ string, o *convert.Options) { o.Name = "x" }, `name "", now "x"`},
		{"optimise", func(_ *testing.T, _, _ string, o *convert.Options) { o.Optimize = true }, `quantiser "B", now "B+mse"`},
		{"converter", func(_ *testing.T, _, _ string, o *convert.Options) { o.Converter = "windhover 9" }, `converter "windhover", now "windhover 9"`},
		{"time", func(t *testing.T, src, _ string, _ *convert.Options) {
			if err := os.Chtimes(src, time.Time{}, time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
		}, "mini.gguf is of 2001-09-09T01:46:40Z, was of "},
		{"size", func(t *testing.T, src, _ string, _ *convert.Options) { writeFile(t, src, append(readFile(t, src), 0)) }, "mini.gguf had "},
		{"no journal", func(t *testing.T, _, dst string, _ *convert.Options) {
			writeFile(t, convert.JournalName(dst), []byte("{"))
		}, ""},
		{"partial gone", func(t *testing.T, _, dst string, _ *convert.Options) {
			if err := os.Remove(vqf.PartialName(dst)); err != nil {
				t.Fatal(err)
			}
		}, "it is gone"},
		{"partial damaged", func(t *testing.T, _, dst string, _ *convert.Options) {
			b := readFile(t, vqf.PartialName(dst))
			b[5000] ^= 4
			writeFile(t, vqf.PartialName(dst), b)
		}, "the checksum up to"},
		{"not asked for", func(_ *testing.T, _, _ string, o *convert.Options) { o.Resume = false }, "an unfinished conversion of the same file was removed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := resumable.ggufFile(t, "qwen3", "F32", nil)
			dir := t.TempDir()
			dst := filepath.Join(dir, "out.vqf")
			if err := interrupt(t, src, dst, often("dual"), 30); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			opt := often("dual")
			c.edit(t, src, dst, &opt)
			r, err := convert.Run(context.Background(), src, dst, opt, nil)
			if err != nil {
				t.Fatal(err)
			}
			if notes := strings.Join(r.Notes, "; "); r.Resumed != 0 || !strings.Contains(notes, c.say) || c.say != "" && opt.Resume && !strings.Contains(notes, "begun anew") {
				t.Errorf("resumed %d, notes %q, want %q", r.Resumed, notes, c.say)
			}
			opt.Resume = false
			ref, _ := run(t, src, opt)
			if !bytes.Equal(readFile(t, dst), readFile(t, ref)) {
				t.Error("other bytes than a conversion of its own")
			}
			names(t, dir, "out.vqf")
		})
	}
}

// What is wrong with the source will be wrong the next time: nothing is kept.
func TestResumeFaultySource(t *testing.T) {
	src := resumable.hfDir(t, "qwen3", "F32", func(_ map[string]any, v map[string][]float32) {
		v["lm_head.weight"][100] = 1e30
	})
	dir := t.TempDir()
	_, err := convert.Run(context.Background(), src, filepath.Join(dir, "out.vqf"), often("q8"), nil)
	if !errors.Is(err, convert.ErrSource) {
		t.Errorf("got %v", err)
	}
	names(t, dir)
}

// childEnv tells the test binary to be the process that is killed: source,
// destination, and the percentage at which it waits for that.
const childEnv = "WINDHOVER_CONVERT_CHILD"

// TestResumeChild is no test of its own but the child of TestResumeKilled: it
// converts up to a point, says so when a journal is there, and waits.
func TestResumeChild(t *testing.T) {
	spec := os.Getenv(childEnv)
	if spec == "" {
		return
	}
	var percent int64
	parts := strings.Split(spec, "|")
	if _, err := fmt.Sscan(parts[2], &percent); err != nil {
		t.Fatal(err)
	}
	opt := often("dual")
	opt.SetCheckpoint(time.Nanosecond) // a journal has been begun, whenever this is killed
	opt.Resume = parts[3] == "resume"
	_, err := convert.Run(context.Background(), parts[0], parts[1], opt, func(done, total int64) {
		if done*100 < percent*total {
			return
		}
		for opt.Resume { // until the journal's own goroutine has written it
			if _, err := os.Stat(convert.JournalName(parts[1])); err == nil {
				break
			}
		}
		fmt.Println("kill me")
		select {}
	})
	t.Fatalf("not killed: %v", err)
}

// killed runs the child and kills it where it waits.
func killed(t *testing.T, src, dst string, percent int, mode string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestResumeChild$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%d|%s", childEnv, src, dst, percent, mode))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(out); said != "kill me" && lines.Scan(); {
		said = lines.Text()
	}
	if err := cmd.Process.Kill(); err != nil || said != "kill me" {
		t.Errorf("the child said %q, kill: %v", said, err)
	}
	_ = cmd.Wait() // killed
}

// A conversion whose process was killed, at several points, is continued to the
// same bytes. Without --resume the next one finds what was left and removes it.
func TestResumeKilled(t *testing.T) {
	src := resumable.ggufFile(t, "qwen3", "F32", nil)
	ref, _ := run(t, src, convert.Options{Mode: "dual"})
	want := readFile(t, ref)
	for _, percent := range []int{2, 17, 33, 48, 60} {
		dir := t.TempDir()
		dst := filepath.Join(dir, "out.vqf")
		killed(t, src, dst, percent, "resume") // perhaps while it writes the next journal
		if _, err := os.Stat(dst); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("killed at %d%%: there is a result: %v", percent, err)
		}
		r, err := convert.Run(context.Background(), src, dst, often("dual"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(readFile(t, dst), want) {
			t.Errorf("killed at %d%%: other bytes", percent)
		}
		if r.Resumed == 0 {
			t.Errorf("killed at %d%%: not continued: %q", percent, r.Notes)
		}
		names(t, dir, "out.vqf")
	}
	dir := t.TempDir()
	dst := filepath.Join(dir, "out.vqf")
	killed(t, src, dst, 30, "plain")
	if left, err := filepath.Glob(filepath.Join(dir, ".out.vqf.*.tmp")); err != nil || len(left) != 1 {
		t.Errorf("left: %q, %v: the kill came too late", left, err)
	}
	if _, err := convert.Run(context.Background(), src, dst, convert.Options{Mode: "dual"}, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readFile(t, dst), want) {
		t.Error("other bytes after a kill")
	}
	names(t, dir, "out.vqf")
}
