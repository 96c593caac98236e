// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"

	"windhover/internal/testmodel"
)

// A model that is told to go slower, or faster again, in the middle of a pass gives the
// bits that it would have given.
func TestPaceKeepsTheBits_P225(t *testing.T) {
	path := testmodel.Write(t, long())
	tokens := noise(100)
	opt := Options{Family: "q8", Threads: 1}
	want := logitsOf(t, load(t, path, opt), tokens, 1)
	opt.Threads = cores(t)
	m := load(t, path, opt)
	for pace := 0; pace <= opt.Threads; pace++ {
		m.Pace(pace)
		for _, chunk := range []int{1, 33, 0} {
			sameBits(t, fmt.Sprintf("pace %d, chunk %d", pace, chunk), logitsOf(t, m, tokens, chunk), want)
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for pace := 0; ; pace = (pace + 1) % (opt.Threads + 1) {
			select {
			case <-stop:
				return
			default:
				m.Pace(pace)
			}
		}
	}()
	for _, chunk := range []int{1, 7, 0} {
		sameBits(t, fmt.Sprintf("pace changing all the time, chunk %d", chunk), logitsOf(t, m, tokens, chunk), want)
	}
	close(stop)
	<-stopped
}
