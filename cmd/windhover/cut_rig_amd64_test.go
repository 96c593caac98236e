// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"windhover/appliance/rollout"
	"windhover/control"
	"windhover/control/broker"
	"windhover/control/ota"
	"windhover/internal/testcut"
	"windhover/internal/testmodel"
	"windhover/vqf/seal"
)

// patience is how long anything may take that should be quick, on a machine that others
// use too.
const patience = 90 * time.Second

// publisher is a web server with the files of versions, and the key of a fleet.
type publisher struct {
	*httptest.Server
	dir   string // with the key of the fleet and the certificate of the server
	key   ed25519.PrivateKey
	files map[string][]byte
	asked atomic.Int64
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{dir: t.TempDir(), files: map[string][]byte{}}
	pair, err := seal.NewFleetPair(filepath.Join(p.dir, "works"))
	if err == nil {
		p.key, err = seal.ReadFleetSigner(pair.Private)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		data, there := p.files[r.URL.Path]
		if !there {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(p.Close)
	put(t, filepath.Join(p.dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}))
	return p
}

// publish puts a version on the server, before anybody asks.
func (p *publisher) publish(t *testing.T, release int64, content []byte) ota.Model {
	t.Helper()
	x, err := ota.BuildIndex(t.Context(), bytes.NewReader(content), int64(len(content)), 64<<10, nil)
	if err != nil {
		t.Fatal(err)
	}
	index := ota.Sign(ota.TypeIndex, x.Encode(), p.key).Encode()
	path := "/" + x.SHA256.String()
	p.files[path], p.files[path+".index"] = content, index
	return ota.Model{Name: "m", Version: fmt.Sprintf("1.%d", release), Release: release, URLs: []string{p.URL + path}, Size: x.Size, SHA256: x.SHA256,
		Index: ota.IndexRef{URL: p.URL + path + ".index", SHA256: sha256.Sum256(index), Block: x.Block}}
}

// document wants a version, of every box of the group.
func (p *publisher) document(rev int64, m ota.Model, observe int) []byte {
	d := &ota.Desired{V: 1, Rev: rev, IssuedAt: time.Now().Add(-time.Minute), ExpiresAt: time.Now().Add(24 * time.Hour), Target: ota.Target{Group: "all"}, Keep: 2,
		Models: []ota.Model{m}, Active: m.Name, Rollout: ota.Rollout{Percent: 100}, Health: ota.Health{MaxErrorRatio: 0.5, ObserveS: observe}}
	return ota.Sign(ota.TypeDesired, d.Encode(), p.key).Encode()
}

// record is a version as a command names it.
func (p *publisher) record(m ota.Model) *ota.Envelope {
	return ota.Sign(ota.TypeRelease, ota.ReleaseOf(&m, time.Now()).Encode(), p.key)
}

// modelBytes is a tiny model; others come of other seeds.
func modelBytes(t *testing.T, seed uint64, change func(*testmodel.Config)) []byte {
	t.Helper()
	c := testmodel.Default()
	c.Random, c.Seed = true, seed
	if change != nil {
		change(&c)
	}
	data, err := os.ReadFile(testmodel.Write(t, c))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// cutBox is a box in processes of its own, on a broker of its own, which outlives them.
type cutBox struct {
	t      *testing.T
	dir    string // of the configuration
	state  string
	socket string
	broker *broker.Broker
	ear    *control.Monitor
	log    *os.File
	boot   string // of the last start
	given  string // id of the last command

	// What came last.
	status   control.Status
	reported control.Reported
	jobs     map[string]control.JobRecord // by id
}

// newCutBox makes a box whose state begins as that of another one; "" for none.
func newCutBox(t *testing.T, p *publisher, from string) *cutBox {
	t.Helper()
	b := &cutBox{t: t, dir: t.TempDir(), jobs: map[string]control.JobRecord{}}
	b.state = filepath.Join(b.dir, "state")
	if from != "" {
		clone(t, from, b.state)
	}
	var err error
	if b.broker, err = broker.Start(broker.Options{Listen: "127.0.0.1:0", Dir: filepath.Join(b.dir, "broker")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.broker.Close)
	pub, err := os.ReadFile(filepath.Join(p.dir, "works"+seal.SuffixFleet))
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(b.dir, "trust.d", "works"+seal.SuffixFleet), pub)
	b.socket = shortDir(t) + "/s"
	put(t, filepath.Join(b.dir, "config.toml"), fmt.Appendf(nil, `device = "box"
[paths]
state = %q
trust = %q
socket = %q
[mqtt]
url = %q
groups = ["all"]
broker_enforces_acl = true
[http]
listen = ""
[engine]
threads = 1
[audit]
file = %q
[updates]
ca_file = %q
[[policy]]
client = "ops"
allow = ["*"]
`, b.state, filepath.Join(b.dir, "trust.d"), b.socket, b.broker.URL(), filepath.Join(b.state, "audit", "audit.jsonl"), filepath.Join(p.dir, "ca.pem")))
	if b.log, err = os.Create(filepath.Join(b.dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			b.tell()
		}
		if err := b.log.Close(); err != nil {
			t.Error(err)
		}
	})
	topics := control.Topics{Device: "box"}
	b.ear, err = control.DialMonitor(t.Context(), control.Endpoint{URL: b.broker.URL()}, []string{topics.Status(), topics.Reported(), topics.Job("+", "+")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.ear.Close)
	return b
}

// shortDir is a directory whose path leaves room for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wh")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // of no importance for the test
	return dir
}

// clone copies the state of a box that does not run. Weights, which nobody writes to,
// are linked.
func clone(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		fi, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			return errors.Join(os.MkdirAll(dst, 0o750), os.Chmod(dst, fi.Mode()))
		case strings.HasSuffix(path, ".vqf"):
			return os.Link(path, dst)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(dst, data, fi.Mode())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tell shows the end of the log.
func (b *cutBox) tell() {
	data, err := os.ReadFile(b.log.Name())
	if err != nil {
		b.t.Log(err)
		return
	}
	b.t.Logf("log of the box:\n%s", data[max(0, len(data)-8<<10):])
}

func (b *cutBox) args() []string {
	self, err := exec.LookPath("windhover")
	if err != nil {
		b.t.Fatal(err)
	}
	return []string{self, "serve", "--config", filepath.Join(b.dir, "config.toml")}
}

// start runs the box, with a cut at one of the changes of its state.
func (b *cutBox) start(cut testcut.Cut) *testcut.Process {
	b.t.Helper()
	stage, err := exec.LookPath(tracedCommand)
	if err != nil {
		b.t.Fatal(err)
	}
	cut.Dir = b.state
	p, err := testcut.Start(cut, stage, b.args(), os.Environ(), b.log)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { p.Signal(syscall.SIGKILL); <-p.Done() })
	return p
}

// listen takes what came meanwhile. The version of a job's record never goes back.
func (b *cutBox) listen() {
	b.ear.Take(func(topic string, payload []byte) {
		switch {
		case len(payload) == 0:
		case strings.HasSuffix(topic, "/status"):
			b.decode(payload, &b.status)
		case strings.HasSuffix(topic, "/reported"):
			b.reported = control.Reported{}
			b.decode(payload, &b.reported)
		default:
			var r control.JobRecord
			b.decode(payload, &r)
			// The id of a refused command may be used again.
			if old, known := b.jobs[r.ID]; known && (r.Version < old.Version || old.Final() && r.Status != old.Status && old.Status != control.JobRejected) {
				b.t.Errorf("job %s: after %d %s comes %d %s", r.ID, old.Version, old.Status, r.Version, r.Status)
			}
			b.jobs[r.ID] = r
		}
	})
}

func (b *cutBox) decode(payload []byte, v any) {
	if err := json.Unmarshal(payload, v); err != nil {
		b.t.Errorf("%q: %v", payload, err)
	}
}

// until waits for something; it is false if the process ends before.
func (b *cutBox) until(what string, p *testcut.Process, ok func() bool) bool {
	b.t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-look.C {
		b.listen()
		if ok() {
			return true
		}
		select {
		case <-p.Done():
			return false
		default:
		}
	}
	b.t.Fatalf("never: %s; status %+v, reported %+v, jobs %+v", what, b.status, b.reported, b.jobs)
	return false
}

// online waits until the broker has a box of this start.
func (b *cutBox) online(p *testcut.Process) bool {
	b.t.Helper()
	if !b.until("the box is online", p, func() bool { return b.status.State == control.StateOnline && b.status.Boot != b.boot }) {
		return false
	}
	b.boot = b.status.Boot
	return true
}

// ask returns what answers, by digest, and its text; "" if the process ends before.
func (b *cutBox) ask(p *testcut.Process) (sum, text string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	c, err := control.DialClient(ctx, control.ClientConfig{Endpoint: control.Endpoint{URL: b.broker.URL()}, Device: "box", Name: "me", AnswerWithin: 2 * time.Second})
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	zero := float32(0)
	b.until("an answer", p, func() bool {
		a, err := c.Send(ctx, &control.Request{Op: control.OpGenerate, Prompt: "hello", MaxTokens: 6, Temperature: &zero, Stream: true, StreamQoS: 1, FinalText: true, RepeatPenalty: 1}, nil)
		if err == nil {
			sum, text = a.Done.Model.SHA256, a.Text
		}
		return err == nil
	})
	return sum, text
}

// stop ends a box in order.
func (b *cutBox) stop(p *testcut.Process) {
	b.t.Helper()
	p.Signal(syscall.SIGTERM)
	if ws, err := p.Wait(); err != nil || ws.ExitStatus() != 0 {
		b.t.Fatalf("the box ends by %v, %v", ws, err)
	}
}

// remembered is active.json.
func (b *cutBox) remembered() rollout.State {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.state, "state", "active.json"))
	if err != nil {
		b.t.Fatal(err)
	}
	var s rollout.State
	b.decode(data, &s)
	return s
}

