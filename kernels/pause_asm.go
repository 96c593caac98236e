// SPDX-License-Identifier: Apache-2.0

//go:build (amd64 || arm64) && !purego

package kernels

// pause waits for some nanoseconds without using the core's resources.
//
//go:noescape
func pause()
