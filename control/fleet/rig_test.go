// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"windhover/control"
	"windhover/control/fleet"
	"windhover/control/ota"
)

// noon is when the documents of these tests are made.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// canary is the group of these tests.
var canary = ota.Target{Group: "canary"}

// key signs for the fleet.
var key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{'a'}, ed25519.SeedSize))

func sign(d *ota.Desired) []byte { return ota.Sign(ota.TypeDesired, d.Encode(), key).Encode() }

// role trusts that key.
func role(t testing.TB) ota.Role {
	t.Helper()
	r, err := ota.NewRole(1, ota.Key{Name: "a", Public: key.Public().(ed25519.PublicKey)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// document asks for a release of the model m.
func document(rev, release int64) *ota.Desired {
	name := fmt.Sprintf("release %d", release)
	return &ota.Desired{
		V: 1, Rev: rev, IssuedAt: noon, ExpiresAt: noon.Add(30 * 24 * time.Hour), Target: canary, Keep: 2,
		Models: []ota.Model{{
			Name: "m", Version: fmt.Sprintf("1.%d.0", release), Release: release,
			URLs: []string{"https://cdn.example/m.vqf"}, Size: 100000, SHA256: sha256.Sum256([]byte(name)),
			Index: ota.IndexRef{URL: "https://cdn.example/m.index", SHA256: sha256.Sum256([]byte(name + " index")), Block: 4096},
		}},
		Active: "m", Rollout: ota.Rollout{Percent: 100, Window: "02:00-05:00", JitterS: 900, MaxBPS: 4000000}, Health: ota.Health{MinTPSRatio: 0.7},
	}
}

// begin is a roll-out of release 14 to devices that have 13.
func begin(t testing.TB, stages ...float64) fleet.State {
	t.Helper()
	if stages == nil {
		stages = fleet.DefaultStages
	}
	s, err := fleet.Begin(document(1, 14), document(41, 13), 41, stages, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// crowd is a fleet that answers as a test wants it to.
type crowd struct {
	devices []fleet.Device
}

// newCrowd are n devices of the group that have release 13.
func newCrowd(n int) *crowd {
	c := &crowd{}
	before := document(41, 13)
	for i := range n {
		d := fleet.Device{Name: fmt.Sprintf("edge%d", i), Status: control.Status{V: 1, State: control.StateOnline, Session: 2}}
		d.Reported = &control.Reported{V: 1, Rev: 41, Target: canary.String(), Groups: []string{"all", "canary"}, Status: control.DesiredCurrent, Models: models(before)}
		c.devices = append(c.devices, d)
	}
	return c
}

// models are those of a document as a device that has them reports them.
func models(d *ota.Desired) []control.ReportedModel {
	var list []control.ReportedModel
	for _, m := range d.Models {
		list = append(list, control.ReportedModel{Name: m.Name, Version: m.Version, Release: m.Release, SHA256: m.SHA256.String(), Status: control.JobSucceeded})
	}
	return list
}

// answer lets every device that the document reaches say what result says; those that
// it does not reach are held, as real ones are.
func (c *crowd) answer(s fleet.State, result func(i int) string) {
	d := s.Document()
	for i := range c.devices {
		dev := &c.devices[i]
		if !dev.Online() {
			continue
		}
		r := &control.Reported{V: 1, Rev: d.Rev, Target: d.Target.String(), Groups: dev.Reported.Groups, Bucket: ota.Bucket(d.Rollout.Salt, dev.Name), Status: control.DesiredHeld, Models: dev.Reported.Models}
		if fleet.Reached(d.Rollout.Salt, dev.Name, d.Rollout.Percent) {
			if r.Status = result(i); r.Status == "" {
				continue
			}
			switch r.Status {
			case control.DesiredCurrent:
				r.Models = models(d)
			case control.DesiredFailed:
				r.Models = models(d)
				r.Models[0].Error = control.Errorf(control.HealthCheckFailed, "2.0 tokens a second")
				r.Models[0].RolledBack = true
			}
		}
		dev.Reported = r
	}
}

// always is a result that is the same for all.
func always(status string) func(int) string { return func(int) string { return status } }

// first is a result of the first n devices that are asked, and another one of the rest.
func first(n int, status, rest string) func(int) string {
	return func(int) string {
		if n--; n >= 0 {
			return status
		}
		return rest
	}
}

func jsonOf(v any) ([]byte, error) { return json.Marshal(v) }

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := jsonOf(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
