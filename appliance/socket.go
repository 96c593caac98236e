// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// maxSocketPath is what fits into the kernel's address of a local socket.
const maxSocketPath = 107

// shortSocket returns a name for the socket at path that fits, and what to call when
// it is no longer needed: a path that is too long is reached through its directory.
func shortSocket(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	done = func() { _ = unix.Close(fd) } // nothing is written through it
	short = fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path))
	if len(short) > maxSocketPath {
		done()
		return "", nil, fmt.Errorf("socket %s: the name has more than %d bytes: set paths.socket", path, maxSocketPath)
	}
	return short, done, nil
}

// dialSocket connects to the local socket at path.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	short, done, err := shortSocket(path)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", short)
}

// localListener removes its socket on Close, under the name that it has for others.
type localListener struct {
	*net.UnixListener
	path string
}

func (l localListener) Close() error {
	return errors.Join(l.UnixListener.Close(), remove(l.path))
}

// listenSocket opens the local socket. One left by a process that died is
// replaced; one that somebody answers on means that the daemon runs already.
func listenSocket(path string) (net.Listener, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c, err := dialSocket(ctx, path); err == nil {
		return nil, errors.Join(fmt.Errorf("socket %s: another windhover serves there: stop it, or set paths.state and paths.socket", path), c.Close())
	}
	switch fi, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("socket %s: %s is no directory: set paths.state or paths.socket to another", path, filepath.Dir(path))
	case err != nil:
		return nil, fmt.Errorf("socket: %w", err)
	case fi.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("socket %s: there is something that is no socket: remove it, or set paths.socket", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("socket: %w", err)
		}
	}
	short, done, err := shortSocket(path)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("socket %s: there is no directory %s: make it, as the unit does, or set paths.socket", path, filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), l.Close())
	}
	return localListener{l, path}, nil
}

// lockState keeps two daemons from working on one state directory. The lock ends
// with the process, or when the file is closed. It needs no file of its own, which a
// full disk would not let us make.
func lockState(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	// On a file system without locks the socket still tells of a second daemon.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("state directory %s: another windhover works on it: stop it, or set paths.state", dir), f.Close())
	}
	return f, nil
}
