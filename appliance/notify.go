// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// notifier tells systemd what the daemon does. Without a NOTIFY_SOCKET every
// call is a no-op, so callers need no if.
type notifier struct {
	send  func(state string) // nil: no service manager
	last  atomic.Pointer[string]
	every time.Duration // half the watchdog's interval; 0: no watchdog
}

func newNotifier() (*notifier, error) {
	n := &notifier{send: func(state string) {
		// The answer is of no use: with no manager there is nobody to tell.
		_, _ = daemon.SdNotify(false, state)
	}}
	d, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("watchdog: %v", err)
	}
	n.every = d / 2
	return n, nil
}

func (n *notifier) state(s string) {
	if n != nil && n.send != nil {
		n.send(s)
	}
}

func (n *notifier) ready()    { n.state(daemon.SdNotifyReady) }
func (n *notifier) stopping() { n.state(daemon.SdNotifyStopping) }

// reloading begins a reload; ready ends it.
func (n *notifier) reloading() {
	n.state(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// status sets the line that systemctl status shows; the same line twice is sent once.
func (n *notifier) status(s string) {
	if n == nil {
		return
	}
	if old := n.last.Swap(&s); old == nil || *old != s {
		n.state("STATUS=" + s)
	}
}

// extend asks for more time to start or to stop.
func (n *notifier) extend(d time.Duration) {
	n.state(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

// watch feeds the watchdog for as long as alive says that work moves. It
// returns at once where no watchdog is asked for.
func (n *notifier) watch(ctx context.Context, alive func() bool) {
	if n == nil || n.every <= 0 {
		return
	}
	t := time.NewTicker(n.every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if alive() {
				n.state(daemon.SdNotifyWatchdog)
			}
		}
	}
}
