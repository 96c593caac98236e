// SPDX-License-Identifier: Apache-2.0

package update_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"windhover/appliance/disk"
	"windhover/appliance/fetch"
	"windhover/appliance/rollout"
	"windhover/appliance/update"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

const (
	name     = "m"
	state    = "/state/state"
	incoming = "/state/incoming"
	block    = 4096
)

// key is the fleet's.
var key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{'k'}, ed25519.SeedSize))

// release is a version with its content, its index and what is wrong with it.
type release struct {
	ota.Model
	content []byte
	index   []byte
	bad     rollout.Phase // which fails
}

func newRelease(t testing.TB, n int64) *release {
	t.Helper()
	r := &release{content: bytes.Repeat([]byte(fmt.Sprintf("release %d ", n)), 2000)}
	x, err := ota.BuildIndex(t.Context(), bytes.NewReader(r.content), int64(len(r.content)), block, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.index = ota.Sign(ota.TypeIndex, x.Encode(), key).Encode()
	url := fmt.Sprintf("https://cdn.example/%d.vqf", n)
	r.Model = ota.Model{Name: name, Version: fmt.Sprintf("1.%d.0", n), Release: n, URLs: []string{url}, Size: x.Size, SHA256: x.SHA256,
		Index: ota.IndexRef{URL: url + ".index", SHA256: sha256.Sum256(r.index), Block: block}}
	return r
}

// record is the signed release.
func (r *release) record(keys ...ed25519.PrivateKey) *ota.Envelope {
	return ota.Sign(ota.TypeRelease, ota.ReleaseOf(&r.Model, time.Now()).Encode(), keys...)
}

// document wants a release, of every box of a group.
func document(rev int64, r *release, change func(*ota.Desired)) []byte {
	d := &ota.Desired{V: 1, Rev: rev, IssuedAt: time.Now(), ExpiresAt: time.Now().Add(24 * time.Hour), Target: ota.Target{Group: "all"}, Keep: 2,
		Models: []ota.Model{r.Model}, Active: r.Name, Rollout: ota.Rollout{Salt: "s", Percent: 100}, Health: ota.Health{ObserveS: 60, MaxErrorRatio: 0.1}}
	if change != nil {
		change(d)
	}
	return ota.Sign(ota.TypeDesired, d.Encode(), key).Encode()
}

// device is an appliance without an engine: a model is a file that can be read.
type device struct {
	fs       disk.FS
	releases map[ota.Digest]*release

	mu       sync.Mutex
	serving  map[string]ota.Digest
	loaded   ota.Digest
	taken    string // a name that somebody has
	dflt     string
	sample   rollout.Sample
	reported []control.Reported
	events   []string
}

func stored(sum ota.Digest) string { return "/state/store/" + sum.String() }

func (d *device) Claim(model string) error {
	if model == d.taken {
		return control.Errorf(control.Incompatible, "the name is taken")
	}
	return nil
}
func (d *device) Path(sum ota.Digest) string { return stored(sum) }
func (d *device) Has(sum ota.Digest) bool {
	data, err := disk.ReadFile(d.fs, stored(sum), 1<<20)
	return err == nil && sha256.Sum256(data) == sum
}
func (d *device) Verify(_ context.Context, _ string, v rollout.Version, path string) error {
	data, err := disk.ReadFile(d.fs, path, 1<<20)
	if err != nil || sha256.Sum256(data) != v.SHA256 {
		return fmt.Errorf("the file is not whole: %w", err)
	}
	return d.fails(v, rollout.Verify)
}
func (d *device) Stage(_ context.Context, _ string, v rollout.Version, move func(string) error) error {
	return move(stored(v.SHA256))
}
func (d *device) fails(v rollout.Version, p rollout.Phase) error {
	if r := d.releases[v.SHA256]; r != nil && r.bad == p {
		return errors.New("bad in " + string(p))
	}
	return nil
}
func (d *device) Load(_ context.Context, _ string, v rollout.Version) error {
	if !d.Has(v.SHA256) {
		return errors.New("the file is not whole")
	}
	d.loaded = v.SHA256
	return d.fails(v, rollout.Load)
}
func (d *device) Probe(_ context.Context, _ string, v rollout.Version, _ ota.Health) error {
	return d.fails(v, rollout.Probe)
}
func (d *device) Switch(_ context.Context, model string, v rollout.Version) error {
	d.serve(model, v.SHA256)
	return nil
}
func (d *device) Restore(_ context.Context, model string, v rollout.Version) error {
	if !d.Has(v.SHA256) {
		return errors.New("the file is not whole")
	}
	d.serve(model, v.SHA256)
	return nil
}
func (d *device) Withdraw(_ context.Context, model string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.serving, model)
	return nil
}
func (d *device) serve(model string, sum ota.Digest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serving[model] = sum
}
func (d *device) Sample(string) rollout.Sample {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sample
}
func (d *device) Default(model string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.serving[model] == (ota.Digest{}) {
		return control.Errorf(control.UnknownModel, "no model %q serves", model)
	}
	d.dflt = model
	return nil
}
func (d *device) Collect(keep map[ota.Digest]bool) error {
	names, err := d.fs.List("/state/store")
	if err != nil {
		return err
	}
	for _, n := range names {
		var sum ota.Digest
		if sum.UnmarshalText([]byte(n)) == nil && !keep[sum] {
			err = errors.Join(err, d.fs.Remove(stored(sum)))
		}
	}
	return err
}

