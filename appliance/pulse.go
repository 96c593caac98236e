// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"sync"
	"time"
)

// How long the goroutine that looks at the drop directory may be at one thing without
// a sign of life. What reports progress is measured from the last report.
const (
	lookLimit = 2 * time.Minute  // directories and small files
	readLimit = 5 * time.Minute  // copying and verifying, which report
	loadLimit = 30 * time.Minute // loading, which does not, and may decipher gigabytes
	// tellAfter is after how long people are told what it is at.
	tellAfter = time.Minute
)

// pulse proves that work moves: whoever asks sees whether the counter of the model
// in work changed since the last time it did, and whether the goroutine that looks at
// the drop directory is where it was.
type pulse struct {
	mu    sync.Mutex // guards what follows
	model servable   // in work, nil for none
	work  int        // its requests
	count uint64
	at    time.Time
	step  step
}

// step is one thing that the look at the drop directory is at.
type step struct {
	what  string // "": waiting for something to do
	limit time.Duration
	at    time.Time // of the last sign of life
	told  bool
}

// begin notes a request that a model works on; the returned function ends that. One
// model works at a time.
func (p *pulse) begin(s servable) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.work++; p.work == 1 {
		p.model, p.count, p.at = s, s.Steps(), time.Now()
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.work--; p.work == 0 {
			p.model = nil
		}
	}
}

// moving reports whether nothing is in work, or all that is moved of late.
func (p *pulse) moving(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	alive := p.generates(now)
	return alive && (p.step.what == "" || now.Sub(p.step.at) < p.step.limit)
}

// generates reports whether no generation is in work, or one moved of late. The
// caller holds mu.
func (p *pulse) generates(now time.Time) bool {
	if p.model == nil {
		return true
	}
	if n := p.model.Steps(); n != p.count {
		p.count, p.at = n, now
		p.step.at = now // a new model waits for its turn, however long the answer is
	}
	return now.Sub(p.at) < stuckAfter
}

// look notes what the look at the drop directory does next, and how long that may
// take without a sign of life; "" ends it.
func (p *pulse) look(what string, limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = step{what: what, limit: limit, at: time.Now()}
}

// beat is such a sign.
func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step.at = time.Now()
}

// late says what has been without a sign of life for so long that people should
// know, and since when; each thing once.
func (p *pulse) late(now time.Time) (what string, quiet time.Duration, tell bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generates(now)
	s := &p.step
	if quiet = now.Sub(s.at); s.what == "" || s.told || quiet < tellAfter {
		return "", 0, false
	}
	s.told = true
	return s.what, quiet, true
}

// doing is what the look at the drop directory is at, "" for nothing.
func (p *pulse) doing() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.step.what
}

// beatKey finds the function of withBeat in a context.
type beatKey struct{}

// withBeat lets what runs under the context give signs of life.
func withBeat(ctx context.Context, p *pulse) context.Context {
	return context.WithValue(ctx, beatKey{}, p.beat)
}

// beat gives one, where somebody listens.
func beat(ctx context.Context) {
	if f, ok := ctx.Value(beatKey{}).(func()); ok {
		f()
	}
}

// beating gives one at each report of progress.
func beating(ctx context.Context) func(done, total int64) {
	return func(int64, int64) { beat(ctx) }
}
