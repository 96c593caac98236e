// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"windhover/kernels"
)

// ReadSpeed is how fast so many threads read memory, each its own part.
type ReadSpeed struct {
	Threads int     `json:"threads"`
	GBs     float64 `json:"gb_s"`
}

// readBytes is what the read loop goes over: far more than any cache holds.
const readBytes = 256 << 20

// read measures the memory bandwidth: the best pass of several, since a pass can
// only be disturbed, never helped.
func (b *bench) read(ctx context.Context) error {
	mem, err := anonymous(memorySize(readBytes))
	if err != nil {
		return err
	}
	defer mem.free()
	words := mem.words()
	for i := range words {
		words[i] = uint64(i) // a page that was never written is not memory yet
	}
	for _, n := range b.opt.Threads {
		var best float64
		err := b.withPool(n, func(pool *kernels.Pool) error {
			task := &readTask{words: words, sums: make([]uint64, 8*n)}
			seconds, err := bestOf(ctx, b.duration(), func() error { return pool.Run(task) })
			best = float64(len(mem.data)) / seconds / 1e9
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

// readTask sums words; the sums keep the loads from being dropped, each on a
// cache line of its own.
type readTask struct {
	words []uint64
	sums  []uint64 // [workers][8]
}

func (t *readTask) Run(worker, workers int) {
	n := len(t.words) / 8
	t.sums[8*worker] = sumWords(t.words[n*worker/workers*8 : n*(worker+1)/workers*8])
}

// sumWords has eight independent sums, so that loads and not additions are what
// it waits for.
func sumWords(w []uint64) uint64 {
	var s0, s1, s2, s3, s4, s5, s6, s7 uint64
	for len(w) >= 8 {
		s0 += w[0]
		s1 += w[1]
		s2 += w[2]
		s3 += w[3]
		s4 += w[4]
		s5 += w[5]
		s6 += w[6]
		s7 += w[7]
		w = w[8:]
	}
	return s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7
}

// duration is how long one figure is measured for.
func (b *bench) duration() time.Duration {
	if b.opt.Quick {
		return 60 * time.Millisecond
	}
	return 400 * time.Millisecond
}

// bestOf repeats f for about the given time, at least three times, and returns
// the seconds of the fastest run.
func bestOf(ctx context.Context, about time.Duration, f func() error) (float64, error) {
	best := time.Duration(1 << 62)
	for begin, runs := time.Now(), 0; runs < 3 || time.Since(begin) < about; runs++ {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		best = min(best, time.Since(start))
	}
	return max(best, time.Nanosecond).Seconds(), nil
}

// memory is anonymous memory outside of the garbage collector's.
type memory struct{ data []byte }

// anonymous maps size bytes; free must be called. Huge pages are not asked for:
// the pages of a mapped model are small ones too, and reading through them is
// slower (here by a quarter).
func anonymous(size int) (*memory, error) {
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("bench: %d bytes of memory: %w", size, err)
	}
	return &memory{data}, nil
}

func (m *memory) free() { _ = unix.Munmap(m.data) } // the process ends soon anyway

// words is the memory as 64-bit words; a mapping begins on a page.
func (m *memory) words() []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(m.data))), len(m.data)/8)
}

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
