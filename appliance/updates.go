// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"windhover/appliance/disk"
	"windhover/appliance/fetch"
	"windhover/appliance/rollout"
	"windhover/appliance/update"
	"windhover/control"
	"windhover/control/ota"
	"windhover/kernels"
	"windhover/vqf/seal"
)

// trustFleet is what a model document says of a model that the fleet installed, or a
// command with a signed release.
const trustFleet = "fleet"

// updater is the part of the appliance that does what the fleet wants.
type updater struct {
	*update.Updater
	cfg     Config
	who     *authority
	log     *slog.Logger
	install *updateDevice
	ram     int64
	bytes   *prometheus.CounterVec
	backs   prometheus.Counter

	mu   sync.Mutex // guards what follows
	said string     // what was wrong with the keys at the last look
	conf Updates    // cfg.Updates, with what was taken over since
}

// openUpdates reads what is remembered of updates. An error leaves it as it is, and
// what it names in the store.
func openUpdates(cfg Config, d *deployer, log *slog.Logger, m *metrics, tell func(control.Reported)) (*updater, error) {
	conf, err := updateTLS(cfg.Updates.CAFile)
	if err != nil {
		return nil, err
	}
	u := &updater{cfg: cfg, conf: cfg.Updates, who: d.who, log: log, ram: readMemory(os.DirFS("/")).Total,
		bytes: m.updates, backs: m.backs,
	}
	u.install = newUpdateDevice(d)
	d.managed = func(string) bool { return false }
	u.Updater, err = update.Open(update.Config{
		Judge: u.judge, Clock: update.SystemClock, Device: u.install, Limits: func() update.Limits { return u.now().limits() },
		Store:  rollout.Store{Disk: disk.OS{}, Path: filepath.Join(cfg.Paths.state(), "active.json")},
		Fetch:  &fetch.Fetcher{Disk: disk.OS{}, Dir: cfg.Paths.downloads(), Client: fetch.NewClient(conf), Sane: func() bool { return update.SystemClock().Sane }},
		Report: tell, Event: d.event, Told: u.told, Bytes: u.count,
	})
	if err != nil {
		return nil, err
	}
	d.managed = u.Manages
	u.install.keep(u.State().Installed())
	return u, nil
}

// updateTLS trusts the certificates of a file, or those of the system.
func updateTLS(caFile string) (*tls.Config, error) {
	if caFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("config: updates.ca_file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("config: updates.ca_file %s holds no certificate", caFile)
	}
	return &tls.Config{RootCAs: pool}, nil
}

// judge is who judges documents, with the keys of now. What cannot be read trusts
// nobody.
func (u *updater) judge() ota.Judge {
	return ota.Judge{
		Device: ota.Device{Name: u.cfg.Device, Groups: u.cfg.MQTT.Groups, Arch: runtime.GOARCH, Features: kernels.Features(),
			VQF: []int{2, 3}, RAMBytes: u.ram},
		Keys: u.keyring(),
	}
}

// keyring are the roles of the fleet keys of the trust directory.
func (u *updater) keyring() ota.Keyring {
	keys, err := fleetKeys(u.who.policy().dir)
	u.complain(err)
	c := u.now()
	var desired, releases []ota.Key
	for _, k := range keys {
		if slices.Contains(c.ReleaseKeys, k.Name) {
			releases = append(releases, k)
		} else {
			desired = append(desired, k)
		}
	}
	role := func(threshold int, keys []ota.Key) ota.Role {
		r, err := ota.NewRole(threshold, keys...)
		if err != nil {
			return ota.Role{} // lets nothing through: too few keys are there
		}
		return r
	}
	ring := ota.Keyring{Desired: role(c.Threshold, desired)}
	ring.Index = ring.Desired
	if len(c.ReleaseKeys) > 0 {
		ring.Release = role(c.ReleaseThreshold, releases)
		ring.Index = ring.Release
		if len(ring.Release.Keys) == 0 {
			ring.Desired = ota.Role{} // nothing could be held against a release
		}
	}
	return ring
}

// now is the section of the configuration that counts.
func (u *updater) now() Updates {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conf
}

// adopt takes a section over; ca_file is read at a start alone.
func (u *updater) adopt(c Updates) {
	u.mu.Lock()
	u.conf = c
	u.mu.Unlock()
	u.Reconsider()
}

// complain tells once of keys that cannot be read.
func (u *updater) complain(err error) {
	msg := ""
	if err != nil {
		msg = oneLine(err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if msg != "" && msg != u.said {
		u.log.Error("fleet keys cannot be read: the others go on", "error", msg)
	}
	u.said = msg
}

// fleetKeys are the fleet keys of a directory, by the name of their files.
func fleetKeys(dir string) ([]ota.Key, error) {
	if dir == "" {
		return nil, nil
	}
	list, err := seal.LoadFleet(dir)
	var keys []ota.Key
	for _, k := range list {
		keys = append(keys, ota.Key{Name: k.Name, Public: k.Key})
	}
	return keys, err
}

// fingerprints names the fleet keys, for the info document.
func (u *updater) fingerprints() []string {
	keys, _ := fleetKeys(u.who.policy().dir) // keyring tells of what cannot be read
	var list []string
	for _, k := range keys {
		list = append(list, trustFleet+":"+ota.KeyID(k.Public))
	}
	return list
}

// count adds what a download took.
func (u *updater) count(network, reused int64) {
	u.bytes.WithLabelValues("network").Add(float64(network))
	u.bytes.WithLabelValues("reused").Add(float64(reused))
}

// told writes what becomes of updates to the log.
func (u *updater) told(r rollout.Report) {
	back := r.RolledBack && r.Status != rollout.Rejected // else it was told before
	if back {
		u.backs.Inc()
	}
	if reg := u.install.d.reg; reg.serves(r.Model) {
		switch {
		case r.Status == rollout.Running && r.Phase == rollout.Observe:
			reg.update(r.Model, func(m *control.Model) { m.Tentative = true })
		case r.Status == rollout.Succeeded:
			reg.update(r.Model, func(m *control.Model) { m.Tentative = false })
		}
	}
	level, attrs := slog.LevelInfo, []slog.Attr{
		slog.String("model", r.Model), slog.String("version", r.Version.Version), slog.Int64("release", r.Version.Release), slog.String("status", string(r.Status)),
	}
	switch {
	case back:
		attrs = append(attrs, slog.String("event", "rolled_back"))
	case r.Status == rollout.Failure:
		attrs = append(attrs, slog.String("event", "model_failed"))
	case r.Status == rollout.Succeeded && r.Version.Version != "": // else it was removed
		attrs = append(attrs, slog.String("event", "model_ready"))
	}
	if r.Phase != "" {
		attrs = append(attrs, slog.String("phase", string(r.Phase)))
	}
	if r.Rev != 0 {
		attrs = append(attrs, slog.Int64("rev", r.Rev))
	}
	if r.Job != "" {
		attrs = append(attrs, slog.String("job", r.Job))
	}
	if r.Err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("code", r.Err.Code.Name), slog.String("error", r.Err.Message), slog.Bool("rolled_back", r.RolledBack))
	}
	u.log.LogAttrs(context.Background(), level, "update", attrs...)
}

// limits are what this box allows of downloads, whatever a document says.
func (c Updates) limits() update.Limits {
	window, err := ota.ParseWindow(c.Window)
	rate, err2 := ParseSize(c.MaxRate)
	most, err3 := ParseSize(c.MaxBytes)
	if errors.Join(err, err2, err3) != nil {
		return update.Limits{} // the configuration was checked
	}
	return update.Limits{Window: window, MaxBPS: rate, MaxBytes: most}
}
