// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"windhover/control"
	"windhover/engine"
	"windhover/engine/tokenizer"
)

func TestExpendable(t *testing.T) {
	for _, tt := range []struct{ policy, roles, want string }{
		{"oldest", "system user assistant user", "[1 2]"},
		{"oldest", "user assistant user", "[0 1]"},
		{"oldest", "user system user", "[0 1]"},
		{"oldest", "system user", "[]"},
		{"oldest", "user", "[]"},
		{"oldest", "", "[]"},
		{"middle", "system user assistant user assistant user", "[3 4 1 2]"},
		{"middle", "user assistant user assistant user", "[2 3 0 1]"},
		{"middle", "system user assistant user", "[1 2]"}, // better than a refusal
		{"middle", "user user", "[0]"},
		{"middle", "system user", "[]"},
		{"", "user assistant user", "[]"},
	} {
		var messages []control.Message
		for _, role := range strings.Fields(tt.roles) {
			messages = append(messages, control.Message{Role: role})
		}
		if got := fmt.Sprint(expendable(tt.policy, messages)); got != tt.want {
			t.Errorf("%s, %q: %s go, want %s", tt.policy, tt.roles, got, tt.want)
		}
	}
}

// speaker is a model with a template of the test's, whose renderings are counted.
type speaker struct {
	*serving
	template *tokenizer.Template // nil: the model's own
	rendered func()
}

func (s speaker) Template() *tokenizer.Template {
	s.rendered()
	if s.template != nil {
		return s.template
	}
	return s.serving.Template()
}

