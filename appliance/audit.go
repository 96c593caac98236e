// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windhover/appliance/audit"
	"windhover/control"
)

// Audit configures the record of what was asked of the box.
type Audit struct {
	File     string `toml:"file"`     // "": none is kept
	MaxSize  string `toml:"max_size"` // of a file, until the next one begins
	Keep     int    `toml:"keep"`     // full files' worth that stay; 0: all
	Sync     string `toml:"sync"`     // "interval" or "record"
	Required bool   `toml:"required"` // what cannot be recorded is refused
}

const (
	auditEach    = "record"
	minAuditSize = 64 << 10
	// auditOnStop is how long the last records may take.
	auditOnStop = 3 * time.Second
)

func (c *checker) checkAudit() {
	a := c.Audit
	if n, err := ParseSize(a.MaxSize); err != nil {
		c.wrong("audit.max_size", "%v", err)
	} else if n < minAuditSize {
		c.wrong("audit.max_size", "%q: use %d KiB or more", a.MaxSize, minAuditSize>>10)
	}
	if a.Keep < 0 {
		c.wrong("audit.keep", "%d: use a number of files, or 0 for all", a.Keep)
	}
	c.oneOf("audit.sync", a.Sync, "interval", auditEach)
	if a.Required && a.File == "" {
		c.wrong("audit.required", "is true without a file: set audit.file")
	}
}

// auditor keeps the record. A nil one keeps none.
type auditor struct {
	cfg Audit
	out *audit.Log
	log *slog.Logger

	mu   sync.Mutex
	last control.Reported // that was recorded
}

// openAudit goes on with the record, nil where there is to be none. One that cannot be
// written now is tried again.
func openAudit(cfg Config, log *slog.Logger) *auditor {
	if cfg.Audit.File == "" {
		return nil
	}
	a := &auditor{cfg: cfg.Audit, log: log}
	if dir := filepath.Dir(a.cfg.File); !exists(dir) {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			log.Warn("directory of the audit file not made", "path", dir, "error", err)
		}
	}
	size, _ := ParseSize(a.cfg.MaxSize) // checked before
	a.out = audit.Open(audit.Config{Path: a.cfg.File, MaxSize: size, Keep: a.cfg.Keep, SyncEach: a.cfg.Sync == auditEach, Tell: a.tell},
		audit.Record{Kind: audit.KindStart, Program: Version, Device: cfg.Device, ConfigSHA256: cfg.digest()})
	return a
}

// digest is another one when any value of the configuration is.
func (c Config) digest() string {
	text, err := Loaded{Config: c}.TOML()
	if err != nil {
		return "" // what was read can be written
	}
	return control.Digest(text)
}

// close ends the record.
func (a *auditor) close() {
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), auditOnStop)
	defer cancel()
	if err := a.out.Close(ctx, audit.Record{Kind: audit.KindStop}); err != nil {
		a.log.Error("audit file not written to its end", "path", a.cfg.File, "error", err)
	}
}

// refuses says whether requests cannot be taken because they could not be recorded.
func (a *auditor) refuses() error {
	if a == nil || !a.cfg.Required || a.out.Ready() == nil {
		return nil
	}
	e := control.Errorf(control.AuditUnavailable, "this box has to keep a record of each request, and cannot write it: its log says why")
	e.RetryAfter = 2 * time.Second // as often as the file is tried
	return e
}

