// SPDX-License-Identifier: Apache-2.0

package control

import "time"

// States of a device (docs/PROTOCOL.md, "Status").
const (
	StateStarting = "starting"
	StateOnline   = "online"
	StateDegraded = "degraded"
	StateStopping = "stopping"
	StateOffline  = "offline"
)

// Status is the retained state of the device, and its will.
type Status struct {
	V       int       `json:"v"`
	State   string    `json:"state"`
	Session uint64    `json:"session"`        // rises by one at each start
	Boot    string    `json:"boot,omitempty"` // names the start: two boxes with one name differ in it
	Since   time.Time `json:"since,omitzero"`
	Reason  string    `json:"reason,omitempty"`
}

// Info is the retained birth document.
type Info struct {
	V          int        `json:"v"`
	Device     string     `json:"device"`
	Version    string     `json:"version"`
	Board      string     `json:"board"`
	Arch       string     `json:"arch"`
	Kernels    []string   `json:"kernels"`
	Cores      Cores      `json:"cores"`
	RAMBytes   int64      `json:"ram_bytes"`
	DiskBytes  int64      `json:"disk_bytes"`
	Features   []string   `json:"features"`
	Ops        []string   `json:"ops"`
	JobTypes   []string   `json:"job_types"`
	Limits     InfoLimits `json:"limits"`
	TrustKeys  []string   `json:"trust_keys"`
	LogPrompts bool       `json:"log_prompts,omitempty"`
}

// Cores are CPU numbers by kind.
type Cores struct {
	Big    []int `json:"big"`
	Little []int `json:"little"`
}

// InfoLimits is what a client has to stay under.
type InfoLimits struct {
	RequestBytes   int `json:"request_bytes"`
	DeltaBytes     int `json:"delta_bytes"`
	DoneBytes      int `json:"done_bytes"`
	Queue          int `json:"queue"`
	PerClient      int `json:"per_client"`
	Jobs           int `json:"jobs"`
	ConcurrentJobs int `json:"concurrent_jobs"`
	IDs            int `json:"ids"`
}

// Model is the retained document of one model.
type Model struct {
	V         int        `json:"v"`
	Name      string     `json:"name"`
	Version   string     `json:"version"`
	SHA256    string     `json:"sha256"`
	State     string     `json:"state"` // waiting verifying loading probing ready failed stalled unloading
	Default   bool       `json:"default"`
	Trust     string     `json:"trust"`
	Flags     []string   `json:"flags"`
	Arch      string     `json:"arch"`
	Params    int64      `json:"params"`
	Mode      string     `json:"mode"`
	Context   int        `json:"context"`
	Residency string     `json:"residency"`
	Bytes     int64      `json:"bytes"`
	Have      int64      `json:"have,omitempty"` // of Bytes, while the file arrives
	Error     *Error     `json:"error,omitempty"`
	TokS      TokenSpeed `json:"tok_s"`
	Pictures  *Pictures  `json:"pictures,omitempty"`  // nil: the model takes text only
	Embeds    int        `json:"embeds,omitempty"`    // numbers of an embedding; 0: the model makes none
	Tentative bool       `json:"tentative,omitempty"` // the version is on trial: the one before serves again if it does not hold
}

// Pictures is what a model takes of pictures.
type Pictures struct {
	MinPixels  int64 `json:"min_pixels"` // after resizing
	MaxPixels  int64 `json:"max_pixels"`
	TokenSide  int   `json:"token_side"` // a token stands for a square of so many pixels a side
	FileBytes  int64 `json:"file_bytes"` // of a file, at most
	FilePixels int64 `json:"file_pixels"`
}

// TokenSpeed is tokens a second.
type TokenSpeed struct {
	Prefill float64 `json:"prefill"`
	Decode  float64 `json:"decode"`
}

