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
)

// Saved says where a model's prefixes go when it is closed, and come from when it
// is loaded again. The file holds the text of prompts and answers as token ids, and
// keys and values from which it could be guessed: whoever may read it may read them.
type Saved struct {
	Path string // "": nothing is saved
	// Key names the weights and the program: a digest and a version. A file that was
	// saved under another is not used. The engine adds what else decides about the
	// numbers: geometry, family, type of the cache.
	Key      string
	MaxBytes int64 // of the file; the prefixes used last are in it. 0 means 1 GiB
}

const defaultSavedBytes = 1 << 30

func (s *Saved) most() int64 { return cmp.Or(s.MaxBytes, defaultSavedBytes) }

// savedFormat is the first line of the text that is hashed to the key in a file; it
// changes with the form of files, and with any bit of what the engine computes.
const savedFormat = "windhover saved prefixes 1"

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
		m.info.RestoreErr = err.Error()
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
			t.touch(nodes[len(nodes)-1-i])
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

// SaveCache saves the prefixes that are kept now, as Close does. It waits for its
// turn like an evaluation.
func (m *Model) SaveCache(ctx context.Context) (err error) {
	end, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer end(&err)
	return m.save()
}

// save writes the file, under another name first.
func (m *Model) save() (err error) {
	path := m.saved.Path
	if path == "" {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("engine: saving prefixes: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error tells more
			err = fmt.Errorf("engine: saving prefixes: %w", err)
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	err = m.sched.tree.write(w, m.savedKey(m.saved.Key), m.saved.most())
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return err
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

// write writes the nodes that were used last and fit into most bytes, each behind
// what it stands on.
func (t *prefixTree) write(w io.Writer, key [sha256.Size]byte, most int64) error {
	if _, err := w.Write(append(slices.Clone(savedMagic[:]), key[:]...)); err != nil {
		return err
	}
	most -= int64(len(savedMagic) + len(key))
	index := map[*node]int{&t.root: -1}
	for _, n := range t.byUse() {
		chain, bytes := t.missing(n, index)
		if chain == nil || bytes > most {
			continue
		}
		most -= bytes
		for i := len(chain) - 1; i >= 0; i-- {
			if err := t.writeRecord(w, chain[i], index[chain[i].parent]); err != nil {
				return err
			}
			index[chain[i]] = len(index) - 1
		}
	}
	return nil
}

// byUse are all nodes, the one that was used last first.
func (t *prefixTree) byUse() []*node {
	list := slices.Clone(t.all)
	slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(b.used, a.used) })
	return list
}

// missing is a node and what it stands on, as far as that is not written, and what
// it takes in a file; nil where there are pictures in it: what they were made of is
// not in the key.
func (t *prefixTree) missing(n *node, written map[*node]int) (chain []*node, bytes int64) {
	for ; ; n = n.parent {
		if _, ok := written[n]; ok {
			return chain, bytes
		}
		if slices.ContainsFunc(n.labels, func(l int32) bool { return l < 0 }) {
			return nil, 0
		}
		chain = append(chain, n)
		bytes += t.recordBytes(len(n.labels))
	}
}
