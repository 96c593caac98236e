// SPDX-License-Identifier: Apache-2.0

package testcut

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Exec becomes the program args[0], whose changes stop for the tracer that started this
// one. It returns with an error only.
func Exec(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("testcut: no program to run")
	}
	runtime.LockOSThread() // the filter is the thread's, and exec keeps that of its own
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("testcut: no_new_privs: %w", err)
	}
	code := filter()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return fmt.Errorf("testcut: seccomp: %w", e)
	}
	return syscall.Exec(args[0], args, os.Environ())
}

// filter lets everything pass but the calls that may be changes, which wait for the
// tracer.
func filter() []unix.SockFilter {
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for nr := range calls {
		code = append(code,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(nr)},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE})
	}
	code = append(code, asksTime()...)
	return append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
}

// call is what there is to know of a system call that may be a change.
type call struct {
	name  string
	fd    int // which argument is the descriptor of a file, -1: none
	dir   int // which one is the directory of the path, -1: the path is from the working directory
	path  int // which one is the path, -1: none
	room  bool
	write bool // the third argument is how many bytes
}

// calls are they, by number. Opening counts where it makes a file.
var calls = map[uint64]call{
	unix.SYS_WRITE:           {name: "write", fd: 0, path: -1, room: true, write: true},
	unix.SYS_PWRITE64:        {name: "write", fd: 0, path: -1, room: true, write: true},
	unix.SYS_WRITEV:          {name: "writev", fd: 0, path: -1, room: true},
	unix.SYS_PWRITEV:         {name: "writev", fd: 0, path: -1, room: true},
	unix.SYS_COPY_FILE_RANGE: {name: "copy", fd: 2, path: -1, room: true},
	unix.SYS_FALLOCATE:       {name: "allocate", fd: 0, path: -1, room: true},
	unix.SYS_FTRUNCATE:       {name: "truncate", fd: 0, path: -1},
	unix.SYS_FSYNC:           {name: "sync", fd: 0, path: -1},
	unix.SYS_FDATASYNC:       {name: "sync", fd: 0, path: -1},
	unix.SYS_FCHMOD:          {name: "chmod", fd: 0, path: -1},
	unix.SYS_FCHMODAT:        {name: "chmod", fd: -1, dir: 0, path: 1},
	unix.SYS_OPENAT:          {name: "create", fd: -1, dir: 0, path: 1, room: true},
	unix.SYS_MKDIRAT:         {name: "mkdir", fd: -1, dir: 0, path: 1, room: true},
	unix.SYS_LINKAT:          {name: "link", fd: -1, dir: 2, path: 3, room: true},
	unix.SYS_RENAMEAT:        {name: "rename", fd: -1, dir: 2, path: 3},
	unix.SYS_RENAMEAT2:       {name: "rename", fd: -1, dir: 2, path: 3},
	unix.SYS_RENAME:          {name: "rename", fd: -1, dir: -1, path: 1},
	unix.SYS_UNLINKAT:        {name: "remove", fd: -1, dir: 0, path: 1},
	unix.SYS_UNLINK:          {name: "remove", fd: -1, dir: -1, path: 0},
	unix.SYS_RMDIR:           {name: "remove", fd: -1, dir: -1, path: 0},
	unix.SYS_MKDIR:           {name: "mkdir", fd: -1, dir: -1, path: 0, room: true},
}
