// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"windhover/kernels"
)

// BenchOptions say what to measure. The zero value measures the machine, and
// token rates on made-up weights of a small shape.
type BenchOptions struct {
	Model   string // VQF file; "": weights of Shape are made
	Shape   string // see BenchShapes; "": the smallest
	Layers  int    // of made-up weights, so many of the shape's only; 0: all
	Mode    string // q8, q4 or dual, of made-up weights; "": q8
	Dir     string // where made-up weights are written; "": the temporary directory
	Threads []int  // numbers of threads to measure with; nil: 1, 2, 4 … up to the big cores
	Tokens  int    // tokens decoded a measurement; 0: what takes some two seconds
	Prompt  []int  // lengths of prompts to compute; nil: 512, 128 when Quick
	Context []int  // tokens before the decoding starts; nil: 0
	KV      string // type of the KV cache, f16 (also "") or int8
	Quick   bool   // shorter measurements
	Mixed   bool   // the table of layouts instead of all else
	Board   bool   // Mixed also shows what is published for an RK3588; always so on arm64

	// Doing, if not nil, hears what is under way, often: a line for a terminal.
	Doing func(string)
}

// BenchReport is what was measured. Rates are decimal: GB is 10^9 bytes, GOPS
// are 10^9 multiplications and additions a second.
type BenchReport struct {
	CPU      string          `json:"cpu"`
	Kernels  []KernelSpeed   `json:"kernels"`
	Read     []ReadSpeed     `json:"read_gb_s"`
	Peak     []PeakSpeed     `json:"peak"`
	Model    *BenchModel     `json:"model,omitempty"`
	First    []FirstToken    `json:"ttft"`
	Decode   []DecodeSpeed   `json:"decode"`
	Prefill  []PrefillSpeed  `json:"prefill"`
	Together []TogetherSpeed `json:"together"`
	Mixed    []MixedSpeed    `json:"mixed,omitempty"`
	BenchMemory
}

// Bench measures and hands each finding to line as a line of text as soon as it
// is there. The machine should have nothing else to do. It stops soon after the end
// of ctx, whose error it returns then.
func Bench(ctx context.Context, opt BenchOptions, line func(string)) (*BenchReport, error) {
	b := &bench{opt: opt, say: func(format string, a ...any) { line(fmt.Sprintf(format, a...)) }, report: &BenchReport{
		CPU: cpuName(), Kernels: []KernelSpeed{}, Read: []ReadSpeed{}, Peak: []PeakSpeed{}, First: []FirstToken{}, Decode: []DecodeSpeed{}, Prefill: []PrefillSpeed{}, Together: []TogetherSpeed{}}}
	defer context.AfterFunc(ctx, func() { b.stop.Store(true) })()
	if err := b.chooseThreads(); err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	if b.made != nil {
		defer func() { _ = b.made.f.Close() }() // nothing of value is in it
	}
	b.say("cpu      %s", b.report.CPU)
	steps := []func(context.Context) error{b.machine, b.kernels, b.model}
	if opt.Mixed {
		steps = []func(context.Context) error{b.mixed}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return b.report, nil
}

// bench is one run.
type bench struct {
	opt        BenchOptions
	cpus       []int // the workers' CPUs, the first n for n threads
	report     *BenchReport
	say        func(format string, a ...any)
	made       *madeModel  // without a model given
	kvPerToken int64       // bytes
	stop       atomic.Bool // the context has ended: tasks return early
}

// doing tells what is under way.
func (b *bench) doing(format string, a ...any) {
	if b.opt.Doing != nil {
		b.opt.Doing(fmt.Sprintf(format, a...))
	}
}

// check finds before anything is measured that there is no model to measure, or none
// that can run, or no room for it.
func (b *bench) check() (err error) {
	for _, n := range b.prompts() {
		if n < 1 || n > benchLongest {
			return fmt.Errorf("bench: a prompt of %d tokens: give 1 to %d", n, benchLongest)
		}
	}
	for _, n := range b.contexts() {
		if n < 0 || n > benchLongest {
			return fmt.Errorf("bench: %d tokens of context: give 0 to %d", n, benchLongest)
		}
	}
	if b.opt.Tokens < 0 || b.opt.Tokens > benchLongest {
		return fmt.Errorf("bench: %d tokens to generate: give 1 to %d, or 0 for about two seconds of them", b.opt.Tokens, benchLongest)
	}
	switch {
	case b.opt.Mixed:
		return nil
	case b.opt.Model == "":
		b.made, err = b.makeModel()
		return err
	}
	b.opt.Model = WeightFile(b.opt.Model)
	return b.runs(b.opt.Model)
}

// chooseThreads settles which CPUs are used and with how many threads.
func (b *bench) chooseThreads() error {
	topo, err := kernels.DetectTopology()
	if err != nil {
		return err
	}
	b.cpus = cpuOrder(topo)
	if len(b.opt.Threads) == 0 {
		for n := 1; n < len(topo.Big); n *= 2 {
			b.opt.Threads = append(b.opt.Threads, n)
		}
		b.opt.Threads = append(b.opt.Threads, max(len(topo.Big), 1))
	}
	b.opt.Threads = slices.Compact(slices.Sorted(slices.Values(b.opt.Threads)))
	for _, n := range b.opt.Threads {
		if n < 1 || n > len(b.cpus) {
			return fmt.Errorf("bench: %d threads: this process may use 1 to %d CPUs", n, len(b.cpus))
		}
	}
	// A CPU quota may allow less.
	return b.withPool(slices.Max(b.opt.Threads), func(*kernels.Pool) error { return nil })
}

// cpuOrder is every CPU of the process in the order in which workers get one: the
// big cores, the others, and last the second threads of cores.
func cpuOrder(t kernels.Topology) []int {
	var order []int
	for _, list := range [][]int{t.Big, t.Little, t.All} {
		for _, cpu := range list {
			if !slices.Contains(order, cpu) {
				order = append(order, cpu)
			}
		}
	}
	return order
}

// withPool runs f with the workers of n threads, which stay on their CPUs.
func (b *bench) withPool(n int, f func(*kernels.Pool) error) error {
	pool, err := kernels.NewPool(b.cpus[:n], true)
	if err != nil {
		return err
	}
	defer pool.Close()
	if pool.Size() != n {
		return fmt.Errorf("bench: %d threads: the CPU quota of this process allows %d", n, pool.Size())
	}
	if err := pool.Attach(); err != nil {
		return err
	}
	defer pool.Detach()
	return f(pool)
}

// cpuName is what the kernel calls the processor, else the board.
func cpuName() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		sc := bufio.NewScanner(bytes.NewReader(data))
		for sc.Scan() {
			if key, value, ok := strings.Cut(sc.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return board()
}
