// SPDX-License-Identifier: Apache-2.0

package update

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A clock is believed if timesyncd has set it, or if the board kept it over the night.
func TestClock(t *testing.T) {
	root := t.TempDir()
	set := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	now, epoch := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), time.Date(1970, 1, 1, 0, 0, 9, 0, time.UTC)
	if followed(root) || kept(root, now) {
		t.Error("a board with nothing is believed")
	}
	set("sys/class/rtc/rtc0/hctosys", "0\n")
	if kept(root, now) {
		t.Error("a clock that the kernel did not ask is believed")
	}
	set("sys/class/rtc/rtc1/hctosys", "1\n")
	if !kept(root, now) || kept(root, epoch) {
		t.Error("a board with a battery is not believed, or one whose battery is empty is")
	}
	set("run/systemd/timesync/synchronized", "")
	if !followed(root) {
		t.Error("timesyncd is not believed")
	}
	if c := SystemClock(); time.Since(c.Now) > time.Minute {
		t.Errorf("the time is %v", c.Now)
	}
}

// Under the daemon's unit (ProtectClock) the kernel answers no question about clocks: the
// program lives, and the other signs decide.
func TestClockThatMayNotBeAsked(t *testing.T) {
	type verdict struct {
		err    error // of the question
		inStep bool
		clock  time.Time
	}
	ended := make(chan verdict)
	go func() {
		runtime.LockOSThread() // and never unlocked: the filter goes with the thread
		var v verdict
		code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}}
		for _, nr := range []uint32{unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME} {
			code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: nr},
				unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
		}
		code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
		prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
		if v.err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); v.err == nil {
			v.err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
		}
		if v.err == nil {
			_, v.err = unix.Adjtimex(new(unix.Timex))
			v.inStep, v.clock = inStep(), SystemClock().Now
		}
		ended <- v
	}()
	v := <-ended
	if !errors.Is(v.err, unix.EPERM) {
		t.Fatalf("asked all the same: %v", v.err)
	}
	if v.inStep || time.Since(v.clock) > time.Minute {
		t.Errorf("in step %v, the time is %v", v.inStep, v.clock)
	}
}
