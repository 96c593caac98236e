// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"time"

	"windhover/control"
)

// Pauses between attempts: of up to the first one, doubled each time, never above the
// second. All of a pause is random, so that a fleet does not come back at once.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// transient is a failure that the next attempt may not have.
type transient struct {
	err   error
	after time.Duration // what the source asked for
}

func (t transient) Error() string { return t.err.Error() }
func (t transient) Unwrap() error { return t.err }

// fatal is a failure for which no source is to blame.
type fatal struct{ err error }

func (f fatal) Error() string { return f.err.Error() }
func (f fatal) Unwrap() error { return f.err }

// errPause ends a request that is to go on later.
var errPause = errors.New("fetch: the window has closed")

// sources are where a file is to be had, and what became of them.
type sources struct {
	f        *Fetcher
	urls     []string
	turn     int // the one asked now
	attempts int // in a row that brought nothing
	last     error
}

// ask sends one request to the source whose turn it is and judges what came of it. It
// returns an error when nobody is left to ask. came says whether a request, even one
// that failed, brought anything.
func (s *sources) ask(ctx context.Context, request func(ctx context.Context, url string) (came bool, err error)) error {
	u := s.urls[s.turn%len(s.urls)]
	came, err := request(ctx, u)
	if came {
		s.attempts = 0
	}
	var again transient
	var end fatal
	switch {
	case err == nil, errors.Is(err, errPause):
		return nil
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case errors.As(err, &end):
		return end.err
	case errors.As(err, &again):
		s.attempts++
		s.last = again.err
		if s.attempts >= def(s.f.Attempts, defaultAttempts) {
			return s.exhausted()
		}
		s.turn++
		return sleep(ctx, max(pause(s.attempts), min(again.after, longestPause)))
	default: // this source is none
		s.last = err
		i := s.turn % len(s.urls)
		s.urls = slices.Delete(slices.Clone(s.urls), i, i+1)
		s.turn = i
		if len(s.urls) == 0 {
			return s.last
		}
		return nil
	}
}

func (s *sources) exhausted() error {
	var e *control.Error
	if errors.As(s.last, &e) && e.Code == control.SlowRetrieval {
		return e
	}
	return control.Errorf(control.DownloadFailed, "%d attempts in a row brought nothing, the last one: %v", s.attempts, s.last)
}

func pause(attempts int) time.Duration {
	limit := longestPause
	if attempts < 10 {
		limit = min(limit, firstPause<<(attempts-1))
	}
	return rand.N(limit) + 1
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// name is a URL without what may be secret in it.
func name(u string) string {
	v, err := url.Parse(u)
	if err != nil {
		return "source"
	}
	v.RawQuery, v.User, v.Fragment = "", nil, ""
	return v.String()
}

// download asks for what is missing until nothing is.
func (f *Fetcher) download(ctx context.Context, p *part, a Artifact) error {
	s := &sources{f: f, urls: a.URLs}
	if len(s.urls) == 0 && p.missing > 0 {
		return control.Errorf(control.SourceGone, "no source is left for %s", a.Index.SHA256)
	}
	r := &requests{f: f, p: p, a: a, tags: map[string]string{}, pace: pace{bps: a.MaxBPS}}
	for p.missing > 0 {
		if err := f.hold(ctx, a); err != nil {
			return err
		}
		before := p.missing
		err := s.ask(ctx, func(ctx context.Context, url string) (bool, error) {
			err := r.send(ctx, url)
			return p.missing < before, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
