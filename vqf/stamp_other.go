// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package vqf

import "os"

func stampOf(f *os.File) (Stamp, error) {
	fi, err := f.Stat()
	if err != nil {
		return Stamp{}, err
	}
	t := fi.ModTime()
	return Stamp{size: fi.Size(), sec: t.Unix(), nsec: int64(t.Nanosecond())}, nil
}
