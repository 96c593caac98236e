// SPDX-License-Identifier: Apache-2.0

package kernels

import "fmt"

// FaultError is what became of a worker's panic. If it came from touching
// memory, a page of a mapped file that cannot be read above all (the file was
// cut short, or the storage failed), Addr is the address.
type FaultError struct {
	Worker  int
	Cause   any     // the value of the panic
	Addr    uintptr // valid if HasAddr
	HasAddr bool
}

func newFaultError(worker int, cause any) *FaultError {
	f := &FaultError{Worker: worker, Cause: cause}
	// The runtime's error for a fault under debug.SetPanicOnFault.
	if a, ok := cause.(interface{ Addr() uintptr }); ok {
		f.Addr, f.HasAddr = a.Addr(), true
	}
	return f
}

// Error names the worker and the cause.
func (f *FaultError) Error() string {
	if f.HasAddr {
		return fmt.Sprintf("kernels: worker %d: fault at address %#x: %v", f.Worker, f.Addr, f.Cause)
	}
	return fmt.Sprintf("kernels: worker %d: panic: %v", f.Worker, f.Cause)
}

// Unwrap gives the cause if it is an error.
func (f *FaultError) Unwrap() error {
	err, _ := f.Cause.(error)
	return err
}
