// SPDX-License-Identifier: Apache-2.0

package update_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"windhover/appliance/rollout"
	"windhover/appliance/update"
	"windhover/control"
	"windhover/control/ota"
)

const group = "group/all"

// What a document wants is downloaded, tried, kept, made the default and reported.
func TestDesired_P168(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newRelease(t, 1)
		r := start(t, newDisk(), newCDN(one), nil)
		defer r.stop()
		r.Desired(group, document(1, one, nil))
		r.wait("current", func() bool { return r.last().Status == control.DesiredCurrent && r.last().Rev == 1 })
		rep := r.last()
		m := rep.Models[0]
		if !r.serves(one.SHA256) || r.d.dflt != name || rep.Target != group || m.Status != "succeeded" || m.Serves != "1.1.0" || len(rep.Groups) != 1 {
			t.Errorf("reported %+v, default %q", rep, r.d.dflt)
		}
		if s := r.State(); s.Memory.Floors[name] != 1 || s.Models[name].Tentative {
			t.Errorf("state %+v", s)
		}
	})
}

// A version that fails at any step leaves the one before, and is not tried again by the
// same document, nor by a later one where the fault is its own.
func TestRollback(t *testing.T) {
	for _, phase := range []rollout.Phase{rollout.Verify, rollout.Load, rollout.Probe, rollout.Observe} {
		t.Run(string(phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, two := newRelease(t, 1), newRelease(t, 2)
				r := start(t, newDisk(), newCDN(one, two), nil)
				defer r.stop()
				r.Desired(group, document(1, one, nil))
				r.wait("the first", func() bool { return r.last().Status == control.DesiredCurrent && r.last().Rev == 1 })
				two.bad = phase
				r.d.releases[two.SHA256] = two
				r.Desired(group, document(2, two, nil))
				if phase == rollout.Observe {
					r.wait("on trial", func() bool { return r.serves(two.SHA256) })
					r.d.mu.Lock()
					r.d.sample = rollout.Sample{Requests: 10, Errors: 9}
					r.d.mu.Unlock()
				}
				r.wait("failed", func() bool { return r.last().Status == control.DesiredFailed && r.last().Rev == 2 })
				r.wait("the first again", func() bool { return r.serves(one.SHA256) })
				m := r.last().Models[0]
				if m.Error == nil || m.RolledBack != (phase != rollout.Verify) || m.Serves != "1.1.0" {
					t.Errorf("reported %+v", m)
				}
				asked := r.web.asked
				r.Desired(group, document(3, two, nil))
				r.wait("refused again", func() bool { return r.last().Status == control.DesiredFailed && r.last().Rev == 3 })
				if r.web.asked != asked {
					t.Errorf("%d more requests for a version that was condemned", r.web.asked-asked)
				}
				if m := r.last().Models[0]; m.RolledBack != (phase != rollout.Verify) {
					t.Errorf("by a later document reported %+v", m)
				}
			})
		})
	}
}

