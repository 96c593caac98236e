// SPDX-License-Identifier: Apache-2.0

package testcut

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/internal/testclock"
)

// TestMain is also what the tests trace.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && filepath.IsAbs(os.Args[1]) {
		fmt.Fprintln(os.Stderr, Exec(os.Args[1:]))
		os.Exit(1)
	}
	if len(os.Args) > 2 && os.Args[1] == "time" {
		before := time.Now()
		err := os.WriteFile(filepath.Join(os.Args[2], "a"), nil, 0o600)
		after := time.Now()
		fmt.Println(before.Unix(), after.Unix(), after.Sub(before) < time.Minute, err)
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == "write" {
		if err := program(os.Args[2]); err != nil {
			fmt.Println("error:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program makes changes, some of them from another thread, and none that counts beside.
func program(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "..", "elsewhere"), []byte("x"), 0o600); err != nil {
		return err
	}
	ended := make(chan error)
	go func() {
		f, err := os.Create(filepath.Join(dir, "a"))
		if err == nil {
			_, err = f.Write([]byte("0123456789"))
		}
		if err == nil {
			err = f.Sync()
		}
		ended <- err
	}()
	if err := <-ended; err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
		return err
	}
	return os.Remove(filepath.Join(dir, "b"))
}

func run(t *testing.T, cut Cut) (*Process, string, syscall.WaitStatus) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cut.Dir = filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(cut.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(cut, self, []string{self, "write", cut.Dir}, os.Environ(), out)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	left := ""
	for _, name := range []string{"a", "b"} {
		if b, err := os.ReadFile(filepath.Join(cut.Dir, name)); err == nil {
			left += name + ":" + string(b)
		}
	}
	return p, strings.TrimSpace(left + " " + string(data)), ws
}

func TestCuts(t *testing.T) {
	p, left, ws := run(t, Cut{})
	var names []string
	for _, c := range p.Changes() {
		name, path, _ := strings.Cut(c, " ")
		names = append(names, name+" "+filepath.Base(path))
	}
	if got := strings.Join(names, ", "); got != "create a, write a, sync a, rename b, remove b" || left != "" || ws.ExitStatus() != 0 {
		t.Fatalf("changes %q, left %q, ended %v", got, left, ws)
	}
	for _, c := range []struct {
		cut  Cut
		left string
	}{
		{Cut{At: 1, Kind: Before}, ""},
		{Cut{At: 1, Kind: After}, "a:"},
		{Cut{At: 2, Kind: Before}, "a:"},
		{Cut{At: 1, Kind: Torn}, "a:01234"},
		{Cut{At: 2, Kind: After}, "a:0123456789"},
		{Cut{At: 4, Kind: Before}, "a:0123456789"},
		{Cut{At: 4, Kind: After}, "b:0123456789"},
		{Cut{At: 5, Kind: After}, ""},
	} {
		p, left, ws := run(t, c.cut)
		if !ws.Signaled() || ws.Signal() != syscall.SIGKILL || left != c.left || p.Cut() == "" {
			t.Errorf("%s change %d (%s): left %q, want %q; ended %v", c.cut.Kind, c.cut.At, p.Cut(), left, c.left, ws)
		}
	}
	if _, left, ws := run(t, Cut{At: 2, Kind: Full}); ws.ExitStatus() != 3 || !strings.HasPrefix(left, "a:01234 error: write") || !strings.Contains(left, "no space left") {
		t.Errorf("a full disk: %q, ended %v", left, ws)
	}
	if _, left, ws := run(t, Cut{At: 3, Kind: Full}); ws.ExitStatus() != 0 || left != "" {
		t.Errorf("a full disk where nothing needs room any more: %q, ended %v", left, ws)
	}
	if _, _, ws := run(t, Cut{At: 1, Kind: Stop}); !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
		t.Errorf("asked to stop: ended %v", ws)
	}
	if p, left, _ := run(t, Cut{At: 1, Kind: Before, Only: func(change string) bool { return strings.HasSuffix(change, "/dir/b") }}); left != "a:0123456789" || !strings.HasPrefix(p.Cut(), "rename") {
		t.Errorf("only some changes: left %q, cut at %s", left, p.Cut())
	}
	if p, _, ws := run(t, Cut{At: 6, Kind: Before}); ws.ExitStatus() != 0 || p.Cut() != "" {
		t.Errorf("a change that never comes: %v, %q", ws, p.Cut())
	}
}

// A program without the kernel's own way to tell the time hears what the test says, and
// measures what passes.
func TestTellsTime(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := WithoutVDSO(self, program); err != nil {
		t.Fatal(err)
	}
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var c testclock.Clock
	c.Set(time.Unix(1000, 0))
	dir := t.TempDir()
	leap := func(string) bool { c.Set(time.Unix(2000, 0).Add(20 * 365 * 24 * time.Hour)); return true }
	p, err := Start(Cut{Dir: dir, Only: leap, Clock: &c}, self, []string{program, "time", dir}, os.Environ(), out)
	if err != nil {
		t.Fatal(err)
	}
	if ws, err := p.Wait(); err != nil || ws.ExitStatus() != 0 {
		t.Fatalf("it ends by %v, %v", ws, err)
	}
	said, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	var before, after int64
	var passed bool
	if _, err := fmt.Sscan(string(said), &before, &after, &passed); err != nil {
		t.Fatalf("%q: %v", said, err)
	}
	if before < 999 || before > 1000+3600 || after < 2000+20*365*24*3600-2 || after > 2000+20*365*24*3600+3600 || !passed {
		t.Errorf("it says %s", said)
	}
	if err := WithoutVDSO(filepath.Join(dir, "a"), program); err == nil {
		t.Error("a program that is none is taken")
	}
}