// Stats are the periodic numbers.
type Stats struct {
	UptimeS        int64   `json:"uptime_s"`
	Queue          int     `json:"queue"`         // waiting
	Active         int     `json:"active"`        // in work
	Sequences      int     `json:"sequences"`     // of these, computed beside each other now
	KeptTokens     int     `json:"kept_tokens"`   // of prefixes that are kept
	CachedTokens   int64   `json:"cached_tokens"` // of prompts, that needed no computing, since the models were loaded
	DecodeTokS     float64 `json:"decode_tok_s"`
	PrefillTokS    float64 `json:"prefill_tok_s"`
	RSSBytes       int64   `json:"rss_bytes"`
	MemAvailable   int64   `json:"mem_available"`
	DiskFree       int64   `json:"disk_free"`
	TempC          float64 `json:"temp_c"`
	Throttled      bool    `json:"throttled"`     // the kernel or the CPU slowed it because of heat, in the last 30 s
	RestingCores   int     `json:"resting_cores"` // do not compute, so that a hot machine does not shut down
	Governor       string  `json:"governor"`      // chooses the clock of the cores that compute, "" where nobody does
	MQTTReconnects uint64  `json:"mqtt_reconnects"`
	Dropped        uint64  `json:"dropped"`
	AuditSeq       uint64  `json:"audit_seq,omitempty"`  // of the last record of the audit file that is on the disk
	AuditHead      string  `json:"audit_head,omitempty"` // and its hash
}

// Occurrence is a message on the event topic.
type Occurrence struct {
	At      time.Time `json:"at"`
	Event   string    `json:"event"` // model_ready model_failed rolled_back thermal low_space config_reloaded broker_open stalled name_taken
	Model   string    `json:"model,omitempty"`
	Job     string    `json:"job,omitempty"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Limits bound what the device takes on. The zero value of each field means the
// default in its comment.
type Limits struct {
	RequestBytes  int           // 64 KiB, never above 120 KiB
	Queue         int           // 8 requests accepted and not ended, the one in work included
	PerClient     int           // 2 of them of one client
	Jobs          int           // 16 jobs waiting
	IDs           int           // 1024 ids remembered a class
	KeptJobs      int           // 64 job records
	FetchFor      time.Duration // 5 min: how long fetch finds the messages
	RememberFor   time.Duration // 10 min: how long an id counts as the same request
	JobRecordsFor time.Duration // 24 h
	RememberBytes int           // 16 MiB of messages kept for fetch and repeated requests
}

// Bounds of single messages (docs/PROTOCOL.md, "Limits").
const (
	hardRequestBytes = 120 << 10
	maxDeltaBytes    = 4 << 10
	maxDoneBytes     = 64 << 10
	maxDoneText      = 48 << 10
	maxVector        = 62 << 10 // bytes of an embedding's numbers: done has others beside
	maxStreamBytes   = 4 << 20  // messages of one id kept for fetch
)

func (l Limits) withDefaults() Limits {
	def := func(v *int, n int) {
		if *v <= 0 {
			*v = n
		}
	}
	dur := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&l.RequestBytes, 64<<10)
	l.RequestBytes = min(l.RequestBytes, hardRequestBytes)
	def(&l.Queue, 8)
	def(&l.PerClient, 2)
	def(&l.Jobs, 16)
	def(&l.IDs, 1024)
	def(&l.KeptJobs, 64)
	def(&l.RememberBytes, 16<<20)
	dur(&l.FetchFor, 5*time.Minute)
	dur(&l.RememberFor, 10*time.Minute)
	dur(&l.JobRecordsFor, 24*time.Hour)
	return l
}

func (l Limits) info() InfoLimits {
	return InfoLimits{
		RequestBytes: l.RequestBytes, DeltaBytes: maxDeltaBytes, DoneBytes: maxDoneBytes,
		Queue: l.Queue, PerClient: l.PerClient, Jobs: l.Jobs, ConcurrentJobs: 1, IDs: l.IDs,
	}
}
