// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"windhover/control"
)

const (
	// childGrace is how long a cancelled child may take to clean up.
	childGrace = 5 * time.Second
	childNice  = 10
	// childHeap bounds the memory that the child's runtime aims at; childData what
	// the kernel gives it beyond that. The mapped source does not count.
	childHeap = 1 << 30
	childData = 1 << 30
)

// child runs this program with the given arguments at low priority and with bounded
// memory, and returns the JSON it prints. Descriptor 3 of the child carries progress.
func (b *backend) child(ctx context.Context, args []string, progress func(done, total int64)) (json.RawMessage, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // read only
	cmd := exec.CommandContext(ctx, b.self[0], append(append([]string{}, b.self[1:]...), append(args, "--progress-fd", "3")...)...)
	cmd.Cancel = func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Process.Signal(syscall.SIGCONT) // one that stands still hears nothing
		return err
	}
	cmd.WaitDelay = childGrace
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	heap := int64(childHeap)
	if m := readMemory(os.DirFS("/")); m.Total > 0 {
		heap = min(heap, max(m.budget()/2, 128<<20))
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%d", heap))
	var stdout bytes.Buffer
	stderr := &ends{max: 2 << 10}
	cmd.Stdout, cmd.Stderr = &stdout, stderr

	read := make(chan struct{})
	go func() {
		defer close(read)
		readProgress(r, progress)
	}()
	ended := make(chan error, 1)
	go func() { ended <- runAside(cmd, w, heap+childData, b.heat) }()
	err = <-ended
	<-read
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, childError(err, stdout.Bytes(), stderr.String())
	}
	return json.RawMessage(bytes.TrimSpace(stdout.Bytes())), nil
}

// runAside runs cmd from a thread of its own, which ends with the goroutine that
// calls it. The kernel kills the child when the thread that made it ends, not when
// the process does, so no other goroutine may have it; and what the child is to
// inherit, in all of its threads, must not stay with the daemon. w is the end of the
// pipe that the child has.
func runAside(cmd *exec.Cmd, w *os.File, data int64, h *heat) error {
	runtime.LockOSThread() // and never unlocked
	// Politeness: the job runs without it too.
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), childNice)
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, ioprioIdle)
	err := cmd.Start()
	_ = w.Close() // the child has its own
	if err != nil {
		return err
	}
	defer h.hold(cmd.Process)()
	// Without it the kernel would rather end the daemon, whose mapped weights count.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("1000"), 0)
	limit := unix.Rlimit{Cur: uint64(data), Max: uint64(data)}
	_ = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_DATA, &limit, nil) // the OOM killer is the other bound
	return cmd.Wait()
}

// What x/sys/unix lacks of ioprio_set(2).
const (
	ioprioWhoProcess = 1
	ioprioIdle       = 3 << 13
)

// childError says why a child failed: in its own words where it has any.
func childError(err error, stdout []byte, stderr string) error {
	var doc struct {
		Error struct{ Code, Message string } `json:"error"`
	}
	lines := bytes.Split(bytes.TrimSpace(stdout), []byte("\n"))
	if json.Unmarshal(lines[len(lines)-1], &doc) == nil && doc.Error.Message != "" {
		switch {
		case strings.Contains(doc.Error.Message, syscall.ENOSPC.Error()), strings.Contains(doc.Error.Message, syscall.EDQUOT.Error()):
			return control.Errorf(control.InsufficientStore, "%s", doc.Error.Message)
		default:
			return control.Errorf(verdict(doc.Error.Code), "%s", doc.Error.Message)
		}
	}
	var exit *exec.ExitError
	switch {
	case strings.Contains(stderr, "out of memory"), strings.Contains(stderr, "cannot allocate memory"):
		return control.Errorf(control.InsufficientMem, "the child process ran out of memory: remove a model for the time of the job")
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		return control.Errorf(control.Internal, "the child process was killed (%v), probably for lack of memory", exit)
	}
	if msg := strings.TrimSpace(stderr); msg != "" {
		return control.Errorf(control.Internal, "%s", oneLine(errors.New(msg)))
	}
	return err
}

// verdict is the code for what a child found wrong with a file.
func verdict(name string) control.Code {
	for _, c := range []control.Code{
		control.DigestMismatch, control.SignatureMissing, control.SignatureInvalid, control.KeyUnknown,
		control.MinisignInvalid, control.PassphraseMissing, control.TagMismatch,
	} {
		if c.Name == name {
			return c
		}
	}
	return control.FormatInvalid
}

// readProgress reads lines "DONE TOTAL" until the child closes its end.
func readProgress(r io.Reader, progress func(done, total int64)) {
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		var done, total int64
		if n, _ := fmt.Sscan(sc.Text(), &done, &total); n == 2 {
			progress(done, total)
		}
	}
}

// ends keeps the first and the last max bytes written to it: a crash says what
// happened first, everything else last.
type ends struct {
	max         int
	first, last []byte
}

func (e *ends) Write(p []byte) (int, error) {
	n := min(len(p), e.max-len(e.first))
	e.first = append(e.first, p[:n]...)
	e.last = append(e.last, p[n:]...)
	if over := len(e.last) - e.max; over > 0 {
		e.last = append(e.last[:0], e.last[over:]...)
	}
	return len(p), nil
}

func (e *ends) String() string { return string(e.first) + string(e.last) }
