// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testmodel"
	"windhover/vqf/seal"
)

// works is who publishes: a web server with files, and a key that boxes trust.
type works struct {
	*httptest.Server
	key ed25519.PrivateKey
	dir string // with the key files

	mu    sync.Mutex
	files map[string][]byte
	wrong func(w http.ResponseWriter, r *http.Request) bool // answers in its place
}

func newWorks(t *testing.T) *works {
	t.Helper()
	w := &works{files: map[string][]byte{}, dir: t.TempDir()}
	pair, err := seal.NewFleetPair(filepath.Join(w.dir, "works"))
	if err != nil {
		t.Fatal(err)
	}
	if w.key, err = seal.ReadFleetSigner(pair.Private); err != nil {
		t.Fatal(err)
	}
	w.Server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		data, there := w.files[r.URL.Path]
		wrong := w.wrong
		w.mu.Unlock()
		switch {
		case wrong != nil && wrong(rw, r):
		case !there:
			http.NotFound(rw, r)
		default:
			http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(data))
		}
	}))
	t.Cleanup(w.Close)
	return w
}

// box starts an appliance that trusts it.
func (w *works) box(t *testing.T, change func(*Config)) *box {
	t.Helper()
	ca := filepath.Join(w.dir, "ca.pem")
	writeBytes(t, ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw}))
	pub, err := os.ReadFile(filepath.Join(w.dir, "works"+seal.SuffixFleet))
	if err != nil {
		t.Fatal(err)
	}
	return startBox(t, func(c *Config) {
		writeBytes(t, filepath.Join(c.Paths.Trust, "works"+seal.SuffixFleet), pub)
		c.Updates.CAFile, c.MQTT.Groups = ca, []string{"all"}
		if change != nil {
			change(c)
		}
	})
}

// publish puts a model on the server and describes it.
func (w *works) publish(t *testing.T, name string, release int64, content []byte) ota.Model {
	t.Helper()
	x, err := ota.BuildIndex(t.Context(), bytes.NewReader(content), int64(len(content)), 64<<10, nil)
	if err != nil {
		t.Fatal(err)
	}
	index := ota.Sign(ota.TypeIndex, x.Encode(), w.key).Encode()
	path := "/" + x.SHA256.String()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files[path], w.files[path+".index"] = content, index
	return ota.Model{Name: name, Version: "1." + string(rune('0'+release)), Release: release, URLs: []string{w.URL + path}, Size: x.Size, SHA256: x.SHA256,
		Index: ota.IndexRef{URL: w.URL + path + ".index", SHA256: sha256.Sum256(index), Block: x.Block}}
}

func (w *works) document(rev int64, m ota.Model, change func(*ota.Desired)) *ota.Envelope {
	d := &ota.Desired{V: 1, Rev: rev, IssuedAt: time.Now().Add(-time.Minute), ExpiresAt: time.Now().Add(time.Hour), Target: ota.Target{Group: "all"}, Keep: 2,
		Models: []ota.Model{m}, Active: m.Name, Rollout: ota.Rollout{Percent: 100}, Health: ota.Health{MaxErrorRatio: 0.5}}
	if change != nil {
		change(d)
	}
	return ota.Sign(ota.TypeDesired, d.Encode(), w.key)
}

// fleetEar hears what a box reports, and publishes for a fleet.
type fleetEar struct {
	*control.Monitor
	last control.Reported
}

func (b *box) watch(t *testing.T) *fleetEar {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	topics := control.Topics{Device: b.cfg.Device}
	var m *control.Monitor
	until(t, "the broker answers", func() bool {
		var err error
		m, err = control.DialMonitor(ctx, control.Endpoint{URL: "mqtt://" + b.cfg.MQTT.Embedded.Listen}, []string{topics.Reported()})
		return err == nil
	})
	t.Cleanup(m.Close)
	return &fleetEar{Monitor: m}
}

