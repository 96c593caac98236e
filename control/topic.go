// SPDX-License-Identifier: Apache-2.0

package control

import "strings"

// prefix of every topic; the version in it changes when the protocol breaks.
const prefix = "windhover/v1/"

// noID stands in a reply topic for a request whose id could not be read.
const noID = "_"

// Limits of topic segments (docs/PROTOCOL.md, "Topics").
const (
	maxDevice = 63
	maxIdent  = 64
)

// ValidDevice says whether s can be a device name: [a-z0-9][a-z0-9-]{0,62}.
func ValidDevice(s string) bool {
	if s == "" || len(s) > maxDevice || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}

// ValidGroup says whether s can be the name of a group: what a device may be called.
func ValidGroup(s string) bool { return ValidDevice(s) }

// ValidClient says whether s can be a client segment: [A-Za-z0-9._-]{1,64}.
func ValidClient(s string) bool { return validIdent(s, false) }

// ValidID says whether s can be a request or job id: [A-Za-z0-9._:-]{1,64}.
func ValidID(s string) bool { return validIdent(s, true) && s != noID }

func validIdent(s string, colon bool) bool {
	if s == "" || len(s) > maxIdent {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == '-':
		case c == ':' && colon:
		default:
			return false
		}
	}
	return true
}

// DeviceName makes a device name of a host name: lower case, any other character
// becomes '-'. It is never empty.
func DeviceName(host string) string {
	b := []byte(strings.ToLower(host))
	for i, c := range b {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9') {
			b[i] = '-'
		}
	}
	s := strings.Trim(string(b), "-")
	if len(s) > maxDevice {
		s = strings.TrimRight(s[:maxDevice], "-")
	}
	if s == "" {
		return "windhover"
	}
	return s
}

// Topics builds the topics of one device.
type Topics struct{ Device string }

func (t Topics) base() string { return prefix + t.Device + "/" }

// Status is the retained state of the device; the will goes there too.
func (t Topics) Status() string { return t.base() + "status" }

// Info is the retained birth document.
func (t Topics) Info() string { return t.base() + "info" }

// Model is the retained document of one model.
func (t Topics) Model(name string) string { return t.base() + "model/" + name }

// Stats carries the periodic numbers.
func (t Topics) Stats() string { return t.base() + "stats" }

// Event carries what happened.
func (t Topics) Event() string { return t.base() + "event" }

// Request is where a client asks for op.
func (t Topics) Request(client, op string) string { return t.base() + "req/" + client + "/" + op }

// Reply is where the device answers.
func (t Topics) Reply(client, id string) string { return t.base() + "res/" + client + "/" + id }

// Command is where a client submits a job.
func (t Topics) Command(typ, client, job string) string {
	return t.base() + "cmd/" + typ + "/" + client + "/" + job
}

// Job is the retained record of a job.
func (t Topics) Job(client, job string) string { return t.base() + "job/" + client + "/" + job }

// Desired is the retained envelope that says what the device is to run.
func (t Topics) Desired() string { return t.base() + "desired" }

// GroupDesired is the retained envelope for every device of a group.
func GroupDesired(group string) string { return prefix + "_group/" + group + "/desired" }

// Reported is the retained answer of the device to what it is to run.
func (t Topics) Reported() string { return t.base() + "reported" }

// Replies is the filter for every answer to one client.
func (t Topics) Replies(client string) string { return t.base() + "res/" + client + "/#" }

func (t Topics) requests() string { return t.base() + "req/+/+" }
func (t Topics) commands() string { return t.base() + "cmd/+/+/+" }

// route is a received topic of this device taken apart. class is "req" or "cmd".
type route struct {
	class, kind, client, id string
	group                   string // the request was to it, "": to the device
}

// parseRoute takes apart a topic below req/ or cmd/ of device; ok is false for
// any other topic and for segments outside the rules.
func (t Topics) parseRoute(topic string) (route, bool) {
	rest, found := strings.CutPrefix(topic, t.base())
	if !found {
		return route{}, false
	}
	seg := strings.Split(rest, "/")
	switch {
	case len(seg) == 3 && seg[0] == "req" && ValidClient(seg[1]):
		return route{class: "req", kind: seg[2], client: seg[1]}, true
	case len(seg) == 4 && seg[0] == "cmd" && ValidClient(seg[2]) && (ValidID(seg[3]) || seg[3] == noID):
		return route{class: "cmd", kind: seg[1], client: seg[2], id: seg[3]}, true
	}
	return route{}, false
}
