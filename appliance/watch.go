// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// watchDrop calls scan at start and whenever something may have changed in the
// drop directory, until ctx ends. Events only wake it: what is there decides.
// scan says when it wants to look again at the latest.
func watchDrop(ctx context.Context, drop string, log *slog.Logger, wake <-chan struct{}, scan func(context.Context) time.Duration) {
	w, err := fsnotify.NewWatcher()
	events := make(chan struct{}, 1)
	if err != nil {
		log.Warn("no file events: the drop directory is read once a minute", "error", err)
	} else {
		var wg sync.WaitGroup
		wg.Go(func() { collapse(w, events, log) })
		defer func() {
			_ = w.Close() // nothing is written through it
			wg.Wait()
		}()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var watched os.FileInfo
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-events:
		case <-timer.C:
		}
		if w != nil {
			watched = rewatch(w, drop, watched, log)
		}
		timer.Reset(scan(ctx))
	}
}

// collapse turns any number of events into one pending wake-up, until w is
// closed. It must always read: the watcher holds its lock while it hands an event
// over, and adding a watch needs that lock.
func collapse(w *fsnotify.Watcher, events chan<- struct{}, log *slog.Logger) {
	for {
		select {
		case _, ok := <-w.Events:
			if !ok {
				return
			}
		case err, ok := <-w.Errors:
			if !ok {
				return
			}
			log.Warn("file events were lost: reading the drop directory", "error", err)
		}
		select {
		case events <- struct{}{}:
		default:
		}
	}
}

// rewatch watches the drop directory, the directories in it, and what of theirs is read. A directory
// that was replaced is another one, and its watch is gone.
func rewatch(w *fsnotify.Watcher, drop string, watched os.FileInfo, log *slog.Logger) os.FileInfo {
	fi, err := os.Stat(drop)
	if err != nil {
		log.Warn("the drop directory is gone", "path", drop, "error", err)
		return nil
	}
	if watched == nil || !os.SameFile(fi, watched) {
		_ = w.Remove(drop) // it may not be watched
		// A directory that is moved away sends nothing afterwards; its parent tells
		// when another one takes its place.
		_ = w.Add(filepath.Dir(drop)) // without it the rescan finds out
		if err := w.Add(drop); err != nil {
			log.Warn("no file events: the drop directory is read once a minute", "path", drop, "error", err)
			return nil
		}
	}
	entries, err := os.ReadDir(drop)
	if err != nil {
		return fi
	}
	for _, e := range entries {
		if e.IsDir() && !temporary(e.Name()) {
			dir := drop + string(os.PathSeparator) + e.Name()
			_ = w.Add(dir) // the rescan covers what cannot be watched
			if pooling := filepath.Join(dir, poolingDir); realDirectory(pooling) {
				_ = w.Add(pooling) // likewise
			}
		}
	}
	return fi
}
