// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// logRefill is after how long one more record of a kind is let through.
	logRefill = 10 * time.Second
	// logDebug is how many times as many there may be of debug: somebody looks for
	// something, and every request has some.
	logDebug = 100
	// logKinds bounds the kinds that are counted apart. Messages are constants, and of
	// those the program has fewer; see TestLogCallSites.
	logKinds = 512
	// maxBurst is what an account can count to, and far more than anybody reads.
	maxBurst = 1_000_000
	// tellSuppressed is how long a kind is quiet before it is told how many were kept back.
	tellSuppressed = time.Minute
)

// limiter bounds what repeats: of each kind of record burst at once, then one for each
// logRefill. A kind has its own account, so that no flood takes the place of another
// kind's records.
type limiter struct {
	now func() time.Time

	mu    sync.Mutex // guards what follows
	burst int        // 0: no limit
	kinds map[logKind]*account
	held  int       // accounts that have kept back something untold
	swept time.Time // drain looked last
}

// logKind is what counts as the same record.
type logKind struct {
	level   slog.Level
	message string
	event   string
}

// account is that of a kind.
type account struct {
	due  time.Time // when all that was let through is paid for
	n    uint64    // kept back since the last one that was let through
	last time.Time // when
}

// suppressed is what was kept back of a kind.
type suppressed struct {
	logKind
	n uint64
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, kinds: map[logKind]*account{}}
}

func (l *limiter) setBurst(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.burst = min(n, maxBurst)
}

// take says whether a record may go out, and how many of its kind were kept back since
// the last that did.
func (l *limiter) take(level slog.Level, message, event string) (before uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(logKind{level, message, event})
	if l.burst <= 0 {
		return l.paid(a), true
	}
	burst, pause := time.Duration(l.burst), logRefill
	if level < slog.LevelInfo {
		burst, pause = burst*logDebug, pause/logDebug
	}
	now := l.now()
	if a.due.Before(now) {
		a.due = now
	}
	if a.due.Sub(now) > (burst-1)*pause {
		if a.n++; a.n == 1 {
			l.held++
		}
		a.last = now
		return 0, false
	}
	a.due = a.due.Add(pause)
	return l.paid(a), true
}

func (l *limiter) paid(a *account) uint64 {
	n := a.n
	if n > 0 {
		l.held--
	}
	a.n = 0
	return n
}

// account finds that of a kind. Where there are too many kinds those that owe nothing
// are forgotten; what still finds no place shares an account with the others of its
// level and event.
func (l *limiter) account(k logKind) *account {
	if a := l.kinds[k]; a != nil {
		return a
	}
	if len(l.kinds) >= logKinds {
		now := l.now()
		for old, a := range l.kinds {
			if a.n == 0 && !a.due.After(now) {
				delete(l.kinds, old)
			}
		}
	}
	if len(l.kinds) >= logKinds {
		if k.message = ""; messageIDs[k.event] == "" {
			k.event = "" // of which there are any number
		}
		if a := l.kinds[k]; a != nil {
			return a
		}
	}
	a := new(account)
	l.kinds[k] = a
	return a
}

// drain returns what was kept back of kinds that have been quiet for a while, which
// counts as told.
func (l *limiter) drain(quiet time.Duration) (list []suppressed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == 0 {
		return nil
	}
	now := l.now()
	if quiet > 0 && now.Sub(l.swept) < quiet {
		return nil
	}
	l.swept = now
	for k, a := range l.kinds {
		if a.n > 0 && now.Sub(a.last) >= quiet {
			list = append(list, suppressed{k, l.paid(a)})
		}
	}
	return list
}
