// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"windhover/internal/testmodel"
	"windhover/vqf"
)

// wide is deep with matrices and a head of several pieces each.
func wide() testmodel.Config {
	c := deep()
	c.Mode, c.Layers, c.Dim, c.FFN, c.Vocab = vqf.ModeQ8, 5, 512, 1024, 8*800
	return c
}

// watched is a reader that a test looks into: on sees every reading before it is
// done, and may fail it.
type watched struct {
	tensorReader

	mu    sync.Mutex
	on    func(name string, off int64) error
	calls int
	bytes int64
}

func (w *watched) ReadTensor(name string, off int64, dst []byte) error {
	w.mu.Lock()
	w.calls++
	w.bytes += int64(len(dst))
	on := w.on
	w.mu.Unlock()
	if on != nil {
		if err := on(name, off); err != nil {
			return err
		}
	}
	return w.tensorReader.ReadTensor(name, off, dst)
}

func (w *watched) watch(on func(name string, off int64) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = on
}

func (w *watched) count() (int, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls, w.bytes
}

// wideModel is wide, plain and encrypted, with what it says. It is made once: its
// weights take a while.
type wideModel struct {
	plain, closed string
	want          []int32 // the answer to short
}

func TestStreamed(t *testing.T) {
	w := &wideModel{plain: testmodel.Write(t, wide())}
	w.closed = sealed(t, w.plain, secret)
	w.want = tokensOf(t, load(t, w.plain, Options{Context: 64}), short)
	t.Run("reads each byte once", w.readsOnce)
	t.Run("read errors", w.readErrors)
	t.Run("reads again", w.readsAgain)
	t.Run("cancel", w.cancel)
	t.Run("close", w.closing)
	t.Run("allocates nothing", w.allocates)
	t.Run("rebase", w.rebase)
}

// open loads the encrypted file, or a copy of it, in layered residency without
// anything kept, and puts a watched reader in.
func (f *wideModel) open(t *testing.T, path string, threads int) (*Model, *watched) {
	t.Helper()
	opt := withKey(t, Options{Residency: ResidencyLayered, Threads: threads, Context: 64, MemoryLimit: 1})
	var lack *MemoryError
	if _, err := Estimate(path, opt); !errors.As(err, &lack) {
		t.Fatal(err)
	}
	opt.MemoryLimit = lack.Need.Total()
	m := load(t, path, opt)
	s := m.w.res.(*streamed)
	if len(s.kept) != 0 || s.parts() < 2 {
		t.Fatalf("%d units kept, head in %d parts", len(s.kept), s.parts())
	}
	w := &watched{tensorReader: s.file}
	s.file = w
	return m, w
}

// same computes short and compares.
func (f *wideModel) same(t *testing.T, m *Model) {
	t.Helper()
	if got := tokensOf(t, m, short); !slices.Equal(got, f.want) {
		t.Errorf("tokens %v, want %v", got, f.want)
	}
}

var short = Request{Tokens: noise(9), MaxTokens: 4, IgnoreEOS: true, Raw: true}

