// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

import (
	"cmp"
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
// compared with a time. What is measured and its measure take turns by pieces far
// shorter than a scheduler's slice, and the median of the ratios of neighbours
// counts. A ratio under its bar is measured again: a neighbour can spoil an attempt,
// none can make a slow kernel fast.
func TestSpeedGuard(t *testing.T) {
	level := os.Getenv("KERNELS_SPEED")
	if level == "" {
		t.Skip("KERNELS_SPEED is not set: ./check speed sets it")
	}
	bar, ok := speedBars[level]
	if !ok {
		t.Fatalf("KERNELS_SPEED=%s: there are no bars for that", level)
	}
	g := newGuard(t, level)
	for _, l := range layouts {
		t.Run("memory "+l.String(), func(t *testing.T) { g.hold(t, here(bar.memory), func() float64 { return g.stream(t, l, 4096) }) })
	}
	t.Run("memory q8 8x8 of short rows", func(t *testing.T) { g.hold(t, here(bar.memory), func() float64 { return g.stream(t, Q8x8, 1024) }) })
	for _, l := range layouts {
		t.Run("cache "+l.String(), func(t *testing.T) { g.hold(t, here(bar.cache[l]), func() float64 { return g.product(t, l) }) })
	}
	for _, kv := range []KV{KVF16, KVInt8} {
		t.Run("attention "+kv.String(), func(t *testing.T) { g.hold(t, here(bar.attention[kv]), func() float64 { return g.attention(kv) }) })
	}
	t.Run("fork and join", func(t *testing.T) { g.forkJoin(t, bar.forkJoin) })
}

// speedBars are three quarters of what is measured on a quiet machine (Zen 4).
var speedBars = map[string]struct {
	memory    float64            // products of one token, weights from memory, of SumWords over the same bytes
	cache     map[Layout]float64 // products of 64 tokens, weights in the caches, of PeakInt8
	attention map[KV]float64     // a token's attention, keys and values from memory, of SumWords over them
	forkJoin  float64            // a share of 12000 cycles, of a task of two
}{
	"vnni": {0.75, map[Layout]float64{Q8x8: 0.5, Q8x4: 0.5, Q8Row: 0.5, Q4x4: 0.5, Q4Row: 0.5}, map[KV]float64{KVF16: 0.55, KVInt8: 0.33}, 0.6},
	"avx2": {0.65, map[Layout]float64{Q8x8: 0.4, Q8x4: 0.4, Q8Row: 0.4, Q4x4: 0.7, Q4Row: 0.7}, map[KV]float64{KVF16: 0.2, KVInt8: 0.1}, 0.6},
}

// barElsewhere is what is left of a bar on a CPU of another maker, whose reading,
// peak and kernels stand to each other in ways that were not measured: there the
// guard finds what is slower by half, not by a quarter.
const barElsewhere = 0.6

// here is a bar of a kernel on this CPU. That of the workers is the same on any:
// under 0.5 nothing would have been forked.
func here(bar float64) float64 {
	if vendor() != "AuthenticAMD" {
		return bar * barElsewhere
	}
	return bar
}

const (
	guardBytes    = 512 << 20 // more than the caches
	guardPiece    = 16 << 20
	guardAttempts = 8
)

type guard struct {
	data  []byte
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
	for i := 0; i < len(data); i += 8 {
		data[i] = byte(i>>3*37) | 1
	}
	g := &guard{data: data, dst: make([]float32, 1<<20)}
	on := false
	for _, f := range features {
		on = on || f.name == level
		if on && !f.has {
			t.Fatalf("KERNELS_SPEED=%s: this CPU has no %s", level, f.name)
		}
		g.level = append(g.level, on)
	}
	speed := map[int][]float64{}
	aheads := []int{0, 2048, 4352}
	for at := 0; at < guardBytes; at += guardPiece {
		ahead := aheads[at/guardPiece%len(aheads)]
		speed[ahead] = append(speed[ahead], g.seconds(func() { SumWords(data[at:][:guardPiece], ahead) }))
	}
	g.ahead = slices.MinFunc(aheads, func(a, b int) int { return cmp.Compare(middle(speed[a]), middle(speed[b])) })
	return g
}

// seconds is how long f takes with the kernels of the level.
func (g *guard) seconds(f func()) float64 {
	saved := make([]bool, len(features))
	for i, ft := range features {
		saved[i], *ft.use = *ft.use, g.level[i]
	}
	start := time.Now()
	f()
	took := time.Since(start)
	for i, ft := range features {
		*ft.use = saved[i]
	}
	return took.Seconds()
}

func seconds(f func()) float64 {
	start := time.Now()
	f()
	return time.Since(start).Seconds()
}

func middle(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// hold measures until a ratio is no less than the bar.
func (g *guard) hold(t *testing.T, bar float64, measure func() float64) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var tries []float64
	for len(tries) < guardAttempts {
		ratio := measure()
		if tries = append(tries, ratio); ratio >= bar {
			t.Logf("%.2f, bar %.2f, attempt %d", ratio, bar, len(tries))
			return
		}
	}
	t.Errorf("%.2f in %d attempts, each under the bar of %.2f", tries, len(tries), bar)
}

// stream is the speed of a product of one token as a part of the speed of reading.
func (g *guard) stream(t *testing.T, l Layout, cols int) float64 {
	row := cols / BlockLen * l.BlockBytes()
	rows := min(guardPiece/row, len(g.dst)) &^ 7
	a := NewActs(1, cols)
	a.Quantize(randFloats(newRand(1), cols, "normal"), 1)
	var ratios []float64
	for at := 0; at < guardBytes; at += guardPiece {
		data := g.data[(at+guardBytes/2)%guardBytes:][:rows*row]
		m, err := NewMatrix(data, rows, cols, l)
		if err != nil {
			t.Fatal(err)
		}
		read := g.seconds(func() { SumWords(g.data[at:][:len(data)], g.ahead) })
		mul := seconds(func() { MatMul(g.dst, rows, &m, a, 0, rows) })
		ratios = append(ratios, read/mul)
	}
	return middle(ratios)
}

// product is the operations of a product of many tokens as a part of the peak.
func (g *guard) product(t *testing.T, l Layout) float64 {
	const rows, cols, tokens, times = 256, 1024, 64, 200
	m, err := NewMatrix(g.data[:rows*cols/BlockLen*l.BlockBytes()], rows, cols, l)
	if err != nil {
		t.Fatal(err)
	}
	a := NewActs(tokens, cols)
	a.Quantize(randFloats(newRand(1), tokens*cols, "normal"), tokens)
	// As many steps as take about the time of a product at the peak.
	const ops = 2 * rows * cols * tokens
	var each int64
	g.seconds(func() { each = PeakInt8(1) })
	steps := int(ops / each)
	var ratios []float64
	for range times {
		peak := g.seconds(func() { PeakInt8(steps) }) / float64(int64(steps)*each)
		mul := seconds(func() { MatMul(g.dst, rows, &m, a, 0, rows) }) / ops
		ratios = append(ratios, peak/mul)
	}
	return middle(ratios)
}

// attention is the speed at which keys and values pass, of two query heads of 128
// with a key head between them, as a part of the speed of reading.
func (g *guard) attention(kv KV) float64 {
	const hd, heads = 128, 2
	size := kv.GroupBytes(hd)
	block := AttnBlock / KVGroup * size
	blocks := guardPiece / 4 / block
	query := randFloats(newRand(1), heads*hd, "normal")
	tile, acc, part := NewAttnTile(heads, hd), NewAttnPart(heads, hd), NewAttnPart(heads, hd)
	for h := range heads {
		tile.SetQuery(h, query[h*hd:][:hd], 0.1)
	}
	// Values as a cache holds them: the bytes of the other tests may be NaN.
	group := make([]byte, size)
	for i := range KVGroup {
		kv.StoreKey(group, i, query[:hd])
	}
	for at := 0; at+size <= guardBytes/2; at += size {
		copy(g.data[at:], group)
	}
	for i := range KVGroup {
		kv.StoreValue(group, i, query[hd:])
	}
	for at := guardBytes / 2; at+size <= guardBytes; at += size {
		copy(g.data[at:], group)
	}
	keys, values := g.data[:guardBytes/2], g.data[guardBytes/2:]
	var ratios []float64
	for at := 0; at+3*blocks*block <= len(keys); at += 2 * blocks * block {
		far := at + blocks*block
		attend := seconds(func() {
			for b := range blocks {
				from := at + b*block
				if b == 0 {
					tile.Block(acc, kv, keys[from:][:block], values[from:][:block], AttnBlock, heads)
					continue
				}
				tile.Block(part, kv, keys[from:][:block], values[from:][:block], AttnBlock, heads)
				acc.Merge(part)
			}
		})
		read := g.seconds(func() {
			SumWords(keys[far:][:blocks*block], g.ahead)
			SumWords(values[far:][:blocks*block], g.ahead)
		})
		ratios = append(ratios, read/attend)
	}
	return middle(ratios)
}

// waits multiplies numbers that wait for each other: some 12000 cycles on any CPU,
// 3 to 6 microseconds.
func waits(x uint64) uint64 {
	for range 4096 {
		x *= 0x9e3779b97f4a7c15
	}
	return x
}

type waiting struct {
	x [2 * 16]uint64 // [workers][16]: not on the same cache line
}

func (w *waiting) Run(worker, _ int) { w.x[16*worker] = waits(w.x[16*worker]) }

// forkJoin is how long a worker's share takes as a part of how long a task of two
// such shares takes: 1 if forking and joining cost nothing, a half if one worker did
// both. Where other processes have the CPUs, both workers run at the same time for
// moments only, so that of many tasks not the one in the middle counts, but one of
// the better.
func (g *guard) forkJoin(t *testing.T, bar float64) {
	allowed, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(allowed) < 2 {
		t.Skip("one CPU: nothing is forked")
	}
	p, err := NewPool(allowed[:2], true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Size() < 2 {
		t.Skip("a CPU quota below two: nothing is forked")
	}
	if err := p.Attach(); err != nil {
		t.Fatal(err)
	}
	defer p.Detach()
	task := &waiting{}
	task.x[0], task.x[16] = 1, 3
	x := uint64(5)
	g.hold(t, bar, func() float64 {
		const times = 4000
		var ratios []float64
		for range times {
			share := seconds(func() { x = waits(x) })
			run := seconds(func() { err = p.Run(task) })
			if err != nil {
				t.Fatal(err)
			}
			ratios = append(ratios, share/run)
		}
		slices.Sort(ratios)
		return ratios[times*9/10]
	})
	if x == 0 || task.x[0] == 0 || task.x[16] == 0 { // odd numbers times odd ones
		t.Error("a product came out as 0")
	}
}
