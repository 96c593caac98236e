// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"windhover/internal/testmodel"
	"windhover/vqf"
)

const secret = "correct horse"

// deep is a noisy model of more layers than there are slots, with a head that is
// cut into several parts where it is not kept.
func deep() testmodel.Config {
	c := noisy()
	c.Layers, c.Dim, c.FFN, c.Heads, c.Vocab = 7, 64, 96, 2, 8*200
	return c
}

// withKey are the options for an encrypted file.
func withKey(t testing.TB, opt Options) Options {
	opt.VQF.Key = testKey(t, secret)
	return opt
}

// The same bits in every residency, of a plain and of an encrypted file, for
// every number of threads, chunk and family, and in the reference path.
func TestResidenciesGiveTheSameBits(t *testing.T) {
	path := testmodel.Write(t, deep())
	closed := sealed(t, path, secret)
	tokens := noise(25)
	for _, family := range []string{"q8", "q4"} {
		for _, act := range activations() {
			opt := Options{Family: family, Activations: act, Threads: 1}
			want := logitsOf(t, load(t, path, opt), tokens, 0)
			for name, enc := range map[string]bool{"plain": false, "encrypted": true} {
				for _, residency := range []string{ResidencyFull, ResidencyLayered} {
					opt, file := opt, path
					opt.Residency = residency
					if enc {
						file, opt = closed, withKey(t, opt)
					}
					for threads := range min(cores(t), 2) {
						opt.Threads = threads + 1
						m := load(t, file, opt)
						if got := m.Info().Need.Residency; got != residency {
							t.Errorf("%s: residency %q, want %q", name, got, residency)
						}
						for _, chunk := range []int{1, 7, 0} {
							what := fmt.Sprintf("%s/%s, %s, %s, %d threads, chunk %d", family, act, name, residency, threads+1, chunk)
							sameBits(t, what, logitsOf(t, m, tokens, chunk), want)
						}
					}
				}
			}
		}
	}
}

// Under each limit from the least on, an encrypted model takes what fits and gives
// the same tokens; below the least it is refused with both numbers.
func TestMemoryLimitChoosesResidency(t *testing.T) {
	path := testmodel.Write(t, deep())
	closed := sealed(t, path, secret)
	opt := Options{Family: "q8", Context: 64, Threads: 1}
	req := Request{Tokens: noise(20), MaxTokens: 12, IgnoreEOS: true, Raw: true}
	generate := func(m *Model) []int32 {
		res, err := m.Generate(context.Background(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		return res.Tokens
	}
	want := generate(load(t, path, opt))

	opt = withKey(t, opt)
	full, err := Estimate(closed, opt)
	if err != nil || full.Residency != ResidencyFull || full.Private != full.Weights || full.Kept != 7 {
		t.Fatalf("without a limit: %+v, %v", full, err)
	}
	opt.Residency = ResidencyFull
	opt.MemoryLimit = full.Total() - 1
	var short *MemoryError
	if _, err := Estimate(closed, opt); !errors.As(err, &short) || short.Full != 0 || short.Need.Total() != full.Total() {
		t.Errorf("full, one byte short: %v", err)
	}
	opt.Residency = ResidencyLayered
	opt.MemoryLimit = 1
	if _, err := Estimate(closed, opt); !errors.As(err, &short) || short.Need.Residency != ResidencyLayered {
		t.Errorf("layered, nothing there: %v", err)
	}
	least := short.Need.Total()

	opt.Residency = ""
	opt.MemoryLimit = least - 1
	_, err = Load(closed, opt)
	if !errors.As(err, &short) || short.Need.Total() != least || short.Full != full.Total() {
		t.Errorf("one byte below the least of %d: %v", least, err)
	}
	for _, number := range []int64{least, full.Total(), least - 1} {
		if err == nil || !strings.Contains(err.Error(), fmt.Sprint(number)) {
			t.Errorf("error %v does not name %d", err, number)
		}
	}
	seen := map[string]bool{}
	for limit := least; limit <= full.Total(); limit += (full.Total() - least) / 24 {
		opt.MemoryLimit = limit
		m := load(t, closed, opt)
		need := m.Info().Need
		if need.Total() > limit || int64(len(m.w.res.(*streamed).mem)) > need.Weights {
			t.Errorf("limit %d: need %+v, %d bytes taken", limit, need, len(m.w.res.(*streamed).mem))
		}
		seen[fmt.Sprintf("%s %d of head %d", need.Residency, need.Kept, m.w.res.parts())] = true
		if got := generate(m); !slices.Equal(got, want) {
			t.Errorf("limit %d, %+v: tokens %v, want %v", limit, need, got, want)
		}
	}
	t.Logf("%v", seen)
	if len(seen) < 7 {
		t.Errorf("only these were tried: %v", seen)
	}
}

func TestHeadParts(t *testing.T) {
	for _, c := range []struct {
		rows        int
		bytes, room int64
		want        []headPart
	}{
		{64, 640, 640, []headPart{{0, 64, 0, 640}}},
		{64, 640, 10000, []headPart{{0, 64, 0, 640}}},
		{64, 640, 639, []headPart{{0, 48, 0, 480}, {48, 16, 480, 160}}},
		{70, 700, 330, []headPart{{0, 32, 0, 320}, {32, 32, 320, 320}, {64, 6, 640, 60}}},
		{20, 200, 160, []headPart{{0, 16, 0, 160}, {16, 4, 160, 40}}},
	} {
		if got := headParts(c.rows, c.bytes, c.room); !slices.Equal(got, c.want) {
			t.Errorf("%d rows of %d bytes in %d: %v, want %v", c.rows, c.bytes, c.room, got, c.want)
		}
	}
}

func TestKeys(t *testing.T) {
	closed := sealed(t, testmodel.Write(t, testmodel.Default()), secret)
	for _, c := range []struct {
		name string
		opt  vqf.OpenOptions
		want error
		text string
	}{
		{"missing", vqf.OpenOptions{}, vqf.ErrKey, "VLLM_VQF_KEY"},
		{"wrong", vqf.OpenOptions{Key: testKey(t, "wrong")}, vqf.ErrTag, "VLLM_VQF_KEY"},
		{"wrong, verified before", vqf.OpenOptions{Key: testKey(t, "wrong"), Verified: true}, vqf.ErrTag, "VLLM_VQF_KEY"},
	} {
		for _, residency := range []string{"", ResidencyFull, ResidencyLayered} {
			opt := Options{VQF: c.opt, Residency: residency}
			if _, err := Estimate(closed, opt); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: estimate: %v, want %v with %q", c.name, err, c.want, c.text)
			}
			if m, err := Load(closed, opt); m != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s: load: %v, want %v with %q", c.name, err, c.want, c.text)
			}
		}
	}
}
