// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Names of files that writeFile has not finished. They are short whatever is
// written, and nobody else's, so that what a power cut leaves can be removed.
const (
	temporaryBegin = ".windhover-"
	temporaryEnd   = ".tmp"
)

// tidyTemporary removes what a writeFile that was cut off left in dir.
func tidyTemporary(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if n := e.Name(); strings.HasPrefix(n, temporaryBegin) && strings.HasSuffix(n, temporaryEnd) && e.Type().IsRegular() {
			errs = append(errs, remove(filepath.Join(dir, n)))
		}
	}
	return errors.Join(errs...)
}

// writeFile puts data at path so that a reader, and a machine that lost its
// power, sees the old file or the new one: temporary name, fsync, rename, fsync
// of the directory.
func writeFile(path string, data []byte, mode fs.FileMode) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, temporaryBegin+"*"+temporaryEnd)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()           // the first error is the one to tell
			_ = os.Remove(f.Name()) // likewise
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Chmod(mode); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

func writeJSON(path string, v any, mode fs.FileMode) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(data, '\n'), mode)
}

// moveFile renames a file into the place of another. Where that lies on another
// file system it copies first, so that the name never leads to half a file.
func moveFile(ctx context.Context, from, to string) error {
	err := os.Rename(from, to)
	if errors.Is(err, unix.EXDEV) {
		err = moveAcross(ctx, from, to)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func moveAcross(ctx context.Context, from, to string) error {
	f, fi, err := openPlain(from)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	tmp := filepath.Join(filepath.Dir(to), temporaryBegin+filepath.Base(to)+temporaryEnd)
	if err := remove(tmp); err != nil {
		return err
	}
	if err := copyOpen(ctx, f, tmp, fi.Size(), reserve); err != nil {
		return errors.Join(err, remove(tmp))
	}
	if err := os.Rename(tmp, to); err != nil {
		return errors.Join(err, remove(tmp))
	}
	return remove(from)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// makeState creates the directories below paths.state. The drop directory is
// setgid and writable by the group, so that its members can deploy models.
func makeState(p Paths) error {
	for _, d := range []struct {
		path string
		mode fs.FileMode
	}{
		{p.State, 0o750}, {p.drop(), 0o770}, {p.imports(), 0o770}, {p.incoming(), 0o700}, {p.downloads(), 0o700}, {p.store(), 0o750}, {p.state(), 0o700}, {p.quarantine(), 0o700}, {p.broker(), 0o700},
	} {
		_, err := os.Stat(d.path)
		if err == nil {
			continue // an operator's own choice of mode stays
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = os.MkdirAll(d.path, d.mode)
		}
		if err != nil {
			return fmt.Errorf("state directory: %w: create it, or set paths.state to a directory that this user can write", err)
		}
		if d.mode == 0o770 {
			if err := os.Chmod(d.path, d.mode|fs.ModeSetgid); err != nil {
				return fmt.Errorf("state directory: %w", err)
			}
		}
	}
	return nil
}