// heard waits until the last report fulfils a condition.
func (w *fleetEar) heard(t *testing.T, what string, ok func(control.Reported) bool) control.Reported {
	t.Helper()
	until(t, what, func() bool {
		w.Take(func(_ string, payload []byte) {
			if r, err := control.DecodeReported(payload); err == nil {
				w.last = *r
			}
		})
		return ok(w.last)
	})
	return w.last
}

func (w *fleetEar) desired(e *ota.Envelope) { w.Publish(control.GroupDesired("all"), e.Encode()) }

func at(rev int64, status string) func(control.Reported) bool {
	return func(r control.Reported) bool { return r.Rev == rev && r.Status == status }
}

// versions of one model that differ.
func versionOfModel(t *testing.T, seed uint64) []byte {
	t.Helper()
	return tinyModel(t, func(c *testmodel.Config) { c.Random, c.Seed = true, seed })
}

// A document over the broker ends in a model that serves, another one in its
// successor, a bad one in what was before; all that over a restart.
func TestUpdatesOverTheAir(t *testing.T) {
	w := newWorks(t)
	b := w.box(t, nil)
	f := b.watch(t)
	one := w.publish(t, "m", 1, versionOfModel(t, 1))
	f.desired(w.document(1, one, nil))
	f.heard(t, "the first version", at(1, control.DesiredCurrent))
	b.ready(t, "m")
	e := b.metrics(t)
	network, reused, back := e.sum("windhover_ota_bytes_total", `source="network"`), e.sum("windhover_ota_bytes_total", `source="reused"`), e.sum("windhover_rollbacks_total")
	if network < float64(one.Size) || network > float64(one.Size+64<<10) || reused != 0 || back != 0 {
		t.Errorf("a first version of %d bytes: %v from the network, %v reused, %v taken back", one.Size, network, reused, back)
	}
	c := b.client(t, "you")
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	answers := func(sum ota.Digest) {
		t.Helper()
		a, err := c.Send(ctx, request("hello", 4), nil)
		if err != nil || a.Done.Model.SHA256 != sum.String() {
			t.Fatalf("answered by %+v, %v; want %s", a, err, sum)
		}
	}
	answers(one.SHA256)
	doc, err := LocalStatus(ctx, b.cfg)
	if err != nil || doc.Models[0].Trust != trustFleet || !doc.Models[0].Default {
		t.Errorf("status %+v, %v", doc.Models, err)
	}
	two := w.publish(t, "m", 2, versionOfModel(t, 2))
	f.desired(w.document(2, two, nil))
	f.heard(t, "the second version", at(2, control.DesiredCurrent))
	answers(two.SHA256)
	bad := versionOfModel(t, 3)
	bad = bad[:len(bad)/2] // signed, and no model
	three := w.publish(t, "m", 3, bad)
	f.desired(w.document(3, three, nil))
	r := f.heard(t, "the bad one is refused", at(3, control.DesiredFailed))
	if m := r.Models[0]; m.Error == nil || m.Serves != two.Version {
		t.Errorf("reported %+v", m)
	}
	answers(two.SHA256)
	b.restart(t)
	b.connected(t)
	b.ready(t, "m")
	c = b.client(t, "you")
	answers(two.SHA256)
	left, err := os.ReadDir(b.cfg.Paths.downloads())
	if err != nil || len(left) != 0 {
		t.Errorf("left of downloads: %v, %v", left, err)
	}
	versioned(t, b.cfg.Paths)
}

