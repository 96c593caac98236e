// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/engine"
	"windhover/internal/testmodel"
)

// stopper is a terminal at which somebody presses Ctrl-C once text appears.
type stopper struct {
	text    bytes.Buffer // not embedded: its WriteString would be called instead of Write
	signals chan<- os.Signal
	signal  os.Signal
}

func (s *stopper) Write(p []byte) (int, error) {
	if s.signals != nil {
		s.signals <- s.signal // taken while the answer goes on
		s.signals = nil
		// The model waits for who is far behind. It would else be done before it
		// hears, where that takes some time.
		<-time.After(50 * time.Millisecond)
	}
	return s.text.Write(p)
}

func newConversation(t *testing.T, raw bool, out *stopper) (*conversation, *bytes.Buffer) {
	t.Helper()
	m, err := engine.Load(testmodel.Write(t, testmodel.Default()), engine.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	cmd := newRun()
	var stderr bytes.Buffer
	cmd.SetOut(out)
	cmd.SetErr(&stderr)
	return &conversation{m: m, raw: raw, screen: newScreen(cmd)}, &stderr
}

func TestInterruptStopsTheAnswer(t *testing.T) {
	for _, c := range []struct {
		signal os.Signal
		want   error
	}{{os.Interrupt, nil}, {syscall.SIGTERM, errSilent}} {
		signals := make(chan os.Signal)
		out := &stopper{signals: signals, signal: c.signal}
		talk, stderr := newConversation(t, true, out)
		// After a digit the model counts until somebody stops it.
		if err := talk.answer(signals, "12"); !errors.Is(err, c.want) {
			t.Errorf("%v: error %v, want %v", c.signal, err, c.want)
		}
		if !strings.HasPrefix(out.text.String(), "3") || !strings.HasSuffix(out.text.String(), "\n") || len(out.text.String()) > 150 {
			t.Errorf("%v: answer %q, want the beginning of a count and a line end", c.signal, out.text.String())
		}
		if !strings.Contains(stderr.String(), "; stopped") {
			t.Errorf("%v: closing line %q does not say that it was stopped", c.signal, stderr.String())
		}
	}
}

func TestOldTurnsAreDropped(t *testing.T) {
	var out stopper
	talk, stderr := newConversation(t, false, &out)
	long := strings.Repeat("x", 60)
	for range 4 {
		if _, err := talk.ask(context.Background(), long); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Count(out.text.String(), testmodel.Answer), 4; got != want {
		t.Errorf("%d answers, want %d: %q", got, want, out.text.String())
	}
	if !strings.Contains(stderr.String(), "no longer fits 256 tokens: its oldest turn is dropped") {
		t.Errorf("nothing is said about dropped turns: %q", stderr.String())
	}
	// One question that does not fit is refused, and the conversation goes on.
	if err := talk.answer(make(chan os.Signal), strings.Repeat("x", 300)); err != nil {
		t.Error(err)
	}
	if !strings.Contains(stderr.String(), "context overflow") {
		t.Errorf("nothing is said about the question that is too long: %q", stderr.String())
	}
	if _, err := talk.ask(context.Background(), "Still there?"); err != nil {
		t.Error(err)
	}
}
