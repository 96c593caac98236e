// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestFlatHeap sends many requests and sees that neither heap nor goroutines grow.
func TestFlatHeap(t *testing.T) {
	n := 100_000
	if testing.Short() || raceEnabled {
		n = 4_000
	}
	g := newRig(t, &fake{}, nil)
	heap := func() (uint64, int) {
		g.mu.Lock()
		g.sent, g.ends = nil, nil
		g.mu.Unlock()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	round := func(from, to int) {
		for i := from; i < to; i++ {
			id := fmt.Sprintf("r%d", i)
			g.ask("me", OpGenerate, fmt.Sprintf(`{"id":%q,"prompt":"some words %d"}`, id, i))
			g.await("the end", func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				last := len(g.sent) - 1
				if last < 0 || !strings.Contains(string(g.sent[last].payload), `"t":"done"`) || !strings.HasSuffix(g.sent[last].topic, "/"+id) {
					return false
				}
				g.sent, g.ends = g.sent[:0], g.ends[:0]
				return true
			})
			g.clock.advance(100 * time.Millisecond)
			if i%100 == 0 {
				g.desk.sweep()
			}
		}
	}
	round(0, n/2)
	before, goroutines := heap()
	round(n/2, n)
	after, now := heap()
	t.Logf("heap %d KiB, then %d KiB; goroutines %d, then %d", before>>10, after>>10, goroutines, now)
	if after > before+1<<20 || now > goroutines+2 {
		t.Errorf("heap %d KiB became %d KiB, goroutines %d became %d", before>>10, after>>10, goroutines, now)
	}
}

// slowConn lets a number of bytes a second through.
type slowConn struct {
	net.Conn
	perSecond int
}

func (c slowConn) Write(p []byte) (int, error) {
	time.Sleep(time.Duration(len(p)) * time.Second / time.Duration(c.perSecond)) // this is the link, not a wait
	return c.Conn.Write(p)
}

// TestSlowLink_P33 streams far more than the link of the device carries as single tokens:
// deltas are merged, the text is whole and nothing is lost.
func TestSlowLink_P33(t *testing.T) {
	b := newEmbedded(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", b.addr)
			if err != nil {
				c.Close()
				return
			}
			wg.Go(func() { _, _ = io.Copy(slowConn{up, 40_000}, c); up.Close() })
			wg.Go(func() { _, _ = io.Copy(c, up); c.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	newDevice(t, &fake{}, quick("mqtt://"+l.Addr().String()), nil)
	c := newCaller(t, quick(b.url()), "me")
	r := NewRequest(OpGenerate)
	r.Prompt, r.Flush = strings.Repeat("word ", 4000), 0
	deltas, tokens := 0, 0
	a, err := c.Send(t.Context(), r, func(r *Reply) error {
		if r.Delta != nil {
			deltas++
			tokens += r.Delta.N
		}
		return nil
	})
	if err != nil || a.Text != r.Prompt {
		t.Fatalf("%v", err)
	}
	t.Logf("%d tokens in %d deltas", tokens, deltas)
	if deltas > 400 {
		t.Errorf("%d deltas for %d tokens: nothing was merged", deltas, tokens)
	}
}