// Each attack is refused by its own code, says so in the report, and changes nothing.
func TestAttacks(t *testing.T) {
	other := ed25519.NewKeyFromSeed([]byte("another key that nobody trusts.."))
	cases := []struct {
		name   string
		attack func(one, two *release) (target string, doc []byte)
		want   control.Code
	}{
		{"unsigned", func(_, two *release) (string, []byte) {
			e, _ := ota.ParseEnvelope(document(2, two, nil), ota.MaxDocument)
			e.Signatures = nil
			return group, e.Encode()
		}, control.SignatureMissing},
		{"changed", func(_, two *release) (string, []byte) {
			e, _ := ota.ParseEnvelope(document(2, two, nil), ota.MaxDocument)
			e.Payload = append(e.Payload, ' ')
			return group, e.Encode()
		}, control.SignatureInvalid},
		{"key unknown", func(_, two *release) (string, []byte) {
			e, _ := ota.ParseEnvelope(document(2, two, nil), ota.MaxDocument)
			return group, ota.Sign(ota.TypeDesired, e.Payload, other).Encode()
		}, control.KeyUnknown},
		{"older document", func(one, _ *release) (string, []byte) { return group, document(0+1, one, nil)[:] }, control.RollbackRejected},
		{"older release", func(one, _ *release) (string, []byte) {
			old := *one
			old.Release = 1
			return group, document(9, &old, nil)
		}, control.RollbackRejected},
		{"freeze", func(_, two *release) (string, []byte) {
			return group, document(9, two, func(d *ota.Desired) {
				d.IssuedAt, d.ExpiresAt = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
			})
		}, control.ManifestExpired},
		{"wrong target", func(_, two *release) (string, []byte) {
			return group, document(9, two, func(d *ota.Desired) { d.Target = ota.Target{Group: "others"} })
		}, control.WrongTarget},
		{"wrong topic", func(_, two *release) (string, []byte) { return "device/box", document(9, two, nil) }, control.WrongTarget},
		{"release as document", func(_, two *release) (string, []byte) { return group, two.record(key).Encode() }, control.MixAndMatch},
		{"incompatible", func(_, two *release) (string, []byte) {
			return group, document(9, two, func(d *ota.Desired) { d.Models[0].Compat.Arch = []string{"riscv64"} })
		}, control.Incompatible},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, two := newRelease(t, 5), newRelease(t, 6)
				r := start(t, newDisk(), newCDN(one, two), nil)
				defer r.stop()
				r.Desired(group, document(4, one, nil))
				r.wait("the first", func() bool { return r.last().Status == control.DesiredCurrent && r.last().Rev == 4 })
				if c.name == "older release" {
					one.Release = 1
				}
				target, doc := c.attack(one, two)
				r.Desired(target, doc)
				r.wait("refused", func() bool { return r.last().Error != nil })
				if rep := r.last(); !errors.Is(rep.Error, c.want) || rep.Status != control.DesiredFailed || rep.Target != target {
					t.Errorf("reported %+v, want %s", rep, c.want.Name)
				}
				if !r.serves(one.SHA256) || r.State().Memory.Floors[name] != 5 {
					t.Error("an attack changed what serves")
				}
				r.Desired(target, nil)
				r.Desired(group, document(10, two, nil))
				r.wait("a good one after it", func() bool { return r.serves(two.SHA256) && r.last().Status == control.DesiredCurrent })
			})
		})
	}
}

// Attacks of the server that has the file.
func TestServerAttacks(t *testing.T) {
	cases := []struct {
		name   string
		attack func(two *release) func(*http.Request, *http.Response)
		want   control.Code
	}{
		{"other bytes", func(two *release) func(*http.Request, *http.Response) {
			two.content = []byte(strings.Repeat("x", len(two.content)))
			return nil
		}, control.DigestMismatch},
		{"gone", func(*release) func(*http.Request, *http.Response) {
			return func(req *http.Request, resp *http.Response) {
				if !strings.HasSuffix(req.URL.Path, ".index") {
					resp.StatusCode, resp.Body = 404, http.NoBody
				}
			}
		}, control.SourceGone},
		{"endless", func(two *release) func(*http.Request, *http.Response) {
			return func(req *http.Request, resp *http.Response) {
				if resp.StatusCode == 206 {
					resp.Header.Set("Content-Range", strings.Replace(resp.Header.Get("Content-Range"), "/", "/9", 1))
				}
			}
		}, control.EndlessData},
		{"another index", func(two *release) func(*http.Request, *http.Response) {
			two.index = append(two.index, ' ')
			return nil
		}, control.MixAndMatch},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, two := newRelease(t, 1), newRelease(t, 2)
				web := newCDN(one)
				r := start(t, newDisk(), web, nil)
				defer r.stop()
				r.Desired(group, document(1, one, nil))
				r.wait("the first", func() bool { return r.last().Status == control.DesiredCurrent && r.last().Rev == 1 })
				doc := document(2, two, nil)
				change := c.attack(two)
				web.put(two)
				web.mu.Lock()
				web.change = change
				web.mu.Unlock()
				r.Desired(group, doc)
				r.wait("failed", func() bool { return r.last().Status == control.DesiredFailed && r.last().Rev == 2 })
				if m := r.last().Models[0]; !errors.Is(m.Error, c.want) || !r.serves(one.SHA256) {
					t.Errorf("reported %+v (%v), want %s", m, m.Error, c.want.Name)
				}
			})
		})
	}
}

// A source that is down for a while is asked again, less and less often, and the same
// document that comes with each connection changes nothing about that.
func TestRetryPacing_P164(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newRelease(t, 1)
		web := newCDN(one)
		web.down = true
		r := start(t, newDisk(), web, nil)
		defer r.stop()
		doc := document(1, one, nil)
		for range 20 {
			r.Desired(group, doc)
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		web.mu.Lock()
		asked := web.asked
		web.down = false
		web.mu.Unlock()
		if asked < 4 || asked > 14 { // two attempts a try; tries after 0, 1, 3, 7 and 15 minutes
			t.Errorf("%d requests in 20 minutes", asked)
		}
		if rep := r.last(); rep.Status != control.DesiredQueued || !errors.Is(rep.Models[0].Error, control.DownloadFailed) {
			t.Errorf("reported %+v", rep)
		}
		r.wait("the end", func() bool { return r.last().Status == control.DesiredCurrent })
	})
}

