// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxCPUs is what a unix.CPUSet can hold.
const maxCPUs = 1024

// AllowedCPUs lists the CPUs that the process may run on, ascending: those of
// any of its threads, since the workers of a [Pool] have masks of their own.
func AllowedCPUs() ([]int, error) {
	all, _, err := allMasks()
	if err != nil {
		return nil, err
	}
	return cpuList(&all), nil
}

// allMasks is the masks of all threads in one; listed is false if the system does
// not say which there are, and it is that of the first.
func allMasks() (all unix.CPUSet, listed bool, err error) {
	threads := []int{unix.Getpid()}
	if list, err := os.ReadDir("/proc/self/task"); err == nil {
		listed = true
		for _, e := range list {
			if tid, err := strconv.Atoi(e.Name()); err == nil {
				threads = append(threads, tid)
			}
		}
	}
	for i, tid := range threads {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(tid, &set); err != nil {
			if i > 0 { // a thread that has ended since
				continue
			}
			return all, false, fmt.Errorf("kernels: read the affinity mask: %w", err)
		}
		for j := range set {
			all[j] |= set[j]
		}
	}
	return all, listed, nil
}

func cpuList(set *unix.CPUSet) []int {
	list := make([]int, 0, set.Count())
	for c := range maxCPUs {
		if set.IsSet(c) {
			list = append(list, c)
		}
	}
	return list
}

func threadID() int { return unix.Gettid() }

// pinThread binds the calling thread, which must be locked to its goroutine, and
// reads the mask back.
func pinThread(cpu int) error {
	if err := setCPU(0, cpu); err != nil {
		return fmt.Errorf("kernels: pin a worker to CPU %d: %w", cpu, err)
	}
	return checkThread(0, cpu)
}

// setCPU binds a thread of this process, 0 the calling one.
func setCPU(tid, cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(tid, &set)
}

func checkThread(tid, cpu int) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return fmt.Errorf("kernels: read back the worker of CPU %d: %w", cpu, err)
	}
	if !isOnly(&set, cpu) {
		return fmt.Errorf("kernels: the worker of CPU %d runs on %v", cpu, cpuList(&set))
	}
	return nil
}

// isOn is checkThread without the reason.
func isOn(tid, cpu int) bool {
	var set unix.CPUSet
	return unix.SchedGetaffinity(tid, &set) == nil && isOnly(&set, cpu)
}

func isOnly(set *unix.CPUSet, cpu int) bool { return set.Count() == 1 && set.IsSet(cpu) }

// savedThread is the state of the caller's thread before Attach.
type savedThread struct {
	locked bool
	tid    int
	mask   unix.CPUSet
}

// Attach binds the calling goroutine to the CPU of worker 0, for a series of
// Run calls, and holds it there until Detach; in a pool that does not pin the
// caller stays free. Without Attach Run works as well, from wherever the caller
// is. What CPUs there are for the workers is looked at anew, fit.go.
func (p *Pool) Attach() error {
	if p.attached.locked {
		return nil
	}
	if !p.pin {
		p.fit()
		return nil
	}
	runtime.LockOSThread()
	s := savedThread{locked: true, tid: threadID()}
	if err := unix.SchedGetaffinity(0, &s.mask); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("kernels: read the affinity mask: %w", err)
	}
	p.attached = s
	p.fit()
	p.place.begin()
	return nil
}

// Detach undoes Attach, on the same goroutine.
func (p *Pool) Detach() {
	if !p.attached.locked {
		return
	}
	back := p.maskBack()
	// If the mask cannot be given back the thread stays locked, so that no
	// other goroutine inherits it.
	if err := unix.SchedSetaffinity(0, &back); err == nil {
		runtime.UnlockOSThread()
	}
	p.attached = savedThread{}
}

// maskBack is the mask that the caller's thread had, or the one that somebody has
// given it since, as with taskset -a. That shows in the thread's own mask, or, if
// it names just the CPU to which the thread was bound, in those of the others. If a
// CPU is missing there that is not to be had at all, the kernel did it.
func (p *Pool) maskBack() unix.CPUSet {
	had, cpu := p.attached.mask, p.cpus[0]
	var now unix.CPUSet
	if unix.SchedGetaffinity(0, &now) == nil && !isOnly(&now, cpu) && setCPU(0, cpu) == nil {
		return now
	}
	all, listed, err := allMasks()
	if err != nil || !listed {
		return had
	}
	for c := range maxCPUs {
		if had.IsSet(c) && !all.IsSet(c) && setCPU(0, c) == nil {
			return all
		}
	}
	return had
}

// CheckAffinity reads back where the workers may run and says which of them
// have been moved, by a change of the cpuset or a CPU that went away. It is nil
// for a pool that does not pin.
func (p *Pool) CheckAffinity() error {
	if !p.pin || p.closed {
		return nil
	}
	var err error
	if p.attached.locked {
		err = checkThread(p.attached.tid, p.cpus[0])
	}
	for i, w := range p.workers {
		err = errors.Join(err, checkThread(w.tid, p.cpus[i+1]))
	}
	return err
}
