// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// of is what was said of a request, in order of its steps: two goroutines tell them.
func (n *notices) of(id string) []Notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	steps := []string{NoticeRefused, NoticeAccepted, NoticeStarted, NoticeFirst, NoticePanic, NoticeEnded}
	list := slices.DeleteFunc(slices.Clone(n.all), func(one Notice) bool { return one.ID != id })
	slices.SortFunc(list, func(a, b Notice) int { return slices.Index(steps, a.Event) - slices.Index(steps, b.Event) })
	return list
}

// Each step of a request is told once, with numbers and without a word of it.
func TestNoticesOfARequest(t *testing.T) {
	const marker = "kumquat"
	n := new(notices)
	g := newRig(t, &fake{generate: func(ctx context.Context, r *Request, emit func(Event) error) (*Result, error) {
		if strings.Contains(r.Prompt, "panic") {
			panic(r.Prompt)
		}
		return echo(ctx, r, emit)
	}}, func(c *Config) { c.Notify = n.take })
	g.ask("me", OpGenerate, `{"id":"good","prompt":"`+marker+`"}`)
	g.end("me", "good")
	g.ask("me", OpGenerate, `{"id":"bad","prompt":"`+marker+`","truncate":"`+marker+`"}`)
	g.end("me", "bad")
	g.ask("me", OpGenerate, `{"id":"ill","prompt":"panic `+marker+`"}`)
	g.end("me", "ill")
	for id, want := range map[string]string{"good": "accepted started first_token ended", "bad": "refused", "ill": "accepted started panic ended"} {
		var list []Notice
		var got string
		g.await("the steps of "+id, func() bool {
			list, got = n.of(id), ""
			for _, one := range list {
				got = strings.TrimSpace(got + " " + one.Event)
			}
			return got == want
		})
		for _, one := range list {
			if one.Client != "me" || one.Seen.Op != OpGenerate && one.Event != NoticePanic {
				t.Errorf("%s: %+v", id, one)
			}
			one.Err, one.Panic = nil, nil // which may quote it: see Notice
			if text := fmt.Sprintf("%+v %s", one, one.Stack); strings.Contains(text, marker) {
				t.Errorf("%s: the prompt is in %s", id, text)
			}
		}
		switch last := list[len(list)-1]; id {
		case "good":
			if last.Seen.Code != "ok" || last.Seen.Finish != FinishStop || last.Seen.Total < last.Seen.TTFT {
				t.Errorf("the end: %+v", last.Seen)
			}
		case "bad":
			if last.Seen.Code != BadRequest.Name || !strings.Contains(last.Err.Error(), marker) {
				t.Errorf("the refusal: %+v", last)
			}
		case "ill":
			if p := list[2]; p.Incident == "" || fmt.Sprint(p.Panic) != "panic "+marker || len(p.Stack) == 0 {
				t.Errorf("the panic: %+v", p)
			}
		}
	}
}

// A step that nobody wants to know of costs a request no allocation.
func TestNoticeAllocs(t *testing.T) {
	g := newRig(t, &fake{}, nil)
	e := &entry{key: key{"me", "r"}, op: OpChat}
	if n := testing.AllocsPerRun(100, func() { g.desk.note(e, NoticeEnded, Observation{Code: "ok"}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
