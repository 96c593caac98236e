// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/json"
	"fmt"
	"time"
)

// States of a job. The first two are open, the others final.
const (
	JobQueued    = "queued"
	JobRunning   = "running"
	JobSucceeded = "succeeded"
	JobFailed    = "failed"
	JobCanceled  = "canceled"
	JobTimedOut  = "timed_out"
	JobRejected  = "rejected"
)

// jobCancel is the command that ends another job; this package carries it out.
const jobCancel = "job_cancel"

// JobRecord is the retained record of a job.
type JobRecord struct {
	V         int             `json:"v"`
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Client    string          `json:"client"`
	Status    string          `json:"status"`
	Phase     string          `json:"phase,omitempty"`
	Version   int             `json:"version"` // rises by 1 with each record of the id
	Progress  JobFraction     `json:"progress"`
	Attempt   int             `json:"attempt"`
	Result    json.RawMessage `json:"result"`
	Error     *Error          `json:"error"`
	CreatedAt time.Time       `json:"created_at"`
	UpdatedAt time.Time       `json:"updated_at"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"` // when the record is cleared; set with a final state
}

// JobFraction is how far a job is, in bytes.
type JobFraction struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
	Pct   int   `json:"pct"`
}

// Final says whether the job has ended.
func (r *JobRecord) Final() bool { return r.Status != JobQueued && r.Status != JobRunning }

// check holds a record that was read from disk or off the wire against the rules.
func (r *JobRecord) check() error {
	switch r.Status {
	case JobQueued, JobRunning, JobSucceeded, JobFailed, JobCanceled, JobTimedOut, JobRejected:
	default:
		return fmt.Errorf("control: job %q: status %q is unknown", r.ID, r.Status)
	}
	if !ValidID(r.ID) || !ValidClient(r.Client) || r.Version < 1 {
		return fmt.Errorf("control: job record %q of client %q, version %d is malformed", r.ID, r.Client, r.Version)
	}
	return nil
}

// DecodeJob reads a job record. Unknown fields are ignored.
func DecodeJob(p []byte) (*JobRecord, error) {
	r := new(JobRecord)
	if err := json.Unmarshal(p, r); err != nil {
		return nil, fmt.Errorf("control: job record: %w", err)
	}
	return r, r.check()
}

// command is what every cmd payload may hold; the rest is the job's own.
type command struct {
	ExpiresAt string `json:"expires_at"`
	SentAt    string `json:"sent_at"`
	TTLMS     *int64 `json:"ttl_ms"`
	Target    string `json:"target"` // job_cancel: the job to end, "": the one in the topic
	Client    string `json:"client"` // job_cancel: whose job, "": the caller's
}

// expired checks the command's own time limits against now.
func (c *command) expired(now time.Time) *Error {
	var r Request
	if err := millis(&r.TTL, "ttl_ms", c.TTLMS, time.Millisecond, 365*maxDuration); err != nil {
		return asError(err)
	}
	for _, f := range []struct {
		name, text string
		dst        *time.Time
	}{{"sent_at", c.SentAt, &r.SentAt}, {"expires_at", c.ExpiresAt, new(time.Time)}} {
		if f.text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339Nano, f.text)
		if err != nil {
			return Errorf(BadRequest, "%s %.40q is not RFC 3339", f.name, f.text)
		}
		*f.dst = t
		if f.name == "expires_at" && saneClock(now) && now.After(t) {
			return Errorf(Expired, "the command expired at %s", f.text)
		}
	}
	if late := expiredBy(&r, ageOf(&r, now)); late > 0 {
		return Errorf(Expired, "the command is %v past its ttl_ms", late.Round(time.Millisecond))
	}
	return nil
}
