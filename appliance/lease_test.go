// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"windhover/control"
	"windhover/engine"
	"windhover/internal/testmodel"
)

// answer is what a greedy generation of the model says.
func answer(ctx context.Context, s servable) (string, error) {
	res, err := s.Generate(ctx, engine.Request{Tokens: testmodel.Tokens("hello"), MaxTokens: 12}, func(engine.Event) error { return nil })
	if err != nil {
		return "", err
	}
	return res.Text, nil
}

// answerMeanwhile asks again and again, until stop is called, and wants the answer
// of before each time.
func answerMeanwhile(ctx context.Context, t *testing.T, s servable) (want string, stop func()) {
	t.Helper()
	want, err := answer(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if got, err := answer(ctx, s); err != nil || got != want {
				t.Errorf("while the file is written over: got %q, %v; want %q", got, err, want)
				return
			}
			select {
			case <-end:
				return
			default:
			}
		}
	})
	return want, func() {
		close(end)
		wg.Wait()
	}
}

// overwrite does what cp does onto a file that is there: it opens it, cuts it and
// writes. The mode of a served file only stops others than root.
func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0); err != nil {
		t.Fatal(err)
	}
}

// Somebody copies onto the dropped name of a model that serves. Both names are one
// file, and yet no request may fail or answer anything else; with a bad file the
// model that worked goes on.
func TestOverwrittenInPlace(t *testing.T) {
	good, next := tinyModel(t, nil), tinyModel(t, func(c *testmodel.Config) { c.Seed = 4 })
	tests := []struct {
		name   string
		data   []byte
		states string
		swaps  bool
	}{
		{"with a good one", next, "m ready*", true},
		{"with noise", make([]byte, len(good)), "m ready* format_invalid", false},
		{"with a short one", good[:len(good)/2], "m ready*", false},
		{"with nothing", nil, "m ready*", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, t.TempDir())
			ctx := context.Background()
			r.put(t, "m.vqf", good)
			r.scan(ctx)
			s, release, err := r.reg.acquire(ctx, "m")
			if err != nil {
				t.Fatal(err)
			}
			if fi, err := os.Stat(r.store.weights(s.Key)); err != nil || !shared(fi) {
				t.Skip("the file system clones or copies: nothing is shared")
			}
			_, stop := answerMeanwhile(ctx, t, s)
			overwrite(t, filepath.Join(r.drop, "m.vqf"), tt.data)
			r.scan(ctx)
			expect(t, r, tt.states)
			stop()
			release()
			now, releaseNow, err := r.reg.acquire(ctx, "m")
			if err != nil {
				t.Fatal(err)
			}
			defer releaseNow()
			if (now.Digest != s.Digest) != tt.swaps {
				t.Errorf("serves %s after %s", now.Digest, s.Digest)
			}
		})
	}
}

// The model can be saved from a second writer as from the first, and a restart
// knows the copy.
func TestOverwrittenCopyIsKnown(t *testing.T) {
	state := t.TempDir()
	r := newRig(t, state)
	ctx := context.Background()
	good := tinyModel(t, nil)
	r.put(t, "m.vqf", good)
	r.scan(ctx)
	digest := r.reg.list()[0].SHA256
	overwrite(t, filepath.Join(r.drop, "m.vqf"), good[:5000])
	r.scan(ctx)
	fi, err := os.Stat(r.store.weights("sha256-" + digest))
	if err != nil || shared(fi) {
		t.Fatalf("the stored file is still shared (%v)", err)
	}
	again := newRig(t, state)
	again.load = func(ctx context.Context, weights string, in installed) (servable, error) {
		return r.load(ctx, weights, in)
	}
	again.scan(ctx)
	expect(t, again, "m ready*")
	if got := again.reg.list()[0].SHA256; got != digest {
		t.Errorf("after a restart %s serves, want %s", got, digest)
	}
}

// Where the model cannot be saved it must not answer with what it finds there.
func TestOverwrittenAndLost(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	good := tinyModel(t, nil)
	r.put(t, "m.vqf", good)
	r.scan(ctx)
	store := r.store.dir
	if err := os.Rename(store, store+".gone"); err != nil { // no room for a copy
		t.Fatal(err)
	}
	overwrite(t, filepath.Join(r.drop, "m.vqf"), good[:5000])
	<-r.woken
	if got := r.states(); got != "m failed model_io_error" && got != "m failed internal" {
		t.Errorf("got %q", got)
	}
	if _, _, err := r.reg.acquire(ctx, "m"); !errors.Is(err, control.UnknownModel) {
		t.Errorf("a request: got %v", err)
	}
	if err := os.Rename(store+".gone", store); err != nil {
		t.Fatal(err)
	}
	overwrite(t, filepath.Join(r.drop, "m.vqf"), good)
	r.scan(ctx)
	expect(t, r, "m ready*")
}

func TestGuard(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	write(t, path, "x")
	r := newRig(t, t.TempDir()) // for the signals
	if g, err := r.leases.guardShared(path); g != nil || err != nil {
		t.Errorf("a file with one name: got %v, %v", g, err)
	}
	if err := os.Link(path, filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.leases.guardShared(path); !errors.Is(err, errChanged) {
		t.Errorf("with a writer: got %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	g, err := r.leases.guardShared(path)
	if err != nil || g == nil {
		t.Fatal(g, err)
	}
	if !g.intact() {
		t.Error("a fresh guard is not intact")
	}
	acted := make(chan struct{})
	if !g.onBreak(func() {
		if data, err := os.ReadFile(path); err != nil || string(data) != "x" {
			t.Errorf("while the writer waits: %q, %v", data, err)
		}
		close(acted)
	}) {
		t.Error("a writer came before there was one")
	}
	write(t, path, "y")
	select {
	case <-acted:
	default:
		t.Error("the writer did not wait")
	}
	if g.intact() || g.onBreak(func() {}) {
		t.Error("a broken guard counts as intact")
	}
	g.release()
	// Without anything to do the writer goes on at once.
	if g, err = r.leases.guardShared(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, "z")
	if g.intact() {
		t.Error("intact after a writer")
	}
	g.release()
	if n := len(r.leases.held); n != 0 {
		t.Errorf("%d guards are left", n)
	}
}
