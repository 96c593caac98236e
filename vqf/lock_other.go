// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package vqf

import (
	"math"
	"os"
)

// lock has no locks to offer here: nothing that lies around is touched.
func lock(*os.File) error { return errNoLocks }

// freeSpace does not know here: a full disk shows while writing.
func freeSpace(string) (int64, error) { return math.MaxInt64, nil }

// allocated takes the size for it.
func allocated(st os.FileInfo) int64 { return st.Size() }
