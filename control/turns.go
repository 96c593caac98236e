// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"slices"
	"time"
)

// patience is how many requests may pass an older one before that counts as one step
// more urgent. Of a client only the oldest that waits counts them, or whoever asks for
// much would gain by it.
const patience = 8

// turnsBefore orders those who wait: by urgency, then by acceptance.
func turnsBefore(a, b *entry) int {
	return cmp.Or(cmp.Compare(a.urgency, b.urgency), cmp.Compare(a.arrival, b.arrival))
}

// line puts a request in its place in the queue. It returns how many are before it: 0
// when it goes to the backend at once. mu is held.
func (d *desk) line(e *entry) int {
	d.arrivals++
	e.arrival, e.urgency = d.arrivals, e.req.Priority
	i, _ := slices.BinarySearchFunc(d.queue, e, turnsBefore)
	d.queue = slices.Insert(d.queue, i, e)
	if before := i + d.inFront(e); before >= d.concurrency {
		return before
	}
	return 0
}

// inFront is how many of those in work keep a request waiting that waits: not the less
// urgent, and not those of clients with two more in work than its own has, whose
// places in the backend it takes. mu is held.
func (d *desk) inFront(e *entry) int {
	n := 0
	for _, o := range d.order {
		if o.state != running || o.urgency > e.urgency ||
			o.urgency == e.urgency && d.works[o.key.client] > d.works[e.key.client]+1 {
			continue
		}
		n++
	}
	return n
}

// first is the request that is next: of the most urgent one of the client that has the
// fewest in work, the first of these. mu is held.
func (d *desk) first() *entry {
	var first *entry
	for _, q := range d.queue {
		switch {
		case first == nil:
			first = q
		case q.urgency > first.urgency:
			return first
		case d.works[q.key.client] < d.works[first.key.client]:
			first = q
		}
	}
	return first
}

// next takes a request out of the queue if fewer than concurrency in work keep it
// waiting. If the first is kept, so are all behind it. Those that waited past their time
// to live end here.
func (d *desk) next() *entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		e := d.first()
		if e == nil || d.inFront(e) >= d.concurrency {
			return nil
		}
		d.queue = slices.DeleteFunc(d.queue, func(q *entry) bool { return q == e })
		now := d.now()
		if late := expiredBy(e.req, e.age+now.Sub(e.accepted)); late > 0 {
			d.finish(e)
			e.stream.fail(Errorf(Expired, "the request waited %v past its ttl_ms", late.Round(time.Millisecond)))
			d.report(e, Observation{Code: Expired.Name})
			continue
		}
		e.state, e.started = running, now
		d.running++
		d.works[e.key.client]++
		d.passedBy(e)
		if len(d.queue) > 0 {
			d.rouse() // there may be another
		}
		return e
	}
}

// passedBy counts that a request goes before older ones. mu is held.
func (d *desk) passedBy(e *entry) {
	counted := map[string]bool{}
	for _, o := range d.order { // oldest first
		if o.small || o.state != queued || o.arrival > e.arrival || counted[o.key.client] {
			continue
		}
		counted[o.key.client] = true
		if o.passed++; o.passed == patience {
			o.passed = 0
			o.urgency--
		}
	}
	slices.SortFunc(d.queue, turnsBefore)
}

// rouse wakes a worker, if one sleeps.
func (d *desk) rouse() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}
