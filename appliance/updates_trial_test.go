// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testmodel"
	"windhover/vqf"
)

// What a web server does wrong for a while costs time; for good, it is told by its code,
// and what served goes on.
func TestUpdateSources(t *testing.T) {
	w := newWorks(t)
	b := w.box(t, nil)
	f := b.watch(t)
	one, two := w.publish(t, "m", 1, versionOfModel(t, 1)), w.publish(t, "m", 2, versionOfModel(t, 2))
	three, four := w.publish(t, "m", 3, versionOfModel(t, 3)), w.publish(t, "m", 4, versionOfModel(t, 4))
	other := bytes.Repeat([]byte{7}, int(four.Size))
	asked := 0 // for the file; guarded by w.mu
	wrong := func(answer func(n int, rw http.ResponseWriter, r *http.Request) bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		asked = 0
		w.wrong = func(rw http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, ".index") {
				return false
			}
			w.mu.Lock()
			asked++
			n := asked
			w.mu.Unlock()
			return answer(n, rw, r)
		}
	}
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return asked
	}
	busy := func(n int, rw http.ResponseWriter, _ *http.Request) bool {
		if n <= 2 {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
		return n <= 2
	}
	cutOff := func(n int, rw http.ResponseWriter, r *http.Request) bool { // a block and a half of what was asked for
		var first, last int64
		if k, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &first, &last); k != 2 {
			return false
		}
		w.mu.Lock()
		data := w.files[r.URL.Path]
		w.mu.Unlock()
		rw.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(data)))
		rw.Header().Set("Content-Length", fmt.Sprint(last-first+1))
		rw.WriteHeader(http.StatusPartialContent)
		_, _ = rw.Write(data[first:min(first+96<<10, last+1)]) // the server ends the connection then
		return true
	}
	changed := func(n int, rw http.ResponseWriter, r *http.Request) bool { // the first answer is cut off, then it is another file
		rw.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprint(min(n, 2))))
		if n == 1 {
			return cutOff(n, rw, r)
		}
		http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(other))
		return true
	}
	for i, c := range []struct {
		name  string
		m     ota.Model
		wrong func(n int, rw http.ResponseWriter, r *http.Request) bool
		asked int // at least
		code  control.Code
	}{
		{"as it should be", one, func(int, http.ResponseWriter, *http.Request) bool { return false }, 1, control.Code{}},
		{"busy at first", two, busy, 3, control.Code{}},
		{"cut off again and again", three, cutOff, 2, control.Code{}},
		{"changed in between", four, changed, 3, control.DigestMismatch},
	} {
		wrong(c.wrong)
		rev := int64(i + 1)
		f.desired(w.document(rev, c.m, nil))
		if c.code == (control.Code{}) {
			f.heard(t, c.name, at(rev, control.DesiredCurrent))
		} else if r := f.heard(t, c.name, at(rev, control.DesiredFailed)); !errors.Is(r.Models[0].Error, c.code) {
			t.Errorf("%s: reported %+v: %v", c.name, r.Models[0], r.Models[0].Error)
		}
		if n := count(); n < c.asked {
			t.Errorf("%s: %d requests, want %d at least", c.name, n, c.asked)
		}
	}
	if got := b.serves(t, "m"); got != three.SHA256.String() {
		t.Errorf("%s serves", got)
	}
}

// The limits of the box, and who may sign, count from the moment that the configuration
// is read again.
func TestUpdatesReloaded(t *testing.T) {
	w := newWorks(t)
	closed := time.Now().Add(3 * time.Hour)
	b := w.box(t, func(c *Config) {
		c.Updates.Window = closed.Format("15:04") + "-" + closed.Add(time.Hour).Format("15:04")
		c.Updates.Threshold = 2
	})
	f := b.watch(t)
	one := w.publish(t, "m", 1, versionOfModel(t, 1))
	f.desired(w.document(1, one, nil))
	f.heard(t, "refused: too few keys", func(r control.Reported) bool { return r.Error != nil && r.Status == control.DesiredFailed })
	reload := func(change func(*Updates)) {
		t.Helper()
		cfg := b.cfg
		change(&cfg.Updates)
		b.cfg = cfg
		b.hup <- syscall.SIGHUP
	}
	reload(func(u *Updates) { u.Threshold = 1 })
	f.heard(t, "waiting for the window", at(1, control.DesiredRunning))
	if b.serves(t, "m") != "" {
		t.Error("downloaded outside of the window")
	}
	reload(func(u *Updates) { u.Window = "" })
	f.heard(t, "the window is gone", at(1, control.DesiredCurrent))
}

// A version that does not say what the document has signed is taken back, and one that
// does stays.
func TestGoldenPrompt_P183(t *testing.T) {
	w := newWorks(t)
	b := w.box(t, nil)
	f := b.watch(t)
	one, two := w.publish(t, "m", 1, versionOfModel(t, 1)), w.publish(t, "m", 2, versionOfModel(t, 2))
	f.desired(w.document(1, one, nil))
	f.heard(t, "the first version", at(1, control.DesiredCurrent))
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	c := b.client(t, "you")
	says := func() string {
		t.Helper()
		a, err := c.Send(ctx, request("once upon", 6), nil)
		if err != nil {
			t.Fatal(err)
		}
		return a.Text
	}
	ask := func(rev int64, m ota.Model, g *ota.Golden) {
		f.desired(w.document(rev, m, func(d *ota.Desired) { d.Health.Probe, d.Health.Golden = "golden-1", g }))
	}
	// What the first one says is not what the second one does.
	ask(2, two, &ota.Golden{Prompt: "once upon", Tokens: 6, Answer: says()})
	r := f.heard(t, "the second version is refused", at(2, control.DesiredFailed))
	if m := r.Models[0]; !errors.Is(m.Error, control.HealthCheckFailed) || !m.RolledBack || !strings.Contains(m.Error.Message, "golden-1") || b.serves(t, "m") != one.SHA256.String() {
		t.Errorf("reported %+v: %v", m, m.Error)
	}
	third := w.publish(t, "m", 3, versionOfModel(t, 3))
	ask(3, third, nil)
	if r := f.heard(t, "a name alone is no probe", at(3, control.DesiredFailed)); !errors.Is(r.Models[0].Error, control.Incompatible) {
		t.Errorf("reported %+v: %v", r.Models[0], r.Models[0].Error)
	}
	f.desired(w.document(4, w.publish(t, "m", 4, versionOfModel(t, 4)), nil))
	f.heard(t, "another one", at(4, control.DesiredCurrent))
	answer := says()
	// The same model in another file, of a layout of its own.
	again := w.publish(t, "m", 5, tinyModel(t, func(c *testmodel.Config) { c.Random, c.Seed, c.Q8 = true, 4, vqf.Layout4x4 }))
	ask(5, again, &ota.Golden{Prompt: "once upon", Tokens: 6, Answer: answer})
	f.heard(t, "it says what it has to", at(5, control.DesiredCurrent))
}
