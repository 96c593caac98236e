// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import (
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSpeedGuard holds what is fast to what it is measured by, on whatever machine
// it runs and whatever else runs there:
//
//	KERNELS_SPEED=vnni go test ./kernels -run SpeedGuard -v
//
// KERNELS_SPEED names the feature level whose bars hold; the measure is taken with
// that level too, so that a kernel of another level is found as well. Nothing is
// compared with a time, and nothing that calculates with memory, because a CPU's
// clock changes with its neighbours and memory's does not: a kernel with its weights
// in the cache is held to the most the CPU calculates, and one that reads memory to
// the slower of only reading and of itself with weights in the cache. What is
// measured and its measure take turns by pieces far shorter than a scheduler's slice,
// and of each the fast ones count. A ratio under its bar is measured again, after all
// others: a neighbour can spoil an attempt, none can make a slow kernel fast.
func TestSpeedGuard(t *testing.T) {
	level := os.Getenv("KERNELS_SPEED")
	if level == "" {
		t.Skip("KERNELS_SPEED is not set: ./check speed sets it")
	}
	bars, ok := speedBars[level]
	if !ok {
		t.Fatalf("KERNELS_SPEED=%s: there are no bars for that", level)
	}
	open := newGuard(t, level).cases(bars)
	for round := 1; len(open) > 0; round++ {
		var slow []*guardCase
		for _, c := range open {
			t.Run(c.name, func(t *testing.T) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				ratio := c.measure(t)
				c.tries = append(c.tries, ratio)
				switch {
				case ratio >= c.bar:
					t.Logf("%.3f, bar %.3f, attempt %d", ratio, c.bar, round)
				case round < guardRounds:
					slow = append(slow, c)
				default:
					t.Errorf("%.3f in %d attempts, each under the bar of %.3f", c.tries, round, c.bar)
				}
			})
		}
		open = slow
	}
}

// guardCase is a ratio that reaches its bar in one attempt or is slow.
type guardCase struct {
	name    string
	bar     float64
	measure func(t *testing.T) float64
	tries   []float64
}

// guardBars are some 85 hundredths of what is measured (Zen 4), quiet or beside
// others: that differs by 3 hundredths where weights are in the cache, by 10 where
// memory is read.
type guardBars struct {
	memory          float64            // products of one token, weights from memory
	oneToken        map[Layout]float64 // weights in the cache, of PeakInt8
	short           map[Layout]float64 // the same with rows of 1024
	tokens          map[Layout]float64 // products of 64 tokens, weights in the cache, of PeakInt8
	attention       map[KV]float64     // a token's attention, keys and values from memory
	attentionCached map[KV]float64     // keys and values in the cache, of PeakF32
	forkJoin        float64            // a share of 12000 cycles, of a task of two
}

var speedBars = map[string]guardBars{
	"vnni": {
		memory:          0.83,
		oneToken:        map[Layout]float64{Q8Row: 0.133, Q8x4: 0.305, Q8x8: 0.28, Q4Row: 0.205, Q4x4: 0.295},
		short:           map[Layout]float64{Q8x8: 0.29, Q4x4: 0.26},
		tokens:          map[Layout]float64{Q8Row: 0.62, Q8x4: 0.62, Q8x8: 0.62, Q4Row: 0.62, Q4x4: 0.6},
		attention:       map[KV]float64{KVF16: 0.7, KVInt8: 0.8},
		attentionCached: map[KV]float64{KVF16: 0.56, KVInt8: 0.45},
		forkJoin:        0.6,
	},
	"avx2": {
		memory:          0.83,
		oneToken:        map[Layout]float64{Q8Row: 0.206, Q8x4: 0.287, Q8x8: 0.385, Q4Row: 0.358, Q4x4: 0.5},
		short:           map[Layout]float64{Q8x8: 0.385, Q4x4: 0.5},
		tokens:          map[Layout]float64{Q8Row: 0.455, Q8x4: 0.455, Q8x8: 0.455, Q4Row: 0.83, Q4x4: 0.83},
		attention:       map[KV]float64{KVF16: 0.62, KVInt8: 0.86},
		attentionCached: map[KV]float64{KVF16: 0.6, KVInt8: 0.385},
		forkJoin:        0.6,
	},
}

// barElsewhere is what is left of a bar on a CPU of another maker, whose reading,
// peak and kernels stand to each other in ways that were not measured: there the
// guard finds what is slower by half, not by a quarter.
const barElsewhere = 0.6

