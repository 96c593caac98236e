// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"text/tabwriter"

	"windhover/control"
)

// Marks of a finding.
const (
	FindingOK   = "ok"
	FindingWarn = "warn" // works, and could be better
	FindingBad  = "bad"  // must be repaired
)

// Finding is one thing that the doctor looked at.
type Finding struct {
	Name   string `json:"name"`
	Status string `json:"status"` // FindingOK, FindingWarn, FindingBad
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"` // what to do
}

// DoctorReport is all that was found. OK is false when a finding is a failure.
type DoctorReport struct {
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"`
}

// Doctor looks at the machine, and at the appliance that the configuration
// describes, running or not. The error is only that ctx ended.
func Doctor(ctx context.Context, cfg Config) (*DoctorReport, error) {
	d := &doctor{cfg: cfg, root: os.DirFS("/"), getenv: os.Getenv, hardware: thisHardware(), readOnly: readOnlyDisk, report: &DoctorReport{OK: true}}
	if doc, err := LocalStatus(ctx, cfg); err == nil {
		d.running = &doc
	} else {
		d.notRunning = err
	}
	for _, check := range []func(context.Context){
		d.appliance, d.cores, d.kernels, d.governor, d.memoryClock, d.heat, d.memory, d.convertMode, d.state, d.drop, d.passphrase, d.trust, d.storage, d.broker,
	} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		check(ctx)
	}
	return d.report, nil
}

// Print writes a screen: a line a finding, with what to do about it below.
func (r *DoctorReport) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		if _, err := fmt.Fprintf(t, "%s\t%s\t%s\n", f.Status, f.Name, f.Detail); err != nil {
			return err
		}
		if f.Advice != "" {
			if _, err := fmt.Fprintf(t, "\t\t-> %s\n", f.Advice); err != nil {
				return err
			}
		}
	}
	return t.Flush()
}

// doctor is one visit.
type doctor struct {
	cfg        Config
	root       fs.FS // "/" but in tests
	getenv     func(string) string
	hardware   hardware
	readOnly   func(dir string) bool
	running    *StatusDoc
	notRunning error
	report     *DoctorReport
}

func (d *doctor) ok(name, format string, a ...any) {
	d.add(Finding{Name: name, Status: FindingOK, Detail: fmt.Sprintf(format, a...)})
}

func (d *doctor) warn(name, advice, format string, a ...any) {
	d.add(Finding{Name: name, Status: FindingWarn, Detail: fmt.Sprintf(format, a...), Advice: advice})
}

func (d *doctor) fail(name, advice, format string, a ...any) {
	d.add(Finding{Name: name, Status: FindingBad, Detail: fmt.Sprintf(format, a...), Advice: advice})
}

func (d *doctor) add(f Finding) {
	d.report.Findings = append(d.report.Findings, f)
	d.report.OK = d.report.OK && f.Status != FindingBad
}

// appliance says whether it runs, and what it has to say itself.
func (d *doctor) appliance(context.Context) {
	const name = "appliance"
	if d.running == nil {
		switch {
		case errors.Is(d.notRunning, ErrUnreachable):
			d.warn(name, "start it: systemctl start windhover, or windhover serve", "does not run: nobody answers on %s", d.cfg.Paths.Socket)
		case errors.Is(d.notRunning, control.Forbidden):
			d.warn(name, "use sudo, or join the group windhover", "whether it runs cannot be seen: this user may not open %s", d.cfg.Paths.Socket)
		default:
			d.warn(name, "see its log: journalctl -u windhover", "%s", oneLine(d.notRunning))
		}
		return
	}
	ready := 0
	for _, m := range d.running.Models {
		switch {
		case m.State == stateReady:
			ready++
		case m.Error != nil:
			d.fail("model "+m.Name, "repair or remove the file in "+d.running.Drop, "%s: %s", m.State, m.Error.Message)
		}
	}
	detail := fmt.Sprintf("version %s, up %d s, %s, %d of %s ready", d.running.Version, d.running.Uptime, d.running.State, ready, several(len(d.running.Models), "model"))
	switch {
	case d.running.Version != Version:
		d.warn(name, "restart it: systemctl restart windhover", "%s; this program is version %s", detail, Version)
	case len(d.running.Models) == 0:
		d.warn(name, "copy a .vqf file into "+d.running.Drop, "%s", detail)
	default:
		d.ok(name, "%s", detail)
	}
}
