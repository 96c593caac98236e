// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"

	"windhover/engine/vision"
	"windhover/internal/testmodel"
	"windhover/kernels"
)

// What fails at a picture, whatever it is, is the error of the request that shows it:
// others beside it are answered, and so is the next request.
func TestPictureThatPanics(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	ids, pictures := sceneOf(t, m)
	want := generate(t, m, ids, pictures)
	text := Request{Tokens: testmodel.Tokens("Say something."), MaxTokens: 8, IgnoreEOS: true, Raw: true}
	alone, err := m.Generate(context.Background(), text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]func(p *vision.Patches, pool *kernels.Pool) (*vision.Encoding, error){
		"begin": func(*vision.Patches, *kernels.Pool) (*vision.Encoding, error) { panic("a broken begin") },
		"step":  func(*vision.Patches, *kernels.Pool) (*vision.Encoding, error) { return new(vision.Encoding), nil },
	} {
		t.Run(name, func(t *testing.T) {
			m := seeing(t, Options{Threads: 1})
			s := byHand(m)
			begin := m.sight.begin
			m.sight.begin = broken
			var seen []*generation
			add := func(req Request) *generation {
				g, err := m.newGeneration(req)
				if err != nil {
					t.Fatal(err)
				}
				queueQuietly(s, g)
				return g
			}
			for range 2 {
				seen = append(seen, add(Request{Tokens: ids, Pictures: pictures, MaxTokens: 8, IgnoreEOS: true, Raw: true}))
			}
			other := add(text)
			turns := 0
			for ; s.turn(); turns++ {
				if turns > 200 {
					t.Fatal("it goes on and on")
				}
			}
			for _, g := range seen {
				if !g.over || g.panicked != nil || g.err == nil || !strings.Contains(g.err.Error(), "internal error") {
					t.Errorf("over %v, panic %v, error %v; want an internal error", g.over, g.panicked, g.err)
				}
			}
			if other.err != nil || !slices.Equal(other.ids(), alone.Tokens) {
				t.Errorf("the one beside them: tokens %v, %v; alone %v", other.ids(), other.err, alone.Tokens)
			}
			m.sight.begin = begin
			again := add(Request{Tokens: ids, Pictures: pictures, MaxTokens: 8, IgnoreEOS: true, Raw: true})
			for s.turn() {
			}
			if again.err != nil || !slices.Equal(again.ids(), want.Tokens) {
				t.Errorf("tokens %v, %v afterwards; want %v", again.ids(), again.err, want.Tokens)
			}
		})
	}
}

// How many pictures were known is told while the tower goes on for others: -race sees
// who does it without a lock.
func TestCancelledBesideTheTower(t *testing.T) {
	m := seeing(t, Options{Threads: 1})
	ids, pictures := sceneOf(t, m)
	begin := m.sight.begin
	for range 5 {
		ctx, cancel := context.WithCancel(context.Background())
		m.sight.begin = func(p *vision.Patches, pool *kernels.Pool) (*vision.Encoding, error) {
			cancel()
			for range 200_000 { // the caller is told meanwhile; anything to wait for would be a lock
				runtime.Gosched()
			}
			return begin(p, pool)
		}
		res, err := m.Generate(ctx, Request{Tokens: ids, Pictures: pictures, MaxTokens: 8, IgnoreEOS: true, Raw: true}, nil)
		if err != nil || res.Finish != FinishCancel || res.Usage.Pictures != len(pictures) {
			t.Errorf("%+v, %v, want a cancelled one", res, err)
		}
		settle(t, m)
		forget(t, m)
	}
}
