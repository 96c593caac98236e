// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"windhover/control"
	"windhover/internal/testmodel"
)

// visit is a doctor with a state directory of its own and nothing running.
func visit(t *testing.T, root fstest.MapFS) *doctor {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Device = "box1"
	cfg.Paths.State = t.TempDir()
	cfg.Paths.Socket = filepath.Join(cfg.Paths.State, "s")
	cfg.MQTT.Embedded.Listen = "127.0.0.1:1" // nobody listens there
	cfg.Paths.Trust = filepath.Join(cfg.Paths.State, "trust.d")
	d := &doctor{cfg: cfg, root: os.DirFS("/"), getenv: func(string) string { return "" }, hardware: thisHardware(), readOnly: readOnlyDisk, report: &DoctorReport{OK: true}, notRunning: ErrUnreachable}
	if root != nil {
		d.root = root
	}
	return d
}

// only returns the one finding of a check.
func only(t *testing.T, d *doctor, check func(context.Context)) Finding {
	t.Helper()
	d.report.Findings = nil
	check(context.Background())
	if len(d.report.Findings) != 1 {
		t.Fatalf("%d findings, want 1: %+v", len(d.report.Findings), d.report.Findings)
	}
	return d.report.Findings[0]
}

func TestDoctorWithoutAppliance(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{ErrUnreachable, "does not run"},
		{control.Errorf(control.Forbidden, "x"), "cannot be seen"},
		{errors.New("x"), "x"},
	} {
		d := visit(t, nil)
		d.notRunning = c.err
		if f := only(t, d, d.appliance); f.Status != FindingWarn || !strings.Contains(f.Detail, c.want) || f.Advice == "" {
			t.Errorf("%v: %+v, want a warning with %q", c.err, f, c.want)
		}
	}
}

// meminfo is a machine with so many bytes of memory available.
func meminfo(available int64) fstest.MapFS {
	text := fmt.Sprintf("MemTotal: %d kB\nMemAvailable: %d kB\n", available>>10, available>>10)
	return fstest.MapFS{"proc/meminfo": {Data: []byte(text)}}
}

