// SPDX-License-Identifier: Apache-2.0

package machine

import "time"

// The kernel slows a hot CPU down by itself, at passive trip points. Where that is not
// enough, in a closed case or behind a fan that stands still, the temperature goes on to
// the critical one, and the system shuts down in the middle of everybody's answers.
// Before that, cores are taken out of the work, one at a time.
//
// Going down is quick and coming back slow, ten degrees apart: between the two nothing
// changes. A core that had to go soon after it came back waits twice as long for the next
// time, so that a machine that can cool three cores and not four does not go to and fro.
const (
	shedRoom   = 10 // degrees to the shutdown below which a core goes
	urgentRoom = 5  // below which the next one goes at the next look
	giveRoom   = 20 // above which one may come back

	settleFor = 6 * time.Second  // what one core less is given to show
	waitLeast = 30 * time.Second // above giveRoom, before a core comes back
	waitMost  = 10 * time.Minute
	heldFor   = 10 * time.Minute // after which a core that came back was no mistake
)

// Pacer decides how many cores may work. It is for one goroutine.
type Pacer struct {
	most  int
	cores int

	shed  time.Time     // when a core went last
	given time.Time     // when one came back last
	cool  time.Time     // since when there has been room enough; zero: there is not
	wait  time.Duration // before one comes back
}

// NewPacer begins with most cores, at least one, which is also where it ends.
func NewPacer(most int) *Pacer {
	most = max(most, 1)
	return &Pacer{most: most, cores: most, wait: waitLeast}
}

// Most is how many cores work on a machine that is cool.
func (p *Pacer) Most() int { return p.most }

// Cores is how many may work, 1 to Most.
func (p *Pacer) Cores() int { return p.cores }

// Look takes in how hot the machine is now, and returns how many cores may work. It
// changes that by one core at most. A machine that does not say where it shuts down is
// left alone, and so is one that says nothing this time.
func (p *Pacer) Look(now time.Time, h Heat) int {
	_, room, ok := h.Room()
	if !ok || room <= giveRoom {
		p.cool = time.Time{}
	} else if p.cool.IsZero() {
		p.cool = now
	}
	switch {
	case !ok:
	case room < shedRoom && p.cores > 1 && (room < urgentRoom || now.Sub(p.shed) >= settleFor):
		if !p.given.IsZero() && now.Sub(p.given) < heldFor {
			p.wait = min(2*p.wait, waitMost)
			p.given = time.Time{} // once for each that came back
		}
		p.cores--
		p.shed = now
	case !p.cool.IsZero() && p.cores < p.most && now.Sub(p.cool) >= p.wait:
		p.cores++
		p.given, p.cool = now, now
	case p.cores == p.most && now.Sub(p.given) >= heldFor && room > giveRoom:
		p.wait = waitLeast
	}
	return p.cores
}
