// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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

// arrival is what one look at a file says about whether it has arrived.
type arrival struct {
	Complete bool
	Have     int64 // bytes there
	Want     int64 // bytes the header declares; 0 while unknown
	Unsure   bool  // no lease to be had: only a later look can tell
	Err      error // the file can never become complete
}

// weightsArrived decides whether the weight file at path has arrived whole: the
// header declares its length, and a read lease proves that no process has it
// open for writing. Time alone never decides; only where the lease cannot be had
// (the file of another user, a file system without leases) it must have been
// left alone for settle. still is how long it has been.
func weightsArrived(path string, still time.Duration) arrival {
	f, fi, err := openPlain(path)
	if err != nil {
		return arrival{Err: err}
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	out := arrival{Have: fi.Size()}
	head := make([]byte, headLen)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return arrival{Err: err}
	}
	if n < headLen {
		if out.Err = foreignHead(head[:n]); out.Err == nil {
			return out // the header itself is still to come
		}
		return out.decide(f, still)
	}
	want, ok := vqf.DeclaredSize(head)
	out.Want = want
	switch {
	case !ok:
		out.Err = undeclared(path)
	case out.Have < want:
		return out
	case out.Have > want:
		out.Err = fmt.Errorf("%w: the file has %d bytes, its header declares %d: copy it again", vqf.ErrFormat, out.Have, want)
	}
	// A file that looks wrong may be one that is just being written over: the
	// verdict waits for the writer as well.
	return out.decide(f, still)
}

// foreignHead says what is wrong with the beginning of a file that cannot become the
// header of a model: a page that tells of an error, or what stands for a file elsewhere.
func foreignHead(head []byte) error {
	switch {
	case len(head) < 4 || binary.LittleEndian.Uint32(head) == vqf.Magic:
		return nil
	case bytes.HasPrefix(head, []byte("version https://git-lfs")):
		return fmt.Errorf("%w: it is a pointer of Git LFS in place of the file: get that with git lfs pull, and copy it again", vqf.ErrFormat)
	}
	return fmt.Errorf("%w: it begins with %.16q: copy it again", vqf.ErrFormat, head)
}

// undeclared says why a header declares no length.
func undeclared(path string) error {
	info, err := vqf.Inspect(path)
	switch {
	case err != nil:
		return err
	case info.Refused != nil:
		return info.Refused
	default:
		return fmt.Errorf("%w: the header does not say how long the file is", vqf.ErrFormat)
	}
}

// sideArrived decides the same of a file that declares no length.
func sideArrived(path string, still time.Duration) arrival {
	f, fi, err := openPlain(path)
	if err != nil {
		return arrival{Err: err}
	}
	defer func() { _ = f.Close() }() // read only
	return arrival{Have: fi.Size(), Want: fi.Size()}.decide(f, still)
}

// decide lets the verdict stand unless somebody may still write.
func (a arrival) decide(f *os.File, still time.Duration) arrival {
	writer, err := hasWriter(f)
	switch {
	case err == nil && !writer, err != nil && still >= settle:
		a.Complete = a.Err == nil
	default:
		a.Err, a.Unsure = nil, err != nil
	}
	return a
}

// arrived decides about all files of a candidate. One that can never arrive decides
// at once.
func (c candidate) arrived(still time.Duration) arrival {
	out := weightsArrived(c.Weights, still)
	others := slices.Clone(c.Side)
	for _, s := range c.Sigs {
		others = append(others, s.path())
	}
	for _, path := range others {
		if out.Err != nil {
			break
		}
		side := sideArrived(path, still)
		out.Complete = out.Complete && side.Complete
		out.Unsure = out.Unsure || side.Unsure
		out.Err = side.Err
	}
	return out
}

// hasWriter asks the kernel, by way of a read lease, whether any process has
// the file open for writing. An error means that it cannot tell.
func hasWriter(f *os.File) (bool, error) {
	err := setLease(f, unix.F_RDLCK)
	if errors.Is(err, syscall.EAGAIN) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, setLease(f, unix.F_UNLCK)
}

func setLease(f *os.File, kind int) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, kind)
	return err
}