// cdn is a web server without a network.
type cdn struct {
	mu     sync.Mutex
	files  map[string][]byte
	down   bool // it answers 503
	asked  int
	change func(req *http.Request, resp *http.Response)
}

func (c *cdn) put(r *release) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[r.URLs[0]], c.files[r.Index.URL] = r.content, r.index
}

func (c *cdn) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	data, there := c.files[req.URL.String()]
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Request: req, ContentLength: int64(len(data)), Body: io.NopCloser(bytes.NewReader(data))}
	var first, last int
	switch n, _ := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &first, &last); {
	case c.down:
		resp.StatusCode, resp.Body, resp.ContentLength = 503, http.NoBody, 0
	case !there:
		resp.StatusCode, resp.Body, resp.ContentLength = 404, http.NoBody, 0
	case n == 2 && first < len(data):
		last = min(last, len(data)-1)
		resp.StatusCode, resp.ContentLength = 206, int64(last-first+1)
		resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(data)))
		resp.Body = io.NopCloser(bytes.NewReader(data[first : last+1]))
	}
	if c.change != nil {
		c.change(req, resp)
	}
	return resp, nil
}

// count is how many requests came.
func (c *cdn) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// rig is a box that is running.
type rig struct {
	*update.Updater
	t    *testing.T
	d    *device
	web  *cdn
	sane bool
	stop func()
}

// start runs a box on a disk, inside a bubble of testing/synctest.
func start(t *testing.T, fs disk.FS, web *cdn, setup func(*rig, *update.Config)) *rig {
	t.Helper()
	r := &rig{t: t, web: web, sane: true, d: &device{fs: fs, serving: map[string]ota.Digest{}, releases: map[ota.Digest]*release{}}}
	role, err := ota.NewRole(1, ota.Key{Name: "k", Public: key.Public().(ed25519.PublicKey)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := update.Config{
		Judge: func() ota.Judge {
			return ota.Judge{Device: ota.Device{Name: "box", Groups: []string{"all"}, Arch: "arm64", VQF: []int{2, 3}, RAMBytes: 1 << 30},
				Keys: ota.Keyring{Desired: role, Index: role}}
		},
		Clock:  func() ota.Clock { return ota.Clock{Now: time.Now(), Sane: r.sane} },
		Store:  rollout.Store{Disk: fs, Path: state + "/active.json"},
		Fetch:  &fetch.Fetcher{Disk: fs, Dir: incoming, Client: &http.Client{Transport: web}, Reserve: 1, Attempts: 2},
		Device: r.d,
		Report: func(rep control.Reported) {
			r.d.mu.Lock()
			defer r.d.mu.Unlock()
			r.d.reported = append(r.d.reported, rep)
		},
		Event: func(o control.Occurrence) {
			r.d.mu.Lock()
			defer r.d.mu.Unlock()
			r.d.events = append(r.d.events, strings.TrimSpace(o.Event+" "+o.Code))
		},
		Retry: func(tries int) time.Duration { return time.Minute << tries },
	}
	if setup != nil {
		setup(r, &cfg)
	}
	if r.Updater, err = update.Open(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.stop = func() { cancel(); <-done }
	return r
}

// wait lets time pass until a condition holds, for an hour of the bubble at most.
func (r *rig) wait(what string, cond func() bool) {
	r.t.Helper()
	for range 3600 {
		synctest.Wait()
		if cond() {
			return
		}
		time.Sleep(time.Second) // of the bubble
	}
	r.t.Fatalf("never: %s; %+v", what, r.last())
}

func (r *rig) last() control.Reported {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if len(r.d.reported) == 0 {
		return control.Reported{}
	}
	return r.d.reported[len(r.d.reported)-1]
}

func (r *rig) serves(sum ota.Digest) bool {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	return r.d.serving[name] == sum
}

func newDisk() *testdisk.Disk { return &testdisk.Disk{} }

func newCDN(list ...*release) *cdn {
	c := &cdn{files: map[string][]byte{}}
	for _, r := range list {
		c.put(r)
	}
	return c
}