// Each attack, once over the wire.
func TestUpdateAttacksOverTheWire(t *testing.T) {
	w := newWorks(t)
	b := w.box(t, nil)
	f := b.watch(t)
	good := w.publish(t, "m", 5, versionOfModel(t, 1))
	f.desired(w.document(4, good, nil))
	f.heard(t, "a good version", at(4, control.DesiredCurrent))
	stranger := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))
	next := w.publish(t, "m", 6, versionOfModel(t, 2))
	changed := w.document(10, next, nil)
	changed.Payload = append(changed.Payload, '\n')
	unsigned := w.document(10, next, nil)
	unsigned.Signatures = nil
	older := good
	older.Release = 1
	for _, c := range []struct {
		name string
		doc  *ota.Envelope
		want control.Code
	}{
		{"unsigned", unsigned, control.SignatureMissing},
		{"changed", changed, control.SignatureInvalid},
		{"key unknown", ota.Sign(ota.TypeDesired, w.document(10, next, nil).Payload, stranger), control.KeyUnknown},
		{"older document", w.document(3, good, nil), control.RollbackRejected},
		{"older release", w.document(11, older, nil), control.RollbackRejected},
		{"freeze", w.document(11, next, func(d *ota.Desired) {
			d.IssuedAt, d.ExpiresAt = time.Now().Add(-3*time.Hour), time.Now().Add(-2*time.Hour)
		}), control.ManifestExpired},
		{"wrong target", w.document(11, next, func(d *ota.Desired) { d.Target = ota.Target{Device: "another"} }), control.WrongTarget},
		{"mix and match", ota.Sign(ota.TypeRelease, ota.ReleaseOf(&next, time.Now()).Encode(), w.key), control.MixAndMatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			f.desired(c.doc)
			r := f.heard(t, "refused", func(r control.Reported) bool { return r.Error != nil && errors.Is(r.Error, c.want) })
			if r.Status != control.DesiredFailed || b.serves(t, "m") != good.SHA256.String() {
				t.Errorf("reported %+v", r)
			}
		})
	}
	for i, c := range []struct {
		name  string
		wrong func(rw http.ResponseWriter, r *http.Request) bool
		want  control.Code
	}{
		{"other bytes", func(rw http.ResponseWriter, r *http.Request) bool {
			http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(bytes.Repeat([]byte{1}, int(next.Size))))
			return true
		}, control.DigestMismatch},
		{"endless data", func(rw http.ResponseWriter, r *http.Request) bool {
			http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(make([]byte, 10*next.Size)))
			return true
		}, control.EndlessData},
		{"gone", func(rw http.ResponseWriter, r *http.Request) bool { http.NotFound(rw, r); return true }, control.SourceGone},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.mu.Lock()
			w.wrong = func(rw http.ResponseWriter, r *http.Request) bool {
				return !strings.HasSuffix(r.URL.Path, ".index") && c.wrong(rw, r)
			}
			w.mu.Unlock()
			rev := int64(20 + i)
			f.desired(w.document(rev, next, nil))
			r := f.heard(t, "failed", at(rev, control.DesiredFailed))
			if len(r.Models) != 1 || !errors.Is(r.Models[0].Error, c.want) || b.serves(t, "m") != good.SHA256.String() {
				t.Errorf("reported %+v, want %s", r, c.want.Name)
			}
		})
	}
	w.mu.Lock()
	w.wrong = nil
	w.mu.Unlock()
	f.desired(w.document(30, next, nil))
	f.heard(t, "a good document after all that", at(30, control.DesiredCurrent))
}

