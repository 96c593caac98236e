// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/coreos/go-systemd/v22/journal"
)

// journalHandler writes records to systemd's journal by its own protocol: the line that
// people read as MESSAGE, each attribute in a field of its own beside it, and a
// MESSAGE_ID where the record is one of the events of docs/PROTOCOL.md.
type journalHandler struct {
	text   slog.Handler // writes attributes to out.line
	fields []slog.Attr  // of WithAttrs, their keys being names of fields
	group  string       // what names of fields begin with
	out    *journalOutput
}

// journalOutput is what a handler and those made of it share.
type journalOutput struct {
	send func(message string, p journal.Priority, fields map[string]string) error
	w    io.Writer // where the journal does not take it

	mu   sync.Mutex // guards what follows
	line bytes.Buffer
}

func newJournalHandler(w io.Writer, level slog.Leveler, send func(string, journal.Priority, map[string]string) error) slog.Handler {
	out := &journalOutput{send: send, w: w}
	text := slog.NewTextHandler(&out.line, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}})
	return &journalHandler{text: text, group: "WINDHOVER_", out: out}
}

// Enabled implements slog.Handler.
func (h *journalHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.text.Enabled(ctx, l)
}

// Handle implements slog.Handler.
func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	fields := make(map[string]string, len(h.fields)+r.NumAttrs()+1)
	for _, a := range h.fields {
		fields[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		for _, a := range journalFields(nil, h.group, a) {
			fields[a.Key] = a.Value.String()
		}
		return true
	})
	if id, ok := messageIDs[fields["WINDHOVER_EVENT"]]; ok {
		fields["MESSAGE_ID"] = id
	}
	o := h.out
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line.Reset()
	if err := h.text.Handle(ctx, r); err != nil {
		return err
	}
	message := strings.TrimSpace(r.Message + " " + strings.TrimSpace(o.line.String()))
	p := priority(r.Level)
	if o.send(message, p, fields) == nil {
		return nil
	}
	// The stream takes a line with its priority in front (sd-daemon(3)).
	_, err := io.WriteString(o.w, "<"+string('0'+rune(p))+">"+message+"\n")
	return err
}

// WithAttrs implements slog.Handler.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	fields := h.fields[:len(h.fields):len(h.fields)]
	for _, a := range attrs {
		fields = journalFields(fields, h.group, a)
	}
	return &journalHandler{text: h.text.WithAttrs(attrs), fields: fields, group: h.group, out: h.out}
}

// WithGroup implements slog.Handler.
func (h *journalHandler) WithGroup(name string) slog.Handler {
	return &journalHandler{text: h.text.WithGroup(name), fields: h.fields, group: h.group + name + "_", out: h.out}
}

// journalFields appends an attribute under the names of its fields; a group has several.
func journalFields(list []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	v := a.Value.Resolve()
	if v.Kind() != slog.KindGroup {
		return append(list, slog.Attr{Key: fieldName(prefix + a.Key), Value: v})
	}
	if a.Key != "" {
		prefix += a.Key + "_"
	}
	for _, in := range v.Group() {
		list = journalFields(list, prefix, in)
	}
	return list
}

// knownFields have names that are promised, whatever the key in the text is.
var knownFields = map[string]string{
	"WINDHOVER_ID":     "WINDHOVER_REQ",
	"WINDHOVER_SHA256": "WINDHOVER_DIGEST",
}

// fieldName makes a name that the journal takes: at most 64 of A-Z 0-9 _.
func fieldName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, s)
	if known, ok := knownFields[s]; ok {
		return known
	}
	return s[:min(len(s), 64)]
}

func priority(l slog.Level) journal.Priority {
	switch {
	case l >= slog.LevelError:
		return journal.PriErr
	case l >= slog.LevelWarn:
		return journal.PriWarning
	case l >= slog.LevelInfo:
		return journal.PriInfo
	}
	return journal.PriDebug
}

// messageIDs find the records of an event: journalctl MESSAGE_ID=…. They never change.
var messageIDs = map[string]string{
	"model_ready":     "6df6d1a027a0488bb85b3243eca413cc",
	"model_failed":    "2cbd5904b3dd40558b8e06a96a887de2",
	"rolled_back":     "df302afcc41c4f28b58000073578aeef",
	"thermal":         "ba955a06ab434abfa41e2b4bc6aa9353",
	"low_space":       "b702243809f846ae8cb1a4b7bb5b1573",
	"config_reloaded": "c2780f942f4b47458a4a8f9f54986b66",
	"broker_open":     "073616e59b544ea4a44a7ecde7f23976",
	"stalled":         "23fa42100c454943987d7fded8c3dca7",
	"name_taken":      "729bd92b573b46a28b11881a43abbe77",
}
