// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"windhover/kernels"
)

// ReadSpeed is how fast so many threads read memory, each its own part.
type ReadSpeed struct {
	Threads int     `json:"threads"`
	GBs     float64 `json:"gb_s"`

	ahead int // bytes that were prefetched
}

// readBytes is what the read loop goes over: far more than any cache holds.
const readBytes = 1 << 30

// readAheads are the prefetch distances the read loop is tried with: some CPUs
// lose a quarter of the bandwidth without, others a few per cent with it.
var readAheads = []int{0, 2048, 4352}

// machine measures what bounds all else: reading memory and calculating.
func (b *bench) machine(ctx context.Context) error {
	mem, err := anonymous(memorySize(b.bytes(readBytes)))
	if err != nil {
		return err
	}
	defer mem.free()
	if err := mem.touch(ctx); err != nil {
		return err
	}
	b.say("")
	b.say("machine  threads   read GB/s   int8 GOPS   float32 GFLOPS")
	for _, n := range b.opt.Threads {
		b.doing("reading memory and calculating, %s", threads(n))
		err := b.withPool(n, func(pool *kernels.Pool) error {
			read, err := read(ctx, pool, mem.data, b.duration(), &b.stop)
			if err != nil {
				return err
			}
			peak, err := b.peak(ctx, pool)
			if err != nil {
				return err
			}
			b.report.Read = append(b.report.Read, read)
			b.report.Peak = append(b.report.Peak, peak)
			b.say("         %7d   %9.2f   %9.1f   %14.1f", n, read.GBs, peak.Int8, peak.F32)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read measures the memory bandwidth, by pieces that are short enough to pass
// between the neighbours of a busy machine; see goodSpeed. scripts/read-bandwidth.c
// is what a loop of another language and compiler finds by whole passes; the two
// agree within 5 per cent.
func read(ctx context.Context, pool *kernels.Pool, data []byte, about time.Duration, stop *atomic.Bool) (s ReadSpeed, err error) {
	task := newReadTask(nil, pool.Size(), stop)
	piece := min(streamPiece*pool.Size(), len(data)/4)
	speeds, turn := make([][]float64, len(readAheads)), 0
	pieces := len(data) / piece
	for begin := time.Now(); turn < len(readAheads)*pieces || time.Since(begin) < about; turn++ {
		i := turn / pieces % len(readAheads) // a pass for each distance
		task.data, task.ahead = data[turn%pieces*piece:][:piece], readAheads[i]
		start := time.Now()
		if err := pool.Run(task); err != nil {
			return s, err
		}
		took := max(time.Since(start), time.Nanosecond)
		if err := ctx.Err(); err != nil { // and the task may have returned early
			return s, err
		}
		speeds[i] = append(speeds[i], float64(piece)/took.Seconds()/1e9)
	}
	s.Threads = pool.Size()
	for i, list := range speeds {
		if good := goodSpeed(list); good > s.GBs {
			s.GBs, s.ahead = good, readAheads[i]
		}
	}
	s.GBs = round2(s.GBs)
	return s, nil
}

// goodSpeed is what one of ten exceeds: neighbours only slow down what is measured,
// and the very best may owe something to chance.
func goodSpeed(speeds []float64) float64 {
	list := slices.Sorted(slices.Values(speeds))
	return list[len(list)*9/10]
}

func median[T cmp.Ordered](list []T) T {
	s := slices.Sorted(slices.Values(list))
	return s[len(s)/2]
}

// readOf is what was measured with n threads, nothing if it was not.
func (b *bench) readOf(n int) ReadSpeed {
	for _, r := range b.report.Read {
		if r.Threads == n {
			return r
		}
	}
	return ReadSpeed{}
}

// readTask sums the words of data; the sums keep the loads from being dropped,
// each on a cache line of its own.
type readTask struct {
	data  []byte
	ahead int
	sums  []uint64 // [workers][8]
	stop  *atomic.Bool
}

func newReadTask(data []byte, workers int, stop *atomic.Bool) *readTask {
	return &readTask{data: data, sums: make([]uint64, 8*workers), stop: stop}
}

// taskPiece is how many bytes a worker goes over before it looks whether to stop.
const taskPiece = 32 << 20

func (t *readTask) Run(worker, workers int) {
	const line = 64
	n := len(t.data) / line
	part := t.data[n*worker/workers*line : n*(worker+1)/workers*line]
	sum := uint64(0)
	for len(part) > 0 && !t.stop.Load() {
		piece := part[:min(len(part), taskPiece)]
		sum += kernels.SumWords(piece, t.ahead)
		part = part[len(piece):]
	}
	t.sums[8*worker] = sum
}

// bytes is how much memory to measure in.
func (b *bench) bytes(full int) int {
	if b.opt.Quick {
		return full / 8
	}
	return full
}

// duration is how long one figure is measured for.
func (b *bench) duration() time.Duration {
	if b.opt.Quick {
		return 60 * time.Millisecond
	}
	return 400 * time.Millisecond
}

// bestOf repeats its functions in turn for about the given time, at least three
// times each, and returns the seconds of the fastest run of each. In turn, so
// that what else the machine does meets all alike.
func bestOf(ctx context.Context, about time.Duration, list ...func() error) ([]float64, error) {
	rounds, err := inTurn(ctx, about, list)
	if err != nil {
		return nil, err
	}
	best := slices.Clone(rounds[0])
	for _, round := range rounds[1:] {
		for i, s := range round {
			best[i] = min(best[i], s)
		}
	}
	return best, nil
}

// inTurn repeats its functions in turn for about the given time, at least three
// times each, and returns the seconds of each in each round.
func inTurn(ctx context.Context, about time.Duration, list []func() error) (rounds [][]float64, err error) {
	for begin := time.Now(); len(rounds) < 3 || time.Since(begin) < about; {
		round := make([]float64, len(list))
		for i, f := range list {
			start := time.Now()
			if err := f(); err != nil {
				return nil, err
			}
			round[i] = max(time.Since(start), time.Nanosecond).Seconds()
			if err := ctx.Err(); err != nil { // and f may have returned early
				return nil, err
			}
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

// memory is anonymous memory outside of the garbage collector's.
type memory struct{ data []byte }

// anonymous maps size bytes; free must be called. Huge pages are asked for: the
// page cache holds a mapped model in large pieces too, where the file system
// can, and through small pages even the read loop gets no more than half.
func anonymous(size int) (*memory, error) {
	if free := readMemory(os.DirFS("/")).budget(); free > 0 && free < int64(size) {
		return nil, fmt.Errorf("bench: %d MB of memory are needed and %d MB are free: end what else takes memory", size/1e6, free/1e6)
	}
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("bench: %d MB of memory: %w", size/1e6, err)
	}
	_ = unix.Madvise(data, unix.MADV_HUGEPAGE) // a hint
	return &memory{data}, nil
}

// touch writes every page: one that was never written is not memory yet.
func (m *memory) touch(ctx context.Context) error {
	for p := m.data; len(p) > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		piece := p[:min(len(p), 1<<20)]
		for i := 0; i+8 <= len(piece); i += 8 {
			binary.LittleEndian.PutUint64(piece[i:], uint64(i))
		}
		p = p[len(piece):]
	}
	return nil
}

func (m *memory) free() { _ = unix.Munmap(m.data) } // the process ends soon anyway

// memorySize is want, or less where memory is short.
func memorySize(want int) int {
	if available := readMemory(os.DirFS("/")).budget(); available > 0 {
		want = min(want, max(int(available/4), 16<<20))
	}
	return want &^ (1<<20 - 1)
}

func round2(f float64) float64 { return float64(int64(f*100+0.5)) / 100 }

// threads is "1 thread", "2 threads" …
func threads(n int) string { return several(n, "thread") }
