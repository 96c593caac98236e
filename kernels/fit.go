// SPDX-License-Identifier: Apache-2.0

package kernels

import "runtime"

// While a pool exists its CPUs may be taken away, or some of their time: by a
// change of the cpuset or the quota, or because one goes off line. The kernel then
// puts a pinned thread on other CPUs, where it polls against the caller. So each
// series of Run calls begins with a look, and who has no CPU sits it out. The
// pool never grows beyond what it began with.

// fit binds who can be bound, and bars the others.
func (p *Pool) fit() {
	have := p.pin && bind(p.attached.tid, p.cpus[0])
	for i, w := range p.workers {
		w.barred = p.pin && !bind(w.tid, p.cpus[i+1])
		// A caller without a CPU takes that of the first worker that has one.
		if p.pin && !have && !w.barred && bind(p.attached.tid, p.cpus[i+1]) {
			p.cpus[0], p.cpus[i+1] = p.cpus[i+1], p.cpus[0]
			have, w.barred = true, true
		}
	}
	room := granted(len(p.cpus), CPUQuota(), runtime.GOMAXPROCS(0)) - 1
	for _, w := range p.workers {
		w.barred = w.barred || room <= 0
		if w.barred {
			p.leaveOut(w) // and readmit takes it in when it is not barred any more
			continue
		}
		room--
	}
}

// granted is how many of n workers may run.
func granted(n int, quota float64, procs int) int {
	n = min(n, procs)
	if quota > 0 {
		n = min(n, max(1, int(quota)))
	}
	return n
}

// bind puts a thread of this process on a CPU, if it is not there already.
func bind(tid, cpu int) bool {
	if checkThread(tid, cpu) == nil {
		return true
	}
	return setCPU(tid, cpu) == nil && checkThread(tid, cpu) == nil
}
