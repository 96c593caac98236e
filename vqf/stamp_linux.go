// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"os"

	"golang.org/x/sys/unix"
)

func stampOf(f *os.File) (Stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Stamp{}, err
	}
	sec, nsec := st.Mtim.Unix()
	csec, cnsec := st.Ctim.Unix()
	return Stamp{dev: st.Dev, ino: st.Ino, size: st.Size, sec: sec, nsec: nsec, csec: csec, cnsec: cnsec}, nil
}
