// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"sync"
	"time"

	"windhover/appliance/web"
	"windhover/control"
	"windhover/engine"
)

// keptEvents is how many events the page can show.
const keptEvents = 32

// events are the last things that happened, oldest first.
type events struct {
	mu   sync.Mutex
	list []control.Occurrence
}

func (e *events) add(o control.Occurrence) {
	if o.At.IsZero() {
		o.At = time.Now().UTC()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) == keptEvents {
		e.list = append(e.list[:0], e.list[1:]...)
	}
	e.list = append(e.list, o)
}

func (e *events) last() []control.Occurrence {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]control.Occurrence(nil), e.list...)
}

// hour is what was generated in each of the last 60 minutes. The minutes are those of
// the monotonic clock since start, so that a jump of the wall clock moves none.
type hour struct {
	mu      sync.Mutex
	minutes [60]minute
}

type minute struct {
	at                           int64 // which one, counted from start
	requests                     int
	prompt, cached, completion   int
	prefillTokens, decodedTokens float64
	prefill, decode              time.Duration // in which these were
}

// add books a generation that ended after such a time of running.
func (h *hour) add(up time.Duration, r *engine.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := int64(up / time.Minute)
	m := &h.minutes[at%60]
	if m.at != at {
		*m = minute{at: at}
	}
	m.requests++
	m.prompt += r.Usage.Prompt
	m.cached += r.Usage.Cached
	m.completion += r.Usage.Completion
	if v := r.Timing.PrefillTPS; v > 0 {
		m.prefillTokens += v * r.Timing.Prefill.Seconds()
		m.prefill += r.Timing.Prefill
	}
	if v := r.Timing.DecodeTPS; v > 0 {
		m.decodedTokens += v * r.Timing.Decode.Seconds()
		m.decode += r.Timing.Decode
	}
}

// sum is the last 60 minutes, the one that runs included.
func (h *hour) sum(up time.Duration) web.Hour {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out web.Hour
	var sum minute
	for _, m := range h.minutes {
		if m.requests == 0 || int64(up/time.Minute)-m.at >= 60 {
			continue
		}
		out.Requests += m.requests
		out.Prompt += m.prompt
		out.Cached += m.cached
		out.Completion += m.completion
		sum.prefillTokens, sum.prefill = sum.prefillTokens+m.prefillTokens, sum.prefill+m.prefill
		sum.decodedTokens, sum.decode = sum.decodedTokens+m.decodedTokens, sum.decode+m.decode
	}
	if sum.prefill > 0 {
		out.PrefillTokS = round1(sum.prefillTokens / sum.prefill.Seconds())
	}
	if sum.decode > 0 {
		out.DecodeTokS = round1(sum.decodedTokens / sum.decode.Seconds())
	}
	return out
}
