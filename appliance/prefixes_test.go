// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"windhover/engine"
	"windhover/internal/testmodel"
)

// savesHere makes a rig save the prefixes of what it loads, and hear of its log.
func (r *rig) savesHere(t *testing.T) (log *lines) {
	t.Helper()
	r.saves = true
	log = new(lines)
	r.log = slog.New(slog.NewTextHandler(log, nil))
	r.load = func(_ context.Context, weights string, in installed) (servable, error) {
		l := &loader{cfg: Config{Engine: Engine{PrefixCache: prefixCacheSave, PrefixCacheSize: "1GiB"}}, build: "this"}
		saved, err := l.saved(weights, in)
		if err != nil {
			return nil, err
		}
		m, err := engine.Load(weights, engine.Options{Threads: 1, Saved: saved})
		if err != nil {
			return nil, err
		}
		return m, nil
	}
	return log
}

// bad are the lines of a log at WARN and above.
func (l *lines) bad() (list []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN") {
			list = append(list, line)
		}
	}
	return list
}

// A version that was replaced is closed without a word, also when its directory has
// gone meanwhile; the one that serves at the end is saved.
func TestReplacedVersionIsNotSaved(t *testing.T) {
	r := newRig(t, t.TempDir())
	log := r.savesHere(t)
	ctx := context.Background()
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(ctx)
	expect(t, r, "m ready*")
	old, release, err := r.reg.acquire(ctx, "m")
	if err != nil {
		t.Fatal(err)
	}
	r.put(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 5 }))
	r.scan(ctx)
	if _, err := os.Stat(filepath.Dir(r.store.weights(old.Key))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the replaced version is still in the store: %v", err)
	}
	release()
	r.drained.Wait()
	r.close(ctx)
	if bad := log.bad(); len(bad) > 0 {
		t.Errorf("log: %v", bad)
	}
	files, err := filepath.Glob(filepath.Join(r.store.dir, "*", savedName))
	if err != nil || len(files) != 1 {
		t.Errorf("%v, %v: want the prefixes of the version that served", files, err)
	}
}

// fakeSaving is a model whose saving does what a test says.
type fakeSaving struct {
	servable
	save   func(ctx context.Context) (int, error)
	closed bool
}

func (f *fakeSaving) SaveCache(ctx context.Context) (int, error) { return f.save(ctx) }

func (f *fakeSaving) Close() error { f.closed = true; return nil }

// Each model has its share of the time, and those with the same weights are saved
// once; nothing is closed that is still being saved.
func TestSavingHasItsTime(t *testing.T) {
	r := newRig(t, t.TempDir())
	log := r.savesHere(t)
	end := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	var shares []time.Time
	model := func(key string, err error) *serving {
		return &serving{Key: key, Name: key, servable: &fakeSaving{save: func(ctx context.Context) (int, error) {
			at, _ := ctx.Deadline()
			shares = append(shares, at)
			return 1, err
		}}}
	}
	list := []*serving{model("a", nil), model("b", engine.ErrClosed), model("a", nil), model("c", nil)}
	if !r.savePrefixes(ctx, list, time.Hour) {
		t.Error("saving did not end")
	}
	if len(shares) != 3 || !slices.IsSortedFunc(shares, time.Time.Compare) || !shares[0].Before(end.Add(-40*time.Minute)) || !shares[2].Equal(end) {
		t.Errorf("shares end at %v, of what ends at %v", shares, end)
	}
	if bad := log.bad(); len(bad) > 0 {
		t.Errorf("log: %v", bad)
	}

	hang, over := make(chan struct{}), make(chan struct{})
	stuck := &fakeSaving{save: func(context.Context) (int, error) { <-hang; close(over); return 0, nil }}
	past, cancelPast := context.WithDeadline(context.Background(), time.Now())
	defer cancelPast()
	if r.savePrefixes(past, []*serving{{Key: "a", Name: "stuck", servable: stuck}}, 0) {
		t.Error("what hangs has ended")
	}
	if bad := log.bad(); len(bad) != 1 || !strings.Contains(bad[0], "stuck") {
		t.Errorf("log: %v", bad)
	}
	if stuck.closed {
		t.Error("closed while it is saved")
	}
	close(hang)
	<-over
}

// The unit leaves a stop the time that saving may take, and some for what comes after.
func TestStopHasTimeToSave(t *testing.T) {
	unit, err := os.ReadFile("../systemd/windhover.service")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)s$`).FindSubmatch(unit)
	if m == nil {
		t.Fatal("no TimeoutStopSec in seconds")
	}
	if n, err := strconv.Atoi(string(m[1])); err != nil || time.Duration(n)*time.Second != stopLimit {
		t.Errorf("TimeoutStopSec=%s, the program counts on %v", m[1], stopLimit)
	}
	if rest := stopLimit - saveUntil - saveGrace; rest < 10*time.Second {
		t.Errorf("%v are left when saving has ended", rest)
	}
	if saveUntil < drainOnStop+scanOnStop {
		t.Errorf("saving ends %v after the stop begins, requests may take %v and the drop directory %v", saveUntil, drainOnStop, scanOnStop)
	}
}

// A start removes what a save that was killed left, and all of it where prefixes are
// not kept any more.
func TestStartTidiesPrefixes(t *testing.T) {
	for _, keep := range []bool{true, false} {
		s := store{t.TempDir()}
		dir := filepath.Join(s.dir, "sha256-1")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		saved := filepath.Join(dir, savedName)
		for _, path := range []string{saved, engine.SavedTemporary(saved), saved + ".json", filepath.Join(dir, ".prefixes.123456789"), s.weights("sha256-1")} {
			writeBytes(t, path, []byte("x"))
		}
		if err := s.tidyPrefixes(keep); err != nil {
			t.Error(err)
		}
		want := []string{"model.vqf", "prefixes.json"}
		if keep {
			want = []string{"model.vqf", "prefixes", "prefixes.json"}
		}
		list, err := os.ReadDir(dir)
		var got []string
		for _, e := range list {
			got = append(got, e.Name())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("keep %v: %v is left, %v; want %v", keep, got, err, want)
		}
	}
}

// Another build, whatever its version says, does not take what this one saved.
func TestBuildsAreToldApart(t *testing.T) {
	dir := t.TempDir()
	var builds []string
	for _, program := range []string{"one", "two"} {
		path := filepath.Join(dir, program)
		writeBytes(t, path, []byte("program "+program+" of version "+Version))
		build, err := buildOf(path)
		if err != nil {
			t.Fatal(err)
		}
		builds = append(builds, build)
	}
	if _, err := buildOf(filepath.Join(dir, "none")); err == nil {
		t.Error("no program has a build")
	}
	if _, err := buildOf(thisProgram); err != nil {
		t.Errorf("this program: %v", err)
	}
	cfg := DefaultConfig()
	cfg.Engine.PrefixCache = prefixCacheSave
	var keys []string
	for _, build := range append(builds, "") {
		saved, err := (&loader{cfg: cfg, build: build}).saved(filepath.Join(dir, storedName), installed{SHA256: "f00d"})
		if err != nil || (saved.Path == "") != (build == "") {
			t.Errorf("build %q saves to %q, %v", build, saved.Path, err)
		}
		keys = append(keys, saved.Key)
	}
	if keys[0] == keys[1] || !strings.Contains(keys[0], "f00d") {
		t.Errorf("keys %q", keys)
	}
}