// serves is the digest of the version that serves.
func (b *box) serves(t *testing.T, name string) string {
	t.Helper()
	doc, err := LocalStatus(context.Background(), b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range doc.Models {
		if m.Name == name && m.State == stateReady {
			return m.SHA256
		}
	}
	return ""
}

// job gives a command through the socket.
func (b *box) job(t *testing.T, typ, id string, params any) (*control.JobRecord, error) {
	t.Helper()
	p, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	return LocalJob(ctx, b.cfg, JobRequest{Type: typ, Client: "ops", ID: id, Params: p}, nil)
}

// Commands about models through the socket: install, activate, roll back, remove, and
// those about the box.
func TestModelJobs_P129(t *testing.T) {
	w := newWorks(t)
	b := w.box(t, nil)
	install := func(id string, m ota.Model) (*control.JobRecord, error) {
		return b.job(t, "model_install", id, map[string]any{"record": ota.Sign(ota.TypeRelease, ota.ReleaseOf(&m, time.Now()).Encode(), w.key), "urls": m.URLs,
			"health": ota.Health{MaxErrorRatio: 0.5}})
	}
	one, two := w.publish(t, "m", 1, versionOfModel(t, 1)), w.publish(t, "m", 2, versionOfModel(t, 2))
	other := w.publish(t, "other", 1, versionOfModel(t, 3))
	for i, m := range []ota.Model{one, two, other} {
		rec, err := install("i"+string(rune('0'+i)), m)
		if err != nil || rec.Status != control.JobSucceeded || b.serves(t, m.Name) != m.SHA256.String() {
			t.Fatalf("install %s: %+v, %v", m.Version, rec, err)
		}
	}
	if rec, err := b.job(t, "model_rollback", "r", map[string]string{"model": "m"}); err != nil {
		t.Errorf("rollback: %+v, %v", rec, err)
	}
	until(t, "the first version serves again", func() bool { return b.serves(t, "m") == one.SHA256.String() })
	if _, err := install("again", two); !errors.Is(err, control.HealthCheckFailed) {
		t.Errorf("what was rolled back: %v", err)
	}
	if _, err := b.job(t, "model_activate", "a", map[string]string{"model": "m"}); err != nil {
		t.Errorf("activate: %v", err)
	}
	b.restart(t)
	b.ready(t, "m")
	b.ready(t, "other")
	doc, err := LocalStatus(context.Background(), b.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range doc.Models {
		if m.Default != (m.Name == "m") {
			t.Errorf("%s: default %v after a restart", m.Name, m.Default)
		}
	}
	// A dropped file of the same name is refused, and what serves goes on.
	b.drop(t, "m.vqf", versionOfModel(t, 4))
	until(t, "the dropped file is refused", func() bool { return exists(filepath.Join(b.cfg.Paths.drop(), "m.vqf.failed")) })
	if b.serves(t, "m") != one.SHA256.String() {
		t.Error("a dropped file took the place of a model of the fleet")
	}
	// And the other way about.
	b.drop(t, "mine.vqf", versionOfModel(t, 5))
	b.ready(t, "mine")
	if _, err := install("mine", w.publish(t, "mine", 1, versionOfModel(t, 6))); !errors.Is(err, control.Incompatible) {
		t.Errorf("a name that is taken: %v", err)
	}
	for _, name := range []string{"other", "mine"} {
		if rec, err := b.job(t, "model_remove", "rm-"+name, map[string]string{"model": name}); err != nil {
			t.Errorf("remove %s: %+v, %v", name, rec, err)
		}
		until(t, name+" is gone", func() bool { return b.serves(t, name) == "" })
	}
	if exists(filepath.Join(b.cfg.Paths.drop(), "mine.vqf")) {
		t.Error("the dropped file of a removed model is still there")
	}
	for _, typ := range []string{"gc", "diag", "config_reload"} {
		rec, err := b.job(t, typ, typ, struct{}{})
		if err != nil || rec.Status != control.JobSucceeded || string(rec.Result) == "{}" {
			t.Errorf("%s: %+v, %v", typ, rec, err)
		}
	}
	if _, err := b.job(t, "job_cancel", "c", map[string]string{"target": "none"}); !errors.Is(err, control.UnknownJob) {
		t.Errorf("cancel of nothing: %v", err)
	}
}

// A state of a later program is refused untouched: the box serves what is dropped.
func TestUpdatesOfALaterProgram_P113(t *testing.T) {
	w := newWorks(t)
	later := []byte(`{"v":99,"models":{}}`)
	var path string
	b := w.box(t, func(c *Config) {
		path = filepath.Join(c.Paths.state(), "active.json")
		writeBytes(t, path, later)
	})
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, later) {
		t.Errorf("the state is now %q, %v", got, err)
	}
	if _, err := b.job(t, "model_rollback", "r", map[string]string{"model": "m"}); !errors.Is(err, control.Unsupported) {
		t.Errorf("a command about models: %v", err)
	}
}
