// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/pelletier/go-toml/v2"
)

// LogOutput is where the records of a daemon go: through the level and the limits of
// [log], which a running daemon may change, to a stream or to the journal. What comes
// from outside is made harmless before (see cleaner); a record is one line.
type LogOutput struct {
	level slog.LevelVar
	limit *limiter
	stuck *unstuck     // next writes by it
	next  slog.Handler // of the format
}

// NewLogOutput makes the output that c describes. Text that would go straight to the
// journal is sent to it by its own protocol.
func NewLogOutput(w io.Writer, c Log) (*LogOutput, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	o := &LogOutput{limit: newLimiter(time.Now), stuck: &unstuck{patience: logPatience}}
	o.adopt(c)
	opt := &slog.HandlerOptions{Level: &o.level}
	stream := unstuckWriter{o.stuck, w}
	switch f, ok := w.(*os.File); {
	case c.Format == "json":
		o.next = slog.NewJSONHandler(stream, opt)
	case ok && f == os.Stderr && stderrIsJournal():
		o.next = newJournalHandler(unstuckWriter{&unstuck{patience: logPatience}, w}, &o.level, o.stuck.sender(journal.Send))
	default:
		o.next = slog.NewTextHandler(stream, opt)
	}
	return o, nil
}

func stderrIsJournal() bool {
	is, err := journal.StderrIsJournalStream()
	return err == nil && is
}

// ForPeople says whether a failed start is told as other verbs tell theirs, and not by
// a record: programs read JSON and the journal.
func (o *LogOutput) ForPeople() bool {
	_, text := o.next.(*slog.TextHandler)
	return text
}

// FormatOf is log.format as the configuration at path and the environment have it, also
// where the rest of them cannot be used: that is told in the same format.
func FormatOf(path string, environ []string) string {
	for _, kv := range environ {
		if format, is := strings.CutPrefix(kv, EnvPrefix+"LOG_FORMAT="); is {
			return format
		}
	}
	var cfg struct{ Log Log }
	if path != "" {
		files, _ := configFiles(path, false) // what cannot be read says nothing
		for _, f := range files {
			if raw, err := readConfigFile(f); err == nil {
				_ = toml.Unmarshal(raw, &cfg) // what it says up to a mistake counts
			}
		}
	}
	return cfg.Log.Format
}

// Logger writes to the output.
func (o *LogOutput) Logger() *slog.Logger { return slog.New(&logHandler{out: o, next: o.next}) }

// Writer takes the lines that libraries print by package log.
func (o *LogOutput) Writer() io.Writer {
	return lineWriter{log: o.Logger(), message: "a library says"}
}

// Flush tells what the limits have kept back so far.
func (o *LogOutput) Flush() {
	if o == nil { // of a test that looks at no log
		return
	}
	o.tell(context.Background(), o.limit.drain(0))
}

// adopt makes level and burst of c count from now on.
func (o *LogOutput) adopt(c Log) {
	if o == nil {
		return
	}
	level, err := c.level()
	if err != nil {
		return // Config.finish has refused it
	}
	o.level.Set(level)
	o.limit.setBurst(c.Burst)
}

// tell writes one record for each kind that was kept back.
func (o *LogOutput) tell(ctx context.Context, list []suppressed) {
	for _, s := range list {
		r := slog.NewRecord(time.Now(), s.level, "records of one kind were suppressed", 0)
		r.AddAttrs(slog.String("of", s.message), slog.Uint64("suppressed", s.n))
		if s.level >= o.level.Level() {
			_ = o.next.Handle(ctx, r) // as slog.Logger does: there is nowhere to tell it
		}
	}
}

// check refuses what is no level, no format or no bound.
func (l *Log) check() error {
	if l.Format != "" && l.Format != "text" && l.Format != "json" {
		return fmt.Errorf("log format %q: use text or json", l.Format)
	}
	if l.Burst < 0 {
		return fmt.Errorf("log burst %d: use 1 or more, or 0 for no limit", l.Burst)
	}
	_, err := l.level()
	return err
}

// level is that of l; without one it is info.
func (l *Log) level() (slog.Level, error) {
	switch l.Level {
	case "debug":
		return slog.LevelDebug, nil
	case "", "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %q: use debug, info, warn or error", l.Level)
}

// logHandler stands before the handler of the format.
type logHandler struct {
	out  *LogOutput
	next slog.Handler
}

// Enabled implements slog.Handler.
func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.out.level.Level() }

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	event := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "event" {
			event = a.Value.String()
		}
		return event == ""
	})
	before, ok := h.out.limit.take(r.Level, r.Message, event)
	if !ok {
		return nil
	}
	h.out.tell(ctx, h.out.limit.drain(tellSuppressed))
	if n := h.out.stuck.gone(); n > 0 {
		h.out.tell(ctx, []suppressed{{logKind{level: slog.LevelWarn, message: "all, while the log stood still"}, n}})
	}
	c := cleaner{room: lineBytes}
	clean := slog.NewRecord(r.Time, r.Level, strings.ReplaceAll(c.text(r.Message, valueBytes), "\n", " "), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(c.attr(a))
		return true
	})
	if before > 0 {
		clean.AddAttrs(slog.Uint64("suppressed", before))
	}
	return h.next.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := cleaner{room: lineBytes}
	list := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		list[i] = c.attr(a)
	}
	return &logHandler{out: h.out, next: h.next.WithAttrs(list)}
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{out: h.out, next: h.next.WithGroup(name)}
}

// lineWriter turns lines that somebody else's code prints into records.
type lineWriter struct {
	log     *slog.Logger
	message string
}

// Write implements io.Writer.
func (w lineWriter) Write(p []byte) (int, error) {
	w.log.Warn(w.message, "text", strings.TrimSpace(string(p)))
	return len(p), nil
}
