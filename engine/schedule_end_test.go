// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"windhover/internal/testmodel"
	"windhover/kernels"
)

// Who is refused because the workers have no CPU hears of it.
func TestRefusedAreTold(t *testing.T) {
	m := load(t, testmodel.Write(t, long()), Options{Threads: 1, NoTokenizer: true})
	s := byHand(m)
	g, err := m.newGeneration(Request{Tokens: noise(10), MaxTokens: 3, IgnoreEOS: true})
	if err != nil {
		t.Fatal(err)
	}
	queueQuietly(s, g)
	why := errors.New("no affinity")
	s.refuseAll(why)
	select {
	case <-g.bell:
	default:
		t.Error("nobody rang")
	}
	if over, err := g.deliver(nil); !over || err != nil || g.err != why {
		t.Errorf("over %v, %v; the request's error is %v", over, err, g.err)
	}
}

// A fault in a pass is the error of those in it, and of nobody else.
func TestFaultOfAPass(t *testing.T) {
	m := load(t, testmodel.Write(t, long()), Options{Sequences: 2, NoTokenizer: true})
	s := byHand(m)
	var list []*generation
	for range 3 {
		g, err := m.newGeneration(Request{Tokens: noise(5), MaxTokens: 5, IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, g)
		queueQuietly(s, g)
	}
	passes := 0
	m.st.trace = func(layer int, _ []float32) {
		if passes++; layer == 1 && passes == 2 {
			m.st.err = &kernels.FaultError{}
		}
	}
	for s.turn() {
	}
	var fault *kernels.FaultError
	for i, g := range list {
		if failed := errors.As(g.err, &fault); !g.over || failed != (i < 2) {
			t.Errorf("request %d: over %v, %v", i, g.over, g.err)
		}
	}
}

// Closing waits for one who is far behind as well.
func TestCloseWaitsForListener(t *testing.T) {
	m, err := Load(testmodel.Write(t, testmodel.Default()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	text := ""
	res, err := m.Generate(context.Background(), Request{Tokens: testmodel.Tokens("0")}, func(e Event) error {
		if text == "" {
			go func() { closed <- m.Close() }()
			for {
				s := m.sched
				s.mu.Lock()
				behind := s.closing && len(s.waiting) == 1 && s.waiting[0].behind()
				s.mu.Unlock()
				if behind {
					break
				}
				runtime.Gosched()
			}
		}
		text += e.Delta.Text
		return nil
	})
	if err != nil || len(res.Text) != 255 || text != res.Text {
		t.Errorf("%+v, %v", res, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// What ends while others wait makes room for them, and nothing is left behind.
func TestCloseWaitsForAll(t *testing.T) {
	m, err := Load(testmodel.Write(t, testmodel.Default()), Options{Sequences: 2})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	begun := make(chan bool, 6)
	for range 6 {
		all.Go(func() {
			begun <- true
			res, err := m.Generate(context.Background(), Request{Tokens: chat(""), MaxTokens: 11}, nil)
			if !errors.Is(err, ErrClosed) && (err != nil || res.Text != testmodel.Answer) {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	for range 6 {
		<-begun
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
}
