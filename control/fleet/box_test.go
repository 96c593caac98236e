// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"windhover/appliance/disk"
	"windhover/appliance/fetch"
	"windhover/appliance/rollout"
	"windhover/appliance/update"
	"windhover/control"
	"windhover/control/ota"
)

// simBox is an appliance of the simulation: the real client of the broker, the real
// judge of documents, the real download and the real state machine on a real disk. What
// it lacks is an engine: a model is a file that says how it does on which board.
type simBox struct {
	name, board, dir string

	server *control.Server
	up     *update.Updater
	stop   context.CancelFunc
	ended  chan struct{}
	web    func() // closes idle connections

	mu              sync.Mutex
	serving, loaded *simModel // nil: none
	network, reused int64     // bytes of downloads
	tried           map[int64]bool
	backs           int // times it went back by itself
}

// simModel is what the first line of a model file says.
type simModel struct {
	Release int64  `json:"release"`
	BadOn   string `json:"bad_on,omitempty"` // a board on which it is far too slow
}

// tps is how fast it is on a board.
func (m *simModel) tps(board string) float64 {
	if m.BadOn == board {
		return 2
	}
	return 10
}

// newSimBox starts one that belongs to the groups all and canary.
func newSimBox(t *testing.T, name, board, dir, broker string) *simBox {
	t.Helper()
	b := &simBox{name: name, board: board, dir: dir, ended: make(chan struct{}), tried: map[int64]bool{}}
	for _, d := range []string{"state", "incoming", "store"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	groups := []string{"all", "canary"}
	keys := role(t)
	judge := ota.Judge{
		Device: ota.Device{Name: name, Groups: groups, Arch: "arm64", Features: []string{"asimddp"}, VQF: []int{2, 3}, RAMBytes: 4 << 30},
		Keys:   ota.Keyring{Desired: keys, Index: keys},
	}
	client := fetch.NewClient(nil)
	b.web = client.CloseIdleConnections
	var err error
	b.up, err = update.Open(update.Config{
		Judge:  func() ota.Judge { return judge },
		Store:  rollout.Store{Disk: disk.OS{}, Path: filepath.Join(dir, "state", "active.json")},
		Fetch:  &fetch.Fetcher{Disk: disk.OS{}, Dir: filepath.Join(dir, "incoming"), Client: client, Reserve: 1},
		Clock:  func() ota.Clock { return ota.Clock{Now: time.Now(), Sane: true} },
		Device: b,
		Report: func(r control.Reported) { b.server.Report(r) },
		Bytes: func(network, reused int64) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.network, b.reused = b.network+network, b.reused+reused
		},
		Told: func(r rollout.Report) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if r.Status == rollout.Failure && r.RolledBack {
				b.backs++
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.server, err = control.New(control.Config{Device: name, StateDir: filepath.Join(dir, "control"), State: control.StateOnline, StatsEvery: time.Hour, Groups: groups, Desired: b.up.Desired}, b)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	go func() { b.up.Run(ctx); close(b.ended) }()
	ep := control.Endpoint{URL: broker}
	if err := b.server.Connect(ep, ep); err != nil {
		t.Fatal(err)
	}
	return b
}

// close stops it in an orderly way.
func (b *simBox) close() error {
	b.stop()
	<-b.ended
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	b.web()
	return b.server.Shutdown(ctx)
}

// release is what serves, 0 for nothing.
func (b *simBox) release() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.serving == nil {
		return 0
	}
	return b.serving.Release
}

// The device behind update.Updater.

func (b *simBox) Claim(string) error { return nil }

func (b *simBox) Path(sum ota.Digest) string {
	return filepath.Join(b.dir, "store", sum.String()+".vqf")
}

func (b *simBox) Has(sum ota.Digest) bool { _, err := os.Stat(b.Path(sum)); return err == nil }

func (b *simBox) Verify(_ context.Context, _ string, v rollout.Version, path string) error {
	_, err := readSim(path, v)
	return err
}

func (b *simBox) Stage(_ context.Context, _ string, v rollout.Version, move func(to string) error) error {
	return move(b.Path(v.SHA256))
}

func (b *simBox) Load(_ context.Context, _ string, v rollout.Version) error {
	m, err := readSim(b.Path(v.SHA256), v)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loaded, b.tried[m.Release] = m, true
	return nil
}

func (b *simBox) Probe(_ context.Context, _ string, _ rollout.Version, h ota.Health) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := 0.0
	if b.serving != nil {
		before = b.serving.tps(b.board)
	}
	return rollout.Healthy(h, before, rollout.Sample{Requests: 1, TPS: b.loaded.tps(b.board)})
}

func (b *simBox) Switch(context.Context, string, rollout.Version) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving, b.loaded = b.loaded, nil
	return nil
}

