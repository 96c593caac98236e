// SPDX-License-Identifier: Apache-2.0

package testcut

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a program that is traced.
type Process struct {
	cut  Cut
	pid  int
	done chan struct{}

	mu      sync.Mutex // guards what follows
	changes []string   // of them only those that count for the kind of the cut
	cutAt   string
	full    bool
	room    bool // there is again
	status  syscall.WaitStatus
	err     error
}

// Start runs args[0]; stage is a program that calls Exec with its arguments. Standard
// output and error go to out.
func Start(cut Cut, stage string, args, env []string, out *os.File) (*Process, error) {
	p := &Process{cut: cut, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.trace(append([]string{stage}, args...), env, out, started)
	return p, <-started
}

// Wait returns when the program has ended, and says how. The error is that of tracing.
func (p *Process) Wait() (syscall.WaitStatus, error) {
	<-p.done
	return p.status, p.err
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends it a signal. After its end that does nothing.
func (p *Process) Signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(p.pid, sig) // it may just have ended
	}
}

// Relieve makes room on the disk again.
func (p *Process) Relieve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room = true
}

// Changes are those that were made or begun, in order.
func (p *Process) Changes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.changes...)
}

// Cut is the change at which the cut was, "": it never came to it.
func (p *Process) Cut() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cutAt
}

// The flags of wait4 that make it wait for what this thread traces, threads included.
const waitAll = 0x40000000 | 0x20000000 // __WALL, __WNOTHREAD

// trace starts the program and sees to it until it ends. All of it happens on one
// thread, which is the tracer and ends afterwards.
func (p *Process) trace(args, env []string, out *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer close(p.done)
	null, err := os.Open(os.DevNull)
	if err == nil {
		defer func() { _ = null.Close() }() // read only
		p.pid, err = syscall.ForkExec(args[0], args, &syscall.ProcAttr{Env: env, Files: []uintptr{null.Fd(), out.Fd(), out.Fd()}, Sys: &syscall.SysProcAttr{Ptrace: true}})
	}
	var ws syscall.WaitStatus
	if err == nil {
		if _, err = syscall.Wait4(p.pid, &ws, 0x40000000, nil); err == nil && !ws.Stopped() {
			err = fmt.Errorf("testcut: %s ends at once: %v", args[0], ws)
		}
	}
	if err == nil {
		err = unix.PtraceSetOptions(p.pid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACEFORK|unix.PTRACE_O_TRACEVFORK|unix.PTRACE_O_TRACEEXEC|
			unix.PTRACE_O_TRACESECCOMP|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL)
	}
	if err == nil {
		err = unix.PtraceCont(p.pid, 0)
	}
	started <- err
	if err != nil {
		p.err = err
		return
	}
	for {
		tid, err := syscall.Wait4(-1, &ws, waitAll, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			p.err = fmt.Errorf("testcut: wait: %w", err)
			return
		case ws.Exited() || ws.Signaled():
			if tid == p.pid {
				p.status = ws
				return
			}
			continue
		}
		if err := p.stopped(tid, ws); err != nil && !errors.Is(err, syscall.ESRCH) { // ESRCH: it was killed meanwhile
			p.err = err
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // the first error is the one to tell
		}
	}
}

// stopped lets a thread go on that has stopped for the tracer.
func (p *Process) stopped(tid int, ws syscall.WaitStatus) error {
	sig := ws.StopSignal()
	switch {
	case sig == syscall.SIGTRAP && int(ws)>>16 == unix.PTRACE_EVENT_SECCOMP:
		return p.called(tid)
	case sig == syscall.SIGTRAP, sig == syscall.SIGSTOP, int(sig)&0x80 != 0: // events, new threads, ends of calls
		return unix.PtraceCont(tid, 0)
	}
	return unix.PtraceCont(tid, int(sig))
}