func tokensOf(t *testing.T, m *Model, req Request) []int32 {
	t.Helper()
	res, err := m.Generate(context.Background(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res.Tokens
}

// A pass reads each byte of the streamed weights once, and the rows of its tokens.
func (f *wideModel) readsOnce(t *testing.T) {
	m, w := f.open(t, f.closed, 1)
	f.same(t, m)
	s := m.w.res.(*streamed)
	pass := func() {
		if err := m.step(1); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		for s.job != nil { // what was begun for the next token
			s.arrived.Wait()
		}
		s.mu.Unlock()
	}
	end, err := m.begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer end(&err)
	pass()
	_, before := w.count()
	pass()
	_, after := w.count()
	want := int64(len(s.row))
	for _, tensor := range m.file.Tensors() {
		if strings.HasPrefix(tensor.Name, "q8_") {
			want += int64(tensor.Bytes)
		}
	}
	if got := after - before; got != want {
		t.Errorf("%d bytes read for a token, want %d", got, want)
	}
}

// A failing disk fails the request with an error that says where, and the next
// request computes as if nothing had been.
func (f *wideModel) readErrors(t *testing.T) {
	for _, name := range []string{"q8_q", "q8_down", "q8_lm", "token_embed"} {
		for _, threads := range []int{1, min(2, cores(t))} {
			m, w := f.open(t, f.closed, threads)
			w.watch(func(tensor string, off int64) error {
				if tensor == name && off > 0 {
					return io.ErrUnexpectedEOF
				}
				return nil
			})
			_, err := m.Generate(context.Background(), short, nil)
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "layer") && !strings.Contains(err.Error(), "head") && !strings.Contains(err.Error(), "embedding") {
				t.Errorf("%s, %d threads: %v, want the disk's error and a place", name, threads, err)
			}
			w.watch(nil)
			f.same(t, m)
		}
	}
}

// What fails while it is read ahead is tried again when it is needed, also when
// the pass waits for it already.
func (f *wideModel) readsAgain(t *testing.T) {
	for _, late := range []bool{false, true} {
		m, w := f.open(t, f.closed, 1)
		s := m.w.res.(*streamed)
		var first sync.Once
		w.watch(func(name string, off int64) (err error) {
			if name == "q8_q" && off > 0 { // of layer 1, while layer 0 is in use
				first.Do(func() {
					for wait := late; wait; runtime.Gosched() {
						s.mu.Lock()
						wait = s.next != 1
						s.mu.Unlock()
					}
					err = io.ErrUnexpectedEOF
				})
			}
			return err
		})
		f.same(t, m)
		failed := true
		first.Do(func() { failed = false })
		if !failed {
			t.Error("nothing failed")
		}
	}
}

// A cancelled request ends when the pieces in hand are read, not when the layer is.
func (f *wideModel) cancel(t *testing.T) {
	m, w := f.open(t, f.closed, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	at := 0
	w.watch(func(name string, off int64) error {
		if name == "q8_up" && off > 0 && at == 0 {
			at, _ = w.count()
			cancel()
			for !m.st.stop.Load() {
				runtime.Gosched()
			}
		}
		return nil
	})
	res, err := m.Generate(ctx, short, nil)
	if err != nil || res.Finish != FinishCancel || len(res.Tokens) != 0 {
		t.Errorf("%+v, %v; want a cancelled request", res, err)
	}
	settle(t, m)
	if end, _ := w.count(); at == 0 || end != at {
		t.Errorf("%d readings when the request was cancelled, %d at its end", at, end)
	}
	f.same(t, m)
}

// Close ends the workers, also while they read.
func (f *wideModel) closing(t *testing.T) {
	before := runtime.NumGoroutine()
	m, w := f.open(t, f.closed, min(2, cores(t)))
	tokensOf(t, m, short)
	begun, goOn := make(chan bool), make(chan bool)
	var first sync.Once
	s := m.w.res.(*streamed)
	s.mu.Lock()
	for s.job != nil {
		s.arrived.Wait()
	}
	w.watch(func(string, int64) error {
		first.Do(func() {
			close(begun)
			<-goOn
		})
		return nil
	})
	s.next = (s.next + 3) % len(s.order)
	s.begin()
	s.mu.Unlock()
	<-begun
	closed := make(chan error)
	go func() { closed <- m.Close() }()
	select {
	case err := <-closed:
		t.Fatalf("closed under a reading: %v", err)
	default:
	}
	close(goOn)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(late); {
		runtime.Gosched() // they are done, and about to end
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before loading", after, before)
	}
	if _, err := m.Generate(context.Background(), short, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after closing: %v", err)
	}
}

// Decoding in layered residency allocates nothing. The plain file of the same
// weights is read instead, because the race detector empties the pool that the
// cipher has; that it allocates nothing itself is tested beside it.
func (f *wideModel) allocates(t *testing.T) {
	m, w := f.open(t, f.closed, min(2, cores(t)))
	plain, err := vqf.Open(f.plain, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	w.tensorReader = plain
	if m.w.res.(*streamed).stamp, err = plain.Stamp(); err != nil {
		t.Fatal(err)
	}
	end, err := m.begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer end(&err)
	for range 3 {
		if err := m.step(7); err != nil {
			t.Fatal(err)
		}
	}
	first, _ := w.count()
	got := testing.AllocsPerRun(10, func() {
		if err := m.step(7); err != nil {
			t.Fatal(err)
		}
	})
	last, _ := w.count()
	if last-first < 11*20 {
		t.Errorf("only %d readings for 11 tokens", last-first)
	}
	if got != 0 {
		t.Errorf("%v allocations a token, want 0", got)
	}
}

// moveOff moves a model onto a copy of its file, whose path it returns, and cuts
// the file short.
func moveOff(t *testing.T, m *Model, path string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "copy.vqf")
	if err := os.WriteFile(copied, readFile(t, path), 0o600); err != nil {
		t.Fatal(err)
	}
	to, err := os.Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { to.Close() })
	if err := m.Rebase(to); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	return copied
}

// A serving model moves onto a copy of its file, as it must when somebody is about
// to write to the first one.
func (f *wideModel) rebase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "first.vqf")
	if err := os.WriteFile(path, readFile(t, f.closed), 0o600); err != nil {
		t.Fatal(err)
	}
	m, _ := f.open(t, path, 1)
	copied := moveOff(t, m, path)
	f.same(t, m)
	// The copy cut short as well: an error, not noise and no fault.
	if err := os.Truncate(copied, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(context.Background(), Request{Tokens: noise(3)}, nil); !errors.Is(err, vqf.ErrFormat) || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("with the file cut short: %v", err)
	}
}

// A file that is written to after it was verified is used no further, whichever
// part of it is read next.
func TestStreamedFileChanged(t *testing.T) {
	for _, residency := range []string{ResidencyFull, ResidencyLayered} {
		opt := withKey(t, Options{Residency: residency})
		path := sealed(t, testmodel.Write(t, deep()), secret)
		m := load(t, path, opt)
		tokensOf(t, m, short)
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		// Not a byte of the weights: that somebody writes is enough.
		if _, err := f.WriteAt([]byte{0}, 4000); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Generate(context.Background(), Request{Tokens: noise(3)}, nil); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v, want %v", residency, err, ErrChanged)
		}
		if s := m.w.res.(*streamed); len(s.order) > 0 {
			if _, err := s.enter(s.order[len(s.order)/2], nil); !errors.Is(err, ErrChanged) {
				t.Errorf("%s: a layer: %v, want %v", residency, err, ErrChanged)
			}
		}
	}
}
