// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestManyReadersOverABrokerRestart has 64 open streams, a reader that stopped reading,
// and a broker that is killed in the middle of them all and comes back: each reader
// gets its text whole, as in a run without faults, and one end; memory stays bounded.
func TestManyReadersOverABrokerRestart(t *testing.T) {
	const readers, words = 64, 240
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		ep.RetryMax = time.Second     // 66 of them that try ten times a second would keep a slow machine from the rest
		var half, most sync.WaitGroup // of the streams have said a part, most of their text
		var heard sync.WaitGroup      // who has had no reply may be told that the device is offline
		heard.Add(readers)
		half.Add(readers)
		most.Add(readers)
		down, up := make(chan struct{}), make(chan struct{})
		wait := func(ctx context.Context, gate <-chan struct{}) error {
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		word := func(prompt string, i int) string { return fmt.Sprintf("%s says word %d. ", prompt, i) }
		s := newDevice(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
			for i := range words {
				var err error
				switch i {
				case words / 3:
					half.Done()
					err = wait(ctx, down)
				case 2 * words / 3:
					most.Done()
					err = wait(ctx, up)
				}
				if err == nil {
					err = emit(Event{Text: word(r.Prompt, i), Tokens: 1})
				}
				if err != nil {
					return nil, err
				}
			}
			return &Result{Finish: FinishStop, Usage: Usage{Completion: words}}, nil
		}}, ep, func(c *Config) {
			c.Concurrency = readers
			c.Limits = Limits{Queue: readers + 8, PerClient: 2}
		})
		newCaller(t, ep, "first") // the device is online
		defer stuckReader(t, b.url(), "windhover/v1/edge1/res/#")()
		before := heapNow()
		var wg sync.WaitGroup
		var ends atomic.Int32
		for i := range readers {
			c, err := DialClient(t.Context(), ClientConfig{Endpoint: ep, Device: "edge1", Name: fmt.Sprintf("c%d", i),
				AnswerWithin: 3 * time.Minute}) // the broker may take its time to end, and nobody speaks meanwhile
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			wg.Go(func() {
				r := NewRequest(OpGenerate)
				r.Prompt = fmt.Sprint("reader ", i)
				next := 0
				a, err := c.Send(t.Context(), r, func(r *Reply) error {
					if r.Seq != next {
						return fmt.Errorf("seq %d, want %d", r.Seq, next)
					}
					if next++; next == 1 {
						heard.Done()
					}
					if r.Terminal() {
						ends.Add(1)
					}
					return nil
				})
				var want strings.Builder
				for n := range words {
					want.WriteString(word(r.Prompt, n))
				}
				if err != nil || a.Text != want.String() {
					t.Errorf("reader %d: %v", i, err)
				}
			})
		}
		within(t, "64 streams", half.Wait)
		within(t, "a reply to each", heard.Wait)
		b.stop()
		close(down)
		within(t, "streams without a broker", most.Wait)
		eventually(t, "both links to notice", func() bool {
			c := s.Counters()
			return !c.Connected["control"] && !c.Connected["data"]
		})
		b.start()
		defer stuckReader(t, b.url(), "windhover/v1/edge1/res/#")()
		close(up)
		wg.Wait()
		if n := ends.Load(); n != readers {
			t.Errorf("%d ends of %d streams", n, readers)
		}
		grown := int64(heapNow()) - int64(before)
		t.Logf("%d readers, %d KiB of heap more than before", readers, grown>>10)
		if grown > 64<<20 { // what is kept for fetch is 16 MiB, and there are 64 clients in here
			t.Errorf("the heap has grown by %d KiB", grown>>10)
		}
	})
}

// within fails a test in which f does not return.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Fatalf("waited 60 s for %s", what)
	}
}

func heapNow() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
