// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"windhover/appliance/disk"
	"windhover/appliance/fetch"
	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

const (
	name     = "m"
	incoming = "/state/incoming"
	statedir = "/state/state"
)

// release is a version with its content and what is wrong with it.
type release struct {
	rollout.Version
	content []byte
	bad     rollout.Phase // which fails
	kills   rollout.Phase // which takes the process down, and so does every later load
}

func newRelease(n int64) *release {
	c := bytes.Repeat([]byte(fmt.Sprintf("release %d ", n)), 1000)
	return &release{Version: rollout.Version{Version: fmt.Sprintf("1.%d.0", n), Release: n, SHA256: sha256.Sum256(c)}, content: c}
}

func (r *release) want(rev int64) rollout.Want {
	return rollout.Want{Model: name, Update: rollout.Update{Version: r.Version, Job: "j", Rev: rev, Keep: 2}}
}

// box is an appliance without an engine: it downloads with the real thing, a model is a
// file that can be read, and the process may be gone at any step.
type box struct {
	fs       disk.FS
	releases map[ota.Digest]*release
	kill     func() // ends the process

	mu      sync.Mutex
	serving ota.Digest // zero: nothing
	loaded  ota.Digest
	steps   []rollout.Phase
	reports []rollout.Report
	hold    map[rollout.Phase]chan struct{} // a step waits until it is closed, or its context ends
	gone    bool                            // the process has ended
	before  func(n int) bool                // the process ends before its n-th half step
	halves  int
}

func newBox(fs disk.FS, kill func(), releases ...*release) *box {
	b := &box{fs: fs, kill: kill, releases: map[ota.Digest]*release{}}
	for _, r := range releases {
		b.releases[r.SHA256] = r
	}
	return b
}

func stored(sum ota.Digest) string { return "/state/store/" + sum.String() }

func (b *box) RoundTrip(req *http.Request) (*http.Response, error) {
	for sum, r := range b.releases {
		if strings.HasSuffix(req.URL.Path, sum.String()) {
			resp := &http.Response{StatusCode: 200, Header: http.Header{}, Request: req, ContentLength: int64(len(r.content)), Body: io.NopCloser(bytes.NewReader(r.content))}
			var first, last int
			if n, _ := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &first, &last); n == 2 {
				resp.StatusCode, resp.ContentLength = 206, int64(last-first+1)
				resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(r.content)))
				resp.Body = io.NopCloser(bytes.NewReader(r.content[first : last+1]))
			}
			return resp, nil
		}
	}
	return nil, errors.New("no such host")
}

func (b *box) fetcher() *fetch.Fetcher {
	return &fetch.Fetcher{Disk: b.fs, Dir: incoming, Client: &http.Client{Transport: b}, Reserve: 1, Checkpoint: 8192, Attempts: 2}
}

// Do ends the process where it is to end: before, in or after a step.
func (b *box) Do(ctx context.Context, s rollout.Run) (err error) {
	whole := testdisk.Survive(func() {
		b.half()
		err = b.do(ctx, s)
		b.half()
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if !whole || b.gone {
		b.gone = true
		b.kill()
		return errors.New("the process is gone")
	}
	b.steps = append(b.steps, s.Phase)
	return err
}

func (b *box) half() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halves++
	if b.before != nil && b.before(b.halves) {
		b.gone = true
	}
}

func (b *box) do(ctx context.Context, s rollout.Run) error {
	if ch := b.hold[s.Phase]; ch != nil {
		select {
		case <-ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if b.gone {
		return errors.New("the process is gone")
	}
	r, f, sum := b.releases[s.Version.SHA256], b.fetcher(), s.Version.SHA256
	if s.Phase == rollout.Withdraw {
		b.serve(ota.Digest{})
		return nil
	}
	if r.kills == s.Phase || r.kills != "" && s.Phase == rollout.Restore {
		b.gone = true
		return nil
	}
	if r.bad == s.Phase {
		return control.Errorf(control.HealthCheckFailed, "bad in %s", s.Phase)
	}
	_, there := b.fs.Open(stored(sum), false)
	switch s.Phase {
	case rollout.Download:
		if there == nil {
			return f.Stage(sum, stored(sum))
		}
		x, err := ota.BuildIndex(ctx, bytes.NewReader(r.content), int64(len(r.content)), 4096, nil)
		if err != nil {
			return err
		}
		_, err = f.Fetch(ctx, fetch.Artifact{URLs: []string{"https://cdn/" + sum.String()}, Index: x})
		return err
	case rollout.Stage:
		return f.Stage(sum, stored(sum))
	case rollout.Load, rollout.Restore:
		data, err := disk.ReadFile(b.fs, stored(sum), 1<<20)
		if err != nil || sha256.Sum256(data) != sum {
			return fmt.Errorf("the file is not whole: %w", err)
		}
		if b.loaded = sum; s.Phase == rollout.Restore {
			b.serve(sum)
		}
	case rollout.Switch:
		b.serve(b.loaded)
	}
	return nil
}

func (b *box) serve(sum ota.Digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving = sum
}

// Collect keeps what the state names.
func (b *box) Collect(keep map[ota.Digest]bool) error {
	names, err := b.fs.List("/state/store")
	if err != nil {
		return err
	}
	for _, n := range names {
		var sum ota.Digest
		if sum.UnmarshalText([]byte(n)) == nil && !keep[sum] {
			err = errors.Join(err, b.fs.Remove(stored(sum)))
		}
	}
	return errors.Join(err, b.fs.SyncDir("/state/store"), b.fetcher().Tidy(func(sum string) bool {
		var d ota.Digest
		return d.UnmarshalText([]byte(sum)) == nil && keep[d]
	}))
}

func (b *box) Report(r rollout.Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports = append(b.reports, r)
}

// last is the last report of an end.
func (b *box) last() rollout.Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range slices.Backward(b.reports) {
		if r.Status != rollout.Running {
			return r
		}
	}
	return rollout.Report{}
}

func store(fs disk.FS) rollout.Store {
	return rollout.Store{Disk: fs, Path: statedir + "/active.json"}
}

// life is one run of the process: it handles events until nothing is left to do, an hour
// has passed, or it is killed.
func life(t *testing.T, fs disk.FS, setup func(*box), releases []*release, events ...rollout.Event) (b *box, whole bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	faults, ok := fs.(*testdisk.Faults)
	if !ok {
		faults = &testdisk.Faults{FS: fs}
	}
	fs = faults
	b = newBox(fs, func() { faults.Die(); stop() }, releases...)
	if setup != nil {
		setup(b)
	}
	queue := make(chan rollout.Event, len(events))
	for _, e := range events {
		queue <- e
	}
	whole = testdisk.Survive(func() {
		m, err := rollout.Open(store(fs), b)
		if err != nil {
			t.Fatal(err)
		}
		err = m.Run(ctx, queue, func(s rollout.State) bool { return len(queue) == 0 && !s.Running() })
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Errorf("the machine ended: %v", err)
		}
	})
	return b, whole && !b.gone
}

// world is a disk with version 13 installed and committed.
func world(t *testing.T, old *release) *testdisk.Disk {
	t.Helper()
	d := &testdisk.Disk{}
	if b, whole := life(t, d, nil, []*release{old}, old.want(41)); !whole || b.serving != old.SHA256 || b.last().Status != rollout.Succeeded {
		t.Fatalf("the first version is not installed: %+v", b.last())
	}
	d.Restart(testdisk.Everything, 0)
	return d
}

func load(t *testing.T, d disk.FS) rollout.State {
	t.Helper()
	s, err := store(d).Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
