// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"windhover/kernels"
)

// ReadSpeed is how fast so many threads read memory, each its own part.
type ReadSpeed struct {
	Threads int     `json:"threads"`
	GBs     float64 `json:"gb_s"`
}

// readBytes is what the read loop goes over: far more than any cache holds.
const readBytes = 1 << 30

// readAheads are the prefetch distances the read loop is tried with: some CPUs
// lose a quarter of the bandwidth without, others a few per cent with it.
var readAheads = []int{0, 2048, 4352}

// read measures the memory bandwidth: the best pass of several, since a pass can
// only be disturbed, never helped. scripts/read-bandwidth.c is what a loop of
// another language and compiler finds; the two agree within 5 per cent.
func (b *bench) read(ctx context.Context) error {
	mem, err := anonymous(memorySize(b.bytes(readBytes)))
	if err != nil {
		return err
	}
	defer mem.free()
	for i := range mem.data {
		mem.data[i] = byte(i) // a page that was never written is not memory yet
	}
	for _, n := range b.opt.Threads {
		var best float64
		err := b.withPool(n, func(pool *kernels.Pool) error {
			task := newReadTask(mem.data, n)
			passes := make([]func() error, len(readAheads))
			for i, ahead := range readAheads {
				passes[i] = func() error { task.ahead = ahead; return pool.Run(task) }
			}
			seconds, err := bestOf(ctx, b.duration(), passes...)
			if err == nil {
				best = float64(len(mem.data)) / slices.Min(seconds) / 1e9
			}
			return err
		})
		if err != nil {
			return err
		}
		b.report.Read = append(b.report.Read, ReadSpeed{Threads: n, GBs: round2(best)})
		b.say("read     %6.2f GB/s  with %d %s", best, n, plural(n, "thread"))
	}
	return nil
}

// readOf is the bandwidth measured with n threads, 0 if it was not.
func (b *bench) readOf(n int) float64 {
	for _, r := range b.report.Read {
		if r.Threads == n {
			return r.GBs
		}
	}
	return 0
}

// readTask sums the words of data; the sums keep the loads from being dropped,
// each on a cache line of its own.
type readTask struct {
	data  []byte
	ahead int
	sums  []uint64 // [workers][8]
}

func newReadTask(data []byte, workers int) *readTask {
	return &readTask{data: data, sums: make([]uint64, 8*workers)}
}

func (t *readTask) Run(worker, workers int) {
	const line = 64
	n := len(t.data) / line
	t.sums[8*worker] = kernels.SumWords(t.data[n*worker/workers*line:n*(worker+1)/workers*line], t.ahead)
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
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			start := time.Now()
			if err := f(); err != nil {
				return nil, err
			}
			round[i] = max(time.Since(start), time.Nanosecond).Seconds()
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
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("bench: %d bytes of memory: %w", size, err)
	}
	_ = unix.Madvise(data, unix.MADV_HUGEPAGE) // a hint
	return &memory{data}, nil
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

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
