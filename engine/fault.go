// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"runtime/debug"

	"windhover/kernels"
)

// A mapped page that cannot be read (a file cut short, a storage error) faults
// in whatever touches it first. The workers of the pool turn that into an error
// of the phase; guard does it for what the calling goroutine reads itself.

// guard is used as
//
//	defer guard(&err)()
func guard(err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		faultError(err, recover())
	}
}

// faultError sets err when what was recovered is a page fault. Any other panic
// goes on.
func faultError(err *error, recovered any) {
	switch r := recovered.(type) {
	case nil:
	case interface {
		error
		Addr() uintptr
	}:
		*err = fmt.Errorf("engine: %w", &kernels.FaultError{Cause: r, Addr: r.Addr(), HasAddr: true})
	default:
		panic(r)
	}
}

// recoveredError is faultError for who answers for any other panic as well.
func recoveredError(recovered any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("engine: internal error: %v", r)
		}
	}()
	faultError(&err, recovered)
	return err
}