// called judges a call before it is made.
func (p *Process) called(tid int) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &regs); err != nil {
		return err
	}
	if regs.Orig_rax == unix.SYS_CLOCK_GETTIME {
		if p.cut.Clock != nil {
			return p.tell(tid, &regs)
		}
		return unix.PtraceCont(tid, 0)
	}
	c, path := p.change(tid, &regs)
	if path == "" {
		return unix.PtraceCont(tid, 0)
	}
	p.mu.Lock()
	cut := false
	what := c.name + " " + path
	if (p.cut.Kind != Torn || c.write) && (p.cut.Only == nil || p.cut.Only(what)) {
		p.changes = append(p.changes, what)
		cut = len(p.changes) == p.cut.At
	}
	if cut {
		p.cutAt = what
		p.full = p.cut.Kind == Full
	}
	full := p.full && !p.room && c.room
	p.mu.Unlock()
	switch {
	case cut && p.cut.Kind == Before:
		return p.kill()
	case cut && p.cut.Kind == Stop:
		if err := syscall.Kill(p.pid, syscall.SIGTERM); err != nil {
			return err
		}
	case cut && p.cut.Kind == After:
		if err := p.finish(tid); err != nil {
			return err
		}
		return p.kill()
	case cut && p.cut.Kind == Torn, full && cut && c.write && regs.Rdx > 1:
		regs.Rdx /= 2
		if err := unix.PtraceSetRegs(tid, &regs); err != nil {
			return err
		}
		if p.cut.Kind == Torn {
			if err := p.finish(tid); err != nil {
				return err
			}
			return p.kill()
		}
	case full:
		regs.Orig_rax, regs.Rax = ^uint64(0), ^uint64(unix.ENOSPC)+1 // skipped, and that is its answer
		if err := unix.PtraceSetRegs(tid, &regs); err != nil {
			return err
		}
	}
	return unix.PtraceCont(tid, 0)
}

// finish lets a call of a thread come to its end.
func (p *Process) finish(tid int) error {
	if err := unix.PtraceSyscall(tid, 0); err != nil {
		return err
	}
	var ws syscall.WaitStatus
	_, err := syscall.Wait4(tid, &ws, 0x40000000, nil)
	return err
}

func (p *Process) kill() error { return syscall.Kill(p.pid, syscall.SIGKILL) }

// change says which call it is and which file it changes, "" if that is none that
// counts.
func (p *Process) change(tid int, regs *unix.PtraceRegs) (call, string) {
	c := calls[regs.Orig_rax]
	args := [...]uint64{regs.Rdi, regs.Rsi, regs.Rdx, regs.R10, regs.R8, regs.R9}
	if regs.Orig_rax == unix.SYS_OPENAT && args[2]&(unix.O_CREAT|unix.O_TRUNC) == 0 {
		return c, ""
	}
	path := ""
	if c.fd >= 0 {
		path = link(tid, int32(args[c.fd]))
	} else {
		if path = text(tid, args[c.path]); !filepath.IsAbs(path) && c.dir >= 0 {
			path = filepath.Join(link(tid, int32(args[c.dir])), path)
		}
	}
	if rel, err := filepath.Rel(p.cut.Dir, path); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return c, ""
	}
	if regs.Orig_rax == unix.SYS_OPENAT && args[2]&unix.O_TRUNC == 0 {
		if _, err := os.Lstat(path); err == nil {
			return c, "" // it is there: nothing changes
		}
	}
	return c, path
}

// link is the file of a descriptor of a thread, or its working directory.
func link(tid int, fd int32) string {
	name := fmt.Sprintf("/proc/%d/fd/%d", tid, fd)
	if fd == unix.AT_FDCWD {
		name = fmt.Sprintf("/proc/%d/cwd", tid)
	}
	path, _ := os.Readlink(name) // a descriptor that is none changes nothing
	return path
}

// text is a string in the memory of a thread.
func text(tid int, addr uint64) string {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", tid))
	if err != nil {
		return ""
	}
	defer func() { _ = mem.Close() }() // read only
	buf := make([]byte, unix.PathMax)
	n, _ := mem.ReadAt(buf, int64(addr)) // it ends early where the mapping does
	if i := bytes.IndexByte(buf[:n], 0); i >= 0 {
		return string(buf[:i])
	}
	return ""
}
