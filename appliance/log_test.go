// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLogFormats(t *testing.T) {
	for format, want := range map[string]string{"": "level=INFO", "text": "level=INFO", "json": `"level":"INFO"`} {
		var out bytes.Buffer
		h, err := NewLogHandler(&out, format)
		if err != nil {
			t.Fatal(err)
		}
		slog.New(h).Info("x")
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q: got %q", format, out.String())
		}
	}
	if _, err := NewLogHandler(&bytes.Buffer{}, "xml"); err == nil {
		t.Error("an unknown format is taken")
	}
}
