// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package vqf

import "os"

func reopen(f *os.File, path string) (again *os.File, cached bool, err error) {
	again, err = os.Open(path)
	return again, true, err
}

// PageQueue reads a list of ranges.
type PageQueue struct{ p *Pages }

// Queue makes a queue, which here has one read under way.
func (p *Pages) Queue(int) *PageQueue { return &PageQueue{p} }

// Read fills all ranges.
func (q *PageQueue) Read(list []PageRange) error { return q.p.readEach(list) }

// Close frees the queue.
func (q *PageQueue) Close() {}
