// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"windhover/vqf"
)

// settle is how long a file must look the same where no lease can prove that
// nobody writes to it.
const settle = 2 * time.Second

// headLen is how much of a file says how long it will be.
const headLen = 448

// completeness is what one look at a file says about whether it has arrived.
type completeness struct {
	Complete bool
	Have     int64 // bytes there
	Want     int64 // bytes the header declares; 0 while unknown
	Again    bool  // no lease to be had: look again after settle
	Err      error // the file can never become complete
}

// checkComplete decides whether the file at path has arrived whole: the header
// declares its length, and a read lease proves that no process has it open for
// writing. Time alone never decides; only where the lease cannot be had (the
// file of another user, a file system without leases) two equal looks do.
func checkComplete(path string, previous *fileID) completeness {
	f, err := os.Open(path)
	if err != nil {
		return completeness{Err: err}
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	fi, err := f.Stat()
	if err != nil {
		return completeness{Err: err}
	}
	out := completeness{Have: fi.Size()}
	head := make([]byte, headLen)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return completeness{Err: err}
	}
	if n < headLen {
		return out // the header itself is still to come
	}
	want, ok := vqf.DeclaredSize(head)
	out.Want = want
	switch {
	case !ok:
		info, err := vqf.Inspect(path)
		if err == nil {
			err = info.Refused
		}
		if err == nil {
			err = fmt.Errorf("%w: the header does not say how long the file is", vqf.ErrFormat)
		}
		out.Err = err
	case out.Have < want:
		return out
	case out.Have > want:
		out.Err = fmt.Errorf("%w: the file has %d bytes, its header declares %d: copy it again", vqf.ErrFormat, out.Have, want)
	}
	// A file that looks wrong may be one that is just being written over: the
	// verdict waits for the writer as well.
	switch writer, err := hasWriter(f); {
	case err == nil && writer:
		out.Err = nil
	case err == nil:
		out.Complete = out.Err == nil
	case previous != nil && *previous == identify(fi) && time.Since(fi.ModTime()) >= settle:
		out.Complete = out.Err == nil
	default:
		out.Err, out.Again = nil, true
	}
	return out
}

// hasWriter asks the kernel, by way of a read lease, whether any process has
// the file open for writing. An error means that it cannot tell.
func hasWriter(f *os.File) (bool, error) {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, syscall.EAGAIN) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return false, err
}