// whole says what is wrong with the files of a box that has stopped, "" for nothing:
// nothing half done is left, and what is in the store is what its name says.
func (b *cutBox) whole() string {
	for _, dir := range []string{"incoming", "incoming/updates"} {
		left, err := filepath.Glob(filepath.Join(b.state, dir, "*"))
		if err != nil {
			return err.Error()
		}
		for _, path := range left {
			if fi, err := os.Stat(path); err != nil || !fi.IsDir() || filepath.Base(path) != "updates" {
				return "left: " + path
			}
		}
	}
	stored, err := filepath.Glob(filepath.Join(b.state, "store", "*"))
	if err != nil || len(stored) > 2 {
		return fmt.Sprintf("in the store: %v, %v", stored, err)
	}
	for _, dir := range stored {
		data, err := os.ReadFile(filepath.Join(dir, "model.vqf"))
		if err != nil || filepath.Base(dir) != fmt.Sprintf("sha256-%x", sha256.Sum256(data)) {
			return fmt.Sprintf("%s is not what it is called: %v", dir, err)
		}
	}
	var temporary []string
	for _, dir := range []string{"state", "state/jobs", "drop", "store"} {
		list, err := filepath.Glob(filepath.Join(b.state, dir, ".*"))
		if err != nil {
			return err.Error()
		}
		temporary = append(temporary, list...)
	}
	if len(temporary) > 0 {
		return fmt.Sprintf("temporary files: %v", temporary)
	}
	return b.audited()
}

// audited says what is wrong with the audit files, "" for nothing: their chain holds, to
// the stop at its end.
func (b *cutBox) audited() string {
	paths, err := filepath.Glob(filepath.Join(b.state, "audit", "audit.jsonl*"))
	if err != nil {
		return err.Error()
	}
	r, err := verifyAudit(b.t.Context(), paths, nil)
	if err != nil {
		return err.Error()
	}
	data, err := os.ReadFile(filepath.Join(b.state, "audit", "audit.jsonl"))
	if lines := strings.Split(string(data), "\n"); err != nil || !r.OK || len(lines) < 2 || !strings.Contains(lines[len(lines)-2], `"kind":"stop"`) {
		return fmt.Sprintf("audit: %v, %v, the last lines are %.2000q", r.Err(), err, data[max(0, len(data)-1000):])
	}
	return ""
}
