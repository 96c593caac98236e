// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"windhover/engine/grammar"
	"windhover/engine/tokenizer"
	"windhover/internal/testmodel"
)

// holdSearch makes search number n for a mask wait until it is let go; held says that it
// has come.
func holdSearch(t *testing.T, m *Model, n int) (held <-chan struct{}, letGo func()) {
	reached, gone := make(chan struct{}), make(chan struct{})
	letGo = sync.OnceFunc(func() { close(gone) })
	t.Cleanup(letGo)
	m.forms.searches = func() {
		if n--; n == 0 {
			close(reached)
			<-gone
		}
	}
	return reached, letGo
}

// While it is found out what may come next in one answer, others are computed, whether
// that is the first token of it, before the request is queued, or a later one.
func TestMasksHoldUpNobody_P227(t *testing.T) {
	path := testmodel.Write(t, testmodel.Default())
	req := Request{Tokens: chat("hi"), Schema: []byte(personSchema), Sampling: Sampling{Temperature: 2, Seed: 3}, Logprobs: true}
	want, err := load(t, path, Options{}).Generate(context.Background(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 5} {
		m := load(t, path, Options{CacheBytes: 16 << 20}) // room for several
		held, letGo := holdSearch(t, m, n)
		type answer struct {
			*Result
			err error
		}
		answered := make(chan answer, 1)
		go func() {
			res, err := m.Generate(context.Background(), req, nil)
			answered <- answer{res, err}
		}()
		<-held
		for range 2 {
			other, err := m.Generate(context.Background(), Request{Tokens: chat("hi")}, nil)
			if err != nil || other.Text != testmodel.Answer {
				t.Errorf("search %d: beside it: %+v, %v", n, other, err)
			}
		}
		if n == 1 { // none is in work
			if _, _, err := m.Greedy(context.Background(), chat("hi"), 1); err != nil {
				t.Errorf("an evaluation beside it: %v", err)
			}
		}
		select {
		case a := <-answered:
			t.Fatalf("search %d is held, and the answer is %+v, %v", n, a.Result, a.err)
		default:
		}
		letGo()
		a := <-answered
		if a.err != nil {
			t.Fatal(a.err)
		}
		a.Timing, want.Timing, a.Usage.Cached = Timing{}, Timing{}, want.Usage.Cached
		if !reflect.DeepEqual(a.Result, want) {
			t.Errorf("search %d held: %+v, want %+v", n, a.Result, want)
		}
	}
}

// Who gives up while it is found out what may come next does not wait for it.
func TestGivenUpWhileAMaskIsFound(t *testing.T) {
	for _, n := range []int{1, 3} {
		m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
		held, letGo := holdSearch(t, m, n)
		ctx, cancel := context.WithCancel(context.Background())
		// Another form waits for its turn to search, and gives up as well.
		waits := make(chan error, 1)
		go func() {
			<-held
			res, err := m.Generate(ctx, Request{Tokens: chat("ho"), Schema: []byte(fmt.Sprintf(`{"const":%d}`, n))}, nil)
			if err == nil && res.Finish != FinishCancel {
				err = fmt.Errorf("finish %s", res.Finish)
			}
			waits <- err
		}()
		go func() {
			<-held
			cancel()
		}()
		if n == 1 { // the search is on the caller's goroutine, which cannot leave it
			go func() {
				<-ctx.Done()
				letGo()
			}()
		}
		res, err := m.Generate(ctx, Request{Tokens: chat("hi"), Schema: []byte(personSchema), Sampling: Sampling{Temperature: 2}}, nil)
		if err != nil || res.Finish != FinishCancel {
			t.Errorf("search %d: %+v, %v", n, res, err)
		}
		if n != 1 {
			letGo()
		}
		if err := <-waits; err != nil {
			t.Errorf("search %d: who waits for it: %v", n, err)
		}
		m.sched.close() // waits for what is under way
		for _, k := range m.forms.kept {
			if k.users != 0 {
				t.Errorf("search %d: %d use a form, and all are answered", n, k.users)
			}
		}
	}
}

// What takes too much to find ends the answer and says so: at once where the beginning
// does, later where only what follows does.
func TestAmbiguousForms_P228(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	m.forms.most = 16 << 10
	var alts []string
	for i := range 200 {
		alts = append(alts, fmt.Sprintf(`{"type":"string","pattern":"^(.{1,%d}b?)*$"}`, 500+i))
	}
	anyOf := `{"anyOf":[` + strings.Join(alts, ",") + `]}`
	for name, tt := range map[string]struct {
		req  Request
		said bool
		text string
	}{
		"at the beginning": {Request{Schema: []byte(anyOf)}, false, "json_schema: at the top: too ambiguous"},
		"later":            {Request{Schema: []byte(`{"type":"object","properties":{"abcd":` + anyOf + `},"required":["abcd"],"additionalProperties":false}`)}, true, "json_schema: at the top: too ambiguous"},
		"in a call":        {Request{MustCall: true, Tools: []json.RawMessage{[]byte(`{"name":"f","parameters":{"type":"object","properties":{"a":` + anyOf + `},"required":["a"]}}`)}}, true, "too ambiguous"},
	} {
		tt.req.Tokens, tt.req.Sampling = chat("hi"), Sampling{Temperature: 1}
		said := ""
		_, err := m.Generate(context.Background(), tt.req, func(e Event) error {
			if e.Delta != nil {
				said += e.Delta.Text
			}
			return nil
		})
		if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), tt.text) || (said != "") != tt.said {
			t.Errorf("%s: %q was said, error %v", name, said, err)
		}
	}
	if a := m.Activity(); a.Active+a.Waiting != 0 {
		t.Errorf("left behind: %+v", a)
	}
}

