// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Saved says where [Model.SaveCache] puts a model's prefixes, and where they come from
// when it is loaded again. The file holds the text of prompts and answers as token
// ids, and keys and values from which it could be guessed: whoever may read it may read
// them. One model at a time may save to a path.
type Saved struct {
	Path string // "": nothing is saved
	// Key names the weights and the build of the program, so that no two that compute
	// another bit have the same. A file that was saved under another is not used. The engine adds what else decides about the
	// numbers: geometry, family, type of the cache.
	Key      string
	MaxBytes int64 // of the file; the prefixes used last are in it. 0 means 1 GiB
}

const defaultSavedBytes = 1 << 30

func (s *Saved) most() int64 { return cmp.Or(s.MaxBytes, defaultSavedBytes) }

// savedFormat is the first line of the text that is hashed to the key in a file; it
// changes with the form of files, and with any bit of what the engine computes.
const savedFormat = "windhover saved prefixes 2"

// savedMagic begins a file. The key follows, then records (kvrecord.go).
var savedMagic = [8]byte{'W', 'H', 'K', 'V', 'S', 'A', 'V', 'E'}

// savedKey is what a file must have been saved under.
func (m *Model) savedKey(key string) [sha256.Size]byte {
	c := &m.cfg
	return sha256.Sum256(fmt.Appendf(nil, "%s\n%q\n%+v\n%s %s %+v\n", savedFormat, key, *c, m.info.Family, m.info.Activations, m.kv.kind))
}

// errOtherModel says that a file is not this model's.
var errOtherModel = errors.New("saved by another model, version or kind of cache")

// restore reads what was saved. What is wrong with it is told in Info, and costs
// nothing but the computing of prompts.
func (m *Model) restore(opt Options) {
	m.saved = opt.Saved
	if m.saved.Path == "" {
		return
	}
	err := m.restoreFile()
	m.info.Restored = int(m.sched.tree.kept.Load())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.stale, m.info.RestoreErr = true, err.Error()
	}
}

func (m *Model) restoreFile() error {
	f, err := os.Open(m.saved.Path)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	fi, err := f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("engine: %w", err)
	case !fi.Mode().IsRegular():
		return fmt.Errorf("engine: %s: not a regular file", m.saved.Path)
	}
	if err := m.sched.tree.read(bufio.NewReaderSize(f, 1<<20), m.savedKey(m.saved.Key)); err != nil {
		return fmt.Errorf("engine: %s: %w", m.saved.Path, err)
	}
	return nil
}

// read takes what a file has into an empty tree, as far as it is right and there is
// room.
func (t *prefixTree) read(r io.Reader, key [sha256.Size]byte) error {
	var head [len(savedMagic) + sha256.Size]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return fmt.Errorf("cut short: %w", err)
	}
	if [8]byte(head[:]) != savedMagic || [sha256.Size]byte(head[len(savedMagic):]) != key {
		return errOtherModel
	}
	var nodes []*node
	defer func() {
		for i := range nodes { // the first was used last
			n := nodes[len(nodes)-1-i]
			n.saved = true
			t.touch(n)
		}
	}()
	for {
		rec, err := t.readRecord(r, nodes)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("record %d: %w", len(nodes), err)
		}
		if rec == nil {
			return nil // no page: the rest was used longer ago
		}
		nodes = append(nodes, rec)
	}
}

// SavedTemporary is the name that the file at path has while it is made. What a
// process that was killed left under it is written over by the next save, and may be
// removed while nobody saves.
func SavedTemporary(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".tmp")
}

// SaveCache saves the prefixes that are kept, as [Options].Saved says, and returns how
// many tokens of them were written: none where the file has them all already, however
// often they were used. It waits for its turn like an evaluation.
//
// A deadline of ctx ends the file with what was used last, where that is news; else,
// and when ctx is cancelled, the file of before stays as it was, and the error is that
// of ctx.
func (m *Model) SaveCache(ctx context.Context) (tokens int, err error) {
	if m.saved.Path == "" {
		return 0, nil
	}
	l, err := m.sched.borrow(ctx)
	if err != nil {
		return 0, err
	}
	defer m.sched.takeBack(l)
	if tokens, err = m.save(ctx); err != nil {
		return 0, fmt.Errorf("engine: saving prefixes: %w", err)
	}
	return tokens, nil
}

func isNews(n *node) bool { return !n.saved }

