// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"os"
	"syscall"
)

// hold lets a job's process stand still while the machine is too hot for it, until
// leave is called. Unlike requests jobs take the cores that they find, and nobody waits
// for a token of theirs.
func (h *heat) hold(p *os.Process) (leave func()) {
	if h == nil {
		return func() {}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.jobs == nil {
		h.jobs = map[*os.Process]bool{}
	}
	h.jobs[p] = false
	h.haltJobs()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.jobs, p)
	}
}

// haltJobs stops the processes, or lets them go on: they stand still where one core of
// several is left, and where no request is taken. The caller holds mu.
func (h *heat) haltJobs() {
	halt, signal := h.refused || h.pacer.Cores() == 1 && h.pacer.Most() > 1, syscall.SIGCONT
	if halt {
		signal = syscall.SIGSTOP
	}
	for p, halted := range h.jobs {
		if halted != halt {
			_ = p.Signal(signal) // it has ended, else
			h.jobs[p] = halt
		}
	}
}
