// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"windhover/internal/testmodel"
	"windhover/vqf"
)

// chat is a prompt as the template would make it, up to the answer.
func chat(text string) []int32 {
	ids := []int32{testmodel.TokenStart}
	ids = append(ids, testmodel.Tokens("user\n"+text)...)
	ids = append(ids, testmodel.TokenEnd)
	ids = append(ids, testmodel.Tokens("\n")...)
	ids = append(ids, testmodel.TokenStart)
	return append(ids, testmodel.Tokens("assistant\n")...)
}

func thinking(text string) []int32 { return append(chat(text), testmodel.TokenThink) }

func TestGenerate(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	digits := testmodel.Tokens("0")
	cases := []struct {
		name string
		req  Request
		want Result // Text, Thinking, Finish; Usage.Completion
	}{
		{"answer", Request{Tokens: chat("hi")}, Result{Text: "Tiny model.", Finish: "stop", Usage: Usage{Completion: 11}}},
		{"max tokens", Request{Tokens: chat("hi"), MaxTokens: 4}, Result{Text: "Tiny", Finish: "length", Usage: Usage{Completion: 4}}},
		{"exactly max tokens", Request{Tokens: chat("hi"), MaxTokens: 11}, Result{Text: "Tiny model.", Finish: "length", Usage: Usage{Completion: 11}}},
		{"stop string", Request{Tokens: chat("hi"), Stop: []string{"mod"}}, Result{Text: "Tiny ", Finish: "stop", Usage: Usage{Completion: 8}}},
		{"stop string begins the answer", Request{Tokens: chat("hi"), Stop: []string{"zzz", "Ti"}}, Result{Finish: "stop", Usage: Usage{Completion: 2}}},
		{"stop string half there", Request{Tokens: chat("hi"), Stop: []string{"el.x", "l.y"}}, Result{Text: "Tiny model.", Finish: "stop", Usage: Usage{Completion: 11}}},
		{"stop string half there at max", Request{Tokens: chat("hi"), MaxTokens: 10, Stop: []string{"el."}}, Result{Text: "Tiny model", Finish: "length", Usage: Usage{Completion: 10}}},
		{"stop id", Request{Tokens: chat("hi"), StopIDs: testmodel.Tokens(" ")}, Result{Text: "Tiny", Finish: "stop", Usage: Usage{Completion: 4}}},
		{"ignore eos", Request{Tokens: chat("hi"), MaxTokens: 16, IgnoreEOS: true}, Result{Text: "Tiny model.\nTin", Finish: "length", Usage: Usage{Completion: 16}}},
		{"raw shows special tokens", Request{Tokens: chat("hi"), MaxTokens: 13, IgnoreEOS: true, Raw: true}, Result{Text: "Tiny model.<|im_end|>\n", Finish: "length", Usage: Usage{Completion: 13}}},
		{"thinking", Request{Tokens: thinking("hi")}, Result{Text: "Tiny model.", Thinking: "Huh?", Finish: "stop", Usage: Usage{Completion: 17}}},
		{"thinking raw", Request{Tokens: thinking("hi"), Raw: true}, Result{Text: "Huh?</think>\nTiny model.", Finish: "stop", Usage: Usage{Completion: 17}}},
		{"thinking budget", Request{Tokens: thinking("hi"), ThinkBudget: 2}, Result{Text: "Tiny model.", Thinking: "Hu", Finish: "stop", Usage: Usage{Completion: 2 + 4 + 11}}},
		{"thinking within budget", Request{Tokens: thinking("hi"), ThinkBudget: 5}, Result{Text: "Tiny model.", Thinking: "Huh?", Finish: "stop", Usage: Usage{Completion: 17}}},
		{"thinking cut", Request{Tokens: thinking("hi"), MaxTokens: 3}, Result{Thinking: "Huh", Finish: "length", Usage: Usage{Completion: 3}}},
		{"no stop in thinking", Request{Tokens: thinking("hi"), Stop: []string{"uh"}}, Result{Text: "Tiny model.", Thinking: "Huh?", Finish: "stop", Usage: Usage{Completion: 17}}},
		{"characters of three bytes", Request{Tokens: testmodel.Tokens("9")}, Result{Text: "世界!", Finish: "stop", Usage: Usage{Completion: 7}}},
		{"half a character at the end", Request{Tokens: testmodel.Tokens("9"), MaxTokens: 4}, Result{Text: "世\ufffd", Finish: "length", Usage: Usage{Completion: 4}}},
		{"stop string of three bytes", Request{Tokens: testmodel.Tokens("9"), Stop: []string{"界"}}, Result{Text: "世", Finish: "stop", Usage: Usage{Completion: 6}}},
		{"what the context leaves", Request{Tokens: digits}, Result{Text: strings.Repeat("123456780", 29)[:255], Finish: "length", Usage: Usage{Completion: 255}}},
		{"repetition penalty", Request{Tokens: digits, MaxTokens: 10, Sampling: Sampling{RepeatPenalty: 1.0001}}, Result{Text: "1234567801", Finish: "length", Usage: Usage{Completion: 10}}},
		{"cold sampling", Request{Tokens: chat("hi"), Sampling: Sampling{Temperature: 0.1, TopK: 20, TopP: 0.9, MinP: 0.05, Seed: 3}}, Result{Text: "Tiny model.", Finish: "stop", Usage: Usage{Completion: 11}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var text, thought strings.Builder
			tokens := 0
			got, err := m.Generate(context.Background(), c.req, func(e Event) error {
				if e.Delta == nil {
					t.Errorf("event %+v, want a delta only", e)
					return nil
				}
				if d := e.Delta; d.Text == "" && d.Thinking == "" || !utf8.ValidString(d.Text) || !utf8.ValidString(d.Thinking) {
					t.Errorf("delta %+v is empty or splits a character", *d)
				}
				text.WriteString(e.Delta.Text)
				thought.WriteString(e.Delta.Thinking)
				tokens += e.Delta.Tokens
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got.Text != c.want.Text || got.Thinking != c.want.Thinking || got.Finish != c.want.Finish {
				t.Errorf("text %q thinking %q finish %q, want %q, %q, %q", got.Text, got.Thinking, got.Finish, c.want.Text, c.want.Thinking, c.want.Finish)
			}
			if text.String() != got.Text || thought.String() != got.Thinking {
				t.Errorf("deltas gave %q and %q, the result has %q and %q", text.String(), thought.String(), got.Text, got.Thinking)
			}
			if got.Usage.Completion != c.want.Usage.Completion || len(got.Tokens) != got.Usage.Completion || tokens > got.Usage.Completion {
				t.Errorf("completion %d, %d tokens, %d in deltas; want %d", got.Usage.Completion, len(got.Tokens), tokens, c.want.Usage.Completion)
			}
			if got.Usage.Prompt != len(c.req.Tokens) || got.Usage.Cached >= got.Usage.Prompt || got.Truncated != 0 {
				t.Errorf("usage %+v, truncated %d, for a prompt of %d", got.Usage, got.Truncated, len(c.req.Tokens))
			}
			tm := got.Timing
			if tm.TTFT < tm.Prefill || tm.Total < tm.TTFT || tm.Total < tm.Prefill+tm.Decode || tm.Prefill <= 0 || tm.PrefillTPS <= 0 {
				t.Errorf("timing %+v", tm)
			}
		})
	}
}

func TestGenerateRefuses(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	nan := float32(0)
	nan /= nan
	cases := []struct {
		name string
		req  Request
		want error
		text string // in the message
	}{
		{"no tokens", Request{}, ErrRequest, "no tokens"},
		{"token too large", Request{Tokens: []int32{1, testmodel.Vocab}}, ErrRequest, "token 264 at position 1"},
		{"negative token", Request{Tokens: []int32{-1}}, ErrRequest, "token -1"},
		{"negative max", Request{Tokens: chat(""), MaxTokens: -1}, ErrRequest, "max_tokens -1"},
		{"negative budget", Request{Tokens: chat(""), ThinkBudget: -1}, ErrRequest, "think_budget -1"},
		{"empty stop", Request{Tokens: chat(""), Stop: []string{"x", ""}}, ErrRequest, "stop string"},
		{"broken stop", Request{Tokens: chat(""), Stop: []string{"\xe4"}}, ErrRequest, "stop string"},
		{"temperature", Request{Tokens: chat(""), Sampling: Sampling{Temperature: -1}}, ErrRequest, "temperature"},
		{"temperature nan", Request{Tokens: chat(""), Sampling: Sampling{Temperature: nan}}, ErrRequest, "temperature"},
		{"top_k", Request{Tokens: chat(""), Sampling: Sampling{TopK: -1}}, ErrRequest, "top_k"},
		{"top_p", Request{Tokens: chat(""), Sampling: Sampling{TopP: -0.1}}, ErrRequest, "top_p"},
		{"min_p", Request{Tokens: chat(""), Sampling: Sampling{MinP: 1.1}}, ErrRequest, "min_p"},
		{"penalty", Request{Tokens: chat(""), Sampling: Sampling{RepeatPenalty: -1}}, ErrRequest, "repeat_penalty"},
		{"truncate", Request{Tokens: chat(""), Truncate: "newest"}, ErrRequest, "truncate"},
		{"overflow", Request{Tokens: noise(200), MaxTokens: 57}, ErrContextOverflow, "prompt of 200 tokens and 57 to generate are 257, the context holds 256"},
		{"full", Request{Tokens: noise(256)}, ErrContextOverflow, "prompt of 256"},
		{"over full", Request{Tokens: noise(300)}, ErrContextOverflow, "prompt of 300"},
		{"huge", Request{Tokens: noise(2), MaxTokens: 1 << 62}, ErrContextOverflow, "holds 256"},
		{"truncate cannot help", Request{Tokens: noise(2), MaxTokens: 256, Truncate: "oldest"}, ErrContextOverflow, "256 to generate are 258, the context holds 256; truncate has nothing more to drop: "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := m.Generate(context.Background(), c.req, nil)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
	var over *ContextError
	_, err := m.Generate(context.Background(), Request{Tokens: noise(200), MaxTokens: 57}, nil)
	if !errors.As(err, &over) || *over != (ContextError{Prompt: 200, MaxTokens: 57, Context: 256}) {
		t.Errorf("error %#v, want the counts", err)
	}
}

func TestTruncateOldest_P117(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	prompt := append(noise(300), testmodel.Tokens("0")...)
	got, err := m.Generate(context.Background(), Request{Tokens: prompt, MaxTokens: 9, Truncate: "oldest"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Text != "123456780" || got.Usage.Prompt != 247 || got.Truncated != 301-247 {
		t.Errorf("text %q, prompt %d, truncated %d, want 123456780, 247, 54", got.Text, got.Usage.Prompt, got.Truncated)
	}
	want, err := m.Generate(context.Background(), Request{Tokens: prompt[301-247:], MaxTokens: 9}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Tokens, want.Tokens) || want.Usage.Cached != 246 {
		t.Errorf("tokens %v, the same prompt cut by hand gives %v (cached %d)", got.Tokens, want.Tokens, want.Usage.Cached)
	}
}

func TestTruncateMiddle_P117(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	prompt := append(noise(300), testmodel.Tokens("0")...)
	req := Request{Tokens: prompt, MaxTokens: 9, Truncate: TruncateMiddle}
	got, err := m.Generate(context.Background(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.Text != "123456780" || got.Usage.Prompt != 247 || got.Truncated != 301-247 {
		t.Errorf("text %q, prompt %d, truncated %d, want 123456780, 247, 54", got.Text, got.Usage.Prompt, got.Truncated)
	}
	// The quarter at the beginning is there each time.
	req.Tokens = append(slices.Clone(prompt), noise(90)...)
	if got, err = m.Generate(context.Background(), req, nil); err != nil || got.Usage.Cached != 247/4 {
		t.Errorf("%+v, %v, want the first %d cached", got, err, 247/4)
	}
	req.Tokens = prompt[:247]
	if got, err = m.Generate(context.Background(), req, nil); err != nil || got.Truncated != 0 {
		t.Errorf("%+v, %v, of a prompt that fits", got, err)
	}
}

func TestProgress(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{Chunk: 16})
	// Together, if somebody else has the CPU: it grows, and ends with all.
	var done []int
	_, err := m.Generate(context.Background(), Request{Tokens: noise(40), MaxTokens: 1}, func(e Event) error {
		if p := e.Progress; p != nil {
			if p.Total != 40 {
				t.Errorf("total %d, want 40", p.Total)
			}
			done = append(done, p.Done)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range done {
		if n%16 != 0 && n != 40 || i > 0 && n <= done[i-1] {
			t.Errorf("progress %v, want chunks of 16", done)
		}
	}
	if len(done) == 0 || done[len(done)-1] != 40 {
		t.Errorf("progress %v, want 40 at last", done)
	}
}

func TestCallbackErrorEndsGeneration(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	broken := errors.New("nobody listens")
	calls := 0
	_, err := m.Generate(context.Background(), Request{Tokens: testmodel.Tokens("0")}, func(Event) error {
		calls++
		return broken
	})
	if !errors.Is(err, broken) || calls != 1 {
		t.Errorf("error %v after %d calls, want %v after 1", err, calls, broken)
	}
	if _, err := m.Generate(context.Background(), Request{Tokens: chat("")}, nil); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

// Who is told of a piece may ask for another request, and for an evaluation.
func TestAskedMeanwhileAndClosed(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	ctx := context.Background()
	asked := false
	_, err := m.Generate(ctx, Request{Tokens: chat(""), MaxTokens: 1}, func(Event) error {
		asked = true
		if res, err := m.Generate(ctx, Request{Tokens: chat("")}, nil); err != nil || res.Text != testmodel.Answer {
			t.Errorf("second request: %+v, %v", res, err)
		}
		return m.Logits(ctx, chat(""), 0, func(int, []float32) error { return nil })
	})
	if err != nil || !asked {
		t.Fatal(err, asked)
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if _, err := m.Generate(ctx, Request{Tokens: chat("")}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v, want %v", err, ErrClosed)
	}
	if _, _, err := m.Greedy(ctx, chat(""), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v, want %v", err, ErrClosed)
	}
}

func TestPinnedWorkersStay(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{Pin: true})
	steps := m.Steps()
	got, err := m.Generate(context.Background(), Request{Tokens: chat(""), MaxTokens: 11}, nil)
	if err != nil || got.Text != testmodel.Answer {
		t.Errorf("%+v, %v", got, err)
	}
	end, err := m.begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CheckAffinity(); !errors.Is(err, ErrBusy) {
		t.Errorf("meanwhile: %v, want %v", err, ErrBusy)
	}
	end(&err)
	if err := m.CheckAffinity(); err != nil {
		t.Error(err)
	}
	if m.Steps() == steps {
		t.Error("a generation took no steps")
	}
}

// stopLimit is what the contract allows between a cancel and the return.
const stopLimit = 200 * time.Millisecond

func TestCancelWhileDecoding(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	passes := 0
	m.st.trace = func(layer int, _ []float32) {
		if layer != 0 {
			return
		}
		if passes++; passes == 6 { // it computes the 5
			cancel()
			for !m.st.stop.Load() {
				runtime.Gosched()
			}
		}
	}
	text := ""
	got, err := m.Generate(ctx, Request{Tokens: testmodel.Tokens("0")}, func(e Event) error {
		text += e.Delta.Text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Finish != FinishCancel || got.Text != "12345" || text != got.Text {
		t.Errorf("finish %q, text %q, told %q, want cancel and 12345", got.Finish, got.Text, text)
	}
	if next, err := m.Generate(context.Background(), Request{Tokens: chat("")}, nil); err != nil || next.Text != testmodel.Answer {
		t.Errorf("the next request gives %+v, %v", next, err)
	}
}

// slow is a model whose prefill takes some seconds in plain Go.
func slow() testmodel.Config {
	c := testmodel.Default()
	c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.Dim, c.FFN, c.MaxSeq = 8, 8, 4, 32, 256, 512, 2048
	return c
}

// settle waits until the model does nothing any more.
func settle(t testing.TB, m *Model) {
	t.Helper()
	if err := m.CheckAffinity(); err != nil {
		t.Fatal(err)
	}
}

func TestCancelAndDeadlineInPrefill(t *testing.T) {
	m := load(t, testmodel.Write(t, slow()), Options{Activations: "f32"})
	prompt := noise(2000)
	for _, want := range []string{FinishCancel, FinishDeadline} {
		const after = 100 * time.Millisecond
		const tries = 5 // the machine may be busy with something else: the best one counts
		best := time.Duration(1<<63 - 1)
		for range tries {
			limit := time.Hour
			if want == FinishDeadline {
				limit = after
			}
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			start := time.Now()
			if want == FinishCancel {
				time.AfterFunc(after, cancel)
			}
			prompt[0]++ // nothing to reuse
			got, err := m.Generate(ctx, Request{Tokens: prompt}, nil)
			best = min(best, time.Since(start))
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			if got.Finish != want || len(got.Tokens) != 0 {
				t.Fatalf("finish %q with %d tokens, want %q with none", got.Finish, len(got.Tokens), want)
			}
			// A chunk that was stopped is not taken for valid.
			settle(t, m)
			if n := int(m.sched.tree.kept.Load()); n%m.chunk != 0 {
				t.Fatalf("%d tokens in the cache, want whole chunks of %d", n, m.chunk)
			}
			if best <= after+stopLimit {
				break
			}
		}
		if best > after+stopLimit {
			t.Errorf("%s: returned after %v, want within %v of %v", want, best, stopLimit, after)
		}
	}
}

// A pass that is stopped in the middle ends there.
func TestStopInsideAPass(t *testing.T) {
	m := load(t, testmodel.Write(t, noisy()), Options{})
	last := -1
	m.st.trace = func(layer int, _ []float32) {
		last = layer
		m.st.stop.Store(layer == 1)
	}
	err := m.Logits(context.Background(), noise(20), 0, func(int, []float32) error { return nil })
	if !errors.Is(err, errStopped) || last != 1 || m.kv.inUse() != 0 {
		t.Errorf("error %v after layer %d, %d pages in use; want a stop at layer 1 and none", err, last, m.kv.inUse())
	}
}

// Nothing that runs between two looks at the stop flag is long, whatever the
// model: some milliseconds on a slow core.
func TestUnitsAreShort(t *testing.T) {
	m := load(t, testmodel.Write(t, noisy()), Options{})
	for _, c := range []struct{ tokens, rows, cols int }{
		{1, 6144, 4096}, {256, 6144, 4096}, {512, 24576, 4096}, {512, 4096, 12288}, {512, 151936, 4096}, {7, 960, 576},
	} {
		m.st.tokens = c.tokens
		m.st.chooseRows(c.rows, c.cols)
		if ops := m.st.unit * c.tokens * c.cols; ops > unitOps && m.st.unit > unitRows || m.st.unit%unitRows != 0 || ops > 4*unitOps {
			t.Errorf("%+v: units of %d rows, %d multiply-adds", c, m.st.unit, ops)
		}
	}
}

func TestContextEndedBefore(t *testing.T) {
	m := load(t, testmodel.Write(t, testmodel.Default()), Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got, err := m.Generate(ctx, Request{Tokens: chat("")}, nil)
	if err != nil || got.Finish != FinishCancel || len(got.Tokens) != 0 {
		t.Errorf("result %+v, %v, want cancel without tokens", got, err)
	}
	if err := m.Logits(ctx, chat(""), 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("logits: %v, want %v", err, context.Canceled)
	}
}

func TestGenerateWithoutTokenizer(t *testing.T) {
	c := testmodel.Default()
	c.Bare = true
	m := load(t, testmodel.Write(t, c), Options{NoTokenizer: true})
	got, err := m.Generate(context.Background(), Request{Tokens: chat("")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The header names the end token.
	if want := testmodel.Tokens(testmodel.Answer); !slices.Equal(got.Tokens, want) || got.Text != "" {
		t.Errorf("tokens %v, text %q, want %v and no text", got.Tokens, got.Text, want)
	}
	if _, err := m.Generate(context.Background(), Request{Tokens: chat(""), Stop: []string{"x"}}, nil); !errors.Is(err, ErrRequest) {
		t.Errorf("stop string: %v, want %v", err, ErrRequest)
	}
}

func TestPicturesAreRefusedByName(t *testing.T) {
	c := testmodel.Default()
	c.Edit = func(a *vqf.Arch) { a.ImageTokenID, a.VideoTokenID = 200, 201 }
	m := load(t, testmodel.Write(t, c), Options{})
	for _, id := range []int32{200, 201} {
		_, err := m.Generate(context.Background(), Request{Tokens: []int32{1, id}}, nil)
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "picture") {
			t.Errorf("token %d: %v, want %v", id, err, ErrUnsupported)
		}
	}
}
