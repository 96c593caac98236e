// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"windhover/control"
	"windhover/engine"
	"windhover/internal/testmodel"
)

func mkfifo(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
}

// Whatever somebody puts there under whatever name, the file beside it serves, the
// scan ends, and the next one has nothing to do.
func TestHostileEntries(t *testing.T) {
	whole := tinyModel(t, nil)
	tests := map[string]func(t *testing.T, drop string){
		"FIFO":            func(t *testing.T, drop string) { mkfifo(t, drop+"/a.vqf") },
		"FIFO as weights": func(t *testing.T, drop string) { writeBytes(t, drop+"/d/x", nil); mkfifo(t, drop+"/d/model.vqf") },
		"FIFO as side": func(t *testing.T, drop string) {
			writeBytes(t, drop+"/d/model.vqf", whole)
			mkfifo(t, drop+"/d/vocab.json")
		},
		"FIFO as failed": func(t *testing.T, drop string) { mkfifo(t, drop+"/a.vqf.failed"); writeBytes(t, drop+"/a.vqf", whole) },
		"FIFO as ready":  func(t *testing.T, drop string) { mkfifo(t, drop+"/a.vqf.ready"); writeBytes(t, drop+"/a.vqf", whole) },
		"orphaned FIFO":  func(t *testing.T, drop string) { mkfifo(t, drop+"/gone.vqf.failed") },
		"directory .vqf": func(t *testing.T, drop string) { writeBytes(t, drop+"/a.vqf/x", whole) },
		"directory ready": func(t *testing.T, drop string) {
			writeBytes(t, drop+"/a.vqf.ready/x", nil)
			writeBytes(t, drop+"/a.vqf", whole)
		},
		"directory failed": func(t *testing.T, drop string) {
			writeBytes(t, drop+"/a.vqf.failed/x", nil)
			writeBytes(t, drop+"/a.vqf", whole[:2000])
		},
		"longest name": func(t *testing.T, drop string) { writeBytes(t, drop+"/"+strings.Repeat("a", 251)+".vqf", whole) },
		"line break":   func(t *testing.T, drop string) { writeBytes(t, drop+"/a\nb.vqf", whole) },
		"huge marker": func(t *testing.T, drop string) {
			writeBytes(t, drop+"/a.vqf.failed", make([]byte, markerBytes+1))
			writeBytes(t, drop+"/a.vqf", whole)
		},
		"linked marker": func(t *testing.T, drop string) {
			writeBytes(t, drop+"/../secret", []byte("keep"))
			if err := os.Symlink("../secret", drop+"/a.vqf.ready"); err != nil {
				t.Fatal(err)
			}
			writeBytes(t, drop+"/a.vqf", whole)
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, t.TempDir())
			prepare(t, r.drop)
			r.put(t, "good.vqf", whole)
			ctx := context.Background()
			r.scan(ctx)
			if got := r.states(); !strings.Contains(got, "good ready") {
				t.Errorf("models: %s", got)
			}
			// A scan that changes the directory wakes itself.
			before := listing(t, r.drop)
			r.scan(ctx)
			if after := listing(t, r.drop); after != before {
				t.Errorf("the second look changed the directory:\n%s\n%s", before, after)
			}
			if name == "linked marker" {
				if data, err := os.ReadFile(filepath.Join(r.drop, "..", "secret")); err != nil || string(data) != "keep" {
					t.Errorf("written through the link: %q, %v", data, err)
				}
			}
		})
	}
}

// listing is what changes when anything in a directory does.
func listing(t *testing.T, dir string) string {
	t.Helper()
	fi, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := fmt.Sprint(fi.ModTime().UnixNano())
	for _, e := range entries {
		if fi, err := e.Info(); err == nil {
			s += fmt.Sprintf(" %s %d", e.Name(), fi.ModTime().UnixNano())
		}
	}
	return s
}