// publishedTokenizer is a tokenizer beside the tree.
func publishedTokenizer(t *testing.T, name string) *tokenizer.Tokenizer {
	t.Helper()
	f, err := os.Open("../../shared/golden/tokenizer/" + name + "/tokenizer.json.gz")
	if err != nil {
		t.Skip("no golden tokenizer beside the tree")
	}
	defer func() { _ = f.Close() }() // read only
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Admission counts what forms take, and no more is taken.
func TestFormsMemory(t *testing.T) {
	for name, logits := range map[string]int{"smollm2": 49152, "qwen3": 151936} {
		tok := publishedTokenizer(t, name)
		v, o := grammar.NewVocabulary(logits, (&Model{tok: tok}).ordinary), findOpenings(logits, tok.TokenBytes)
		if got, most := v.Bytes()+o.bytes(), vocabularyBytes(logits); got > most || got < most/2 {
			t.Errorf("the vocabulary of %s takes %d bytes, counted are %d", name, got, most)
		}
		// None is barred that models open a call with.
		all := slices.Concat(append(o.rest[:], o.whole)...)
		if len(all) == 0 || len(all) > 1000 {
			t.Errorf("%s: %d tokens open a call and go on", name, len(all))
		}
		for _, text := range []string{callOpen, "Sure. " + callOpen, callOpen + "\n", callOpen + "\n{\"name\": \"f\"}"} {
			for _, id := range tok.Encode(text, true) {
				if slices.Contains(all, id) {
					t.Errorf("%s: %q of %q is barred", name, tok.TokenBytes(id), text)
				}
			}
		}
	}
	path := testmodel.Write(t, testmodel.Default())
	text, err := Estimate(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	blind, err := Estimate(path, Options{NoTokenizer: true})
	if err != nil {
		t.Fatal(err)
	}
	m := load(t, path, Options{})
	if got, want := text.Scratch-blind.Scratch, formBytes(m.cfg.Vocab); got != want {
		t.Errorf("%d bytes of scratch are for forms, want %d", got, want)
	}
	// Grammars in use fill the pool; whoever comes then may come again.
	var names []string
	for i := range 500 {
		names = append(names, fmt.Sprintf(`"a value of some length, number %d"`, i))
	}
	list := strings.Join(names, ",")
	schema := func(i int) []byte { return []byte(fmt.Sprintf(`{"enum":[%d,%s]}`, i, list)) }
	compile := func(i int) func() (*grammar.Grammar, error) {
		return func() (*grammar.Grammar, error) { return grammar.Compile(schema(i)) }
	}
	var used []*keptForm
	for {
		k, err := m.forms.take("schema", schema(len(used)), compile(len(used)))
		if err != nil {
			if !errors.Is(err, ErrFormsFull) || !strings.Contains(err.Error(), "ask again") {
				t.Fatalf("error %v, want ErrFormsFull", err)
			}
			break
		}
		used = append(used, k)
		if x := k.machine.Matcher(); x.Look() != nil {
			t.Fatal(x.Look())
		}
	}
	total := int64(0)
	for _, k := range m.forms.kept {
		total += k.bytes + k.machine.Bytes()
	}
	if most := int64(formPool + formSearch); len(used) < 4 || total > most {
		t.Errorf("%d grammars in use take %d bytes, at most %d are counted", len(used), total, most)
	}
	if _, err := m.Generate(context.Background(), Request{Tokens: chat("hi"), Schema: schema(-1)}, nil); !errors.Is(err, ErrFormsFull) {
		t.Errorf("a request beside them: error %v, want ErrFormsFull", err)
	}
	for _, k := range used {
		m.forms.release(k)
	}
	res, err := m.Generate(context.Background(), Request{Tokens: chat("hi"), Schema: schema(-1), MaxTokens: 100}, nil)
	if err != nil || !json.Valid([]byte(res.Text)) {
		t.Errorf("behind them: %+v, %v", res, err)
	}
	if n := len(m.forms.kept); n > keptForms {
		t.Errorf("%d grammars are kept for nobody", n)
	}
	// What can never have room says so.
	var short *FormError
	if err := m.forms.fit(&keptForm{}, formPool); !errors.As(err, &short) || short.Limit != formPool || !errors.Is(err, ErrMemory) {
		t.Errorf("a grammar of the whole pool: %v", err)
	}
}
