// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"io"
	"time"

	"windhover/control"
)

// look is how often a wait for a time of day looks at the clock, which may be set
// meanwhile.
const look = time.Minute

// hold waits until a request may be sent.
func (f *Fetcher) hold(ctx context.Context, a Artifact) error {
	for {
		now := time.Now()
		wait := a.NotBefore.Sub(now)
		if f.sane() {
			wait = max(wait, a.Window.Until(now))
		}
		if wait <= 0 {
			return context.Cause(ctx)
		}
		if err := sleep(ctx, min(wait, look)); err != nil {
			return err
		}
	}
}

func (f *Fetcher) sane() bool { return f.Sane == nil || f.Sane() }

// closed says whether a request has to end because its window does.
func (f *Fetcher) closed(a Artifact) bool { return f.sane() && !a.Window.Open(time.Now()) }

// pace holds reading to a number of bytes a second.
type pace struct {
	bps  int64
	next time.Time // when as much as was read may have been read
}

// chunk is how much is read at once: little enough that the rate is even.
func (p *pace) chunk() int {
	if p.bps == 0 {
		return 64 << 10
	}
	return int(min(64<<10, max(512, p.bps/8)))
}

func (p *pace) took(ctx context.Context, n int) error {
	if p.bps == 0 {
		return nil
	}
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.bps) * float64(time.Second)))
	return sleep(ctx, p.next.Sub(now))
}

// watch reads from a source and ends the request when that is too slow: silent for as
// long as it may stall, or below the least rate over that long. Only the time in which
// the source is waited for counts.
type watch struct {
	r       io.Reader
	stall   time.Duration
	minRate int64
	cancel  context.CancelCauseFunc

	waited time.Duration
	got    int64
}

func (w *watch) Read(p []byte) (n int, err error) {
	start := time.Now()
	silent := time.AfterFunc(w.stall, func() { w.cancel(w.slow()) })
	n, err = w.r.Read(p)
	silent.Stop()
	w.waited += time.Since(start)
	w.got += int64(n)
	if w.waited < w.stall {
		return n, err
	}
	if float64(w.got) < float64(w.minRate)*w.waited.Seconds() {
		w.cancel(w.slow())
		return n, w.slow()
	}
	w.waited, w.got = 0, 0
	return n, err
}

func (w *watch) slow() error {
	return transient{err: control.Errorf(control.SlowRetrieval, "fewer than %d bytes a second for %v", w.minRate, w.stall)}
}