// A roll-out that has not reached the device is remembered and nothing is done; the
// next percentage is.
func TestHeld_P168(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newRelease(t, 1)
		r := start(t, newDisk(), newCDN(one), nil)
		defer r.stop()
		r.Desired(group, document(1, one, func(d *ota.Desired) { d.Rollout.Percent = 0 }))
		r.wait("held", func() bool { return r.last().Status == control.DesiredHeld })
		if r.web.asked != 0 || r.last().Bucket != ota.Bucket("s", "box") {
			t.Errorf("%d requests, reported %+v", r.web.asked, r.last())
		}
		r.Desired(group, document(2, one, nil))
		r.wait("current", func() bool { return r.last().Status == control.DesiredCurrent && r.last().Rev == 2 })
	})
}

// A download waits for its time of day, by a clock that is known to be right alone; a
// model that needs none does not wait for one that does.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, free := newRelease(t, 1), newRelease(t, 2)
		free.Name = "free"
		now := time.Now() // the bubble begins at midnight UTC
		closed := now.Add(4*time.Hour).Format("15:04") + "-" + now.Add(5*time.Hour).Format("15:04")
		r := start(t, newDisk(), newCDN(one, free), nil)
		defer r.stop()
		r.Desired(group, document(1, one, func(d *ota.Desired) { d.Rollout.Window = closed }))
		time.Sleep(time.Hour)
		synctest.Wait()
		if r.web.asked != 0 || r.last().Models[0].Phase != "downloading" {
			t.Errorf("%d requests outside of the window, reported %+v", r.web.asked, r.last())
		}
		params, err := json.Marshal(map[string]any{"record": free.record(key), "urls": free.URLs, "health": ota.Health{ObserveS: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.RunJob(t.Context(), control.Job{ID: "j", Client: "ops", Type: "model_install", Params: params}, func(control.JobProgress) {}); err != nil {
			t.Fatalf("a model without a window: %v", err)
		}
		time.Sleep(3 * time.Hour)
		r.wait("current", func() bool { return r.last().Status == control.DesiredCurrent })
		if at := time.Since(now); at < 4*time.Hour || at > 5*time.Hour {
			t.Errorf("installed %v after midnight", at)
		}
	})
}

// A box whose clock was never set waits for no time of day, and expires nothing.
func TestNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newRelease(t, 1)
		r := start(t, newDisk(), newCDN(one), func(r *rig, _ *update.Config) { r.sane = false })
		defer r.stop()
		r.Desired(group, document(1, one, func(d *ota.Desired) {
			d.IssuedAt, d.ExpiresAt = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
			d.Rollout.Window = "04:00-05:00"
		}))
		r.wait("current", func() bool { return r.last().Status == control.DesiredCurrent && r.last().Rev == 1 })
	})
}

// A start goes on with what was under way although no broker brings the document.
func TestGoesOnOffline_P165(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, one := newDisk(), newRelease(t, 1)
		web := newCDN(one)
		web.down = true
		r := start(t, fs, web, func(_ *rig, c *update.Config) { c.Fetch.Attempts = 1000 })
		r.Desired(group, document(1, one, nil))
		r.wait("begun", func() bool { return web.asked > 0 })
		r.stop()
		web.down = false
		r = start(t, fs, web, nil)
		defer r.stop()
		r.wait("serving", func() bool { return r.serves(one.SHA256) && !r.State().Running() })
	})
}

// Installed versions serve before anything is downloaded, and events tell of ends.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newRelease(t, 1), newRelease(t, 2)
		r := start(t, newDisk(), newCDN(one, two), nil)
		defer r.stop()
		r.Desired(group, document(1, one, nil))
		r.wait("the first", func() bool { return r.last().Status == control.DesiredCurrent && r.last().Rev == 1 })
		two.bad = rollout.Probe
		r.d.releases[two.SHA256] = two
		r.Desired(group, document(2, two, nil))
		r.wait("failed", func() bool { return r.last().Status == control.DesiredFailed })
		r.d.mu.Lock()
		defer r.d.mu.Unlock()
		if want := []string{"model_ready", "rolled_back health_check_failed"}; !slices.Equal(r.d.events, want) {
			t.Errorf("events %q, want %q", r.d.events, want)
		}
	})
}
