// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"windhover/engine"
)

// FirstToken is how long it takes from nothing to the first token of an answer.
type FirstToken struct {
	Cache   string  `json:"cache"` // "cold": none of the file was in memory; "warm": what is needed was
	Mode    string  `json:"mode"`
	Threads int     `json:"threads"`
	Prompt  int     `json:"prompt"` // tokens
	LoadMS  float64 `json:"load_ms"`
	FirstMS float64 `json:"first_token_ms"` // after the load, the prompt included
	ReadMB  float64 `json:"read_mb"`        // of the file, during both
}

const firstPrompt = 16 // tokens

// firstToken measures with all threads, from a cold page cache where it can be
// made so, then from a warm one: the median of three.
func (b *bench) firstToken(ctx context.Context, path string, family BenchFamily) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	b.say("")
	b.say("start    cache   load ms   first token ms   read MB   (%d tokens of prompt, %s)", firstPrompt, threads(slices.Max(b.opt.Threads)))
	b.doing("from load to the first token, cold")
	cold, why := b.forget(ctx, f)
	if err := ctx.Err(); err != nil {
		return err
	}
	if cold {
		one, err := b.start(ctx, f, path, family.Family)
		if err != nil {
			return err
		}
		b.addFirst("cold", one)
	} else {
		b.say("         cold    not measured: %s", why)
	}
	b.doing("from load to the first token, warm")
	var list []FirstToken
	for range 4 {
		one, err := b.start(ctx, f, path, family.Family)
		if err != nil {
			return err
		}
		list = append(list, one)
	}
	list = list[1:] // the first read what was missing
	slices.SortFunc(list, func(x, y FirstToken) int { return int(1e3 * (x.LoadMS + x.FirstMS - y.LoadMS - y.FirstMS)) })
	b.addFirst("warm", list[len(list)/2])
	return nil
}

func (b *bench) addFirst(cache string, t FirstToken) {
	t.Cache = cache
	b.report.First = append(b.report.First, t)
	b.say("         %-5s %9.1f   %14.1f   %7.1f", cache, t.LoadMS, t.FirstMS, t.ReadMB)
}

// start loads the model and generates a token.
func (b *bench) start(ctx context.Context, f *os.File, path, family string) (t FirstToken, err error) {
	read := readSoFar(f)
	begin := time.Now()
	m, err := engine.Load(path, b.options(family, slices.Max(b.opt.Threads), firstPrompt))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	loaded := time.Now()
	r := runner{bench: b, m: m, info: m.Info()}
	res, err := r.generate(ctx, r.prompt(firstPrompt), 1)
	if err != nil {
		return t, err
	}
	return FirstToken{Mode: r.info.Family, Threads: r.info.Threads, Prompt: firstPrompt, LoadMS: round2(loaded.Sub(begin).Seconds() * 1e3),
		FirstMS: round2(res.Timing.TTFT.Seconds() * 1e3), ReadMB: round1(float64(readSoFar(f)-read) / 1e6)}, nil
}

// forget takes the file out of the page cache. It looks whether that worked: a
// file in memory has nowhere else to be, and one that others map stays.
func (b *bench) forget(ctx context.Context, f *os.File) (cold bool, why string) {
	fi, err := f.Stat()
	if err != nil {
		return false, err.Error()
	}
	for at := int64(0); at < fi.Size() && ctx.Err() == nil; at += writePiece { // only clean pages go
		_ = unix.SyncFileRange(int(f.Fd()), at, writePiece, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER) // seen below
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return false, err.Error()
	}
	left, err := cached(f)
	switch {
	case err != nil:
		return false, err.Error()
	case left > fi.Size()/100:
		return false, fmt.Sprintf("%d of %d MB of the file stay in memory", left/1e6, fi.Size()/1e6)
	}
	return true, ""
}

// cached is how many bytes of a file are in the page cache. The kernel says all of
// them of a file that this user could not write.
func cached(f *os.File) (int64, error) {
	fi, err := f.Stat()
	if err != nil || fi.Size() == 0 {
		return 0, err
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Munmap(data) }() // nothing is lost
	page := unix.Getpagesize()
	in := make([]byte, (len(data)+page-1)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)), uintptr(unsafe.Pointer(&in[0]))); errno != 0 {
		return 0, errno
	}
	n := int64(0)
	for _, v := range in {
		n += int64(v & 1)
	}
	return n * int64(page), nil
}

// readSoFar counts bytes that came from the storage: what this process read, or
// where the kernel does not count, what of the file is in the cache.
func readSoFar(f *os.File) int64 {
	if data, err := os.ReadFile("/proc/self/io"); err == nil {
		for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
			if v, ok := strings.CutPrefix(sc.Text(), "read_bytes: "); ok {
				if n, err := strconv.ParseInt(v, 10, 64); err == nil {
					return n
				}
			}
		}
	}
	n, err := cached(f)
	if err != nil {
		return 0
	}
	return n
}
