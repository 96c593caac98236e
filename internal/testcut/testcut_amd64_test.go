// SPDX-License-Identifier: Apache-2.0

package testcut

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain is also what the tests trace.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && filepath.IsAbs(os.Args[1]) {
		fmt.Fprintln(os.Stderr, Exec(os.Args[1:]))
		os.Exit(1)
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
