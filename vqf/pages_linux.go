// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reopen opens the file behind f again, also when its name is another's by now:
// past the page cache if the file system can.
func reopen(f *os.File, path string) (again *os.File, cached bool, err error) {
	same := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if again, err = os.OpenFile(same, os.O_RDONLY|unix.O_DIRECT, 0); err == nil {
		if takesPages(again) {
			return again, false, nil
		}
		_ = again.Close() // nothing was read yet
	}
	if again, err = os.OpenFile(same, os.O_RDONLY, 0); err == nil {
		return again, true, nil
	}
	// Without /proc a second descriptor shares nothing that matters here.
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, false, err
	}
	return os.NewFile(uintptr(fd), path), true, nil
}

// takesPages says whether what is open past the page cache may be read by our pages. A
// file system with blocks as large as the pages of a kernel that has large ones may ask
// for more; one that does not say (before Linux 6.1) is taken to go by the disk.
func takesPages(f *os.File) bool {
	var st unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	return err != nil || st.Mask&unix.STATX_DIOALIGN == 0 || alignedEnough(st.Dio_mem_align, st.Dio_offset_align)
}

// PageQueue has many reads under way at once, which small reads need to be as fast
// as a disk can. It is the kernel's own queue (io_submit), that takes a list in one
// call and no thread for each. One goroutine at a time uses it.
type PageQueue struct {
	p      *Pages
	ctx    uint64 // 0: no queue; reads are made one after the other
	blocks []iocb // [depth]
	refs   []*iocb
	events []ioEvent
}

// iocb and ioEvent are the kernel's, for little-endian machines. What has no name
// here is zero: keys and flags, and the operation, which then is a read.
type iocb struct {
	data       uint64
	_          uint64
	_          uint32
	fd         uint32
	buf, bytes uint64
	off        int64
	_          uint64
	_          uint64
}

type ioEvent struct {
	data, obj uint64
	res, res2 int64
}

// Queue makes a queue that has up to depth reads under way. Where the system
// refuses one, as sandboxes do, its reads are made one after the other.
func (p *Pages) Queue(depth int) *PageQueue {
	q := &PageQueue{p: p, blocks: make([]iocb, depth), refs: make([]*iocb, depth), events: make([]ioEvent, depth)}
	for i := range q.blocks {
		q.refs[i] = &q.blocks[i]
	}
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, uintptr(depth), uintptr(unsafe.Pointer(&q.ctx)), 0); errno != 0 {
		q.ctx = 0
	}
	return q
}

// Read fills all ranges, in any order, and returns when none is under way. Their
// memory is not on the Go stack. The error is the first one found.
func (q *PageQueue) Read(list []PageRange) error {
	if q.ctx == 0 || q.p.cached.Load() {
		return q.p.readEach(list)
	}
	var first error
	fd := uint32(q.p.f.Fd())
	next, away := 0, 0
	for {
		n := 0
		for ; first == nil && next+n < len(list) && away+n < len(q.blocks); n++ {
			r := &list[next+n]
			r.check()
			*q.refs[n] = iocb{data: uint64(next + n), fd: fd, buf: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(r.Dst)))), bytes: uint64(len(r.Dst)), off: r.At}
		}
		if n > 0 {
			took, errno := q.submit(n)
			next += took
			away += took
			// EAGAIN: the system's own queue is full; what is under way makes room.
			if errno != 0 && (errno != unix.EAGAIN || away == 0) && errno != unix.EINTR {
				first = q.p.fault(list[next], 0, errno)
			}
		}
		if away == 0 {
			if first != nil || next == len(list) {
				return first
			}
			continue
		}
		done, err := q.wait(away)
		if err != nil {
			return err
		}
		away -= len(done)
		for i := range done {
			r, n := list[done[i].data], done[i].res
			var err error
			switch {
			case n < 0:
				err = q.p.fault(r, 0, unix.Errno(-n))
			case n < int64(r.Min):
				err = q.p.fault(r, int(n), nil)
			}
			if first == nil {
				first = err
			}
		}
	}
}

// submit starts the first n blocks, or some of them.
func (q *PageQueue) submit(n int) (int, unix.Errno) {
	took, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, uintptr(q.ctx), uintptr(n), uintptr(unsafe.Pointer(unsafe.SliceData(q.refs))))
	if errno != 0 {
		return 0, errno
	}
	return int(took), 0
}

// wait returns reads that ended, some of those under way.
func (q *PageQueue) wait(away int) ([]ioEvent, error) {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, uintptr(q.ctx), uintptr((away+3)/4), uintptr(len(q.events)), uintptr(unsafe.Pointer(unsafe.SliceData(q.events))), 0, 0)
		switch {
		case errno == 0:
			return q.events[:n], nil
		case !errors.Is(errno, unix.EINTR):
			return nil, fmt.Errorf("vqf: %s: wait for reads: %w", q.p.path, errno)
		}
	}
}

// Close frees the queue.
func (q *PageQueue) Close() {
	if q.ctx != 0 {
		_, _, _ = unix.Syscall(unix.SYS_IO_DESTROY, uintptr(q.ctx), 0, 0)
		q.ctx = 0
	}
}
