// SPDX-License-Identifier: Apache-2.0

package testcut

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// asksKernel is what makes a Go program ask for the time without the kernel: the name of
// a function that the kernel maps into every program. One that does not find it makes a
// system call.
const asksKernel = "__vdso_clock_gettime"

// WithoutVDSO copies a Go program to where it is one whose every question for the time of
// day is a system call, which Cut.Clock can answer.
func WithoutVDSO(program, to string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if !bytes.Contains(data, []byte(asksKernel)) {
		return fmt.Errorf("testcut: %s asks for the time in a way that is not known", program)
	}
	other := bytes.Replace([]byte(asksKernel), []byte("gettime"), []byte("nowhere"), 1)
	return os.WriteFile(to, bytes.ReplaceAll(data, []byte(asksKernel), other), fs.ModePerm)
}

// tell answers a question for the time of day.
func (p *Process) tell(tid int, regs *unix.PtraceRegs) error {
	now := p.cut.Clock.Now()
	var spec [16]byte
	binary.LittleEndian.PutUint64(spec[:], uint64(now.Unix()))
	binary.LittleEndian.PutUint64(spec[8:], uint64(now.Nanosecond()))
	if _, err := unix.PtracePokeData(tid, uintptr(regs.Rsi), spec[:]); err != nil {
		return err
	}
	regs.Orig_rax, regs.Rax = ^uint64(0), 0 // skipped, and done
	if err := unix.PtraceSetRegs(tid, regs); err != nil {
		return err
	}
	return unix.PtraceCont(tid, 0)
}

// asksTime lets the questions for the time of day wait for the tracer, of those for the
// other clocks none. The accumulator has the number of the call.
func asksTime() []unix.SockFilter {
	const firstArgument = 16 // in struct seccomp_data, its lower half
	return []unix.SockFilter{
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: unix.SYS_CLOCK_GETTIME},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: firstArgument},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.CLOCK_REALTIME},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE},
	}
}