// cases lists all of them.
func (g *guard) cases(bars guardBars) []*guardCase {
	var cases []*guardCase
	add := func(name string, bar float64, measure func(t *testing.T) float64) {
		if vendor() != "AuthenticAMD" {
			bar *= barElsewhere
		}
		cases = append(cases, &guardCase{name: name, bar: bar, measure: measure})
	}
	product := func(l Layout, cols int, name string, bar float64) {
		add("memory "+name, bars.memory, func(t *testing.T) float64 { return g.stream(t, l, cols) })
		add("cache "+name, bar, func(t *testing.T) float64 { return g.product(t, l, cols, 1) })
	}
	for _, l := range layouts {
		product(l, 4096, l.String(), bars.oneToken[l])
	}
	for _, l := range []Layout{Q8x8, Q4x4} {
		product(l, 1024, l.String()+" of short rows", bars.short[l])
	}
	for _, l := range layouts {
		add("cache "+l.String()+" by 64 tokens", bars.tokens[l], func(t *testing.T) float64 { return g.product(t, l, 1024, 64) })
	}
	for _, kv := range []KV{KVF16, KVInt8} {
		add("memory attention "+kv.String(), bars.attention[kv], func(*testing.T) float64 { return g.attentionStream(kv) })
		add("cache attention "+kv.String(), bars.attentionCached[kv], func(*testing.T) float64 { return g.attention(kv) })
	}
	// Under 0.5 nothing would have been forked, on any CPU.
	return append(cases, &guardCase{name: "fork and join", bar: bars.forkJoin, measure: g.forkJoin})
}

const (
	guardBytes  = 512 << 20 // more than the caches
	guardPiece  = 4 << 20
	guardCached = 300 << 10 // of weights that stay in the second cache, for the kernels that work on quadBytes and more
	guardTurns  = guardBytes / guardPiece
	guardRounds = 20
)

type guard struct {
	data  []byte // of the size of guardBytes: weights, keys and values, all of them numbers
	level []bool // of features, for the measure
	ahead int    // with which SumWords is fastest
	dst   []float32
}

func newGuard(t *testing.T, level string) *guard {
	data, err := unix.Mmap(-1, 0, guardBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(data) })
	if err := unix.Madvise(data, unix.MADV_HUGEPAGE); err != nil {
		t.Logf("no huge pages: %v", err)
	}
	for i := 0; i < len(data); i += 2 {
		binary.LittleEndian.PutUint16(data[i:], 0x2c00|uint16(i>>1*37)&0x3ff) // 1/16 to 1/8, two codes as well
	}
	g := &guard{data: data, dst: make([]float32, 64*guardPiece/1024)}
	on := false
	for _, f := range features {
		on = on || f.name == level
		if on && !f.has {
			t.Fatalf("KERNELS_SPEED=%s: this CPU has no %s", level, f.name)
		}
		g.level = append(g.level, on)
	}
	var read []func(int)
	aheads := []int{0, 2048, 4352}
	for _, g.ahead = range aheads {
		read = append(read, g.reading(g.ahead, guardPiece))
	}
	times := turns(guardTurns, read...)
	g.ahead = aheads[slices.Index(times, slices.Min(times))]
	return g
}

// turns has all works do their pieces 0, then 1, and so on below n, and returns of
// each work how many seconds a piece takes, the slowest of the fastest tenth.
func turns(n int, work ...func(i int)) []float64 {
	times := make([][]float64, len(work))
	for i := range n {
		for w, do := range work {
			start := time.Now()
			do(i)
			times[w] = append(times[w], time.Since(start).Seconds())
		}
	}
	fast := make([]float64, len(work))
	for w := range work {
		slices.Sort(times[w])
		fast[w] = times[w][n/10]
	}
	return fast
}

// measure is f with the kernels of the level.
func (g *guard) measure(f func(i int)) func(i int) {
	return func(i int) {
		for k, ft := range features {
			*ft.use, g.level[k] = g.level[k], *ft.use
		}
		f(i)
		for k, ft := range features {
			*ft.use, g.level[k] = g.level[k], *ft.use
		}
	}
}

// reading is the measure that does nothing but read n bytes of memory.
func (g *guard) reading(ahead, n int) func(i int) {
	return g.measure(func(i int) { SumWords(g.data[i*guardPiece:][:n], ahead) })
}

// peak is the measure that does nothing but calculate, some ops operations at the
// most that the CPU does, and how many they are.
func (g *guard) peak(most func(steps int) int64, ops float64) (calculating func(i int), done float64) {
	var each int64
	g.measure(func(int) { each = most(1) })(0)
	steps := max(1, int(ops/float64(each)))
	return g.measure(func(int) { most(steps) }), float64(steps) * float64(each)
}

// far is piece i of the data, far from where it is read meanwhile.
func (g *guard) far(i int) []byte {
	return g.data[(i+guardTurns/2)%guardTurns*guardPiece:][:guardPiece]
}
