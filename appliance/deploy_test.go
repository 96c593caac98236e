// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windhover/control"
	"windhover/engine"
	"windhover/internal/testmodel"
)

func TestDropServeRemove_P70(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	r.put(t, "a.vqf", tinyModel(t, nil))
	if next := r.scan(ctx); next != rescan {
		t.Errorf("with a whole file the next look is in %v", next)
	}
	expect(t, r, "a ready*")
	doc, ok := readMarker(t, filepath.Join(r.drop, "a.vqf.ready"))
	if !ok || doc.Model != "a" || len(doc.SHA256) != 64 {
		t.Errorf("ready marker: %+v, %v", doc, ok)
	}
	r.put(t, "b.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 7 }))
	r.scan(ctx)
	expect(t, r, "a ready, b ready*")
	if err := os.Remove(filepath.Join(r.drop, "b.vqf")); err != nil {
		t.Fatal(err)
	}
	r.scan(ctx)
	expect(t, r, "a ready*")
	r.drained.Wait()
	if _, ok := readMarker(t, filepath.Join(r.drop, "b.vqf.ready")); ok {
		t.Error("the marker of a removed model stays")
	}
	entries, err := os.ReadDir(r.store.dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the store keeps %v, %v", entries, err)
	}
	if got := fmt.Sprint(r.events); got != "[model_ready a model_ready b]" {
		t.Errorf("events: %s", got)
	}
}

// Each of these must not keep the good file beside it from serving.
func TestBadFilesDelayNobody_P72(t *testing.T) {
	whole := tinyModel(t, nil)
	flipped := append([]byte{}, whole...)
	flipped[len(flipped)/2] ^= 0x40
	old := append([]byte{}, whole...)
	old[4] = 1
	tests := []struct {
		name string
		data []byte
		code string // "": still waiting
	}{
		{"short", whole[:len(whole)-8], ""},
		{"long", append(append([]byte{}, whole...), 1, 2, 3), "format_invalid"},
		{"text", []byte(strings.Repeat("not a model\n", 100)), "format_invalid"},
		{"flipped", flipped, "digest_mismatch"},
		{"version1", old, "incompatible"},
		{"bare", tinyModel(t, func(c *testmodel.Config) { c.Bare = true }), "tokenizer_missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, t.TempDir())
			r.put(t, "a-"+tt.name+".vqf", tt.data)
			r.put(t, "good.vqf", whole)
			next := r.scan(context.Background())
			if tt.code == "" {
				expect(t, r, "a-"+tt.name+" waiting, good ready*")
				if next != recheck {
					t.Errorf("with a short file the next look is in %v", next)
				}
				return
			}
			expect(t, r, "a-"+tt.name+" failed "+tt.code+", good ready*")
			doc, ok := readMarker(t, filepath.Join(r.drop, "a-"+tt.name+".vqf.failed"))
			if !ok || doc.Code != tt.code || doc.Message == "" {
				t.Errorf("failed marker: %+v, %v", doc, ok)
			}
		})
	}
}

func TestDirectoryModel_P64(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	whole := tinyModel(t, nil)
	bare := tinyModel(t, func(c *testmodel.Config) { c.Bare = true })
	// The tokenizer of the self-contained twin, as the files beside the original
	// engine's models are.
	r.put(t, "twin/model.vqf", bare)
	r.scan(ctx)
	// The tokenizer may be on its way: complete is the model with it.
	expect(t, r, "twin waiting tokenizer_missing")
	if _, ok := readMarker(t, filepath.Join(r.drop, "twin.failed")); ok {
		t.Error("a directory that is still arriving is marked as failed")
	}
	r.clock = r.clock.Add(stallAfter)
	r.scan(ctx)
	expect(t, r, "twin failed tokenizer_missing")
	if _, ok := readMarker(t, filepath.Join(r.drop, "twin.failed")); !ok {
		t.Error("no marker beside the directory")
	}
	tok := embeddedTokenizer(t, whole)
	r.put(t, "twin/tokenizer.json", tok)
	r.scan(ctx)
	expect(t, r, "twin ready*")
	if _, ok := readMarker(t, filepath.Join(r.drop, "twin.failed")); ok {
		t.Error("the failed marker stays after a success")
	}
	if _, ok := readMarker(t, filepath.Join(r.drop, "twin.ready")); !ok {
		t.Error("no ready marker beside the directory")
	}
}

// A model in a format that only convert reads is answered, not passed over.
func TestForeignFormats_P65(t *testing.T) {
	r := newRig(t, t.TempDir())
	for _, name := range []string{"m.gguf", "n.safetensors", "hf/model.safetensors", "plain/config.json"} {
		write(t, filepath.Join(r.drop, name), "x")
	}
	r.scan(context.Background())
	expect(t, r, "")
	for _, entry := range []string{"m.gguf", "n.safetensors", "hf"} {
		doc, ok := readMarker(t, filepath.Join(r.drop, entry+".failed"))
		if !ok || !strings.Contains(doc.Message, "windhover convert "+entry) {
			t.Errorf("%s: marker %+v, %v", entry, doc, ok)
		}
	}
	if _, ok := readMarker(t, filepath.Join(r.drop, "plain.failed")); ok {
		t.Error("a directory whose weights may still come is refused")
	}
	// Gone with the file.
	if err := os.Remove(filepath.Join(r.drop, "m.gguf")); err != nil {
		t.Fatal(err)
	}
	r.scan(context.Background())
	if _, ok := readMarker(t, filepath.Join(r.drop, "m.gguf.failed")); ok {
		t.Error("the marker outlives the file")
	}
}

