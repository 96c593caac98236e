// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"windhover/internal/testmodel"
)

// killEnv tells the child of TestKilledWhileSaving where it is to die: model, file and
// the look at the context.
const killEnv = "WINDHOVER_TEST_KILL_SAVING"

// killsAfter ends the process at the n-th look, as a power cut would.
type killsAfter struct {
	context.Context
	n int
}

func (c *killsAfter) Err() error {
	if c.n--; c.n < 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until it comes
	}
	return nil
}

// Whenever a process is killed that saves, the file is that of before, and what lies
// beside it has the one name that the next save takes.
func TestKilledWhileSaving(t *testing.T) {
	if at := strings.Split(os.Getenv(killEnv), "|"); len(at) == 3 {
		looks, err := strconv.Atoi(at[2])
		if err != nil {
			t.Fatal(err)
		}
		m := keeper(t, at[0], at[1])
		tokensOf(t, m, tokenRequest(2, 600))
		_, err = m.SaveCache(&killsAfter{context.Background(), looks})
		t.Fatalf("not killed: %v", err)
	}
	c := noisy()
	c.MaxSeq = 1024
	model, saved := testmodel.Write(t, c), filepath.Join(t.TempDir(), "prefixes")
	m := keeper(t, model, saved)
	tokensOf(t, m, tokenRequest(1, 300))
	wantSaved(t, m, "the first", 300)
	before := readFile(t, saved)
	for _, looks := range []int{0, 1, 9} {
		child := exec.Command(os.Args[0], "-test.run=^TestKilledWhileSaving$", "-test.count=1")
		child.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%d", killEnv, model, saved, looks))
		out, err := child.CombinedOutput()
		if errors.Is(err, syscall.ENOEXEC) {
			t.Skip("qemu's user mode starts no program of the architecture that it emulates")
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("look %d: the child ended with %v: %s", looks, err, out)
		}
		list, err := os.ReadDir(filepath.Dir(saved))
		if err != nil || len(list) != 2 || filepath.Join(filepath.Dir(saved), list[0].Name()) != SavedTemporary(saved) {
			t.Errorf("look %d: %v, %v; want the file and its temporary one", looks, list, err)
		}
		if !slices.Equal(readFile(t, saved), before) {
			t.Errorf("look %d: the file has changed", looks)
		}
	}
	tokensOf(t, m, tokenRequest(3, 40))
	wantSaved(t, m, "after the kills", 340)
	if list, err := os.ReadDir(filepath.Dir(saved)); err != nil || len(list) != 1 {
		t.Errorf("%v, %v: want the file alone", list, err)
	}
}