// ended records the end of a request or a job.
func (a *auditor) ended(e control.Audited) {
	if a == nil {
		return
	}
	r := audit.Record{Kind: audit.KindRequest, Client: e.Client, ID: e.ID, Op: e.Op, Via: "mqtt", Code: e.Code, Finish: e.Finish,
		Model: e.Model.Name, Version: e.Model.Version, ModelSHA256: e.Model.SHA256,
		RequestSHA256: e.Request, AnswerSHA256: e.Answer, ThinkingSHA256: e.Thinking, CallsSHA256: e.Calls,
		Prompt: e.Usage.Prompt, Cached: e.Usage.Cached, Completion: e.Usage.Completion, MS: e.Total.Milliseconds()}
	if e.Local {
		r.Via, r.Client, _ = strings.Cut(e.Client, ":")
	}
	if j := e.Job; j != nil {
		r.Kind, r.Via, r.Type, r.Status = audit.KindJob, "", j.Type, j.Status
	}
	if s := e.Sampling; s != nil {
		r.Options = &audit.Options{Seed: strconv.FormatUint(s.Seed, 10), MaxTokens: e.MaxTokens, Temperature: s.Temperature,
			TopP: s.TopP, TopK: s.TopK, MinP: s.MinP, RepeatPenalty: s.RepeatPenalty, Think: e.Think}
	}
	if e.Waits {
		a.out.Settle(r)
	} else {
		a.out.Append(r)
	}
}

// auditKinds are the events that are recorded, and as what.
var auditKinds = map[string]string{
	"model_ready": "model_activated", "model_failed": "model_failed", "rolled_back": "rollback", "config_reloaded": "config_reload",
}

// occurred records what happened to a model or the configuration. now is what serves
// under the name by now.
func (a *auditor) occurred(o control.Occurrence, now control.ModelRef, cfg Config) {
	if a == nil || auditKinds[o.Event] == "" {
		return
	}
	r := audit.Record{Kind: auditKinds[o.Event], Model: o.Model, ID: o.Job, Code: o.Code, Version: now.Version, ModelSHA256: now.SHA256}
	if o.Event == "config_reloaded" {
		r.ConfigSHA256 = cfg.digest()
	}
	a.out.Append(r)
}

// reported records what a document of the fleet has come to, not how it gets there.
func (a *auditor) reported(r control.Reported) {
	if a == nil || r.Rev == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last.Rev == r.Rev && a.last.Target == r.Target && a.last.Status == r.Status {
		return
	}
	a.last = r
	x := audit.Record{Kind: "update", Rev: r.Rev, Target: r.Target, Status: r.Status}
	if r.Error != nil {
		x.Code = r.Error.Code.Name
	}
	a.out.Append(x)
}

// stats fills in the last record that is on the disk, for who keeps it elsewhere.
func (a *auditor) stats(s *control.Stats) {
	if a == nil {
		return
	}
	if at := a.out.State().Synced; at.Seq > 0 {
		s.AuditSeq, s.AuditHead = at.Seq, at.Hash.String()
	}
}

// register shows at /metrics how the record is.
func (a *auditor) register(reg *prometheus.Registry) {
	if a == nil {
		return
	}
	reg.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "windhover_audit_records_total", Help: "Records of the audit file that are on the disk, since its first."},
			func() float64 { return float64(a.out.State().Synced.Seq) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "windhover_audit_lost_total", Help: "Records that the audit file lacks, since the start."},
			func() float64 { return float64(a.out.State().Lost) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "windhover_audit_writable", Help: "0 while the audit file cannot be written."},
			func() float64 { return one(a.out.State().Err == nil) }),
	)
}

// tell writes to the log what happened to the file.
func (a *auditor) tell(n audit.Notice) {
	switch n.Event {
	case audit.NoticeOpen:
		a.log.Info("audit file open", "path", a.cfg.File, "seq", n.At.Seq, "sha256", n.At.Hash.String())
	case audit.NoticeRepair:
		a.log.Error("the end of an audit file cannot be read: it stays beside the one that goes on", "path", n.File, "seq", n.At.Seq, "error", n.Err)
	case audit.NoticeRotated:
		a.log.Info("audit file full: the next one begins", "path", n.File, "seq", n.At.Seq, "sha256", n.At.Hash.String())
	case audit.NoticeFailed:
		a.log.Error("audit file not written: trying again", "path", a.cfg.File, "error", n.Err)
	case audit.NoticeWorks:
		a.log.Warn("audit file written again", "path", a.cfg.File, "lost", n.Lost)
	case audit.NoticeClosed:
		a.log.Info("audit file closed", "path", a.cfg.File, "seq", n.At.Seq, "sha256", n.At.Hash.String(), "lost", n.Lost)
	}
}
