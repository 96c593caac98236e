// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// question is a request that has one answer, with an id of its own.
func question(id, prompt string, tokens int) map[string]any {
	return map[string]any{"id": id, "model": "tiny", "prompt": prompt, "temperature": 0, "max_tokens": tokens}
}

// one is what the devices ask every other minute, one after the other.
func (l *life) one(n int) {
	k := n / 2
	d, id, word := l.devices[k%len(l.devices)], fmt.Sprintf("m%d", n), fmt.Sprintf("hello %d", n%97)
	switch k / len(l.devices) % 4 {
	case 0, 1:
		r, err := d.ask("generate", id, question(id, word, 3), nil)
		l.answer("generate", r, errors.Join(err, l.same(r.Model.SHA256+" "+word, r.Text)), "stop", "length")
	case 2: // a talk that grows, which begins with what was computed before
		talk := message("hello")
		for i := range n % 5 {
			talk = append(talk, map[string]string{"role": "assistant", "content": "well"}, map[string]string{"role": "user", "content": fmt.Sprint("and ", i)})
		}
		r, err := d.ask("chat", id, map[string]any{"id": id, "model": "tiny", "messages": talk, "temperature": 0, "max_tokens": 3}, nil)
		l.answer("chat", r, errors.Join(err, l.same(fmt.Sprint(r.Model.SHA256, talk), r.Text)), "stop", "length")
	default:
		r, err := d.ask("tokenize", id, map[string]any{"id": id, "model": "tiny", "text": word}, nil)
		l.answer("tokenize", r, errors.Join(err, l.same("tokens of "+word, fmt.Sprint(r.IDs))))
	}
	if n%10 == 0 {
		text, err := complete(word)
		if err == nil && text == "" {
			err = errors.New("an empty answer")
		}
		if err == nil {
			l.answered.Add(1)
		}
		l.tell("http", err)
	}
}

// plain is a question that is nothing but its text, of which the answer is as long as the
// model likes.
func (l *life) plain(n int) error {
	r, err := l.devices[n%len(l.devices)].ask("prompt", "", []byte("hello"), nil)
	l.answer("prompt", r, err)
	return nil
}

// many is twelve questions at the same time, three of each device.
func (l *life) many(n int) error {
	var wg sync.WaitGroup
	for i, d := range l.devices {
		for k := range 3 {
			wg.Go(func() {
				id := fmt.Sprintf("many%d-%d-%d", n, i, k)
				r, err := d.ask("generate", id, question(id, fmt.Sprint("together ", i, k), 4), nil)
				l.answer("many at once", r, errors.Join(err, l.same(r.Model.SHA256+fmt.Sprint(i, k), r.Text)), "stop", "length")
			})
		}
	}
	wg.Wait()
	return nil
}

// timed is two requests that say when they were sent: by the true time, which a box
// whose clock is ahead takes for old, and by the clock of the box.
func (l *life) timed(n int) error {
	const layout = "2006-01-02T15:04:05.000Z"
	for i, at := range []time.Time{l.now(), time.Now()} {
		id := fmt.Sprintf("timed%d-%d", n, i)
		q := question(id, "what time is it", 4)
		q["sent_at"], q["ttl_ms"] = at.UTC().Format(layout), 15*60*1000
		r, err := l.devices[i].ask("generate", id, q, nil)
		if i == 0 && l.off > 15*time.Minute {
			l.refusal("request with its time", r, err, "expired")
		} else {
			l.answer("request with its time", r, err)
		}
	}
	return nil
}

// endless is a question to which both versions of the model have a long answer.
const endless = "the"

// canceled ends a long request at its beginning.
func (l *life) canceled(n int) error {
	d, id := l.devices[n%len(l.devices)], fmt.Sprintf("long%d", n)
	var wg sync.WaitGroup
	start := time.Now()
	r, err := d.ask("generate", id, question(id, endless, 400), func() {
		wg.Go(func() {
			id := fmt.Sprintf("stop%d", n)
			r, err := d.ask("cancel", id, map[string]any{"id": id, "target": fmt.Sprintf("long%d", n)}, nil)
			if err == nil && !r.Found {
				err = fmt.Errorf("the request is not found, %v after it began", time.Since(start))
			}
			l.answer("cancel", r, err)
		})
	})
	wg.Wait()
	if r.Error.Code == "canceled" { // before its first token
		l.refusal("canceled request", r, err, "canceled")
		return nil
	}
	l.answer("canceled request", r, err, "cancel")
	return nil
}

// deadline ends a long request by its own wish.
func (l *life) deadline(n int) error {
	id := fmt.Sprintf("late%d", n)
	q := question(id, endless, 2000)
	q["deadline_ms"] = 150
	r, err := l.devices[0].ask("generate", id, q, nil)
	if r.Error.Code == "deadline_exceeded" { // before its first token
		l.refusal("deadline", r, err, "deadline_exceeded")
		return nil
	}
	l.answer("deadline", r, err, "deadline")
	return nil
}

func (l *life) leaves(int) error { return walkAway() }

// badMessages are refused, each by its code.
func (l *life) badMessages(n int) error {
	d := l.devices[n%len(l.devices)]
	for i, bad := range []struct {
		op, id, code string
		payload      any
	}{
		{"generate", "_", "bad_request", []byte(`{"id":`)},
		{"generate", "_", "bad_request", []byte("\xff\xfe")},
		{"sing", "", "unsupported", []byte(`{"id":"%"}`)},
		{"generate", "", "unknown_model", map[string]any{"model": "nobody", "prompt": "hello"}},
		{"generate", "", "bad_request", map[string]any{"model": "tiny", "prompt": "hello", "max_tokens": -1}},
		{"generate", "", "context_overflow", map[string]any{"model": "tiny", "prompt": "hello", "max_tokens": 1 << 20}},
		{"generate", "_", "payload_too_large", []byte(`{"prompt":"` + strings.Repeat("a", 100<<10) + `"}`)},
	} {
		id := bad.id
		if id == "" {
			id = fmt.Sprintf("bad%d-%d", n, i)
		}
		switch p := bad.payload.(type) {
		case map[string]any:
			p["id"] = id
		case []byte:
			bad.payload = []byte(strings.ReplaceAll(string(p), "%", id))
		}
		r, err := d.ask(bad.op, id, bad.payload, nil)
		l.refusal("bad message", r, err, bad.code)
	}
	id := fmt.Sprintf("job%d", n)
	r, err := d.job("gc", id, map[string]any{})
	l.refusal("bad message", r, err, "forbidden")
	r, err = l.works.job("model_install", id, map[string]any{"record": "none"})
	l.refusal("bad message", r, err, "bad_request")
	return nil
}
