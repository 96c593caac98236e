// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"windhover/internal/testmodel"
)

// After a restart the last good version serves, whatever lies in the drop directory
// by then.
func TestRestartWithABadUpdate(t *testing.T) {
	good := tinyModel(t, nil)
	flipped := append([]byte{}, good...)
	flipped[len(flipped)/2] ^= 1
	tests := []struct {
		name   string
		update []byte
		seen   bool // by the run before
		states string
	}{
		{"half of one, unseen", good[:len(good)/2], false, "m ready*"},
		{"half of one", good[:len(good)/2], true, "m ready*"},
		{"a bad one, unseen", flipped, false, "m ready* digest_mismatch"},
		{"a bad one", flipped, true, "m ready* digest_mismatch"},
		{"no model at all", []byte("hello"), true, "m ready* format_invalid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			state := t.TempDir()
			r := newRig(t, state)
			ctx := context.Background()
			r.put(t, "m.vqf", good)
			r.scan(ctx)
			want := r.reg.list()[0].SHA256
			r.put(t, "m.vqf", tt.update)
			if tt.seen {
				r.scan(ctx)
			}
			again := newRig(t, state)
			again.scan(ctx)
			again.scan(ctx)
			expect(t, again, tt.states)
			if got := again.reg.list()[0].SHA256; got != want {
				t.Errorf("version %q serves, want %q", got, want)
			}
			again.put(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 8 }))
			again.scan(ctx)
			expect(t, again, "m ready*")
			if again.reg.list()[0].SHA256 == want {
				t.Error("a good update does not take over")
			}
		})
	}
}

// What is in the store is not trusted because it is there.
func TestReviveChecksTheStore(t *testing.T) {
	for _, touched := range []string{"time", "content"} {
		t.Run(touched, func(t *testing.T) {
			state := t.TempDir()
			r := newRig(t, state)
			ctx := context.Background()
			good := tinyModel(t, nil)
			r.put(t, "m.vqf", good)
			r.scan(ctx)
			stored := r.store.weights(r.book.Models["m"].Key)
			r.close(context.Background())
			r.put(t, "m.vqf", good[:1000])
			data := append([]byte{}, good...)
			want := "m ready*"
			if touched == "content" {
				data[len(data)/2] ^= 1
				want = "m waiting"
			}
			if err := os.Remove(stored); err != nil {
				t.Fatal(err)
			}
			writeBytes(t, stored, data)
			again := newRig(t, state)
			again.scan(ctx)
			expect(t, again, want)
		})
	}
}

// A revived version that fails is not tried at every look.
func TestReviveOnce(t *testing.T) {
	state := t.TempDir()
	r := newRig(t, state)
	ctx := context.Background()
	good := tinyModel(t, nil)
	r.put(t, "m.vqf", good)
	r.scan(ctx)
	r.put(t, "m.vqf", good[:1000])
	again := newRig(t, state)
	tries := 0
	again.load = func(context.Context, string, installed) (servable, error) { tries++; return nil, fmt.Errorf("no luck") }
	for range 3 {
		again.scan(ctx)
	}
	expect(t, again, "m waiting")
	if tries != 1 {
		t.Errorf("%d tries", tries)
	}
}