// save writes the file, under another name first.
func (m *Model) save(ctx context.Context) (tokens int, err error) {
	path, tree := m.saved.Path, m.sched.tree
	list := tree.worth(m.saved.most())
	if _, err := os.Stat(path); err == nil && !m.stale && !slices.ContainsFunc(list, isNews) {
		return 0, nil
	}
	tmp := SavedTemporary(path)
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := tree.writeFile(ctx, f, m.savedKey(m.saved.Key), list)
	if errors.Is(err, context.DeadlineExceeded) && slices.ContainsFunc(list[:n], isNews) {
		err = nil
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp) // the first error tells more
		return 0, err
	}
	for _, k := range tree.all {
		k.saved = false
	}
	for _, k := range list[:n] {
		k.saved = true
		tokens += len(k.labels)
	}
	m.stale = false
	return tokens, syncDir(filepath.Dir(path))
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// writeFile writes nodes to an empty file until ctx ends, and returns how many there
// are; nothing is behind them.
func (t *prefixTree) writeFile(ctx context.Context, f *os.File, key [sha256.Size]byte, list []*node) (n int, err error) {
	w := bufio.NewWriterSize(&stepWriter{f: f}, 1<<20)
	n, size, err := t.write(ctx, w, key, list)
	if err != nil && ctx.Err() == nil {
		return n, err
	}
	if ferr := w.Flush(); ferr != nil {
		return n, ferr
	}
	if terr := f.Truncate(size); terr != nil {
		return n, terr
	}
	return n, err
}

// stepWriter lets no more than two steps of what it writes wait for the disk, so that
// making a large file last takes no longer at its end than before.
type stepWriter struct {
	f        *os.File
	at, told int64 // written, and of that the disk was asked for
}

// diskStep is what the disk is asked for at once.
const diskStep = 8 << 20

func (w *stepWriter) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	if w.at += int64(n); w.at-w.told >= diskStep {
		// Where the system cannot, all waits for the end.
		fd := int(w.f.Fd())
		_ = unix.SyncFileRange(fd, w.told, w.at-w.told, unix.SYNC_FILE_RANGE_WRITE)
		if w.told > 0 { // 0 bytes mean all
			_ = unix.SyncFileRange(fd, 0, w.told, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		}
		w.told = w.at
	}
	return n, err
}

// write writes nodes, each behind what it stands on, until ctx ends. It returns how
// many are whole, and the bytes up to there.
func (t *prefixTree) write(ctx context.Context, w io.Writer, key [sha256.Size]byte, list []*node) (n int, size int64, err error) {
	if _, err := w.Write(append(slices.Clone(savedMagic[:]), key[:]...)); err != nil {
		return 0, 0, err
	}
	size = savedHead
	index := map[*node]int{}
	for i, k := range list {
		parent := -1
		if k.parent.parent != nil {
			parent = index[k.parent]
		}
		if err := t.writeRecord(ctx, w, k, parent); err != nil {
			return i, size, err
		}
		index[k] = i
		size += t.recordBytes(k)
	}
	return len(list), size, nil
}

// savedHead is what comes before the records.
const savedHead = int64(len(savedMagic)) + sha256.Size

// worth is what is to be in a file of at most most bytes: the nodes that were used
// last, each behind what it stands on.
func (t *prefixTree) worth(most int64) []*node {
	most -= savedHead
	var list []*node
	taken := map[*node]bool{}
	for _, n := range t.byUse() {
		chain, bytes := t.missing(n, taken)
		if bytes > most {
			continue
		}
		most -= bytes
		for _, k := range slices.Backward(chain) {
			taken[k] = true
			list = append(list, k)
		}
	}
	return list
}

// byUse are all nodes, the one that was used last first.
func (t *prefixTree) byUse() []*node {
	list := slices.Clone(t.all)
	slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(b.used, a.used) })
	return list
}

// missing is a node and what it stands on, as far as that is not taken, and the bytes
// of their records; nil where there are pictures in it: what they were made of is not
// in the key.
func (t *prefixTree) missing(n *node, taken map[*node]bool) (chain []*node, bytes int64) {
	for ; n.parent != nil && !taken[n]; n = n.parent {
		if slices.ContainsFunc(n.labels, func(l int32) bool { return l < 0 }) {
			return nil, 0
		}
		chain = append(chain, n)
		bytes += t.recordBytes(n)
	}
	return chain, bytes
}
