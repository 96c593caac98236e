// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"windhover/engine"
)

// savedName is the file beside stored weights that has the prefixes of a model as they
// were when the daemon stopped; it goes with them.
const savedName = "prefixes"

// saved says where prefixes are kept, if they are. A model whose digest nobody knows
// (vqf.check = "size") has none: another file could not be told from it. Nor has a
// program that cannot read itself: what another build computed could differ by a bit.
func (l *loader) saved(weights string, in installed) (engine.Saved, error) {
	if l.cfg.Engine.PrefixCache != prefixCacheSave || in.SHA256 == "" || l.build == "" {
		return engine.Saved{}, nil
	}
	most, err := ParseSize(l.cfg.Engine.PrefixCacheSize)
	if err != nil {
		return engine.Saved{}, fmt.Errorf("config: engine.prefix_cache_size: %w", err)
	}
	return engine.Saved{Path: filepath.Join(filepath.Dir(weights), savedName), Key: in.SHA256 + " " + l.build, MaxBytes: most}, nil
}

// thisProgram is the file that runs, under whatever name and though it was replaced.
const thisProgram = "/proc/self/exe"

// buildOf tells builds of this program apart, which their versions need not: it is the
// digest of its file.
func buildOf(program string) (string, error) {
	f, err := os.Open(program)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // read only
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// savingModel is a model that can save its prefixes.
type savingModel interface {
	SaveCache(ctx context.Context) (tokens int, err error)
}

// saveGrace is how long the storage may take, when the time for saving is up, to make
// last what it was given.
const saveGrace = 5 * time.Second

// savePrefixes saves those of the models in list, one after the other, each in its
// share of what is left until the deadline of ctx. Models with the same weights have
// one file: the first of them gets it. It reports false when one of them is still
// being saved, grace after that deadline, and must not be closed.
func (d *deployer) savePrefixes(ctx context.Context, list []*serving, grace time.Duration) (ended bool) {
	if len(list) == 0 {
		return true
	}
	var at atomic.Pointer[serving]
	at.Store(list[0])
	done := make(chan struct{})
	go func() {
		defer close(done)
		seen := map[string]bool{}
		for i, s := range list {
			if m, ok := s.servable.(savingModel); ok && !seen[s.Key] {
				seen[s.Key] = true
				at.Store(s)
				d.savePrefix(ctx, s, m, len(list)-i)
			}
		}
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		s := at.Load()
		d.log.Error("the storage does not take the prefixes of a model: stopping without them", "model", s.Name, "version", s.Version)
		return false
	}
}

// savePrefix saves those of one model, in one of shares of the time that is left.
func (d *deployer) savePrefix(ctx context.Context, s *serving, m savingModel, shares int) {
	start := time.Now()
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, start.Add(end.Sub(start)/time.Duration(shares)))
		defer cancel()
	}
	switch tokens, err := m.SaveCache(ctx); {
	case errors.Is(err, engine.ErrClosed): // it had stopped to serve by itself
	case err != nil:
		d.log.Warn("prefixes are not saved; those of the last time stay", "model", s.Name, "version", s.Version, "error", err)
	case tokens > 0:
		d.log.Info("prefixes saved", "model", s.Name, "version", s.Version, "tokens", tokens, "ms", time.Since(start).Milliseconds())
	}
}

// tidyPrefixes removes what a save that was cut off left beside weights and, unless
// prefixes are kept, those of earlier: there is the text of conversations in them.
// Nothing else may be at work in the store.
func (s store) tidyPrefixes(keep bool) error {
	files, err := filepath.Glob(filepath.Join(s.dir, "*", "*"+savedName+"*"))
	if err != nil {
		return err // a directory whose name is a pattern
	}
	var errs []error
	for _, path := range files {
		name := filepath.Base(path)
		if strings.HasPrefix(name, "."+savedName+".") || name == savedName && !keep {
			errs = append(errs, remove(path))
		}
	}
	return errors.Join(errs...)
}
