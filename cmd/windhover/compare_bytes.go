// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
)

// comparePiece is how much of each file is in memory at once.
const comparePiece = 1 << 20

// byteComparer compares tensors piece by piece in two buffers of its own.
type byteComparer struct {
	ctx      context.Context
	progress func(n int64) // bytes done since the last call
	a, b     []byte
}

// compare compares two tensors of size bytes: how many bytes are not the same,
// and where the first of them is. Both files are read at the same time.
func (c *byteComparer) compare(readA, readB func(off int64, dst []byte) error, size int64) (first, differing int64, err error) {
	if c.a == nil {
		c.a, c.b = make([]byte, comparePiece), make([]byte, comparePiece)
	}
	first = -1
	for off := int64(0); off < size; {
		if err := c.ctx.Err(); err != nil {
			return 0, 0, err
		}
		n := min(size-off, comparePiece)
		a, b := c.a[:n], c.b[:n]
		done := make(chan error, 1)
		go func() { done <- readB(off, b) }()
		errA := readA(off, a)
		errB := <-done
		if errA != nil || errB != nil {
			if errA == nil {
				errA = errB
			}
			return 0, 0, errA
		}
		if !bytes.Equal(a, b) {
			for i := range a {
				if a[i] != b[i] {
					if differing++; first < 0 {
						first = off + int64(i)
					}
				}
			}
		}
		off += n
		c.progress(n)
	}
	return first, differing, nil
}