// serveTiny is a model that serves until the test ends.
func serveTiny(t *testing.T) *serving {
	t.Helper()
	r := newRig(t, t.TempDir())
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(context.Background())
	s, release, err := r.reg.acquire(context.Background(), "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return s
}

// talk is a conversation of n short messages, the first of the user.
func talk(policy string, n int) *conversation {
	var messages []control.Message
	c := &conversation{pictures: make([][]*engine.Picture, n)}
	for i := range n {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		text := fmt.Sprintf("%d is what I say", i)
		messages = append(messages, control.Message{Role: role})
		c.Messages = append(c.Messages, tokenizer.Message{Role: role, Content: tokenizer.Content{Text: text}})
	}
	c.going = expendable(policy, messages)
	return c
}

// A long conversation is rendered a few times, not once for each message that goes, and
// loses what it would if they went one after the other.
func TestTruncateFindsTheFewest(t *testing.T) {
	s := serveTiny(t)
	room := s.Info().Context - 16
	for _, policy := range []string{"oldest", "middle"} {
		for _, n := range []int{9, 30, 1001} {
			c := talk(policy, n)
			rendered := 0
			got, _, err := c.tokens(context.Background(), speaker{serving: s, rendered: func() { rendered++ }}, room)
			if err != nil {
				t.Fatal(err)
			}
			if rendered > 13 {
				t.Errorf("%s, %d messages: rendered %d times", policy, n, rendered)
			}
			var want []int32
			for gone := 0; ; gone++ {
				if want, _, err = c.without(s, gone); err != nil {
					t.Fatal(err)
				}
				if len(want) <= room {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %d messages: %q, one after the other %q", policy, n, s.Tokenizer().Decode(got, false), s.Tokenizer().Decode(want, false))
			}
		}
	}
}

// Whatever a template makes of a conversation, what comes out was rendered and fits if
// anything that was tried does.
func TestTruncateWithAnyTemplate(t *testing.T) {
	errRefused := errors.New("refused")
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		most := r.IntN(40)
		size := make([]int, most+1) // by how many are gone; -1: refused
		for i := range size {
			if size[i] = 2 * (most - i); r.IntN(4) == 0 {
				size[i] = r.IntN(100) - 20
			}
		}
		least, room, tried := r.IntN(most+1), r.IntN(60), 0
		search := truncation{ctx: context.Background(), room: room, render: func(gone int) ([]int32, []*engine.Picture, error) {
			if gone < least || gone > most {
				t.Fatalf("%d gone, want %d to %d", gone, least, most)
			}
			tried++
			if size[gone] < 0 {
				return nil, nil, errRefused
			}
			return make([]int32, size[gone]), nil, nil
		}}
		tokens, _, err := search.search(least, most)
		what := fmt.Sprintf("sizes %v, room %d, least %d: %d tokens, %v", size, room, least, len(tokens), err)
		switch {
		case err == nil && (!slices.Contains(size[least:], len(tokens)) || tokens == nil):
			t.Errorf("%s: never rendered", what)
		case err == nil && len(tokens) > room && size[most] >= 0 && size[most] <= room:
			t.Errorf("%s: %d would fit", what, size[most])
		case err != nil && !errors.Is(err, errRefused):
			t.Error(what)
		case tried > refusals*8:
			t.Errorf("%s: %d tries", what, tried)
		}
	}
}

// A template that wants question and answer in turns gets them.
func TestTruncateInTurns(t *testing.T) {
	s := serveTiny(t)
	strict, err := tokenizer.ParseTemplate(`{%- for m in messages -%}
{%- if (m.role == "user") != (loop.index0 % 2 == 0) -%}{{ raise_exception("question and answer in turns, please") }}{%- endif -%}
{{ m.content }};{%- endfor -%}`, tokenizer.TemplateVars{})
	if err != nil {
		t.Fatal(err)
	}
	for _, policy := range []string{"oldest", "middle"} {
		c := talk(policy, 201)
		tokens, _, err := c.tokens(context.Background(), speaker{s, strict, func() {}}, 100)
		if err != nil || len(tokens) > 100 || len(tokens) < 60 {
			t.Errorf("%s: %d tokens, %v; want up to 100", policy, len(tokens), err)
		}
	}
}

// Nobody's conversation is rendered once he has gone.
func TestTruncateIsCancelled(t *testing.T) {
	s := serveTiny(t)
	for stop := range 6 {
		ctx, cancel := context.WithCancel(context.Background())
		rendered := 0
		if stop == 0 {
			cancel()
		}
		_, _, err := talk("oldest", 501).tokens(ctx, speaker{serving: s, rendered: func() {
			if rendered++; rendered == stop {
				cancel()
			}
		}}, 100)
		if !errors.Is(err, context.Canceled) || rendered != stop {
			t.Errorf("cancelled in rendering %d: %d were begun, %v", stop, rendered, err)
		}
		cancel()
	}
}

// Pictures of old messages that fill the context go with these, unread, and those of
// the younger ones stay.
func TestTruncateOldPictures(t *testing.T) {
	s := serveSeeing(t)
	ctx := context.Background()
	for _, policy := range []string{"oldest", "middle"} {
		for _, n := range []int{1, 12, 40} {
			req := asking()
			question := req.Messages[0]
			req.Messages = nil
			for range n {
				shown := asking(inline(picture(t, 128, 128))).Messages[0]
				req.Messages = append(req.Messages, shown, control.Message{Role: "assistant", Content: control.Content{Text: "y"}})
			}
			req.Messages = append(req.Messages, question)
			req.Truncate = policy
			if n == 40 { // which is never looked at
				req.Messages[len(req.Messages)/2].Content.Parts = []control.Part{inline([]byte("no picture"))}
			}
			tokens, pictures, err := promptTokens(ctx, s, req, "")
			if err != nil {
				t.Errorf("%s, %d pictures: %v", policy, n, err)
				continue
			}
			places := 0
			for _, p := range pictures {
				places += p.Places()
			}
			if (len(pictures) == n) != (n == 1) || len(pictures) == 0 || len(tokens)+req.MaxTokens > s.Info().Context || places == 0 || places >= len(tokens) {
				t.Errorf("%s: %d of %d pictures in %d tokens, %d of them places", policy, len(pictures), n, len(tokens), places)
			}
			er := engineRequest(s, req, tokens)
			er.Pictures = pictures
			if res, err := s.Generate(ctx, er, nil); err != nil || res.Usage.Pictures != len(pictures) {
				t.Errorf("%s, %d pictures: %v", policy, n, err)
			}
		}
	}
	// Those of the last message alone are too many, whatever goes.
	req := asking(slices.Repeat([]control.Part{inline(picture(t, 128, 128))}, 40)...)
	req.Messages = append([]control.Message{{Role: "user", Content: control.Content{Text: "x"}}}, req.Messages...)
	req.Truncate = "oldest"
	if _, _, err := promptTokens(ctx, s, req, ""); !errors.Is(err, engine.ErrContextOverflow) {
		t.Errorf("forty pictures in one message: %v", err)
	}
}
