// SPDX-License-Identifier: Apache-2.0

package kernels

// A machine that grows too hot computes on fewer cores for a while. Who rests is
// left out like a worker that is late: it sleeps, whoever else is at work does its
// share, and the number of shares stays what it was. So no result changes a bit.

// Pace lets at most n workers, the caller among them, work from the next Run on:
// those that have a CPU, in the order of CPUs. n of 0 or less means all. It may be
// called at any time, by any goroutine.
func (p *Pool) Pace(n int) { p.pace.Store(int32(max(n, 0))) }

// rest has the workers beyond pace sleep, and those that no longer are come back.
func (p *Pool) rest() {
	p.paced = p.pace.Load()
	room := len(p.workers)
	if p.paced > 0 {
		room = int(p.paced) - 1
	}
	for _, w := range p.workers {
		switch {
		case w.barred: // it is out already
			w.resting = false
		case room > 0:
			w.resting = false // and readmit takes it in
			room--
		default:
			w.resting = true
			p.leaveOut(w)
		}
	}
}
