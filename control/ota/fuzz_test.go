// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"bytes"
	"testing"
	"time"

	"windhover/control/ota"
)

// What parses is written again as something that means the same.
func FuzzEnvelope(f *testing.F) {
	f.Add(ota.Sign(ota.TypeDesired, []byte(`{"rev":1}`), privateKey('a')).Encode())
	f.Add([]byte(`{"payloadType":"x","payload":"","signatures":[{"keyid":"","sig":"AA=="}]}`))
	f.Add([]byte(`{}`))
	role := ota.Role{Keys: []ota.Key{publicKey('a'), publicKey('b')}, Threshold: 1}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ota.ParseEnvelope(data, ota.MaxDocument)
		if err != nil {
			return
		}
		again, err := ota.ParseEnvelope(e.Encode(), 8*ota.MaxDocument)
		if err != nil || !bytes.Equal(again.Encode(), e.Encode()) {
			t.Fatalf("%+v became %+v: %v", e, again, err)
		}
		// Only what the two keys signed is let through, and that is the seed alone.
		if payload, _, err := e.Open(ota.TypeDesired, role); err == nil && string(payload) != `{"rev":1}` {
			t.Errorf("payload %q passes", payload)
		}
	})
}

func FuzzDesired(f *testing.F) {
	f.Add([]byte(`{"rev":1,"issued_at":"2026-11-29T12:00:00Z","expires_at":"2026-12-29T12:00:00Z","target":{"device":"edge1"}}`))
	f.Add([]byte(`{"rev":42,"issued_at":"2026-11-29T12:00:00Z","expires_at":"2026-12-29T12:00:00Z","target":{"group":"canary"},"models":[{"name":"m","version":"1","release":14,"urls":["https://c/m"],"size":9,"sha256":"1111111111111111111111111111111111111111111111111111111111111111","index":{"url":"https://c/i","sha256":"2111111111111111111111111111111111111111111111111111111111111111","block":1048576}}],"rollout":{"percent":10,"window":"02:00-05:00"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ota.ParseDesired(data)
		if err != nil {
			return
		}
		again, err := ota.ParseDesired(d.Encode())
		if err != nil || !bytes.Equal(again.Encode(), d.Encode()) {
			t.Fatalf("%s became %+v: %v", d.Encode(), again, err)
		}
	})
}

func FuzzRelease(f *testing.F) {
	f.Add([]byte(`{"v":1,"name":"m","version":"1","release":14,"size":9,"sha256":"1111111111111111111111111111111111111111111111111111111111111111","block":1048576,"index":"2111111111111111111111111111111111111111111111111111111111111111","compat":{},"issued_at":"2026-11-29T12:00:00Z"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ota.ParseRelease(data)
		if err != nil {
			return
		}
		again, err := ota.ParseRelease(r.Encode())
		if err != nil || !bytes.Equal(again.Encode(), r.Encode()) {
			t.Fatalf("%s became %+v: %v", r.Encode(), again, err)
		}
	})
}

// Every block of an index that parses has its length and its digest.
func FuzzIndex(f *testing.F) {
	x, err := ota.BuildIndex(f.Context(), bytes.NewReader(content), int64(len(content)), 4096, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(x.Encode())
	f.Add([]byte(`{"size":9223372036854775807,"block":4096}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := ota.ParseIndex(data)
		if err != nil {
			return
		}
		var sum int64
		for i := range x.Count() {
			if n := x.Len(i); n < 1 || int64(n) > x.Block {
				t.Fatalf("block %d has %d bytes", i, n)
			}
			sum += int64(x.Len(i))
			_ = x.Hash(i)
		}
		if sum != x.Size {
			t.Errorf("blocks of %d bytes in a file of %d", sum, x.Size)
		}
	})
}

func FuzzWindow(f *testing.F) {
	for _, s := range []string{"", "02:00-05:00", "22:00-04:00", "00:00-00:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := ota.ParseWindow(s)
		if err != nil {
			return
		}
		if w.String() != s {
			t.Errorf("%q is shown as %q", s, w)
		}
		for h := range 48 {
			at := noon.Add(hours(h))
			if !w.Open(at.Add(w.Until(at))) {
				t.Errorf("%q is not open after the wait from %v", s, at)
			}
		}
	})
}

// hours are halves of them.
func hours(h int) time.Duration { return time.Duration(h) * 30 * time.Minute }
