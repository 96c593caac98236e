// SPDX-License-Identifier: Apache-2.0

package vision

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

// A picture becomes a JPEG that fits, of its own shape, and never larger than it is.
func TestJPEGFits(t *testing.T) {
	for _, c := range []struct{ w, h, bytes int }{{1200, 800, 48 << 10}, {300, 900, 20 << 10}, {64, 48, 100 << 10}} {
		m := noiseImage(c.w, c.h, 1)
		data, w, h, err := m.JPEG(c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > c.bytes || w > c.w || h > c.h {
			t.Errorf("%d x %d: %d bytes of %d x %d, want at most %d", c.w, c.h, len(data), w, h, c.bytes)
		}
		if shape := float64(w) / float64(h) / (float64(c.w) / float64(c.h)); shape < 0.95 || shape > 1.05 {
			t.Errorf("%d x %d became %d x %d", c.w, c.h, w, h)
		}
		back, err := Decode(context.Background(), bytes.NewReader(data), Limits{})
		if err != nil || back.Width != w || back.Height != h {
			t.Errorf("%d x %d: decoded as %v, %v", w, h, back, err)
		}
	}
	if _, _, _, err := noiseImage(400, 400, 1).JPEG(100); !errors.Is(err, ErrSize) {
		t.Errorf("100 bytes: error %v, want ErrSize", err)
	}
}
