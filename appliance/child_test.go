// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"windhover/control"
)

// runJob runs a conversion by a child of the given temper and returns its process id
// once it has started, and where its end will be told.
func runJob(t *testing.T, ctx context.Context, how string, set ...func(*backend)) (b *backend, pid int, done <-chan error) {
	t.Helper()
	b = jobBackend(t, how)
	for _, f := range set {
		f(b)
	}
	write(t, filepath.Join(b.cfg.Paths.imports(), "m.gguf"), "source")
	started, ended := make(chan int, 1), make(chan error, 1)
	go func() {
		_, err := b.RunJob(ctx, control.Job{ID: "j", Type: "convert", Params: []byte(`{"source":"m.gguf"}`)}, func(p control.JobProgress) {
			select {
			case started <- int(p.Total):
			default:
			}
		})
		ended <- err
	}()
	select {
	case pid = <-started:
	case err := <-ended:
		t.Fatalf("the child ended: %v", err)
	case <-time.After(waitFor):
		t.Fatal("the child does not start")
	}
	return b, pid, ended
}

// All threads of a job are polite, its memory is bounded, and the daemon's are as
// they were.
func TestChildIsPolite(t *testing.T) {
	before, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, pid, done := runJob(t, ctx, "endless")
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("threads of the child: %v, %v", tasks, err)
	}
	for _, task := range tasks {
		tid := 0
		if _, err := fmt.Sscan(filepath.Base(task), &tid); err != nil {
			t.Fatal(err)
		}
		// The system call answers 20 - nice.
		if p, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil && p != before-childNice {
			t.Errorf("thread %d has nice %d", tid, 20-p)
		}
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, nil, &limit); err != nil || limit.Cur > childHeap+childData {
		t.Errorf("RLIMIT_DATA %d, %v", limit.Cur, err)
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil || !strings.Contains(string(env), "GOMEMLIMIT=") {
		t.Errorf("no GOMEMLIMIT (%v)", err)
	}
	if adj, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid)); err != nil || strings.TrimSpace(string(adj)) != "1000" {
		t.Errorf("oom_score_adj %q, %v", adj, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, control.Canceled) {
		t.Errorf("got %v", err)
	}
	until(t, "no thread of the daemon is nice", func() bool {
		own, err := filepath.Glob("/proc/self/task/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range own {
			tid := 0
			if _, err := fmt.Sscan(filepath.Base(task), &tid); err != nil {
				t.Fatal(err)
			}
			// The first thread cannot end; the runtime puts it aside.
			if p, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil && p != before && tid != os.Getpid() {
				return false
			}
		}
		return true
	})
}

// The kernel kills a child when the thread that made it ends. Threads of the daemon
// end all the time: with every worker of every model that is unloaded.
func TestChildOutlivesThreads(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, pid, done := runJob(t, ctx, "endless")
	for range 20 {
		var wg sync.WaitGroup
		gate := make(chan struct{})
		for range 20 {
			wg.Go(func() {
				runtime.LockOSThread() // never unlocked: the thread ends
				<-gate
			})
		}
		close(gate)
		wg.Wait()
	}
	select {
	case err := <-done:
		t.Fatalf("the child ended: %v", err)
	default:
	}
	if err := unix.Kill(pid, 0); err != nil {
		t.Errorf("child %d: %v", pid, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, control.Canceled) {
		t.Errorf("got %v", err)
	}
}

// What a child that was killed had written is gone.
func TestKilledChildLeavesNothing(t *testing.T) {
	b, pid, done := runJob(t, context.Background(), "writes")
	left, err := filepath.Glob(filepath.Join(b.cfg.Paths.incoming(), "*", "*"))
	if err != nil || len(left) == 0 {
		t.Fatalf("the child wrote %v, %v", left, err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var e *control.Error
	if err := <-done; !errors.As(err, &e) || !strings.Contains(e.Message, "killed") {
		t.Errorf("got %v", err)
	}
	updates := filepath.Base(b.cfg.Paths.downloads()) // in incoming, always there
	for _, dir := range []string{b.cfg.Paths.incoming(), b.cfg.Paths.downloads(), b.cfg.Paths.drop()} {
		entries, err := os.ReadDir(dir)
		entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == updates })
		if err != nil || len(entries) != 0 {
			t.Errorf("left in %s: %v, %v", dir, entries, err)
		}
	}
}

func TestChildErrors(t *testing.T) {
	tests := []struct{ stdout, stderr, code string }{
		{`{"error":{"code":"failed","message":"write x: no space left on device"}}`, "", "insufficient_storage"},
		{`{"error":{"code":"failed","message":"tensor x is missing"}}`, "", "format_invalid"},
		{"some text\n" + `{"error":{"message":"last line counts"}}`, "", "format_invalid"},
		{"", "runtime: out of memory: cannot allocate 4194304-byte block\n" + strings.Repeat("goroutine 1 [running]\n", 1000), "insufficient_memory"},
		{"", "fatal error: runtime: cannot allocate memory\n", "insufficient_memory"},
		{"", "windhover: something else\n", "internal"},
		{"not JSON", "", "internal"},
	}
	for _, tt := range tests {
		e := &ends{max: 2 << 10}
		for i := 0; i < len(tt.stderr); i += 700 {
			if _, err := e.Write([]byte(tt.stderr[i:min(i+700, len(tt.stderr))])); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(e.String()); n > 4<<10 {
			t.Errorf("%d bytes of standard error are kept", n)
		}
		got := coded(childError(errors.New("exit status 1"), []byte(tt.stdout), e.String()), control.Internal)
		if got.Code.Name != tt.code {
			t.Errorf("%.60q %.60q: got %v, want %s", tt.stdout, tt.stderr, got, tt.code)
		}
	}
}
