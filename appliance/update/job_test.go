// SPDX-License-Identifier: Apache-2.0

package update_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"windhover/appliance/update"
	"windhover/control"
	"windhover/control/ota"
)

// Commands: install, roll back, activate, remove, cancel.
func TestCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newRelease(t, 1), newRelease(t, 2)
		web := newCDN(one, two)
		r := start(t, newDisk(), web, nil)
		defer r.stop()
		run := func(ctx context.Context, typ string, params any) (update.Result, error) {
			p, err := json.Marshal(params)
			if err != nil {
				t.Fatal(err)
			}
			res, err := r.RunJob(ctx, control.Job{ID: "j", Client: "ops", Type: typ, Params: p}, func(control.JobProgress) {})
			out, _ := res.(update.Result)
			return out, err
		}
		install := func(x *release, keys ...ed25519.PrivateKey) (update.Result, error) {
			return run(t.Context(), "model_install", map[string]any{"record": x.record(keys...), "urls": x.URLs, "health": ota.Health{ObserveS: 1}})
		}
		if _, err := install(one); !errors.Is(err, control.SignatureMissing) {
			t.Errorf("an unsigned release: %v", err)
		}
		for _, x := range []*release{one, two} {
			if res, err := install(x, key); err != nil || res.Version != x.Version || !r.serves(x.SHA256) {
				t.Fatalf("install: %+v, %v", res, err)
			}
		}
		if res, err := run(t.Context(), "model_rollback", map[string]string{"model": name}); err != nil || res.Version != "1.1.0" || !r.serves(one.SHA256) {
			t.Errorf("rollback: %+v, %v", res, err)
		}
		if _, err := install(one, key); !errors.Is(err, control.RollbackRejected) {
			t.Errorf("a release below the floor: %v", err)
		}
		if _, err := run(t.Context(), "model_activate", map[string]string{"model": name}); err != nil || r.d.dflt != name {
			t.Errorf("activate: %v, default %q", err, r.d.dflt)
		}
		if _, err := run(t.Context(), "model_activate", map[string]string{"model": "none"}); !errors.Is(err, control.UnknownModel) {
			t.Errorf("activate nothing: %v", err)
		}
		if _, err := run(t.Context(), "model_remove", map[string]string{"model": name}); err != nil || !r.serves(ota.Digest{}) {
			t.Errorf("remove: %v", err)
		}
		if _, err := run(t.Context(), "model_rollback", map[string]string{"model": name}); !errors.Is(err, control.UnknownModel) {
			t.Errorf("roll back what is gone: %v", err)
		}
		r.d.taken = name
		three := newRelease(t, 3)
		if _, err := install(three, key); !errors.Is(err, control.Incompatible) {
			t.Errorf("a name that is taken: %v", err)
		}
	})
}

// A version that is installed beside the one that serves is chosen by its name, and what
// is newer does not come back; one that is not installed is no choice.
func TestActivateVersion_P180(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := []*release{newRelease(t, 1), newRelease(t, 2), newRelease(t, 3)}
		r := start(t, newDisk(), newCDN(list...), nil)
		defer r.stop()
		for i, x := range list {
			r.Desired(group, document(int64(i+1), x, func(d *ota.Desired) { d.Keep = 3 }))
			r.wait("installed", func() bool { return r.last().Status == control.DesiredCurrent && r.last().Rev == int64(i+1) })
		}
		activate := func(version string) (update.Result, error) {
			p := fmt.Appendf(nil, `{"model":%q,"version":%q}`, name, version)
			res, err := r.RunJob(t.Context(), control.Job{ID: "a", Client: "ops", Type: "model_activate", Params: p}, func(control.JobProgress) {})
			out, _ := res.(update.Result)
			return out, err
		}
		if _, err := activate("1.7.0"); !errors.Is(err, control.UnknownModel) || !strings.Contains(err.Error(), "1.2.0, 1.1.0") {
			t.Errorf("a version that is not there: %v", err)
		}
		if _, err := activate("1.3.0"); err != nil || !r.serves(list[2].SHA256) {
			t.Errorf("the version that serves: %v", err)
		}
		if res, err := activate("1.1.0"); err != nil || res.Version != "1.1.0" || !r.serves(list[0].SHA256) {
			t.Errorf("an older version: %+v, %v", res, err)
		}
		if s := r.State(); s.Memory.Floors[name] != 3 || s.Models[name].Previous != nil {
			t.Errorf("remembered %+v, floors %v", s.Models[name], s.Memory.Floors)
		}
		r.Desired(group, document(4, list[2], nil))
		r.wait("not again", func() bool { return r.last().Rev == 4 && r.last().Status == control.DesiredFailed })
	})
}

// A model that somebody removed on the device stays away, over a restart too, until a
// later document wants it.
func TestRemovedStaysAway_P181(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newRelease(t, 1)
		disk, web := newDisk(), newCDN(one)
		r := start(t, disk, web, nil)
		first := document(1, one, nil)
		r.Desired(group, first)
		r.wait("installed", func() bool { return r.last().Status == control.DesiredCurrent })
		if _, err := r.RunJob(t.Context(), control.Job{ID: "rm", Client: "ops", Type: "model_remove", Params: []byte(`{"model":"m"}`)}, func(control.JobProgress) {}); err != nil {
			t.Fatal(err)
		}
		gone := func() bool {
			l := r.last()
			return l.Status == control.DesiredFailed && len(l.Models) == 1 && errors.Is(l.Models[0].Error, control.Canceled) && r.serves(ota.Digest{})
		}
		r.wait("the fleet is told", gone)
		r.stop()
		asked := web.asked
		r = start(t, disk, web, nil)
		r.Desired(group, first)
		r.wait("still away after a restart", gone)
		if web.asked != asked {
			t.Errorf("%d requests for a model that was removed", web.asked-asked)
		}
		r.Desired(group, document(2, one, nil))
		r.wait("installed by a later document", func() bool {
			return r.last().Status == control.DesiredCurrent && r.last().Rev == 2 && r.serves(one.SHA256)
		})
		r.stop()
	})
}
