// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestJournalPriorities(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(newJournalHandler(&out)).With("device", "box").WithGroup("g")
	log.Info("fine", "n", 1)
	log.Warn("odd")
	log.Error("broken", "error", "two\nlines")
	want := "<6>msg=fine device=box g.n=1\n<4>msg=odd device=box\n<3>msg=broken device=box g.error=\"two\\nlines\"\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

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
