// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"time"

	"windhover/control"
)

// version of the documents of this package, and of Memory.
const version = 1

// Desired is what a device, or every device of a group, is to run. Fields that are
// missing have the value that their comment says.
type Desired struct {
	V         int       `json:"v"`
	Rev       int64     `json:"rev"` // rises with each document of a target
	IssuedAt  time.Time `json:"issued_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Target    Target    `json:"target"`
	Models    []Model   `json:"models"`
	Active    string    `json:"active,omitempty"` // which is to be the default; "": the device's choice
	Keep      int       `json:"keep"`             // versions of a model that stay installed; 2
	Rollout   Rollout   `json:"rollout"`
	Health    Health    `json:"health"`
}

// Target is whom a document is for: one of the two is set.
type Target struct {
	Device string `json:"device,omitempty"`
	Group  string `json:"group,omitempty"`
}

// String is the target as Memory names it.
func (t Target) String() string {
	if t.Group != "" {
		return "group/" + t.Group
	}
	return "device/" + t.Device
}

// Model is a version of a model, where it is to be had and what it needs.
type Model struct {
	Name       string    `json:"name"`
	Version    string    `json:"version"`
	Release    int64     `json:"release"`               // a device never goes below one that it committed
	MinRelease int64     `json:"min_release,omitempty"` // releases below are not to be installed again
	URLs       []string  `json:"urls"`                  // tried in this order
	Size       int64     `json:"size"`                  // bytes
	SHA256     Digest    `json:"sha256"`
	Index      IndexRef  `json:"index"`
	Compat     Compat    `json:"compat"`
	Record     *Envelope `json:"record,omitempty"` // a signed Release that says the same
}

// IndexRef leads to the digests of a file's blocks.
type IndexRef struct {
	URL    string `json:"url"`
	SHA256 Digest `json:"sha256"` // of the envelope as it is served
	Block  int64  `json:"block"`  // bytes
}

// Compat is what a release needs. What is empty is not asked for.
type Compat struct {
	Arch     []string `json:"arch,omitempty"` // one of them, as Go names them
	Features []string `json:"features,omitempty"`
	VQF      []int    `json:"vqf,omitempty"` // one of the format's versions
	RAMBytes int64    `json:"ram_bytes,omitempty"`
}

// Rollout is which devices of a group act on a document, and how they download.
type Rollout struct {
	Salt     string  `json:"salt,omitempty"`
	Percent  float64 `json:"percent"`             // 100
	Window   string  `json:"window,omitempty"`    // "02:00-05:00", local time; "": any time
	JitterS  int     `json:"jitter_s,omitempty"`  // a device waits up to this long, its own share of it
	MaxBPS   int64   `json:"max_bps,omitempty"`   // bytes a second; 0: no limit
	MaxBytes int64   `json:"max_bytes,omitempty"` // of one model over the network, all attempts; 0: no limit
}

// Health is what a version has to hold to stay.
type Health struct {
	Probe         string  `json:"probe,omitempty"`  // name of Golden; "": the built-in prompt alone
	Golden        *Golden `json:"golden,omitempty"` // what the model has to say; nil: anything
	MinTPSRatio   float64 `json:"min_tps_ratio"`    // 0.7 of the tokens a second of the version before
	ObserveS      int     `json:"observe_s"`        // 300
	MaxErrorRatio float64 `json:"max_error_ratio"`  // 0.05 of the requests
}

// Golden is a prompt with the answer that a model gives to it on every machine: the
// likeliest tokens, without a chat template.
type Golden struct {
	Prompt string `json:"prompt"`
	Tokens int    `json:"tokens"` // of the answer, at most
	Answer string `json:"answer"`
}

// Jitter is the longest wait before a download.
func (r Rollout) Jitter() time.Duration { return time.Duration(r.JitterS) * time.Second }

// Observe is how long a version is on trial.
func (h Health) Observe() time.Duration { return time.Duration(h.ObserveS) * time.Second }

// ParseDesired reads the payload of an envelope of TypeDesired. The error is
// control.BadRequest, or control.Unsupported for another version.
func ParseDesired(payload []byte) (*Desired, error) {
	d := &Desired{
		V: version, Keep: 2,
		Rollout: Rollout{Percent: 100},
		Health:  Health{MinTPSRatio: 0.7, ObserveS: 300, MaxErrorRatio: 0.05},
	}
	if err := decode(payload, d, "document"); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

// Encode is the document as the payload of an envelope.
func (d *Desired) Encode() []byte { return encode(d) }

// Find returns the model of a name, nil if the document has none.
func (d *Desired) Find(name string) *Model {
	for i := range d.Models {
		if d.Models[i].Name == name {
			return &d.Models[i]
		}
	}
	return nil
}

// Prefer says which of two documents counts for a device that has both: its own
// before a group's, then the one issued later, then the higher revision. Either may
// be nil.
func Prefer(a, b *Desired) *Desired {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case (a.Target.Device != "") != (b.Target.Device != ""):
		if a.Target.Device != "" {
			return a
		}
		return b
	case !a.IssuedAt.Equal(b.IssuedAt):
		if a.IssuedAt.After(b.IssuedAt) {
			return a
		}
		return b
	case b.Rev > a.Rev:
		return b
	}
	return a
}

// supported says whether a document is of the version that this package reads. A
// missing one counts as the first.
func supported(v int) error {
	if v != version && v != 0 {
		return control.Errorf(control.Unsupported, "the document has version %d, this device reads %d: update the device", v, version)
	}
	return nil
}
