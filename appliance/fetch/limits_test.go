// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"windhover/appliance/fetch"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

// bare is a Fetcher with the limits that hold where nobody sets any.
func bare(d *testdisk.Faults, o *origin) *fetch.Fetcher {
	return &fetch.Fetcher{Disk: d, Dir: incoming, Client: &http.Client{Transport: o}, Reserve: 1}
}

// Twenty attempts that bring nothing are the end; a source is too slow when it brings
// less than 1 KiB a second for 30 s, and not before.
func TestLimits_P160(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := func() *testdisk.Faults { return &testdisk.Faults{FS: &testdisk.Disk{}} }
		o := &origin{answer: status(500)}
		_, err := bare(disk(), o).Fetch(t.Context(), artifact(t, "cdn"))
		wantCode(t, err, control.DownloadFailed)
		if len(o.requests) != 20 {
			t.Errorf("%d attempts, want 20", len(o.requests))
		}
		var began time.Time
		var took []time.Duration
		o = &origin{answer: func(_ int, req *http.Request, _ *http.Response) error {
			began = time.Now()
			err := wait(req.Context(), time.Hour)
			took = append(took, time.Since(began))
			return err
		}}
		_, err = bare(disk(), o).Fetch(t.Context(), artifact(t, "cdn"))
		wantCode(t, err, control.SlowRetrieval)
		if len(took) != 20 || took[0] != 30*time.Second {
			t.Errorf("silence was borne %v", took)
		}
		for _, c := range []struct {
			step int // bytes a second
			slow bool
		}{{1100, false}, {900, true}} {
			o = &origin{content: file, step: c.step, read: func(ctx context.Context) error { return wait(ctx, time.Second) }}
			d := disk()
			f := bare(d, o)
			f.Attempts = 1
			_, err = f.Fetch(t.Context(), artifact(t, "cdn"))
			switch {
			case c.slow:
				wantCode(t, err, control.SlowRetrieval)
			case err != nil:
				t.Errorf("%d bytes a second: %v", c.step, err)
			}
		}
	})
}

// A power cut costs 16 MiB of what has come, at most.
func TestPowerCutCosts_P160(t *testing.T) {
	const size, block, most = 34 << 20, 1 << 20, 16 << 20
	rnd := rand.NewChaCha8([32]byte{3})
	content := make([]byte, size)
	_, _ = rnd.Read(content) // it always fills it
	x, err := ota.BuildIndex(t.Context(), bytes.NewReader(content), size, block, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := fetch.Artifact{Index: x, URLs: []string{"https://cdn/m.vqf"}}
	for _, end := range []int64{16 << 20, 30 << 20} { // when it is just kept, and when much is not
		d := &testdisk.Disk{}
		faults := &testdisk.Faults{FS: d, Kind: testdisk.Before}
		o := &origin{content: content}
		f := bare(faults, o)
		var came int64
		f.Progress = func(done, _ int64) {
			if came = done; done > end && faults.At == 0 {
				faults.At = faults.Changes + 1
			}
		}
		if testdisk.Survive(func() { _, err = f.Fetch(t.Context(), a) }) {
			t.Fatalf("it came to its end: %v", err)
		}
		d.Restart(testdisk.Everything, 0)
		res, err := bare(&testdisk.Faults{FS: d}, o).Fetch(t.Context(), a)
		if err != nil || !bytes.Equal(d.Get(res.Path), content) {
			t.Fatalf("the second time: %v", err)
		}
		if kept := size - res.Network; kept < came-most || kept < most {
			t.Errorf("of %d bytes %d outlast the cut, want all but %d", came, kept, most)
		}
	}
}
