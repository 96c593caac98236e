// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"windhover/control"
	"windhover/engine"
)

// A conversation that does not fit is refused with the counts, or loses its oldest
// messages where the request says so.
func TestChatTooLong(t *testing.T) {
	r := newRig(t, t.TempDir())
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(context.Background())
	s, release, err := r.reg.acquire(context.Background(), "m")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	req := &control.Request{Op: control.OpChat, MaxTokens: 16}
	turn := strings.Repeat("a", s.Info().Context/4)
	for range 8 {
		req.Messages = append(req.Messages, control.Message{Role: "user", Content: control.Content{Text: turn}},
			control.Message{Role: "assistant", Content: control.Content{Text: turn}})
	}
	req.Messages = append(req.Messages, control.Message{Role: "user", Content: control.Content{Text: "last"}})
	run := func() error {
		tokens, _, err := promptTokens(context.Background(), s, req, "")
		if err != nil {
			return err
		}
		_, err = s.Generate(context.Background(), engineRequest(s, req, tokens), func(engine.Event) error { return nil })
		return err
	}
	if err := run(); !errors.Is(err, engine.ErrContextOverflow) {
		t.Errorf("without truncate: got %v", err)
	}
	req.Truncate = "oldest"
	if err := run(); err != nil {
		t.Errorf("with truncate: %v", err)
	}
	// One message alone that does not fit is never cut.
	req.Messages = []control.Message{{Role: "user", Content: control.Content{Text: strings.Repeat("a", s.Info().Context+1)}}}
	if err := run(); !errors.Is(err, engine.ErrContextOverflow) {
		t.Errorf("one long message: got %v", err)
	}
}
