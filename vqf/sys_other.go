// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package vqf

import (
	"errors"
	"os"
)

// reserve does nothing here: a full disk shows while writing.
func reserve(*os.File, int64) error { return nil }

func remap([]byte, *os.File) error { return errors.ErrUnsupported }

func replaceFD(_, _ *os.File) error { return errors.ErrUnsupported }

func forget(*os.File, int64, int64) {}

func readAhead(*os.File, bool) {}

func advise([]byte) {}

func preferHuge([]byte) {}
