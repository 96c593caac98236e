// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"windhover/control"
	"windhover/engine"
	"windhover/vqf"
)

// noPassphrase is a box without one.
func noPassphrase() *passphrase { return &passphrase{getenv: func(string) string { return "" }} }

var codeForTest = control.Internal

// rig is a deployer on a directory of its own, with the real engine unless a
// test replaces load.
type rig struct {
	*deployer
	mu     sync.Mutex
	events []string
	clock  time.Time
	env    map[string]string
	woken  chan struct{} // asked for a scan
}

func newRig(t *testing.T, state string) *rig {
	t.Helper()
	p := Paths{State: state}
	if err := makeState(p); err != nil {
		t.Fatal(err)
	}
	b, err := openBook(filepath.Join(p.state(), "installed.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{clock: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	r.deployer = newDeployer(p, b)
	r.check, r.reg, r.probe, r.log = "install", newRegistry(nil), probeModel, slog.New(slog.DiscardHandler)
	r.env = map[string]string{}
	r.who = newAuthority(Config{Paths: Paths{Trust: filepath.Join(state, "trust.d")}}, func(name string) string { return r.env[name] }, r.log)
	r.event = func(o control.Occurrence) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, strings.TrimSpace(o.Event+" "+o.Model+" "+o.Code))
	}
	r.space = func() (int64, bool) { return 0, false }
	r.memory, r.now = func() int64 { return 0 }, func() time.Time { return r.clock }
	r.woken = make(chan struct{}, 1)
	r.wake = func() {
		select {
		case r.woken <- struct{}{}:
		default:
		}
	}
	r.load = func(_ context.Context, weights string, in installed) (servable, error) {
		key, err := r.who.pass.keyOf(weights)
		if err != nil {
			return nil, err
		}
		m, err := engine.Load(weights, engine.Options{Threads: 1, VQF: vqf.OpenOptions{Key: key, Verified: in.compared(key, weights)}})
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGIO)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		r.leases.watch(ctx, signals)
	}()
	r.recall()
	t.Cleanup(func() {
		r.close(context.Background())
		stop()
		<-watching
		signal.Stop(signals)
	})
	return r
}

func (r *rig) put(t *testing.T, name string, data []byte) {
	t.Helper()
	tmp := filepath.Join(r.drop, "."+filepath.Base(name)+".part")
	writeBytes(t, tmp, data)
	if err := os.MkdirAll(filepath.Dir(filepath.Join(r.drop, name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(r.drop, name)); err != nil {
		t.Fatal(err)
	}
}

// states is "name state" of every model, the default with a star.
func (r *rig) states() string {
	var list []string
	for _, d := range r.reg.list() {
		s := d.Name + " " + d.State
		if d.Default {
			s += "*"
		}
		if d.Error != nil {
			s += " " + d.Error.Code.Name
		}
		list = append(list, s)
	}
	return strings.Join(list, ", ")
}

func expect(t *testing.T, r *rig, want string) {
	t.Helper()
	if got := r.states(); got != want {
		t.Fatalf("models: got %q, want %q", got, want)
	}
}