// A marker that cannot be written is tried again once a minute, and the file that it
// would tell of is not.
func TestMarkersComeLater(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	loads := 0
	load := r.load
	r.load = func(ctx context.Context, weights string, in installed) (servable, error) {
		loads++
		return load(ctx, weights, in)
	}
	for _, name := range []string{"good.vqf.ready", "bad.vqf.failed", "sp ace.vqf.failed"} {
		write(t, filepath.Join(r.drop, name, "in the way"), "")
	}
	r.put(t, "good.vqf", tinyModel(t, nil))
	r.put(t, "bad.vqf", []byte(strings.Repeat("no model ", 100)))
	r.put(t, "sp ace.vqf", nil)
	for range 3 {
		r.scan(ctx)
	}
	expect(t, r, "bad failed format_invalid, good ready*")
	if loads != 1 || fmt.Sprint(r.events) != "[model_failed bad format_invalid model_ready good]" {
		t.Errorf("%d loads, events %v", loads, r.events)
	}
	for _, name := range []string{"good.vqf.ready", "bad.vqf.failed", "sp ace.vqf.failed"} {
		if err := os.RemoveAll(filepath.Join(r.drop, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.scan(ctx)
	if _, ok := readMarker(t, filepath.Join(r.drop, "good.vqf.ready")); ok {
		t.Error("a marker is tried at every look")
	}
	r.clock = r.clock.Add(rescan)
	r.scan(ctx)
	for _, name := range []string{"good.vqf.ready", "bad.vqf.failed", "sp ace.vqf.failed"} {
		if _, ok := readMarker(t, filepath.Join(r.drop, name)); !ok {
			t.Errorf("%s is not written when it can be", name)
		}
	}
	if loads != 1 || len(r.events) != 2 {
		t.Errorf("%d loads, events %v", loads, r.events)
	}
}

func TestMarkersOfWhatIsGone(t *testing.T) {
	state := t.TempDir()
	r := newRig(t, state)
	ctx := context.Background()
	r.put(t, "a.vqf", tinyModel(t, nil))
	r.put(t, "b.vqf", []byte(strings.Repeat("no model ", 100)))
	r.put(t, "sp ace.vqf", []byte("x"))
	r.scan(ctx)
	for _, name := range []string{"a.vqf", "b.vqf", "sp ace.vqf"} {
		if err := os.Remove(filepath.Join(r.drop, name)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(r.drop, "mine.failed"), "my own notes")
	write(t, filepath.Join(r.drop, "data.ready"), `{"v":1}`)
	again := newRig(t, state) // they went while the daemon was off
	again.scan(ctx)
	entries, err := os.ReadDir(r.drop)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"data.ready", "mine.failed"}; !slices.Equal(names, want) {
		t.Errorf("in the drop directory: got %q, want %q", names, want)
	}
}

// Two entries of one name: the one that serves goes on, over a restart too, and when
// it goes the other one takes over.
func TestTwoEntriesForOneName(t *testing.T) {
	state := t.TempDir()
	r := newRig(t, state)
	ctx := context.Background()
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(ctx)
	first := r.reg.list()[0].SHA256
	r.put(t, "m/model.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 6 }))
	r.scan(ctx)
	doc, ok := readMarker(t, filepath.Join(r.drop, "m.failed"))
	if got := r.reg.list()[0].SHA256; got != first || !ok || !strings.Contains(doc.Message, "taken by m.vqf") {
		t.Errorf("serves %s, want %s; marker %+v", got, first, doc)
	}
	again := newRig(t, state)
	again.scan(ctx)
	if got := again.reg.list()[0].SHA256; got != first {
		t.Errorf("after a restart %s serves, want %s", got, first)
	}
	if err := os.Remove(filepath.Join(r.drop, "m.vqf")); err != nil {
		t.Fatal(err)
	}
	again.scan(ctx)
	expect(t, again, "m ready*")
	if got := again.reg.list()[0].SHA256; got == first {
		t.Error("the directory does not take over")
	}
	if exists(filepath.Join(r.drop, "m.failed")) || exists(filepath.Join(r.drop, "m.vqf.ready")) {
		t.Error("markers of the past stay")
	}
}

// What was lacking may be there later: the model is tried again by itself, but not in
// a loop.
func TestTriedAgainWhenThereIsRoom(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	room, tries := int64(10), 0
	load := r.load
	r.memory = func() int64 { return room }
	r.load = func(ctx context.Context, weights string, in installed) (servable, error) {
		if tries++; room < 100 {
			return nil, &engine.MemoryError{Need: engine.Need{Weights: 100}, Limit: room}
		}
		return load(ctx, weights, in)
	}
	r.put(t, "m.vqf", tinyModel(t, nil))
	for range 3 {
		r.scan(ctx)
		r.clock = r.clock.Add(rescan)
	}
	expect(t, r, "m failed insufficient_memory")
	doc, _ := readMarker(t, filepath.Join(r.drop, "m.vqf.failed"))
	if tries != 1 || doc.Needed != 100 {
		t.Fatalf("%d tries, marker %+v", tries, doc)
	}
	room = 100
	r.scan(ctx)
	expect(t, r, "m ready*")
	if tries != 2 {
		t.Errorf("%d tries", tries)
	}
}

// A full disk refuses what has to be copied, by its code and with the numbers.
func TestNoRoomToCopy(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "m.vqf")
	writeBytes(t, src, make([]byte, 2<<20))
	f, fi, err := openPlain(src)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}()
	free, ok := freeSpace(dir)
	if !ok {
		t.Fatal("no free space is told")
	}
	err = copyOpen(context.Background(), f, filepath.Join(dir, "copy"), fi.Size(), free)
	e := coded(err, control.Internal)
	if e.Code != control.InsufficientStore || e.Needed != fi.Size()+free || e.Available <= 0 {
		t.Errorf("got %v, needed %d, available %d", err, e.Needed, e.Available)
	}
	if exists(filepath.Join(dir, "copy")) {
		t.Error("a copy was begun")
	}
}

func TestSkipWhileArriving(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	r.put(t, "m.vqf", tinyModel(t, nil)[:1000])
	r.scan(ctx)
	expect(t, r, "m waiting")
	write(t, filepath.Join(r.drop, "m.vqf.skip"), "")
	r.scan(ctx)
	expect(t, r, "")
}

func TestDropDirectoryIsGone(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(ctx)
	if err := os.Rename(r.drop, r.drop+".away"); err != nil {
		t.Fatal(err)
	}
	r.scan(ctx)
	expect(t, r, "m ready*")
	if err := os.Rename(r.drop+".away", r.drop); err != nil {
		t.Fatal(err)
	}
	r.scan(ctx)
	expect(t, r, "m ready*")
}

func TestPause(t *testing.T) {
	tests := []struct {
		still  time.Duration
		unsure bool
		want   time.Duration
	}{
		{0, false, recheck}, {time.Second, false, recheck}, {4 * time.Second, false, time.Second}, {time.Hour, false, rescan},
		{0, true, settle}, {settle - time.Millisecond, true, time.Millisecond}, {settle, true, settle / 4},
	}
	for _, tt := range tests {
		if got := pause(tt.still, tt.unsure); got != tt.want {
			t.Errorf("pause(%v, %v): got %v, want %v", tt.still, tt.unsure, got, tt.want)
		}
	}
}
