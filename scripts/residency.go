// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// Residency runs a model under a memory limit and tells what that takes and gives:
//
//	go run scripts/residency.go -limit 1144M /var/tmp/30b-a3b.vqf
//
// A child process computes. It is put into a memory control group of its own, which
// counts all memory that it takes, the pages of the file that it reads included, and
// is killed beyond the limit; where none can be made (root is needed), the process is measured
// only. In the same run, before and after, the file is read as fast as the storage
// gives it, in long pieces and by single pages, so that the speeds can be compared.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"windhover/appliance"
	"windhover/engine"
	"windhover/vqf"
)

var (
	limit     = flag.String("limit", "", "memory of the process, like 1144M (1.2 GB); empty: no limit")
	residency = flag.String("residency", "auto", "auto, full, layered or experts")
	prompt    = flag.Int("prompt", 12, "tokens of the prompt")
	tokens    = flag.Int("tokens", 12, "tokens to generate")
	contextOf = flag.Int("context", 1024, "tokens of the context")
	child     = flag.String("child", "", "control group to enter, for the script itself")
)

// beside is what a process takes beside weights, cache and scratch: the program and
// its own data.
const beside = 48 << 20

// report is what the child tells.
type report struct {
	Need       engine.Need
	PrefillTPS float64
	DecodeTPS  float64
	Prefill    int64 // bytes read
	Decode     int64
	Tokens     int
	Steps      int
	First      []int32
	Anon, File int64 // most that was resident, sampled
	Load       float64
}

func main() {
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	run := parent
	if *child != "" {
		run = compute
	}
	if err := run(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "residency:", err)
		os.Exit(1)
	}
}

func parent(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	most, err := appliance.ParseSize(*limit)
	if err != nil && *limit != "" {
		return err
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) // pages in the cache are on nobody's account
	f.Close()
	long, single, err := storage(path)
	if err != nil {
		return err
	}
	fmt.Printf("file     %s, %.2f GB\nstorage  %.2f GB/s in long pieces, %.0f single pages/s before\n", path, float64(st.Size())/1e9, long/1e9, single)
	group := newGroup(most)
	defer group.remove()
	fmt.Println("limit    " + group.String())
	self, err := os.Executable()
	if err != nil {
		return err
	}
	enter := group.dir
	if enter == "" {
		enter = "-"
	}
	cmd := exec.Command(self, "-child", enter, "-limit", *limit, "-residency", *residency, "-prompt", fmt.Sprint(*prompt), "-tokens", fmt.Sprint(*tokens), "-context", fmt.Sprint(*contextOf), path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the process under the limit: %w", err)
	}
	var r report
	if err := json.Unmarshal(out, &r); err != nil {
		return err
	}
	n := r.Need
	fmt.Printf("chosen   %s: weights %.0f MB, %.0f MB of them private, KV cache %.0f MB for %d tokens, scratch %.0f MB\n",
		n.Residency, mb(n.Weights), mb(n.Private), mb(n.KV), n.Context, mb(n.Scratch))
	fmt.Printf("taken    at most %.0f MB anonymous and %.0f MB of the file resident in the process\n", mb(r.Anon), mb(r.File))
	if most > 0 {
		if peak := group.peak(); peak > 0 {
			fmt.Printf("         at most %.0f MB on the group's account, page cache included\n", mb(peak))
		}
	}
	fmt.Printf("load     %.2f s\n", r.Load)
	// Machines share storage: what it gave before may not be what it gives now.
	again, single, err := storage(path)
	if err != nil {
		return err
	}
	fmt.Printf("storage  %.2f GB/s in long pieces, %.0f single pages/s after\n", again/1e9, single)
	long = max(long, again)
	say := func(what string, tps float64, bytes int64, tokens int) {
		each := float64(bytes) / float64(tokens)
		fmt.Printf("%s  %.3f tok/s, %.1f MB read a token, %.2f GB/s, %.0f %% of the storage's\n", what, tps, each/1e6, each*tps/1e9, 100*each*tps/long)
	}
	say("prefill", r.PrefillTPS, r.Prefill, r.Tokens)
	say("decode ", r.DecodeTPS, r.Decode, r.Steps)
	fmt.Printf("tokens   %v\n", r.First)
	return nil
}

func mb(n int64) float64 { return float64(n) / 1e6 }

