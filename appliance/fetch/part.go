// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"windhover/appliance/disk"
	"windhover/control"
	"windhover/control/ota"
)

// part is a file that is on its way.
type part struct {
	f    *Fetcher
	x    *ota.Index
	path string
	file disk.File
	rec  *record

	maxBytes int64                // Artifact.MaxBytes
	where    map[ota.Digest][]int // blocks that are missing, by what they have to be
	missing  int                  // blocks
	done     int64                // bytes that are there
	unsaved  int64                // bytes written since the record was
	stale    bool                 // the record on the disk is another
	gone     bool                 // there is nothing to go on with
	spent    int64                // of MaxBytes, by all calls
	network  int64                // bytes read by this call
	reused   int64
}

// open takes up a download where it was, or begins it: room is taken, and a record of
// it is on the disk.
func (f *Fetcher) open(ctx context.Context, a Artifact) (_ *part, err error) {
	x := a.Index
	p := &part{f: f, x: x, path: f.part(x.SHA256), maxBytes: a.MaxBytes}
	if p.rec, err = f.load(x); err != nil && !errors.Is(err, errLost) {
		return nil, err
	}
	lost := p.rec == nil
	if lost {
		p.rec = newRecord(x)
	}
	had, err := p.openFile()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.file.Close())
		}
	}()
	if had < x.Size {
		clear(p.rec.Have) // another's file, or one whose beginning never got to the disk
	}
	if err := f.room(x.Size - had); err != nil {
		return nil, err
	}
	if err := p.file.Allocate(x.Size); err != nil {
		return nil, err
	}
	p.spent, p.stale = p.rec.Spent, true
	p.count()
	if lost && had == x.Size { // the record alone was lost: what is there tells
		for i := range x.Count() {
			p.rec.set(i)
		}
		if _, err := p.recheck(ctx); err != nil {
			return nil, err
		}
	}
	return p, p.checkpoint(0)
}

// openFile opens the .part file, made if there is none, and says how long it was.
func (p *part) openFile() (had int64, err error) {
	p.file, err = p.f.Disk.Open(p.path, true)
	if errors.Is(err, fs.ErrPermission) { // whole, and read-only for whoever maps it
		if err = p.writable(); err == nil {
			p.file, err = p.f.Disk.Open(p.path, true)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		p.file, err = p.f.Disk.Create(p.path, 0o600)
	}
	if err != nil {
		return 0, err
	}
	if had, err = p.file.Size(); err != nil {
		return 0, errors.Join(err, p.file.Close())
	}
	return had, nil
}

func (p *part) writable() error {
	g, err := p.f.Disk.Open(p.path, false)
	if err != nil {
		return err
	}
	return errors.Join(g.Chmod(0o600), g.Close())
}

// room refuses to begin what would leave less than the reserve.
func (f *Fetcher) room(need int64) error {
	free, total, err := f.Disk.Space(f.Dir)
	if err != nil || need <= 0 {
		return err
	}
	keep := def(f.Reserve, max(total/20, 256<<20))
	if free >= need+keep {
		return nil
	}
	return &control.Error{
		Code: control.InsufficientStore, Needed: need + keep, Available: free,
		Message: fmt.Sprintf("the download needs %d MiB, with the %d MiB that stay free of the disk, and %d MiB are: remove a model or give paths.state a larger disk",
			(need+keep)>>20, keep>>20, free>>20),
	}
}

// count finds out anew what is missing.
func (p *part) count() {
	p.where, p.missing, p.done = map[ota.Digest][]int{}, 0, 0
	for i := range p.x.Count() {
		if p.rec.has(i) {
			p.done += int64(p.x.Len(i))
			continue
		}
		p.missing++
		p.where[p.x.Hash(i)] = append(p.where[p.x.Hash(i)], i)
	}
}

// put writes a block wherever one of that digest is missing, and says whether any was.
func (p *part) put(sum ota.Digest, block []byte) (bool, error) {
	at := p.where[sum]
	for _, i := range at {
		if _, err := p.file.WriteAt(block, int64(i)*p.x.Block); err != nil {
			return false, err
		}
	}
	for _, i := range at {
		p.rec.set(i)
		p.missing--
		p.done += int64(len(block))
		p.unsaved += int64(len(block))
		p.stale = true
	}
	delete(p.where, sum)
	if p.f.Progress != nil && len(at) > 0 {
		p.f.Progress(p.done, p.x.Size)
	}
	return len(at) > 0, nil
}

// settle saves the record when enough has come since the last time.
func (p *part) settle(ahead int64) error {
	if p.unsaved < p.f.checkpoint() {
		return nil
	}
	return p.checkpoint(ahead)
}

// checkpoint makes what is there outlast a power cut: first the blocks, then the record
// that names them, in which ahead bytes more are spent.
func (p *part) checkpoint(ahead int64) error {
	if spent := p.spent + ahead; spent != p.rec.Spent {
		p.rec.Spent, p.stale = spent, true
	}
	if !p.stale {
		return nil
	}
	if err := p.file.Sync(); err != nil {
		return err
	}
	if err := p.f.save(p.x.SHA256, p.rec); err != nil {
		return err
	}
	p.unsaved, p.stale = 0, false
	return nil
}

// afford takes n bytes of what may be spent. Where there is a limit they are on the
// record before they are read.
func (p *part) afford(n int64) error {
	if p.maxBytes == 0 {
		return nil
	}
	if p.spent+n > p.maxBytes {
		return fatal{control.Errorf(control.DownloadFailed, "%d of %d bytes that this download may take are used up: raise max_bytes", p.spent, p.maxBytes)}
	}
	if p.spent+n <= p.rec.Spent {
		return nil
	}
	if err := p.checkpoint(min(max(n, p.f.checkpoint()), p.maxBytes-p.spent)); err != nil {
		return fatal{err}
	}
	return nil
}

// close keeps what has come, so that the next call goes on with it.
func (p *part) close() error {
	var err error
	if !p.gone {
		err = p.checkpoint(0)
	}
	return errors.Join(err, p.file.Close())
}

// verify holds the whole file against its digest. If it is right it is read-only and
// on the disk.
func (p *part) verify(ctx context.Context) (bool, error) {
	all, buf := sha256.New(), make([]byte, p.x.Block)
	for i := range p.x.Count() {
		if err := context.Cause(ctx); err != nil {
			return false, err
		}
		b := buf[:p.x.Len(i)]
		if _, err := p.file.ReadAt(b, int64(i)*p.x.Block); err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		_, _ = all.Write(b) // a hash takes everything
	}
	if ota.Digest(all.Sum(nil)) != p.x.SHA256 {
		return false, nil
	}
	if err := p.file.Chmod(0o440); err != nil {
		return false, err
	}
	p.stale = true
	return true, p.checkpoint(0)
}

// recheck holds every block that is said to be there against its digest, and takes
// those that are not out of the record. It returns how many they are.
func (p *part) recheck(ctx context.Context) (bad int, err error) {
	buf := make([]byte, p.x.Block)
	for i := range p.x.Count() {
		if err := context.Cause(ctx); err != nil {
			return bad, err
		}
		if !p.rec.has(i) {
			continue
		}
		b := buf[:p.x.Len(i)]
		if _, err := p.file.ReadAt(b, int64(i)*p.x.Block); err != nil && !errors.Is(err, io.EOF) {
			return bad, err
		}
		if sha256.Sum256(b) != p.x.Hash(i) {
			p.rec.unset(i)
			bad++
		}
	}
	p.stale = p.stale || bad > 0
	p.count()
	return bad, nil
}
