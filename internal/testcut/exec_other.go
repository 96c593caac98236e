// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package testcut

import "errors"

// Exec returns an error: there is no tracer for this architecture.
func Exec([]string) error { return errors.New("testcut: amd64 alone") }
