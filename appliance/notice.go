// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"windhover/control"
)

// notices are the records of what package control notices: nothing of a single request
// is above debug, and what clients or a broker can bring about is no error.
var notices = map[string]struct {
	level   slog.Level
	message string
}{
	control.NoticeUp:      {slog.LevelInfo, "mqtt link up"},
	control.NoticeDown:    {slog.LevelWarn, "mqtt link down"},
	control.NoticeTry:     {slog.LevelWarn, "mqtt link not made: trying again"},
	control.NoticeReplay:  {slog.LevelWarn, "mqtt replay ignored"},
	control.NoticeDropped: {slog.LevelWarn, "mqtt message dropped: the box is behind"},
	control.NoticeIgnored: {slog.LevelDebug, "mqtt message ignored"},
	control.NoticeRival:   {slog.LevelWarn, "mqtt name taken"},
	control.NoticeDenied:  {slog.LevelWarn, "mqtt group denied"},
	control.NoticeState:   {slog.LevelError, "mqtt state error"},
	control.NoticePanic:   {slog.LevelError, "panic in a request or a job"},

	control.NoticeRefused:    {slog.LevelDebug, "request refused"},
	control.NoticeAccepted:   {slog.LevelDebug, "request accepted"},
	control.NoticeStarted:    {slog.LevelDebug, "request started"},
	control.NoticeFirst:      {slog.LevelDebug, "request has its first token"},
	control.NoticeEnded:      {slog.LevelDebug, "request ended"},
	control.NoticeJobRefused: {slog.LevelInfo, "job refused"},
}

// notice writes what package control noticed to the log.
func (s *server) notice(n control.Notice) {
	ctx := context.Background()
	if r := notices[n.Event]; s.log.Enabled(ctx, r.level) {
		s.log.LogAttrs(ctx, r.level, r.message, s.noticeAttrs(n)...)
	}
	switch n.Event {
	case control.NoticeUp:
		if s.log.Enabled(ctx, slog.LevelDebug) {
			s.log.LogAttrs(ctx, slog.LevelDebug, "mqtt subscribed", slog.String("link", n.Link), slog.Any("topic", n.Filters))
		}
		s.tellStatus()
	case control.NoticeDown, control.NoticeTry:
		s.tellStatus()
	}
}

// noticeAttrs are the values of a record. What a refusal says is told to the client
// alone, unless prompts may be logged: it quotes what is wrong with a request.
func (s *server) noticeAttrs(n control.Notice) []slog.Attr {
	var attrs []slog.Attr
	add := func(a slog.Attr) {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if _, is := messageIDs[n.Event]; is {
		add(slog.String("event", n.Event))
	}
	add(slog.String("link", n.Link))
	add(slog.String("topic", n.Topic))
	add(slog.String("client", n.Client))
	add(slog.String("id", n.ID))
	add(slog.String("op", n.Seen.Op))
	add(slog.String("code", n.Seen.Code))
	add(slog.String("incident", n.Incident))
	switch n.Event {
	case control.NoticeAccepted:
		add(slog.Int("ahead", n.Ahead))
	case control.NoticeStarted:
		add(slog.Int64("queue_ms", n.Seen.Queue.Milliseconds()))
	case control.NoticeFirst:
		add(slog.Int64("ttft_ms", n.Seen.TTFT.Milliseconds()))
	case control.NoticeEnded:
		u := n.Seen.Usage
		add(slog.String("model", n.Seen.Model.String()))
		add(slog.String("finish", n.Seen.Finish))
		attrs = append(attrs, slog.Int("prompt_tokens", u.Prompt), slog.Int("cached_tokens", u.Cached), slog.Int("tokens", u.Completion),
			slog.Int64("queue_ms", n.Seen.Queue.Milliseconds()), slog.Int64("ttft_ms", n.Seen.TTFT.Milliseconds()), slog.Int64("ms", n.Seen.Total.Milliseconds()))
	case control.NoticePanic:
		if add(slog.String("error", panicText(n.Panic))); s.cfg.Log.Prompts {
			add(slog.String("text", fmt.Sprint(n.Panic)))
		}
		add(slog.String("stack", string(n.Stack)))
	}
	if n.Err != nil && (n.Event != control.NoticeRefused || s.cfg.Log.Prompts) {
		add(slog.String("error", strings.NewReplacer("control: ", "", "network Error : ", "").Replace(n.Err.Error())))
	}
	return attrs
}