func TestUpdateSwapsAndOldOneDrains(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(ctx)
	old, release, err := r.reg.acquire(ctx, "m")
	if err != nil {
		t.Fatal(err)
	}
	r.put(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 3 }))
	r.scan(ctx)
	now, releaseNow, err := r.reg.acquire(ctx, "m")
	if err != nil {
		t.Fatal(err)
	}
	defer releaseNow()
	if now.Digest == old.Digest {
		t.Fatal("the old version still serves new requests")
	}
	// The request that started on the old version ends on it.
	if _, err := old.Generate(ctx, engine.Request{Tokens: testmodel.Tokens("hello"), MaxTokens: 4}, func(engine.Event) error { return nil }); err != nil {
		t.Errorf("on the replaced version: %v", err)
	}
	release()
	<-old.idle
	r.drained.Wait()
	if _, err := old.Generate(ctx, engine.Request{Tokens: testmodel.Tokens("hello"), MaxTokens: 4}, func(engine.Event) error { return nil }); err == nil {
		t.Error("the replaced version is not closed after its last request")
	}
}

func TestBadUpdateKeepsTheOldVersion_P68(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	good := tinyModel(t, nil)
	r.put(t, "m.vqf", good)
	r.scan(ctx)
	bad := append([]byte{}, good...)
	bad[len(bad)/2] ^= 1
	r.put(t, "m.vqf", bad)
	r.scan(ctx)
	expect(t, r, "m ready* digest_mismatch")
	_, failed := readMarker(t, filepath.Join(r.drop, "m.vqf.failed"))
	_, ready := readMarker(t, filepath.Join(r.drop, "m.vqf.ready"))
	if !failed || !ready {
		t.Errorf("markers: failed %v, ready %v; want both", failed, ready)
	}
	// One that is whole and does not hold when it is tried.
	r.probe = func(context.Context, servable) (control.TokenSpeed, error) {
		return control.TokenSpeed{}, control.Errorf(control.HealthCheckFailed, "it says nothing")
	}
	r.put(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 7 }))
	r.scan(ctx)
	expect(t, r, "m ready* health_check_failed")
	s, release, err := r.reg.acquire(ctx, "m")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := s.Generate(ctx, engine.Request{Tokens: testmodel.Tokens("hello"), MaxTokens: 4}, func(engine.Event) error { return nil }); err != nil {
		t.Errorf("the version that worked: %v", err)
	}
}

func TestFailedMarker_P69(t *testing.T) {
	state := t.TempDir()
	r := newRig(t, state)
	ctx := context.Background()
	tries := 0
	load := r.load
	r.load = func(ctx context.Context, weights string, in installed) (servable, error) {
		if tries++; tries < 3 {
			return nil, fmt.Errorf("no luck")
		}
		return load(ctx, weights, in)
	}
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(ctx)
	r.scan(ctx)
	expect(t, r, "m failed load_failed")
	if tries != 1 {
		t.Fatalf("a failed file is tried %d times", tries)
	}
	// A restart does not try it again either.
	again := newRig(t, state)
	again.load = r.load
	again.scan(ctx)
	expect(t, again, "m failed load_failed")
	if tries != 1 {
		t.Fatalf("a restart tries a failed file again")
	}
	// Removing the marker does.
	for want := 2; want <= 3; want++ {
		if err := os.Remove(filepath.Join(r.drop, "m.vqf.failed")); err != nil {
			t.Fatal(err)
		}
		again.scan(ctx)
		if tries != want {
			t.Fatalf("removing the marker: %d tries, want %d", tries, want)
		}
	}
	expect(t, again, "m ready*")
}

