// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-systemd/v22/journal"

	"windhover/control"
)

// formats are the ways that records go out. The journal's is its line, as it stands in
// a stream that the journal reads.
var formats = []string{"text", "json", "journal"}

// outputOf is an output of a format with a clock of its own.
func outputOf(t *testing.T, format string, w io.Writer, c Log) (*LogOutput, *time.Time) {
	t.Helper()
	if c.Format = format; format == "journal" {
		c.Format = ""
	}
	o, err := NewLogOutput(w, c)
	if err != nil {
		t.Fatal(err)
	}
	if format == "journal" {
		o.next = newJournalHandler(w, &o.level, func(string, journal.Priority, map[string]string) error { return errors.New("no socket") })
	}
	clock := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	o.limit.now = func() time.Time { return clock }
	return o, &clock
}

func TestLogFormats(t *testing.T) {
	for format, want := range map[string]string{"text": "level=INFO msg=x", "json": `"level":"INFO","msg":"x"`, "journal": "<6>x"} {
		var out bytes.Buffer
		o, _ := outputOf(t, format, &out, Log{})
		o.Logger().Info("x", "every", 1500*time.Millisecond)
		if got := out.String(); !strings.Contains(got, want) || !strings.Contains(got, "1.5s") {
			t.Errorf("%s: got %q", format, got)
		}
	}
	for _, c := range []Log{{Format: "xml"}, {Level: "loud"}, {Level: "INFO"}, {Burst: -1}} {
		if _, err := NewLogOutput(io.Discard, c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// A running output takes another level and another bound.
func TestLogLevelChanges(t *testing.T) {
	for _, format := range formats {
		var out bytes.Buffer
		o, _ := outputOf(t, format, &out, Log{Level: "warn"})
		log := o.Logger().With("model", "m") // made before the change
		said := func(level string) string {
			out.Reset()
			c := Log{Level: level}
			o.adopt(c)
			log.Debug("d")
			log.Info("i")
			log.Warn("w")
			log.Error("e")
			return fmt.Sprint(strings.Count(out.String(), "\n"))
		}
		if got := said("error") + said("debug") + said("warn") + said("") + said("info"); got != "14233" {
			t.Errorf("%s: %s records at error, debug, warn, none, info", format, got)
		}
	}
}

// hostile are values that somebody outside may choose.
var hostile = []string{
	"line\nfeed", "return\r", "\r\nmsg=fake level=ERROR", "\x1b[2J\x1b]0;title\a", "\x9b31m", "\u009b31m", "nul\x00", "del\x7f", "back\b\b",
	"bad utf-8 \xff\xfe\xc3", "cut \xe4\xb8", "\u202eevil\u2066", "\u2028line\u2029", "\ufeffbom", "quote\"'`\\", "a=b c=d", `{"level":"ERROR"}`,
	"=", "", " ", "<0>emergency", "MESSAGE=x\nMESSAGE_ID=y\n", strings.Repeat("x", 1<<20), strings.Repeat("界", 1<<19), strings.Repeat("\xff", 1<<19),
	strings.Repeat("\n", 1<<19), "\U000e0001tag", "\ud7ff\ue000",
}

// Whatever comes from outside, a record is one line of text that a terminal shows as
// such, is bounded, and says what it says in the place where it belongs.
func TestLogHostileValues(t *testing.T) {
	for _, format := range formats {
		for _, value := range hostile {
			var out bytes.Buffer
			o, _ := outputOf(t, format, &out, Log{})
			o.Logger().With("client", value).Warn("m", "id", value, "error", errors.New(value), "topic", []string{value, value},
				"path", []byte(value), slog.Group("geometry", "dim", value), "text", value, "stack", value, "n", 7)
			line := out.String()
			short := value[:min(len(value), 20)]
			if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
				t.Errorf("%s %q: not one line: %.200q", format, short, line)
			}
			line = strings.TrimSuffix(line, "\n")
			if strings.Contains(line, "\n") || !utf8.ValidString(line) {
				t.Errorf("%s %q: %.200q", format, short, line)
			}
			for _, r := range line {
				if r != ' ' && !unicode.IsPrint(r) {
					t.Errorf("%s %q: %U goes out", format, short, r)
					break
				}
			}
			if len(line) > 3*lineBytes {
				t.Errorf("%s %q: %d bytes", format, short, len(line))
			}
			if format == "json" {
				var doc map[string]any
				if err := json.Unmarshal([]byte(line), &doc); err != nil || doc["n"] != 7.0 || doc["level"] != "WARN" || doc["msg"] != "m" {
					t.Errorf("%q: %v: %.200q", short, err, line)
				}
				if s, _ := doc["id"].(string); len(s) > valueBytes+len("…") {
					t.Errorf("%q: a value of %d bytes", short, len(s))
				}
			} else if !strings.Contains(line, "n=7") {
				t.Errorf("%s %q: n is lost: %.200q", format, short, line)
			}
		}
	}
}

// What the journal is given is as harmless, under names that it takes.
func TestJournalHostileValues(t *testing.T) {
	for _, value := range hostile {
		o, _ := outputOf(t, "text", io.Discard, Log{})
		var message string
		var fields map[string]string
		o.next = newJournalHandler(io.Discard, &o.level, func(m string, _ journal.Priority, f map[string]string) error {
			message, fields = m, f
			return nil
		})
		o.Logger().Warn("m", "id", value, "error", errors.New(value), "event", value, "stack", value)
		if strings.ContainsAny(message, "\n\r\x1b") || !utf8.ValidString(message) {
			t.Errorf("%.20q: message %.100q", value, message)
		}
		if len(fields) != 4 || fields["MESSAGE_ID"] != "" {
			t.Errorf("%.20q: fields %.200q", value, fields)
		}
		for name, v := range fields {
			if strings.ContainsFunc(v, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }) || !utf8.ValidString(v) || len(v) > stackBytes+len("…") {
				t.Errorf("%.20q: %s is %.100q", value, name, v)
			}
		}
	}
}

// While debug is off its records cost nothing, and a request has the most of them.
func TestLogDebugAllocs(t *testing.T) {
	o, _ := outputOf(t, "json", io.Discard, DefaultConfig().Log)
	s := &server{log: o.Logger()}
	id, client := strings.Repeat("i", 16), strings.Repeat("c", 16)
	if n := testing.AllocsPerRun(100, func() {
		for _, event := range []string{control.NoticeAccepted, control.NoticeStarted, control.NoticeFirst, control.NoticeEnded, control.NoticeRefused} {
			s.notice(control.Notice{Event: event, Client: client, ID: id, Ahead: 1, Seen: control.Observation{Op: "chat", Code: "ok"}})
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What a library prints is one record, however many lines it has.
func TestLogOfLibraries(t *testing.T) {
	for _, format := range formats {
		var out bytes.Buffer
		o, _ := outputOf(t, format, &out, Log{})
		stdlog.New(o.Writer(), "", 0).Print("Unsolicited response\nstarting with \x1b[2J")
		if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "a library says") || strings.Contains(got, "\x1b") {
			t.Errorf("%s: %q", format, got)
		}
	}
}
