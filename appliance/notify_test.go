// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestNotifier(t *testing.T) {
	var said []string
	n := &notifier{send: func(s string) { said = append(said, s) }}
	n.ready()
	n.status("a")
	n.status("a")
	n.status("b")
	n.status("a")
	n.extend(90 * time.Second)
	n.stopping()
	want := []string{"READY=1", "STATUS=a", "STATUS=b", "STATUS=a", "EXTEND_TIMEOUT_USEC=90000000", "STOPPING=1"}
	if !slices.Equal(said, want) {
		t.Errorf("got  %q\nwant %q", said, want)
	}
	said = nil
	n.reloading()
	if len(said) != 1 || !strings.HasPrefix(said[0], "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("reloading: %q", said)
	}
}

// Without a service manager every call is a no-op.
func TestNoServiceManager(t *testing.T) {
	for _, n := range []*notifier{nil, {}} {
		n.ready()
		n.status("x")
		n.reloading()
		n.extend(time.Second)
		n.stopping()
		n.watch(context.Background(), func() bool { t.Error("asked whether work moves"); return true })
	}
}

func TestWatchdogFromEnvironment(t *testing.T) {
	for _, tt := range []struct {
		usec string
		want time.Duration
		fail bool
	}{{"", 0, false}, {"30000000", 15 * time.Second, false}, {"soon", 0, true}} {
		t.Setenv("WATCHDOG_PID", "")
		t.Setenv("WATCHDOG_USEC", tt.usec)
		n, err := newNotifier()
		if (err != nil) != tt.fail || err == nil && n.every != tt.want {
			t.Errorf("WATCHDOG_USEC=%q: got %+v, %v", tt.usec, n, err)
		}
	}
}

// The watchdog is fed while work moves, and starves when it does not.
func TestWatchdog(t *testing.T) {
	fed, asked := make(chan string), make(chan struct{})
	var alive atomic.Bool
	alive.Store(true)
	n := &notifier{send: func(s string) { fed <- s }, every: time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.watch(ctx, func() bool {
			select {
			case asked <- struct{}{}:
				return alive.Load()
			case <-ctx.Done():
				return false
			}
		})
	}()
	for range 3 {
		<-asked
		if s := <-fed; s != "WATCHDOG=1" {
			t.Errorf("got %q", s)
		}
	}
	alive.Store(false)
	for range 3 {
		select {
		case <-asked:
		case s := <-fed:
			t.Fatalf("fed %q while nothing moves", s)
		}
	}
	cancel()
	<-done
}

// A reload is told from its beginning to its end, and a stop asks for the time that
// requests in work may take.
func TestReloadAndStopAreTold(t *testing.T) {
	b := startBox(t, nil)
	b.hup <- syscall.SIGHUP
	b.heard(t, "RELOADING=1\nMONOTONIC_USEC=")
	b.heard(t, "READY=1")
	b.stop()
	b.heard(t, "STOPPING=1")
	b.heard(t, "EXTEND_TIMEOUT_USEC=30000000")
}