func TestDoctorMemory(t *testing.T) {
	for _, c := range []struct {
		name      string
		available int64
		broken    bool
		want, say string
	}{
		{"fits", 4 << 30, false, FindingOK, "tiny"},
		{"too large", 64 << 10, false, FindingBad, "does not fit: tiny needs"},
		{"broken", 4 << 30, true, FindingBad, "cannot be loaded"},
	} {
		d := visit(t, meminfo(c.available))
		drop := d.cfg.Paths.drop()
		if err := os.Mkdir(drop, 0o700); err != nil {
			t.Fatal(err)
		}
		model := testmodel.Default()
		if err := model.WriteFile(filepath.Join(drop, "tiny.vqf")); err != nil {
			t.Fatal(err)
		}
		if c.broken {
			if err := os.WriteFile(filepath.Join(drop, "bad.vqf"), []byte("not a model"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if f := only(t, d, d.memory); f.Status != c.want || !strings.Contains(f.Detail, c.say) {
			t.Errorf("%s: %+v, want %s, %q", c.name, f, c.want, c.say)
		}
	}
}

func TestDoctorDirectories(t *testing.T) {
	d := visit(t, nil)
	if f := only(t, d, d.drop); f.Status != FindingWarn || !strings.Contains(f.Detail, "not there yet") {
		t.Errorf("no drop directory: %+v", f)
	}
	if err := makeState(d.cfg.Paths); err != nil {
		t.Fatal(err)
	}
	if f := only(t, d, d.drop); f.Status != FindingOK || !strings.Contains(f.Detail, "may drop models") {
		t.Errorf("drop directory: %+v", f)
	}
	if f := only(t, d, d.state); f.Status == FindingBad {
		t.Errorf("state directory: %+v", f)
	}
	if f := only(t, d, d.storage); f.Status == FindingBad || !strings.Contains(f.Detail, "MB/s") {
		t.Errorf("storage: %+v", f)
	}
	left, err := filepath.Glob(filepath.Join(d.cfg.Paths.store(), ".windhover-doctor-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.cfg.Paths.State = file
	if f := only(t, d, d.state); f.Status != FindingBad {
		t.Errorf("a file for a state directory: %+v", f)
	}
}

func TestDoctorFailsWhole(t *testing.T) {
	d := visit(t, nil)
	d.cfg.Engine.Threads = 100000
	if f := only(t, d, d.cores); f.Status != FindingBad || d.report.OK {
		t.Errorf("%+v, report ok %v", f, d.report.OK)
	}
	d = visit(t, nil)
	if f := only(t, d, d.broker); f.Status != FindingWarn || !d.report.OK {
		t.Errorf("no appliance, no broker: %+v, report ok %v", f, d.report.OK)
	}
	d.cfg.MQTT.URL = "mqtt://127.0.0.1:1"
	if f := only(t, d, d.broker); f.Status != FindingBad {
		t.Errorf("a broker is configured and does not answer: %+v", f)
	}
}

func TestCPURanges(t *testing.T) {
	for _, c := range []struct {
		cpus []int
		want string
	}{{nil, ""}, {[]int{3}, "3"}, {[]int{0, 1, 2, 3}, "0-3"}, {[]int{4, 7, 5, 0}, "0,4-5,7"}} {
		if got := cpuRanges(c.cpus); got != c.want {
			t.Errorf("%v: %q, want %q", c.cpus, got, c.want)
		}
	}
}

func TestClientEndpoint(t *testing.T) {
	for _, c := range []struct{ url, data, listen, want string }{
		{"", "", "127.0.0.1:1883", "mqtt://127.0.0.1:1883"},
		{"", "", "0.0.0.0:1884", "mqtt://127.0.0.1:1884"},
		{"", "", "[::]:1884", "mqtt://127.0.0.1:1884"},
		{"", "", "192.0.2.1:1884", "mqtt://192.0.2.1:1884"},
		{"mqtts://b.example:8883", "", "", "mqtts://b.example:8883"},
		{"mqtts://b.example:8883", "mqtts://d.example:8883", "", "mqtts://d.example:8883"},
	} {
		cfg := DefaultConfig()
		cfg.MQTT.URL, cfg.MQTT.DataURL, cfg.MQTT.Embedded.Listen, cfg.MQTT.Username = c.url, c.data, c.listen, "box1"
		if got := ClientEndpoint(cfg); got.URL != c.want || got.Username != "" {
			t.Errorf("%+v: %+v, want %s without a user", c, got, c.want)
		}
	}
}

func TestClientErrors(t *testing.T) {
	if err := DialError(errors.New("refused"), "mqtt://x"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("%v is not ErrUnreachable", err)
	}
	if err := DialError(context.Canceled, "mqtt://x"); errors.Is(err, ErrUnreachable) {
		t.Errorf("%v is ErrUnreachable", err)
	}
	for _, cause := range []error{control.ErrOffline, control.ErrNoAnswer} {
		if err := AnswerError(cause, "mqtt://x"); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v is not ErrUnreachable", err)
		}
	}
	full := control.Errorf(control.QueueFull, "x")
	if err := AnswerError(full, "mqtt://x"); err != full {
		t.Errorf("%v, want the device's own error", err)
	}
}

// A file system that the kernel made read-only is no lack of rights, and is not passed
// over by measuring another one.
func TestDoctorReadOnly(t *testing.T) {
	d := visit(t, nil)
	for _, dir := range []string{d.cfg.Paths.drop(), d.cfg.Paths.store()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d.readOnly = func(dir string) bool { return strings.HasPrefix(dir, d.cfg.Paths.State) }
	for name, tt := range map[string]struct {
		check func(context.Context)
		want  string
	}{"state": {d.state, FindingBad}, "drop": {d.drop, FindingBad}, "storage": {d.storage, FindingWarn}} {
		if f := only(t, d, tt.check); f.Status != tt.want || !strings.Contains(f.Detail, "read-only") || strings.Contains(f.Advice, "usermod") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if readOnlyDisk(d.cfg.Paths.State) {
		t.Error("a directory that is written to is on a read-only file system")
	}
}
