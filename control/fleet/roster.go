// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"windhover/control"
	"windhover/control/ota"
)

// Device is what was heard of one device.
type Device struct {
	Name     string            `json:"device"`
	Status   control.Status    `json:"status"`   // the zero value: nothing was heard
	Reported *control.Reported `json:"reported"` // nil: nothing was heard
}

// Online says whether the device can act now.
func (d Device) Online() bool {
	return d.Status.State != "" && d.Status.State != control.StateOffline
}

// member says whether the documents of a target are for the device.
func (d Device) member(t ota.Target) bool {
	if t.Device != "" {
		return d.Name == t.Device
	}
	return d.Reported != nil && (slices.Contains(d.Reported.Groups, t.Group) || d.Reported.Target == t.String())
}

// Roster is what was heard of all devices, and of the documents for a target.
type Roster struct {
	devices map[string]*Device
	desired map[string][]byte // by topic
}

// NewRoster makes an empty one.
func NewRoster() *Roster {
	return &Roster{devices: map[string]*Device{}, desired: map[string][]byte{}}
}

// Filters are the topics that a roster is made of; those of documents are added for
// each target. Every device that there is is heard: which ones belong to a group they
// say themselves.
func Filters(targets ...ota.Target) []string {
	all := control.Topics{Device: "+"}
	filters := []string{all.Status(), all.Reported()}
	for _, t := range targets {
		filters = append(filters, Topic(t))
	}
	return filters
}

// Hear takes a message. What is no document of a device is passed over: one that is
// broken must not hold up the others.
func (r *Roster) Hear(topic string, payload []byte) {
	if strings.HasSuffix(topic, "/desired") {
		r.desired[topic] = payload
		return
	}
	seg := strings.Split(topic, "/")
	if len(seg) != 4 || !control.ValidDevice(seg[2]) {
		return
	}
	name := seg[2]
	d := r.devices[name]
	if d == nil {
		d = &Device{Name: name}
	}
	switch topics := (control.Topics{Device: name}); topic {
	case topics.Status():
		var st control.Status
		if json.Unmarshal(payload, &st) != nil || st.State == control.StateOffline && st.Session < d.Status.Session {
			return // the late will of an earlier start
		}
		d.Status = st
	case topics.Reported():
		if len(payload) == 0 {
			d.Reported = nil
			break
		}
		rep, err := control.DecodeReported(payload)
		if err != nil {
			return
		}
		d.Reported = rep
	default:
		return
	}
	r.devices[name] = d
}

// Devices are all of them, by name.
func (r *Roster) Devices() []Device {
	list := make([]Device, 0, len(r.devices))
	for _, name := range slices.SortedFunc(maps.Keys(r.devices), byNumber) {
		list = append(list, *r.devices[name])
	}
	return list
}

// Members are those that the documents of a target are for, by name.
func (r *Roster) Members(t ota.Target) []Device {
	return slices.DeleteFunc(r.Devices(), func(d Device) bool { return !d.member(t) })
}

// Seen is the highest rev of a target's documents that devices report.
func (r *Roster) Seen(t ota.Target) int64 {
	var rev int64
	for _, d := range r.devices {
		if d.Reported != nil && d.Reported.Target == t.String() {
			rev = max(rev, d.Reported.Rev)
		}
	}
	return rev
}

// Desired is the envelope that is retained for a target, nil if none was heard.
func (r *Roster) Desired(t ota.Target) []byte { return r.desired[Topic(t)] }

// byNumber orders names so that edge9 stands before edge10.
func byNumber(a, b string) int {
	pa, pb := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	if pa != pb {
		return cmp.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
