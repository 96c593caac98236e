// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// ioprioLow is the last of the ordinary I/O priorities: what serves reads first.
const ioprioLow = 2<<13 | 7

// politely runs f on a thread of its own with low I/O priority, which ends with it.
// Reading and copying a dropped file must not keep the pages of a model that serves
// waiting.
func politely(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()                                                      // and never unlocked: the priority is the thread's
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioprioWhoProcess, 0, ioprioLow) // the work is done without it too
		f()
	}()
	<-done
}
