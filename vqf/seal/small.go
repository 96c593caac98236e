// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

const (
	// maxKeyFile bounds a file with a passphrase or a key.
	maxKeyFile = 64 << 10
	// pipeWait is how long the other end of a pipe has: somebody may be typing
	// there.
	pipeWait = 2 * time.Minute
)

// readSmall reads a file of at most maxKeyFile bytes. With a time to wait it may be
// a pipe or a terminal too; else it is a regular file, and nothing is waited for,
// whatever somebody has put there.
func readSmall(path string, wait time.Duration) ([]byte, error) {
	// Opening a pipe waits for a writer otherwise, for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // was only read
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	switch m := fi.Mode(); {
	case m.IsRegular():
	case wait > 0 && m&(os.ModeNamedPipe|os.ModeCharDevice) != 0:
		_ = f.SetReadDeadline(time.Now().Add(wait)) // what cannot have one, such as /dev/null, does not wait
	default:
		return nil, failure{ErrKey, fmt.Sprintf("%s is no regular file: put the key into one", path)}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		clear(b)
		return nil, failure{ErrKey, fmt.Sprintf("%s is a pipe that did not end within %v", path, wait)}
	case err != nil:
		clear(b)
		return nil, err
	case len(b) > maxKeyFile:
		clear(b)
		return nil, failure{ErrKey, fmt.Sprintf("%s is longer than 64 KiB: this is no key file", path)}
	}
	return b, nil
}