func TestRestartDoesNotVerifyAgain(t *testing.T) {
	state := t.TempDir()
	ctx := context.Background()
	r := newRig(t, state)
	r.put(t, "a.vqf", tinyModel(t, nil))
	r.scan(ctx)
	r.put(t, "b.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 2 }))
	r.scan(ctx)
	if err := r.reg.makeDefault("a"); err != nil {
		t.Fatal(err)
	}
	r.save()
	// What tells a second verification: the store's entry would be another inode.
	inode := func() uint64 {
		fi, err := os.Stat(r.store.dir)
		if err != nil {
			t.Fatal(err)
		}
		return uint64(fi.ModTime().UnixNano())
	}
	before := inode()
	again := newRig(t, state)
	again.scan(ctx)
	expect(t, again, "a ready*, b ready")
	if inode() != before {
		t.Error("a restart writes to the store")
	}
	// Removed while the daemon was off.
	if err := os.Remove(filepath.Join(r.drop, "a.vqf")); err != nil {
		t.Fatal(err)
	}
	third := newRig(t, state)
	third.scan(ctx)
	expect(t, third, "b ready*")
	if entries, err := os.ReadDir(third.store.dir); err != nil || len(entries) != 1 {
		t.Errorf("the store keeps %d entries, %v", len(entries), err)
	}
}

func TestStalled_P67(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	whole := tinyModel(t, nil)
	r.put(t, "m.vqf", whole[:1000])
	r.scan(ctx)
	expect(t, r, "m waiting")
	if m := r.reg.list()[0]; m.Have != 1000 || m.Bytes != int64(len(whole)) {
		t.Errorf("have %d of %d bytes, want 1000 of %d", m.Have, m.Bytes, len(whole))
	}
	r.clock = r.clock.Add(10 * time.Minute)
	r.scan(ctx)
	r.scan(ctx)
	expect(t, r, "m stalled")
	if got := fmt.Sprint(r.events); got != "[stalled m]" {
		t.Errorf("events: %s", got)
	}
	r.put(t, "m.vqf", whole)
	r.scan(ctx)
	expect(t, r, "m ready*")
	if m := r.reg.list()[0]; m.Have != 0 {
		t.Errorf("a file that is there still has %d bytes to show", m.Have)
	}
}

// A file that is whole but held open is not taken, and after a while that is said.
func TestStalledByAWriter(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	r.put(t, "m.vqf", tinyModel(t, nil))
	w, err := os.OpenFile(filepath.Join(r.drop, "m.vqf"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.scan(ctx)
	expect(t, r, "m waiting")
	r.clock = r.clock.Add(stallAfter)
	r.scan(ctx)
	expect(t, r, "m stalled")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r.clock = r.clock.Add(rescan)
	r.scan(ctx)
	expect(t, r, "m ready*")
	if got := fmt.Sprint(r.events); got != "[stalled m model_ready m]" {
		t.Errorf("events: %s", got)
	}
}

// A file in which there is less than a header is told of too, in the end.
func TestStalledBeforeItsHeader(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	r.put(t, "m.vqf", nil)
	r.scan(ctx)
	expect(t, r, "")
	r.clock = r.clock.Add(stallAfter)
	r.scan(ctx)
	expect(t, r, "m stalled")
	if got := fmt.Sprint(r.events); got != "[stalled m]" {
		t.Errorf("events: %s", got)
	}
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.clock = r.clock.Add(rescan)
	r.scan(ctx)
	expect(t, r, "m ready*")
}

func TestSkipHoldsBack_P71(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	r.put(t, "m.vqf", tinyModel(t, nil))
	write(t, filepath.Join(r.drop, "m.vqf.skip"), "")
	r.scan(ctx)
	expect(t, r, "")
	if err := os.Remove(filepath.Join(r.drop, "m.vqf.skip")); err != nil {
		t.Fatal(err)
	}
	r.scan(ctx)
	expect(t, r, "m ready*")
	write(t, filepath.Join(r.drop, "m.vqf.skip"), "")
	r.scan(ctx)
	expect(t, r, "")
}

// Where memory does not hold two versions the old one goes first; requests wait
// for the new one instead of failing.
func TestSwapWithoutRoomForTwo(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprintf("broken=%v", broken), func(t *testing.T) {
			r := newRig(t, t.TempDir())
			ctx := context.Background()
			load := r.load
			loaded, versions := 0, 0
			var inMemory *counted
			var waited chan error
			r.load = func(ctx context.Context, weights string, in installed) (servable, error) {
				versions++
				// Only what has a version beside it must fit whole: a model that is
				// alone may come in layer by layer.
				if beside := inMemory != nil && !inMemory.closed; in.crowded != beside {
					t.Errorf("load %d: crowded is %v, want %v", versions, in.crowded, beside)
				}
				if inMemory != nil && !inMemory.closed {
					// A request that comes now must be served in the end.
					return nil, &engine.MemoryError{Need: engine.Need{Weights: 2}, Limit: 1}
				}
				if versions == 3 {
					waited = make(chan error, 1)
					go func() {
						_, release, err := r.reg.acquire(ctx, "m")
						if err == nil {
							release()
						}
						waited <- err
					}()
					if broken {
						return nil, fmt.Errorf("does not load")
					}
				}
				loaded++
				m, err := load(ctx, weights, in)
				inMemory = &counted{servable: m}
				return inMemory, err
			}
			r.put(t, "m.vqf", tinyModel(t, nil))
			r.scan(ctx)
			first := r.reg.list()[0].SHA256
			r.put(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 9 }))
			r.scan(ctx)
			if err := <-waited; err != nil {
				t.Errorf("the request that waited: %v", err)
			}
			s, release, err := r.reg.acquire(ctx, "m")
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			if (s.Digest == first) != broken {
				t.Errorf("broken %v: digest unchanged is %v", broken, s.Digest == first)
			}
		})
	}
}

// counted is a model that knows whether it was closed.
type counted struct {
	servable
	closed bool
}

func (c *counted) Close() error { c.closed = true; return c.servable.Close() }
