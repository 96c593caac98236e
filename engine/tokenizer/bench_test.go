// SPDX-License-Identifier: Apache-2.0

package tokenizer_test

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"windhover/engine/tokenizer"
)

// cpuTime returns the processor time of this process, which, unlike the
// clock, does not depend on what else the machine does.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// megabyte returns a mebibyte of the goldens' strings, which are prose in
// many scripts, code, JSON and emoji, in a fixed random order.
func megabyte(tb testing.TB, family string) string {
	tb.Helper()
	cases := readCases[encodeCase](tb, family, "encode.json.gz")
	rng := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < 1<<20 {
		b.WriteString(cases[rng.IntN(len(cases))].Text)
		b.WriteByte('\n')
	}
	return b.String()[:1<<20]
}

// prose returns a mebibyte of English-like words that follow Zipf's law.
func prose() string {
	rng := rand.New(rand.NewPCG(3, 4))
	words := make([]string, 20_000)
	for i := range words {
		w := make([]byte, 2+rng.IntN(8))
		for j := range w {
			w[j] = "etaoinshrdlucmfwypvbgkjqxz"[min(rng.IntN(26), rng.IntN(26))]
		}
		words[i] = string(w)
	}
	zipf := rand.NewZipf(rng, 1.1, 2, uint64(len(words)-1))
	var b strings.Builder
	for b.Len() < 1<<20 {
		b.WriteString(words[zipf.Uint64()])
		if rng.IntN(12) == 0 {
			b.WriteString(".")
		}
		b.WriteString(" ")
	}
	return b.String()[:1<<20]
}

// hardTexts are n bytes each of what a careless tokenizer is quadratic in.
func hardTexts(n int) map[string]string {
	rng := rand.New(rand.NewPCG(5, 6))
	random := func(alphabet string) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[rng.IntN(len(alphabet))]
		}
		return string(b)
	}
	rep := func(s string) string { return strings.Repeat(s, n/len(s)) }
	return map[string]string{
		"one letter":          rep("a"),
		"two letters":         rep("ab"),
		"random letters":      random("abcdefghijklmnopqrstuvwxyz"),
		"digits":              random("0123456789"),
		"spaces":              rep(" "),
		"tabs and spaces":     rep(" \t"),
		"line ends":           rep("\n"),
		"spaces and lines":    rep(strings.Repeat(" ", 1023) + "\n"),
		"punctuation":         random("!?.,;:-_#*"),
		"apostrophes":         rep("'"),
		"contractions":        rep("'ſ'LL"),
		"accents apart":       rep("e\u0301"),
		"combining marks":     rep("\u0301\u0316"),
		"Chinese":             rep("汉字没有空格"),
		"emoji":               rep("👨‍👩‍👧"),
		"begin of special":    rep("<|im_start|"),
		"special":             rep("<|im_start|>"),
		"angle brackets":      rep("<"),
		"not UTF-8":           rep("\xff\xe4\xbd"),
		"random words":        strings.ReplaceAll(random("abcdefghijklmnopqrstuvwxyz "), "  ", " x"),
		"zero bytes":          rep("\x00"),
		"Hangul of two parts": rep("\u1100\u1161"),
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, family := range []string{"qwen3", "smollm2"} {
		tok := load(b, family)
		for name, text := range map[string]string{"mixed": megabyte(b, family), "prose": prose()} {
			b.Run(family+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					tok.Encode(text, true)
				}
			})
		}
	}
}

func BenchmarkEncodeHard(b *testing.B) {
	tok := load(b, "qwen3")
	for name, text := range hardTexts(1 << 20) {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text, true)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for _, family := range []string{"qwen3", "smollm2"} {
		raw := readGz(b, family, "tokenizer.json.gz")
		b.Run(family, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tokenizer.Parse(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := load(b, "qwen3")
	text := prose()
	ids := tok.Encode(text, true)
	b.Run("whole", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			tok.Decode(ids, true)
		}
	})
	b.Run("stream", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			s := tok.NewStream(true)
			for _, id := range ids {
				s.Push(id)
			}
		}
	})
}

func BenchmarkRender(b *testing.B) {
	tpl := readTemplate(b, "qwen3")
	var chat tokenizer.Chat
	for range 50 {
		chat.Messages = append(chat.Messages,
			tokenizer.Message{Role: "user", Content: tokenizer.Content{Text: "What is the capital of France?"}},
			tokenizer.Message{Role: "assistant", Content: tokenizer.Content{Text: "Paris."}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tpl.Render(chat); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEncodeIsNotQuadratic encodes 256 KiB of each hard text. Anything
// quadratic takes minutes; the slowest takes a tenth of a second.
func TestEncodeIsNotQuadratic(t *testing.T) {
	for _, family := range []string{"qwen3", "smollm2"} {
		tok := load(t, family)
		for name, text := range hardTexts(1 << 18) {
			start := cpuTime(t)
			ids := tok.Encode(text, true)
			if took := cpuTime(t) - start; took > 10*time.Second {
				t.Errorf("%s: %s took %v of processor time", family, name, took)
			}
			if len(ids) == 0 && name != "zero bytes" {
				t.Errorf("%s: %s gives no tokens", family, name)
			}
		}
	}
}