// compute is the child.
func compute(path string) error {
	if *child != "-" {
		if err := os.WriteFile(filepath.Join(*child, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return err
		}
	}
	opt := engine.Options{Residency: *residency, Context: *contextOf, Pin: true}
	if most, err := appliance.ParseSize(*limit); err == nil && most > 0 {
		opt.MemoryLimit = most - beside
	}
	start := time.Now()
	m, err := engine.Load(path, opt)
	if err != nil {
		return err
	}
	r := report{Need: m.Info().Need, Load: time.Since(start).Seconds()}
	end := make(chan bool)
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			r.Anon, r.File = max(r.Anon, status("RssAnon:")), max(r.File, status("RssFile:"))
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	})
	ids := make([]int32, *prompt)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range ids {
		ids[i] = int32(rng.IntN(200)) + 5
	}
	// The second request finds the prompt in the cache and computes its last token
	// again: what it takes is that of so many tokens, one after the other.
	generate := func(n int) (*engine.Result, int64, error) {
		before := read()
		res, err := m.Generate(context.Background(), engine.Request{Tokens: ids, MaxTokens: n, IgnoreEOS: true, Raw: true}, nil)
		return res, read() - before, err
	}
	res, n, err := generate(1)
	if err != nil {
		return err
	}
	r.Tokens, r.Prefill, r.PrefillTPS = len(ids), n, res.Timing.PrefillTPS
	if res, n, err = generate(*tokens); err != nil {
		return err
	}
	close(end)
	watch.Wait()
	r.Steps, r.Decode, r.First = len(res.Tokens), n, res.Tokens
	r.DecodeTPS = float64(r.Steps) / res.Timing.Total.Seconds()
	if err := m.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// read is how many bytes this process had the storage read.
func read() int64 { return field("/proc/self/io", "read_bytes:") }

func status(name string) int64 { return field("/proc/self/status", name) << 10 }

func field(path, name string) int64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), name); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	return 0
}

// storage reads the file for a second in long pieces and for one by single pages
// at random, past the page cache.
func storage(path string) (long, single float64, err error) {
	f, err := vqf.Open(path, vqf.OpenOptions{Lazy: true})
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	p, err := f.Pages()
	if err != nil {
		return 0, 0, err
	}
	defer p.Close()
	const piece, at = 1 << 20, 64
	mem, err := unix.Mmap(-1, 0, at*piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Munmap(mem)
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // as slots are
	whole := p.Queue(16)
	defer whole.Close()
	list := make([]vqf.PageRange, 0, 1024)
	read, off, start := 0, int64(0), time.Now()
	for time.Since(start) < 2*time.Second {
		list = list[:0]
		for k := range at {
			if off+piece > f.Size() {
				off = 0
			}
			list = append(list, vqf.PageRange{At: off, Dst: mem[k*piece:][:piece], Min: piece})
			off += piece
		}
		if err := whole.Read(list); err != nil {
			return 0, 0, err
		}
		read += at * piece
	}
	long = float64(read) / time.Since(start).Seconds()
	q := p.Queue(256)
	defer q.Close()
	list = list[:cap(list)]
	rng, n := rand.New(rand.NewPCG(2, 2)), 0
	start = time.Now()
	for time.Since(start) < time.Second {
		for i := range list {
			list[i] = vqf.PageRange{At: rng.Int64N(f.Size()/vqf.PageAlign-1) * vqf.PageAlign, Dst: mem[i*vqf.PageAlign:][:vqf.PageAlign], Min: vqf.PageAlign}
		}
		if err := q.Read(list); err != nil {
			return 0, 0, err
		}
		n += len(list)
	}
	return long, float64(n) / time.Since(start).Seconds(), nil
}

// group is a memory control group, of version 2 or 1.
type group struct {
	dir, peakFile, why string
}

func newGroup(most int64) *group {
	if most == 0 {
		return &group{why: "none"}
	}
	for _, v := range []struct{ root, limit, peak string }{
		{"/sys/fs/cgroup", "memory.max", "memory.peak"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
	} {
		dir := filepath.Join(v.root, "windhover-residency")
		if _, err := os.Stat(filepath.Join(v.root, "cgroup.procs")); err != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, v.limit), []byte(strconv.FormatInt(most, 10)), 0); err != nil {
			_ = os.Remove(dir)
			continue
		}
		return &group{dir: dir, peakFile: v.peak, why: fmt.Sprintf("%.0f MB by %s in %s", mb(most), v.limit, dir)}
	}
	return &group{why: fmt.Sprintf("%.0f MB is asked of the engine only: no control group can be made here", mb(most))}
}

func (g *group) String() string { return g.why }

func (g *group) peak() int64 {
	b, err := os.ReadFile(filepath.Join(g.dir, g.peakFile))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

func (g *group) remove() {
	if g.dir != "" {
		_ = os.Remove(g.dir)
	}
}
