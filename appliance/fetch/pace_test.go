// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

// A rate is kept, and reading slowly because of it is not the source's fault.
func TestBandwidth_P154(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, o := &testdisk.Disk{}, &origin{content: file}
		f := newFetcher(d, o)
		a := artifact(t, "cdn")
		a.MaxBPS = 500 // half of what a source must give
		start := time.Now()
		res, err := f.Fetch(t.Context(), a)
		wantFile(t, d, res, err)
		want := time.Duration(res.Network) * time.Second / 500
		if took := time.Since(start); took < want*99/100 || took > want*101/100 {
			t.Errorf("%d bytes took %v, want %v", res.Network, took, want)
		}
	})
}

// Requests are sent in the window alone, end with it, and go on where they were.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		zone := time.Local
		time.Local = time.UTC // the bubble's clock begins at midnight of it
		defer func() { time.Local = zone }()
		d, o := &testdisk.Disk{}, &origin{content: file}
		w, err := ota.ParseWindow("02:00-02:30")
		if err != nil {
			t.Fatal(err)
		}
		var outside int
		o.read = func(ctx context.Context) error {
			if !w.Open(time.Now()) {
				outside++
			}
			return nil
		}
		f := newFetcher(d, o)
		a := artifact(t, "cdn")
		a.Window, a.MaxBPS = w, 20 // about 36,000 bytes a window
		start := time.Now()
		res, err := f.Fetch(t.Context(), a)
		wantFile(t, d, res, err)
		if took := time.Since(start); took < 26*time.Hour || took > 27*time.Hour {
			t.Errorf("it took %v, want two nights", took)
		}
		// A block that began in the window is read to its end.
		if most := block / 512; outside > most {
			t.Errorf("%d reads outside of the window", outside)
		}
		if sum := int64(len(file)); res.Network != sum {
			t.Errorf("%d bytes over the network, want %d", res.Network, sum)
		}
	})
}

// A clock that cannot be believed opens every window; a delay counts all the same.
func TestWindowWithoutClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, o := &testdisk.Disk{}, &origin{content: file}
		f := newFetcher(d, o)
		f.Sane = func() bool { return false }
		a := artifact(t, "cdn")
		a.Window, _ = ota.ParseWindow(time.Now().Add(6*time.Hour).Format("15:04") + "-" + time.Now().Add(7*time.Hour).Format("15:04"))
		a.NotBefore = time.Now().Add(10 * time.Minute)
		start := time.Now()
		res, err := f.Fetch(t.Context(), a)
		wantFile(t, d, res, err)
		if took := time.Since(start); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("it took %v, want the delay of 10 minutes", took)
		}
	})
}

// A budget is not exceeded, over restarts and kills either, and blocks that are there
// already cost nothing.
func TestByteBudget_P154(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, o := &testdisk.Disk{}, &origin{content: file}
		f := newFetcher(d, o)
		a := artifact(t, "cdn")
		a.MaxBytes = 5*block + 10
		for range 3 {
			_, err := f.Fetch(t.Context(), a)
			wantCode(t, err, control.DownloadFailed)
		}
		if o.served > a.MaxBytes || o.served < 5*block {
			t.Errorf("%d bytes were read, allowed are %d", o.served, a.MaxBytes)
		}
		d.Put(old, file[5*block:], 0o440)
		a.Installed = []string{old}
		res, err := f.Fetch(t.Context(), a)
		wantFile(t, d, res, err)
		if res.Network != 0 {
			t.Errorf("%d more bytes were read", res.Network)
		}
		// Kills at any change of the disk.
		var count *testdisk.Faults
		for at := 0; at == 0 || at <= count.Changes; at++ {
			d, o := &testdisk.Disk{}, &origin{content: file}
			a := artifact(t, "cdn")
			a.MaxBytes = int64(len(file))
			for n := range 4 { // killed three times
				faults := &testdisk.Faults{FS: d, At: at, Kind: testdisk.Fault(n % 3)}
				f := newFetcher(faults, o)
				testdisk.Survive(func() { _, _ = f.Fetch(t.Context(), a) }) // what comes of it shows below
				if at == 0 {
					count = faults
					break
				}
				d.Restart(testdisk.Loss(n%3), uint64(at))
			}
			if o.served > a.MaxBytes {
				t.Errorf("killed at change %d: %d bytes were read, allowed are %d", at, o.served, a.MaxBytes)
			}
		}
	})
}

// Pauses between attempts grow, are never above five minutes, and what a server asks
// for is kept.
func TestPauses_P159(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{answer: status(500)}
		f := newFetcher(&testdisk.Disk{}, o)
		f.Attempts = 40
		start := time.Now()
		_, err := f.Fetch(t.Context(), artifact(t, "cdn"))
		wantCode(t, err, control.DownloadFailed)
		if took := time.Since(start); took > 40*5*time.Minute || took < 20*time.Minute || len(o.requests) != 40 {
			t.Errorf("%d attempts took %v", len(o.requests), took)
		}
		o = &origin{answer: status(503, "Retry-After", "200")}
		f = newFetcher(&testdisk.Disk{}, o)
		start = time.Now()
		_, err = f.Fetch(t.Context(), artifact(t, "cdn"))
		wantCode(t, err, control.DownloadFailed)
		if took := time.Since(start); took < 3*200*time.Second {
			t.Errorf("four attempts took %v, the server asked for pauses of 200 s", took)
		}
		// A context ends a pause.
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		start = time.Now()
		if _, err = f.Fetch(ctx, artifact(t, "cdn")); err == nil || time.Since(start) != time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}
