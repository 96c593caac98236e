// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"windhover/control"
	"windhover/vqf"
)

// receive puts what r holds into dir under name: under a hidden name first, which the
// scan passes over, then synced and renamed. Whatever goes wrong leaves nothing; what
// a power cut leaves is removed at the next start. size is what was announced, -1:
// nothing. A model that ends before its header says is refused. As much stays free of the file system as a copy into the store leaves.
func receive(ctx context.Context, dir, name string, size int64, r io.Reader) (n int64, err error) {
	if err := room(dir, max(size, 0)); err != nil {
		return 0, err
	}
	defer func() {
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			err = control.Errorf(control.InsufficientStore, "the disk of the drop directory is full, of bytes or of files: remove a model, or what else lies there")
		}
	}()
	f, err := os.CreateTemp(dir, temporaryBegin+"*"+temporaryEnd)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // the first error is the one to tell
			_ = os.Remove(f.Name()) // likewise
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		step, err := io.CopyN(f, r, copyStep)
		n += step
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return n, err
		}
		if err := room(dir, 0); size < 0 && err != nil {
			return n, err
		}
	}
	if size >= 0 && n != size {
		return n, control.Errorf(control.BadRequest, "%d bytes came of %d that were announced", n, size)
	}
	if err := checkWhole(f, n); err != nil {
		return n, err
	}
	if err := f.Chmod(0o640); err != nil {
		return n, err
	}
	if err := f.Sync(); err != nil {
		return n, err
	}
	if err := f.Close(); err != nil {
		return n, err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, name)); err != nil {
		return n, err
	}
	return n, syncDir(dir)
}

// checkWhole refuses a model that ends before its header says: of a copy into the drop
// directory more may come, of what was received nothing will. What is no model at all the
// scan judges, as it does any other file.
func checkWhole(f io.ReaderAt, n int64) error {
	head := make([]byte, min(n, headLen))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(head) < headLen {
		if foreignHead(head) != nil {
			return nil
		}
		return control.Errorf(control.BadRequest, "the file has %d bytes, the header of a model alone %d: send it whole", n, headLen)
	}
	if want, known := vqf.DeclaredSize(head); known && n < want {
		return control.Errorf(control.BadRequest, "the file has %d bytes, its header declares %d: send it whole", n, want)
	}
	return nil
}

// room checks whether size bytes more fit.
func room(dir string, size int64) error {
	free, known := freeSpace(dir)
	if !known || free >= size+reserve {
		return nil
	}
	e := control.Errorf(control.InsufficientStore, "%s", fmt.Sprintf("the file needs %d MiB, with the %d MiB that stay free, and %d MiB are: remove a model", (size+reserve)>>20, int64(reserve)>>20, free>>20))
	e.Needed, e.Available = size+reserve, free
	return e
}
