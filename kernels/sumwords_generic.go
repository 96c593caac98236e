// SPDX-License-Identifier: Apache-2.0

package kernels

import "encoding/binary"

func sumWordsGeneric(p []byte) uint64 {
	var s uint64
	for ; len(p) >= 8; p = p[8:] {
		s += binary.LittleEndian.Uint64(p)
	}
	return s
}
