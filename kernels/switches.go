// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// switches counts how often a thread gave up its CPU: by itself, to wait for
// something, and by force.
type switches struct{ voluntary, forced int64 }

func (s switches) since(before switches) switches {
	return switches{s.voluntary - before.voluntary, s.forced - before.forced}
}

// ownSwitches are those of the calling thread; zero if the system does not
// count them.
func ownSwitches() switches {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		return switches{}
	}
	return switches{r.Nvcsw, r.Nivcsw}
}

// statusLen holds a thread's status file, of which the switches are the last lines.
const statusLen = 8 << 10

// A switchReader reads the switches of a thread from another one, without
// allocating: its file stays open. It is 0 for no thread and no file.
type switchReader int

// openSwitches opens those of a thread of this process.
func openSwitches(tid int) switchReader {
	name := "/proc/self/task/" + strconv.Itoa(tid) + "/status"
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	return switchReader(fd)
}

func (r switchReader) close() {
	if r > 0 {
		_ = unix.Close(int(r)) // it was only read
	}
}

// read uses buf, [statusLen]. It is zero for a thread that has ended and on a
// system that does not count switches.
func (r switchReader) read(buf []byte) switches {
	if r <= 0 {
		return switches{}
	}
	n, err := unix.Pread(int(r), buf, 0)
	if err != nil {
		return switches{}
	}
	return switches{
		voluntary: statusNumber(buf[:n], voluntaryLine),
		forced:    statusNumber(buf[:n], forcedLine),
	}
}

var (
	voluntaryLine = []byte("\nvoluntary_ctxt_switches:\t")
	forcedLine    = []byte("\nnonvoluntary_ctxt_switches:\t")
)

// statusNumber is the number behind name, 0 if it is not there.
func statusNumber(status, name []byte) (n int64) {
	i := bytes.Index(status, name)
	if i < 0 {
		return 0
	}
	for _, c := range status[i+len(name):] {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int64(c-'0')
	}
	return n
}
