// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// While a pool exists its CPUs may be taken away, or some of their time: by a
// change of the cpuset or the quota, because one goes off line, or by somebody who
// gives all threads of the process another mask. The kernel does not put a pinned
// thread back where it belongs, and two that share a CPU poll against each other.
// So each series of Run calls begins with a look, and who has no CPU sits it out.
// The pool never grows beyond what it began with.

// fit binds who can be bound, and bars the others.
func (p *Pool) fit() {
	allowed := p.allowed()
	have := p.pin && allowed.IsSet(p.cpus[0]) && bind(p.attached.tid, p.cpus[0])
	for i, w := range p.workers {
		w.barred = p.pin && !(allowed.IsSet(p.cpus[i+1]) && bind(w.tid, p.cpus[i+1]))
		// A caller without a CPU takes that of the first worker that has one.
		if p.pin && !have && !w.barred && bind(p.attached.tid, p.cpus[i+1]) {
			p.cpus[0], p.cpus[i+1] = p.cpus[i+1], p.cpus[0]
			have, w.barred = true, true
		}
	}
	room := granted(min(len(p.cpus), allowed.Count()), CPUQuota(), runtime.GOMAXPROCS(0)) - 1
	for _, w := range p.workers {
		w.barred = w.barred || room <= 0
		if w.barred {
			p.leaveOut(w) // and readmit takes it in when it is not barred any more
			continue
		}
		room--
	}
	p.rest()
}

// allowed are the CPUs that some thread of the process may use. Somebody who
// moves all of them (taskset -a) shows in that, whereas the mask of a pinned thread
// alone does not tell whether a person or the kernel has changed it.
func (p *Pool) allowed() unix.CPUSet {
	set, _, err := allMasks()
	for c := range maxCPUs {
		if p.attached.mask.IsSet(c) || err != nil { // then binding finds out
			set.Set(c)
		}
	}
	return set
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