func (b *simBox) Restore(_ context.Context, _ string, v rollout.Version) error {
	m, err := readSim(b.Path(v.SHA256), v)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving, b.loaded = m, nil
	return nil
}

func (b *simBox) Withdraw(context.Context, string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving, b.loaded = nil, nil
	return nil
}

func (b *simBox) Sample(string) rollout.Sample {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.serving == nil {
		return rollout.Sample{}
	}
	return rollout.Sample{Requests: 10, TPS: b.serving.tps(b.board)}
}

func (b *simBox) Default(string) error { return nil }

func (b *simBox) Collect(keep map[ota.Digest]bool) error {
	entries, err := os.ReadDir(filepath.Join(b.dir, "store"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		var sum ota.Digest
		if name := e.Name(); len(name) > 64 && sum.UnmarshalText([]byte(name[:64])) == nil && !keep[sum] {
			err = errors.Join(err, os.Remove(filepath.Join(b.dir, "store", name)))
		}
	}
	return err
}

// readSim reads a model file, all of it.
func readSim(path string, v rollout.Version) (*simModel, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(data) != v.SHA256 {
		return nil, control.Errorf(control.DigestMismatch, "%s has other bytes", path)
	}
	m := new(simModel)
	line, _, _ := bytes.Cut(data, []byte("\n"))
	return m, json.Unmarshal(line, m)
}

// The backend of control.Server.

func (b *simBox) Resolve(string) (control.ModelRef, error) {
	if b.release() == 0 {
		return control.ModelRef{}, control.Errorf(control.UnknownModel, "there is no model")
	}
	return control.ModelRef{Name: "m", Version: fmt.Sprint(b.release())}, nil
}

func (b *simBox) Generate(_ context.Context, _ *control.Request, emit func(control.Event) error) (*control.Result, error) {
	err := emit(control.Event{Text: fmt.Sprintf("release %d", b.release()), Tokens: 1})
	return &control.Result{Finish: control.FinishStop}, err
}

func (b *simBox) Tokenize(context.Context, *control.Request) ([]int32, error) { return nil, nil }

func (b *simBox) JobTypes() []string { return nil }

func (b *simBox) RunJob(context.Context, control.Job, func(control.JobProgress)) (any, error) {
	return nil, control.Errorf(control.Unsupported, "there are no jobs here")
}

func (b *simBox) Info() control.Info { return control.Info{Version: "simulation"} }

func (b *simBox) Models() []control.Model {
	return []control.Model{{Name: "m", Version: fmt.Sprint(b.release()), State: "ready"}}
}

func (b *simBox) Stats() control.Stats { return control.Stats{} }

// publisher is a static web server's directory, and the fleet's key.
type publisher struct {
	dir, url string
}

// put publishes a release: the file, whose first half is the same in all of them, and
// its signed index. It returns the document that asks for it.
func (p publisher) put(t *testing.T, m simModel, size int) *ota.Desired {
	t.Helper()
	head := append(mustJSON(t, m), '\n')
	data := bytes.Repeat([]byte("weights of all releases "), size/24+1)[:size]
	copy(data[size/2:], bytes.Repeat([]byte(fmt.Sprintf("of release %5d ", m.Release)), size/32+1))
	copy(data, head)
	x, err := ota.BuildIndex(t.Context(), bytes.NewReader(data), int64(len(data)), 4096, nil)
	if err != nil {
		t.Fatal(err)
	}
	index := ota.Sign(ota.TypeIndex, x.Encode(), key).Encode()
	name := fmt.Sprintf("m-1.%d.0.vqf", m.Release)
	for file, content := range map[string][]byte{name: data, name + ".index": index} {
		if err := os.WriteFile(filepath.Join(p.dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	return &ota.Desired{
		V: 1, Rev: 1, IssuedAt: now, ExpiresAt: now.Add(24 * time.Hour), Target: canary, Keep: 2,
		Models: []ota.Model{{
			Name: "m", Version: fmt.Sprintf("1.%d.0", m.Release), Release: m.Release, URLs: []string{p.url + "/" + name},
			Size: x.Size, SHA256: x.SHA256, Index: ota.IndexRef{URL: p.url + "/" + name + ".index", SHA256: sha256.Sum256(index), Block: x.Block},
		}},
		Active: "m", Rollout: ota.Rollout{Percent: 100, Salt: "s57"}, Health: ota.Health{MinTPSRatio: 0.7, MaxErrorRatio: 0.05},
	}
}