// An update leaves nothing of the older version behind, and the same bytes under two
// names are kept once and known to a restart.
func TestStoreKeepsWhatServes(t *testing.T) {
	state := t.TempDir()
	r := newRig(t, state)
	ctx := context.Background()
	for seed := range uint64(3) {
		r.put(t, "a.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = seed }))
		r.scan(ctx)
		r.put(t, "b.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = seed }))
		r.scan(ctx)
	}
	expect(t, r, "a ready, b ready*")
	entries, err := os.ReadDir(r.store.dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("the store keeps %v, %v", entries, err)
	}
	before, err := os.Stat(filepath.Join(r.store.dir, entries[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	again := newRig(t, state)
	again.scan(ctx)
	expect(t, again, "a ready, b ready*")
	after, err := os.Stat(filepath.Join(r.store.dir, entries[0].Name()))
	if err != nil || !os.SameFile(before, after) || before.ModTime() != after.ModTime() {
		t.Errorf("a restart installs again (%v)", err)
	}
}

// What a run that was cut off left half done is gone after the next start, and what
// other people leave there is not.
func TestStartTidiesUp(t *testing.T) {
	state := t.TempDir()
	p := Paths{State: state}
	if err := makeState(p); err != nil {
		t.Fatal(err)
	}
	gone := []string{
		filepath.Join(p.store(), adopting+"1", "model.vqf"), filepath.Join(p.store(), "sha256-00", "model.vqf"),
		filepath.Join(p.drop(), ".windhover-77.tmp"), filepath.Join(p.state(), ".windhover-78.tmp"),
		filepath.Join(p.incoming(), converting+"9", "model.vqf"),
	}
	stays := []string{filepath.Join(p.store(), "notes"), filepath.Join(p.drop(), ".upload.tmp"), filepath.Join(p.incoming(), "ab.part")}
	for _, path := range append(append([]string{}, gone...), stays...) {
		write(t, path, "x")
	}
	newRig(t, state)
	if err := tidyIncoming(p); err != nil {
		t.Fatal(err)
	}
	for _, path := range gone {
		if exists(path) {
			t.Errorf("%s is left", path)
		}
	}
	for _, path := range stays {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
}

// While the book cannot be stored, what the one on the disk names must stay in the
// store: it is what a start after a power cut looks for.
func TestBookThatCannotBeStored(t *testing.T) {
	state := t.TempDir()
	r := newRig(t, state)
	ctx := context.Background()
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(ctx)
	first := r.reg.list()[0].SHA256
	path := r.book.path
	r.book.path = filepath.Join(state, "none", "installed.json") // a full disk
	r.put(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 3 }))
	r.scan(ctx)
	second := r.reg.list()[0].SHA256
	if second == first {
		t.Fatal("the update does not serve")
	}
	// The power goes while the next update comes in.
	r.put(t, "m.vqf", tinyModel(t, nil)[:1000])
	cut := newRig(t, state)
	cut.scan(ctx)
	expect(t, cut, "m ready*")
	if got := cut.reg.list()[0].SHA256; got != first {
		t.Errorf("after the cut %s serves, want %s", got, first)
	}
	// Without the cut: with room again the book is stored and the store tidied.
	r.put(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 3 }))
	r.book.path = path
	r.clock = r.clock.Add(rescan)
	r.scan(ctx)
	b, err := openBook(path)
	if err != nil || b.Models["m"].SHA256 != second {
		t.Errorf("the book is not stored again: %+v, %v", b.Models, err)
	}
	if entries, err := os.ReadDir(r.store.dir); err != nil || len(entries) != 1 {
		t.Errorf("the store keeps %v, %v", entries, err)
	}
}

// A book that cannot be read costs a verification, not the models.
func TestBookThatCannotBeRead(t *testing.T) {
	state := t.TempDir()
	r := newRig(t, state)
	ctx := context.Background()
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(ctx)
	write(t, r.book.path, "{ half a boo")
	b, err := openBook(r.book.path)
	if err == nil {
		t.Fatal("no error")
	}
	r2 := newDeployer(Paths{State: state}, b)
	r2.check, r2.who, r2.reg, r2.probe, r2.log, r2.load, r2.event, r2.wake = "install", r.who, newRegistry(nil), r.probe, r.log, r.load, r.event, r.wake
	t.Cleanup(func() { r2.close(context.Background()) })
	r2.recall()
	if entries, err := os.ReadDir(r2.store.dir); err != nil || len(entries) != 1 {
		t.Errorf("before the first look the store has %v, %v", entries, err)
	}
	r2.scan(ctx)
	if got := r2.reg.list(); len(got) != 1 || got[0].State != stateReady {
		t.Errorf("models %+v", got)
	}
	if b, err := openBook(r.book.path); err != nil || len(b.Models) != 1 {
		t.Errorf("the book is not stored again: %v, %v", b, err)
	}
}
