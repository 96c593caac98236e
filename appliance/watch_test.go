// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watcher runs watchDrop with a scan that only tells that it ran.
type watcher struct {
	drop  string
	wake  chan struct{}
	scans chan struct{}
	next  chan time.Duration // answer of the scan after this one; empty: an hour
}

func watchIt(t *testing.T) *watcher {
	t.Helper()
	w := &watcher{drop: filepath.Join(t.TempDir(), "drop"), wake: make(chan struct{}, 1), scans: make(chan struct{}, 1), next: make(chan time.Duration, 1)}
	if err := os.Mkdir(w.drop, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		watchDrop(ctx, w.drop, slog.New(slog.DiscardHandler), w.wake, func(context.Context) time.Duration {
			select {
			case w.scans <- struct{}{}:
			default:
			}
			select {
			case d := <-w.next:
				return d
			default:
				return time.Hour
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	w.scanned(t, "the start")
	return w
}

// scanned waits for a scan that began after the call before.
func (w *watcher) scanned(t *testing.T, after string) {
	t.Helper()
	select {
	case <-w.scans:
	case <-time.After(waitFor):
		t.Fatalf("no scan after %s", after)
	}
}

// quiet forgets scans that earlier events still cause.
func (w *watcher) quiet() {
	for {
		select {
		case <-w.scans:
		case <-time.After(50 * time.Millisecond):
			return
		}
	}
}

func TestWatch(t *testing.T) {
	w := watchIt(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		name string
		do   func()
	}{
		{"a new file", func() { write(t, filepath.Join(w.drop, "a.vqf"), "x") }},
		{"a write", func() { write(t, filepath.Join(w.drop, "a.vqf"), "yy") }},
		{"a change of mode", func() { must(os.Chmod(filepath.Join(w.drop, "a.vqf"), 0o600)) }},
		{"a removal", func() { must(os.Remove(filepath.Join(w.drop, "a.vqf"))) }},
		{"a directory", func() { must(os.Mkdir(filepath.Join(w.drop, "d"), 0o755)) }},
		{"a file in a directory", func() { write(t, filepath.Join(w.drop, "d", "tokenizer.json"), "{}") }},
		{"a directory for its pooling", func() { must(os.Mkdir(filepath.Join(w.drop, "d", poolingDir), 0o755)) }},
		{"a file in that", func() { write(t, filepath.Join(w.drop, "d", poolingDir, "config.json"), "{}") }},
		{"being asked", func() { w.wake <- struct{}{} }},
		{"the time the last scan named", func() { w.next <- time.Millisecond; w.wake <- struct{}{}; w.scanned(t, "being asked") }},
		{"the directory moved away", func() { must(os.Rename(w.drop, w.drop+".away")) }},
		{"another one in its place", func() { must(os.Mkdir(w.drop, 0o755)) }},
		{"a file in that one", func() { write(t, filepath.Join(w.drop, "b.vqf"), "x") }},
		{"the first one back", func() { must(os.RemoveAll(w.drop)); must(os.Rename(w.drop+".away", w.drop)) }},
		{"a file in the first one", func() { write(t, filepath.Join(w.drop, "c.vqf"), "x") }},
	}
	for _, s := range steps {
		w.quiet()
		s.do()
		w.scanned(t, s.name)
	}
}

// More events than anybody reads must neither block nor be lost without a scan.
func TestWatchFlood(t *testing.T) {
	w := watchIt(t)
	for i := range 2000 {
		path := filepath.Join(w.drop, fmt.Sprint(i))
		write(t, path, "x")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	w.quiet()
	write(t, filepath.Join(w.drop, "last"), "x")
	w.scanned(t, "a flood and one more file")
}

// Events that the kernel had no room for wake the scanner as those that came.
func TestOverflowWakes(t *testing.T) {
	w := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
	events, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		collapse(w, events, slog.New(slog.DiscardHandler))
	}()
	for range 3 { // nobody reads the wake-ups meanwhile
		w.Errors <- fsnotify.ErrEventOverflow
	}
	select {
	case <-events:
	case <-time.After(waitFor):
		t.Fatal("an overflow wakes nobody")
	}
	close(w.Errors)
	<-done
}
