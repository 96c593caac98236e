// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"windhover/appliance/fetch"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

// bring is the whole way of a file, as often as it takes.
func bring(t *testing.T, f *fetch.Fetcher, a fetch.Artifact) (network int64, err error) {
	if g, err := f.Disk.Open(stored, false); err == nil { // was staged before the cut, if that is on the disk
		return 0, errors.Join(g.Close(), f.Stage(a.Index.SHA256, stored))
	}
	res, err := f.Fetch(t.Context(), a)
	if err != nil {
		return res.Network, err
	}
	return res.Network, f.Stage(a.Index.SHA256, stored)
}

// The end comes, the disk is full or broken, before, in and after every single change
// of the disk, and what was not synced is lost in whole, in part or not. Afterwards the
// file arrives, nothing is left, what serves is untouched, and no more is downloaded
// twice than lies between two checkpoints.
func TestCrashMatrix(t *testing.T) {
	world := func() (*testdisk.Disk, fetch.Artifact) {
		d, a := &testdisk.Disk{}, artifact(t, "cdn")
		d.Put(old, file[9*block:11*block], 0o440) // two blocks, at other places: reused all the same
		a.Installed = []string{old}
		return d, a
	}
	d, a := world()
	count := &testdisk.Faults{FS: d}
	if _, err := bring(t, newFetcher(count, &origin{content: file}), a); err != nil {
		t.Fatal(err)
	}
	if count.Changes < 40 {
		t.Fatalf("only %d changes of the disk", count.Changes)
	}
	trials := 0
	for x := range testdisk.Trials(count.Changes, testing.Short()) {
		trials++
		d, a := world()
		o := &origin{content: file}
		faults := &testdisk.Faults{FS: d, At: x.At, Kind: x.Kind}
		var err error
		whole := testdisk.Survive(func() { _, err = bring(t, newFetcher(faults, o), a) })
		trial := fmt.Sprintf("%v at %s, loss %d", x.Kind, faults.Last, x.Loss)
		switch {
		case x.Kind.Ends() == whole:
			t.Fatalf("%s: came to its end: %v", trial, whole)
		case x.Kind == testdisk.Full && err != nil && !errors.Is(err, control.InsufficientStore):
			t.Errorf("%s: %v, want insufficient_storage", trial, err)
		case x.Kind == testdisk.Broken && err == nil:
			t.Errorf("%s: no error", trial)
		}
		d.Restart(x.Loss, uint64(x.At))
		if _, err := bring(t, newFetcher(d, o), a); err != nil {
			t.Fatalf("%s: the second time: %v", trial, err)
		}
		if !bytes.Equal(d.Get(stored), file) || d.Mode(stored) != 0o440 {
			t.Errorf("%s: the file is another one, mode %o", trial, d.Mode(stored))
		}
		if names := d.Names(); len(names) != 2 {
			t.Errorf("%s: left %v", trial, names)
		}
		if !bytes.Equal(d.Get(old), file[9*block:11*block]) {
			t.Errorf("%s: what serves was changed", trial)
		}
		if most := int64(len(file) + 4*block); o.served > most {
			t.Errorf("%s: %d bytes were read, want at most %d", trial, o.served, most)
		}
		// It stays, whatever comes.
		d.Restart(testdisk.Everything, 0)
		if !bytes.Equal(d.Get(stored), file) {
			t.Errorf("%s: a power cut afterwards takes the file away", trial)
		}
	}
	t.Logf("%d changes of the disk, %d trials", count.Changes, trials)
}

// What a record says cannot lead outside of the file.
func FuzzRecord(f *testing.F) {
	x := index(f, file)
	f.Add([]byte(fmt.Sprintf(`{"v":1,"size":%d,"block":%d,"index":"%s","have":"/z8=","spent":5}`, x.Size, x.Block, ota.Digest{})))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`{`))
	d, o := &testdisk.Disk{}, &origin{content: file}
	a := artifact(f, "cdn")
	if _, err := newFetcher(d, o).Fetch(f.Context(), a); err != nil {
		f.Fatal(err)
	}
	path := incoming + "/" + sumOf(f).String() + ".json"
	f.Add(d.Get(path))
	f.Fuzz(func(t *testing.T, record []byte) {
		d.Put(path, record, 0o600)
		res, err := newFetcher(d, o).Fetch(t.Context(), a)
		if err != nil {
			wantCode(t, err, control.Incompatible)
			return
		}
		wantFile(t, d, res, err)
	})
}
