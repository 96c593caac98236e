// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"fmt"
	"testing"
	"time"

	"windhover/control/ota"
)

// The bucket is part of the protocol: the fleet's side counts with it.
func TestBucket_P77(t *testing.T) {
	for _, c := range []struct {
		salt, device string
		want         int
	}{
		// printf 'r42/edge1' | sha256sum, the first 16 digits modulo 10000
		{"r42", "edge1", 3440}, {"r42", "edge2", 3688}, {"", "edge1", 7188},
	} {
		if got := ota.Bucket(c.salt, c.device); got != c.want {
			t.Errorf("bucket of %q/%q is %d, want %d", c.salt, c.device, got, c.want)
		}
	}
}

// A percentage reaches about that many, everybody it reached before, and with another
// salt others.
func TestPercent(t *testing.T) {
	const devices = 1500
	reached := func(salt string, percent float64) map[int]bool {
		d := document(t)
		d.Rollout = ota.Rollout{Salt: salt, Percent: percent}
		data := signed(d, "a")
		j, got := judge(t), map[int]bool{}
		for i := range devices {
			j.Device.Name = fmt.Sprintf("edge%d", i)
			a, _, err := j.Accept(data, ota.Memory{}, atNoon)
			if err != nil {
				t.Fatal(err)
			}
			if !a.Held {
				got[i] = true
			}
		}
		return got
	}
	before := map[int]bool{}
	for _, percent := range []float64{0, 1, 10, 50, 100} {
		now := reached("r42", percent)
		if n, want := float64(len(now)), percent*devices/100; n < want*0.6 || n > want*1.4 {
			t.Errorf("%v %% reaches %v of %d", percent, n, devices)
		}
		for i := range before {
			if !now[i] {
				t.Fatalf("%v %% does not reach device %d, which less reached", percent, i)
			}
		}
		before = now
	}
	both := 0
	other := reached("r43", 10)
	for i := range reached("r42", 10) {
		if other[i] {
			both++
		}
	}
	if both > len(other)/2 {
		t.Errorf("another salt reaches %d of the same %d devices", both, len(other))
	}
}

func TestDelay_P153(t *testing.T) {
	r := ota.Rollout{Salt: "r42", JitterS: 900}
	sum := time.Duration(0)
	for i := range 1000 {
		d := r.Delay(fmt.Sprintf("edge%d", i))
		if d < 0 || d >= 15*time.Minute {
			t.Fatalf("device %d waits %v", i, d)
		}
		sum += d
	}
	if mean := sum / 1000; mean < 6*time.Minute || mean > 9*time.Minute {
		t.Errorf("devices wait %v in the mean", mean)
	}
	again := ota.Rollout{Salt: "r42", JitterS: 900} // after a restart
	if first := r.Delay("edge1"); first != again.Delay("edge1") || (ota.Rollout{Salt: "r42"}).Delay("edge1") != 0 {
		t.Error("a device waits differently the second time, or without jitter")
	}
}

func TestWindow_P152(t *testing.T) {
	at := func(clock string) time.Time {
		v, err := time.Parse("15:04", clock)
		if err != nil {
			t.Fatal(err)
		}
		return time.Date(2026, 11, 29, v.Hour(), v.Minute(), 0, 0, time.UTC)
	}
	for _, c := range []struct {
		window, clock string
		wait          time.Duration
	}{
		{"", "12:00", 0},
		{"02:00-05:00", "02:00", 0},
		{"02:00-05:00", "04:59", 0},
		{"02:00-05:00", "05:00", 21 * time.Hour},
		{"02:00-05:00", "01:30", 30 * time.Minute},
		{"22:00-04:00", "23:30", 0},
		{"22:00-04:00", "03:59", 0},
		{"22:00-04:00", "04:00", 18 * time.Hour},
		{"22:00-04:00", "12:00", 10 * time.Hour},
	} {
		w, err := ota.ParseWindow(c.window)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Until(at(c.clock)); got != c.wait || w.Open(at(c.clock)) != (c.wait == 0) {
			t.Errorf("%q at %s: wait %v, want %v", c.window, c.clock, got, c.wait)
		}
		if w.String() != c.window {
			t.Errorf("%q is shown as %q", c.window, w)
		}
	}
	for _, bad := range []string{"02:00", "2:00-5:00", "02:00-02:00", "24:00-25:00", "02:00/05:00", "-1:00-05:00"} {
		if _, err := ota.ParseWindow(bad); err == nil {
			t.Errorf("%q is a window", bad)
		}
	}
}
