// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Many users may write to the drop directory. Whatever they put there under
// whatever name must not make the daemon wait or read elsewhere.

// errNotRegular is wrapped by the error of openPlain for anything but a file.
var errNotRegular = errors.New("is not a regular file")

// errUnreadable is wrapped by the error of openPlain for what this user may not read.
var errUnreadable = errors.New("may not be read")

// openPlain opens a regular file for reading. It follows no symbolic link in the
// last element, and opens no FIFO, which would wait for a writer.
func openPlain(path string) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO): // a link; a socket
		return nil, nil, fmt.Errorf("%s %w", path, errNotRegular)
	case errors.Is(err, fs.ErrPermission):
		return nil, nil, fmt.Errorf("%w: %w", errUnreadable, err)
	case err != nil:
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", path, errNotRegular)
	}
	if err != nil {
		_ = f.Close() // read only: nothing to lose
		return nil, nil, err
	}
	return f, fi, nil
}

// readJSON reads a small file; limit is in bytes. A missing file leaves v as it is.
func readJSON(path string, limit int64, v any) error {
	f, fi, err := openPlain(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	if fi.Size() > limit {
		return fmt.Errorf("%s: %d bytes where a small JSON file was expected", path, fi.Size())
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %v", path, err)
	}
	return nil
}
