// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// measured embeds a text as its length in bytes and what it was cut to.
func measured(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
	texts := r.Texts
	if texts == nil {
		texts = []string{r.Prompt}
	}
	for i, text := range texts {
		if err := emit(Event{Vector: &Vector{Index: i, Numbers: []float32{float32(len(text)), float32(r.Dimensions) + 0.1}}}); err != nil {
			return nil, err
		}
	}
	return &Result{Usage: Usage{Prompt: len(texts)}}, ctx.Err()
}

func numbersDigest(t *testing.T, vectors ...[]float32) string {
	t.Helper()
	var b bytes.Buffer
	for _, v := range vectors {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	return Digest(b.Bytes())
}

// A text has its vector in done; each of a list has a reply of its own, in their order.
func TestEmbed_P265(t *testing.T) {
	records := &books{all: map[string]Audited{}}
	g := newRig(t, &fake{generate: measured}, func(c *Config) { c.Audit = records.keep })
	g.ask("me", OpEmbed, `{"id":"one","text":"abc","dimensions":7}`)
	if r := g.end("me", "one"); r.Seq != 1 || r.Done == nil || !slices.Equal(r.Done.Embedding, []float32{3, 7.1}) || r.Done.Text != nil || r.Done.Finish != "" || r.Done.Usage.Prompt != 1 {
		t.Errorf("a text: %+v", r)
	}
	if a := records.of("one"); a.Answer != numbersDigest(t, []float32{3, 7.1}) || a.Finish != "" || a.Op != OpEmbed {
		t.Errorf("its record: %+v", a)
	}
	g.ask("me", OpEmbed, `{"id":"prompt","prompt":"ab"}`)
	if r := g.end("me", "prompt"); r.Done == nil || !slices.Equal(r.Done.Embedding, []float32{2, 0.1}) {
		t.Errorf("a prompt: %+v", r)
	}
	g.ask("me", OpEmbed, `{"id":"empty","texts":["a","bb","","c"]}`)
	if r := g.end("me", "empty"); !errors.Is(r.Err, BadRequest) || !strings.Contains(r.Err.Message, "texts[2]") {
		t.Errorf("an empty text in a list: %+v", r)
	}
	g.ask("me", OpEmbed, `{"id":"list","texts":["a","bb","dddd"],"stream":false}`)
	last := g.end("me", "list")
	rs := g.replies("me", "list")
	checkStream(t, rs)
	if len(rs) != 5 || last.Done == nil || last.Done.Embedding != nil || last.Done.Usage.Prompt != 3 {
		t.Fatalf("a list: %d replies, the last %+v", len(rs), last)
	}
	for i, want := range [][]float32{{1, 0.1}, {2, 0.1}, {4, 0.1}} {
		if v := rs[1+i].Vector; rs[1+i].Type != TypeVector || v.Index != i || !slices.Equal(v.Numbers, want) {
			t.Errorf("text %d: %+v", i, rs[1+i])
		}
	}
	if a := records.of("list"); a.Answer != numbersDigest(t, []float32{1, 0.1}, []float32{2, 0.1}, []float32{4, 0.1}) {
		t.Errorf("the record of a list: %+v", a)
	}
	g.ask("me", OpFetch, `{"id":"again","target":"list","from_seq":2}`)
	if r := g.end("me", "again"); r.Done == nil || !*r.Done.Found {
		t.Fatalf("fetch: %+v", r)
	}
	g.await("the vectors again", func() bool {
		n := 0
		for _, r := range g.replies("me", "list") {
			if r.Type == TypeVector && r.Vector.Index > 0 {
				n++
			}
		}
		return n == 4
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.ends {
		if o.Op == OpEmbed && o.Finish != "" {
			t.Errorf("counted as %+v", o)
		}
	}
}

func TestEmbedRefused_P267(t *testing.T) {
	g := newRig(t, &fake{generate: measured}, nil)
	for i, c := range []struct{ payload, says string }{
		{`"text":""`, "needs a text"},
		{`"texts":[]`, "texts has 0"},
		{`"text":"a","texts":["b"]`, "one of them"},
		{`"text":"a","dimensions":-1`, "dimensions -1"},
		{`"texts":["a",5]`, "texts"},
		{`"texts":[` + strings.Repeat(`"a",`, maxTexts) + `"a"]`, fmt.Sprintf("texts has %d", maxTexts+1)},
	} {
		id := fmt.Sprintf("r%d", i)
		g.ask("me", OpEmbed, `{"id":"`+id+`",`+c.payload+`}`)
		if r := g.end("me", id); !errors.Is(r.Err, BadRequest) || r.Seq != 0 || !strings.Contains(r.Err.Message, c.says) {
			t.Errorf("%.60s: %+v %v", c.payload, r, r.Err)
		}
	}
}

// What fits in no message is an error that says what to do, and the largest that is let
// through does fit.
func TestEmbedFitsInMessages(t *testing.T) {
	size := 0
	g := newRig(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		return &Result{}, emit(Event{Vector: &Vector{Numbers: slices.Repeat([]float32{-1.5e-05}, size)}}) // "-0.000015,"
	}}, nil)
	for _, list := range []string{`"text":"a"`, `"texts":["a"]`} {
		size = maxVector / 10
		id := fmt.Sprintf("whole%d", len(list))
		g.ask("me", OpEmbed, `{"id":"`+id+`",`+list+`}`)
		if r := g.end("me", id); r.Done == nil {
			t.Errorf("%s: %d numbers: %+v", list, size, r)
		}
		for _, m := range g.messages(g.topics.Reply("me", id)) {
			if len(m.payload) > maxDoneBytes {
				t.Errorf("%s: a message of %d bytes", list, len(m.payload))
			}
		}
		size, id = maxVector/10+1, id+"more"
		g.ask("me", OpEmbed, `{"id":"`+id+`",`+list+`}`)
		if r := g.end("me", id); !errors.Is(r.Err, PayloadTooLarge) || !strings.Contains(r.Err.Message, "dimensions") {
			t.Errorf("%s: %d numbers: %+v", list, size, r)
		}
	}
}

// A list that is cancelled ends in an error, whatever was sent of it.
func TestEmbedCancelled(t *testing.T) {
	first := make(chan struct{})
	g := newRig(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		if err := emit(Event{Vector: &Vector{Numbers: []float32{1}}}); err != nil {
			return nil, err
		}
		close(first)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}, nil)
	g.ask("me", OpEmbed, `{"id":"e","texts":["a","b"]}`)
	<-first
	g.ask("me", OpCancel, `{"id":"x","target":"e"}`)
	if r := g.end("me", "e"); !errors.Is(r.Err, Canceled) {
		t.Errorf("got %+v", r)
	}
}

// A request is read back as it was written.
func TestEmbedRoundTrip(t *testing.T) {
	r := NewRequest(OpEmbed)
	r.Texts, r.Dimensions, r.Client = []string{"a", "b"}, 5, "me"
	p, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeRequest(OpEmbed, "me", p)
	if err != nil || !slices.Equal(again.Texts, r.Texts) || again.Dimensions != 5 {
		t.Errorf("%s becomes %+v, %v", p, again, err)
	}
}
