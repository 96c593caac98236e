// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/coreos/go-systemd/v22/journal"
)

// NewLogHandler makes the daemon's log handler. format is "" or "text", or "json".
// Text that goes straight to the journal has no time of its own, and begins with
// the priority that the journal reads: journalctl -p warning then means something.
func NewLogHandler(w io.Writer, format string) (slog.Handler, error) {
	switch format {
	case "json":
		return slog.NewJSONHandler(w, nil), nil
	case "", "text":
	default:
		return nil, fmt.Errorf("log format %q: use text or json", format)
	}
	if f, ok := w.(*os.File); ok && f == os.Stderr {
		if is, err := journal.StderrIsJournalStream(); err == nil && is {
			return newJournalHandler(w), nil
		}
	}
	return slog.NewTextHandler(w, nil), nil
}

// journalHandler puts the syslog priority in front of each line of a text handler
// (sd-daemon(3)).
type journalHandler struct {
	inner slog.Handler // writes to out.line
	out   *journalOutput
}

type journalOutput struct {
	mu   sync.Mutex // guards what follows
	w    io.Writer
	line bytes.Buffer
}

func newJournalHandler(w io.Writer) slog.Handler {
	out := &journalOutput{w: w}
	inner := slog.NewTextHandler(&out.line, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}})
	return &journalHandler{inner: inner, out: out}
}

// Enabled implements slog.Handler.
func (h *journalHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.inner.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	h.out.line.Reset()
	h.out.line.WriteString(priority(r.Level))
	if err := h.inner.Handle(ctx, r); err != nil {
		return err
	}
	_, err := h.out.w.Write(h.out.line.Bytes())
	return err
}

// WithAttrs implements slog.Handler.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journalHandler{inner: h.inner.WithAttrs(attrs), out: h.out}
}

// WithGroup implements slog.Handler.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	return &journalHandler{inner: h.inner.WithGroup(name), out: h.out}
}

func priority(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "<3>"
	case l >= slog.LevelWarn:
		return "<4>"
	case l >= slog.LevelInfo:
		return "<6>"
	default:
		return "<7>"
	}
}
