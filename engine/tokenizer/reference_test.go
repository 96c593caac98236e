// SPDX-License-Identifier: Apache-2.0

package tokenizer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unicode"
	"unicode/utf8"
)

// The splitters and the merging are written for speed. Here is what they
// must equal, written to be read: a backtracking matcher of the patterns as
// the model files spell them, and merging one pair at a time.

// regexNode is an item of a pattern: a set of characters with a repetition,
// a group of alternatives, or a look-ahead.
type regexNode struct {
	has      func(rune) bool // nil for a group
	min, max int
	group    [][]regexNode
	not      bool // (?!…), of has
}

// compile reads the part of a pattern up to its end or closing parenthesis.
func compile(t testing.TB, pat []rune, at *int, fold bool) [][]regexNode {
	t.Helper()
	alternatives := [][]regexNode{nil}
	add := func(n regexNode) {
		last := len(alternatives) - 1
		alternatives[last] = append(alternatives[last], n)
	}
	for *at < len(pat) && pat[*at] != ')' {
		c := pat[*at]
		n := regexNode{min: 1, max: 1}
		switch {
		case c == '|':
			*at++
			alternatives = append(alternatives, nil)
			continue
		case c == '(':
			head := string(pat[*at : *at+3])
			*at += 3
			switch {
			case head == "(?i":
				*at++ // the colon
				n.group = compile(t, pat, at, true)
			case head == "(?!":
				n.not, n.has = true, set(t, pat, at)
			default:
				t.Fatalf("pattern: %q", head)
			}
			*at++ // the parenthesis
			add(n)
			continue
		case c == '[' || c == '\\':
			n.has = set(t, pat, at)
		default:
			*at++
			n.has = func(r rune) bool {
				return r == c || fold && (unicode.ToLower(r) == c || unicode.SimpleFold(r) == c || unicode.SimpleFold(unicode.SimpleFold(r)) == c)
			}
		}
		if *at < len(pat) {
			switch pat[*at] {
			case '?':
				n.min, *at = 0, *at+1
			case '*':
				n.min, n.max, *at = 0, 1<<30, *at+1
			case '+':
				n.max, *at = 1<<30, *at+1
			case '{': // {1,3}
				n.max, *at = int(pat[*at+3]-'0'), *at+5
			}
		}
		add(n)
	}
	return alternatives
}

// set reads a class such as [^\s\p{L}] or \p{N}.
func set(t testing.TB, pat []rune, at *int) func(rune) bool {
	t.Helper()
	one := func() func(rune) bool {
		*at++ // the backslash
		c := pat[*at]
		*at++
		switch c {
		case 'r':
			return func(r rune) bool { return r == '\r' }
		case 'n':
			return func(r rune) bool { return r == '\n' }
		case 's':
			return unicode.IsSpace
		case 'S':
			return func(r rune) bool { return !unicode.IsSpace(r) }
		case 'p':
			name := string(pat[*at : *at+3])
			*at += 3
			if name == "{L}" {
				return func(r rune) bool { return unicode.In(r, unicode.L, letters16) }
			}
			return func(r rune) bool { return unicode.In(r, unicode.N, numbers16) }
		}
		t.Fatalf("pattern: \\%c", c)
		return nil
	}
	if pat[*at] == '\\' {
		return one()
	}
	*at++ // the bracket
	negate := pat[*at] == '^'
	if negate {
		*at++
	}
	var any []func(rune) bool
	for pat[*at] != ']' {
		any = append(any, one())
	}
	*at++
	return func(r rune) bool {
		for _, has := range any {
			if has(r) {
				return !negate
			}
		}
		return negate
	}
}

// match returns where the first way to match nodes at i that then satisfies
// rest ends, -1 for none. Greedy, backtracking.
func match(nodes []regexNode, s []rune, i int) int {
	if len(nodes) == 0 {
		return i
	}
	n, rest := nodes[0], nodes[1:]
	switch {
	case n.group != nil:
		for _, alt := range n.group {
			if end := match(slices.Concat(alt, rest), s, i); end >= 0 {
				return end
			}
		}
		return -1
	case n.not:
		if i < len(s) && n.has(s[i]) {
			return -1
		}
		return match(rest, s, i)
	}
	j := i
	for j < len(s) && j-i < n.max && n.has(s[j]) {
		j++
	}
	for ; j-i >= n.min; j-- {
		if end := match(rest, s, j); end >= 0 {
			return end
		}
	}
	return -1
}

// regexSplit cuts s at the matches of a pattern and between them.
func regexSplit(alternatives [][]regexNode, s []rune) (out []string) {
	whole := []regexNode{{group: alternatives}}
	for i := 0; i < len(s); {
		end := match(whole, s, i)
		if end <= i {
			end = i + 1
		}
		out = append(out, string(s[i:end]))
		i = end
	}
	return out
}

// fastSplit cuts s by a step.
func fastSplit(st step, s string) (out []string) {
	e := encoder{plane0: plane0()}
	for len(s) > 0 {
		n := 0
		if st.kind == stepGPT2 {
			n = e.gpt2(s)
		} else {
			n = e.words(s, st.digits)
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

func compilePatterns(t testing.TB) map[string][][]regexNode {
	out := make(map[string][][]regexNode)
	for pattern := range knownPatterns {
		at := 0
		out[pattern] = compile(t, []rune(pattern), &at, false)
		if at != len([]rune(pattern)) {
			t.Fatalf("%q: read up to %d", pattern, at)
		}
	}
	return out
}

// splitAlphabet has a few characters of each kind that the patterns tell
// apart, so that short random texts meet all their branches.
var splitAlphabet = []rune("''sSſtTrReEvVmMlLdDaéß中あ1٣½Ⅷ ! -_.\u00a0\u3000\u0085\u2028\t\n\r\r\n\u0301\u200b🙂𝐀\U00010D40\U00016100\x00")

func checkSplit(t testing.TB, patterns map[string][][]regexNode, s string) {
	t.Helper()
	for pattern, st := range knownPatterns {
		got, want := fastSplit(st, s), regexSplit(patterns[pattern], []rune(s))
		if !slices.Equal(got, want) {
			t.Fatalf("%q by %q gives %q, want %q", s, pattern, got, want)
		}
	}
}

func TestSplitEqualsPatterns(t *testing.T) {
	patterns := compilePatterns(t)
	// All texts of up to three characters, then longer ones at random.
	kinds := []rune("'sſlLe中1 !\u00a0\t\n\r🙂𝐀\U00010D40")
	for _, a := range kinds {
		for _, b := range kinds {
			for _, c := range kinds {
				checkSplit(t, patterns, string([]rune{a, b, c}))
			}
			checkSplit(t, patterns, string([]rune{a, b}))
		}
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for range 10_000 {
		s := make([]rune, 4+rng.IntN(12))
		for i := range s {
			s[i] = splitAlphabet[rng.IntN(len(splitAlphabet))]
		}
		checkSplit(t, patterns, string(s))
	}
}

func FuzzSplit(f *testing.F) {
	patterns := compilePatterns(f)
	f.Add("I'm  12 the\n\n  end")
	f.Add(string(splitAlphabet))
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) && len(s) < 2000 {
			checkSplit(t, patterns, s)
		}
	})
}

// slowMerge merges one pair at a time, looking at all of them each time.
func slowMerge(m *mergeTable, ids []int32) []int32 {
	ids = slices.Clone(ids)
	for {
		best, at, to := noRank, -1, int32(0)
		for i := 1; i < len(ids); i++ {
			if rank, id := m.get(ids[i-1], ids[i]); rank < best {
				best, at, to = rank, i-1, id
			}
		}
		if at < 0 {
			return ids
		}
		ids[at] = to
		ids = slices.Delete(ids, at+1, at+2)
	}
}

// randomModel is a tokenizer over a few letters with random merges, many of
// them of results of others.
func randomModel(rng *rand.Rand, letters, merges int) (*Tokenizer, error) {
	var f outFile
	f.setFamily(familyGPT2, false)
	var vocab vocabWriter
	var tokens []string
	known := make(map[string]bool)
	put := func(s string) error {
		known[s] = true
		tokens = append(tokens, s)
		return vocab.add(s, len(tokens)-1)
	}
	for i := range letters {
		if err := put(string(rune('a' + i))); err != nil {
			return nil, err
		}
	}
	for range merges {
		a, b := tokens[rng.IntN(len(tokens))], tokens[rng.IntN(len(tokens))]
		if len(a+b) > 24 {
			continue
		}
		if !known[a+b] {
			if err := put(a + b); err != nil {
				return nil, err
			}
		}
		f.Model.Merges = append(f.Model.Merges, [2]string{a, b})
	}
	rng.Shuffle(len(f.Model.Merges), func(i, j int) {
		f.Model.Merges[i], f.Model.Merges[j] = f.Model.Merges[j], f.Model.Merges[i]
	})
	f.Model.Vocab = vocab.json()
	out, err := f.bytes()
	if err != nil {
		return nil, err
	}
	return Parse(out)
}

func TestMergeEqualsSlowMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		tok, err := randomModel(rng, 1+rng.IntN(4), 1+rng.IntN(60))
		if err != nil {
			t.Fatal(err)
		}
		letters := min(4, tok.VocabSize())
		for range 20 {
			w := new(bpeWork)
			for range 1 + rng.IntN(120) {
				w.ids = append(w.ids, int32(rng.IntN(letters)))
			}
			want := slowMerge(&tok.merges, w.ids)
			long := &bpeWork{ids: slices.Clone(w.ids)}
			if got := tok.mergeLong(nil, long); !slices.Equal(got, want) {
				t.Fatalf("mergeLong(%v) = %v, want %v", w.ids, got, want)
			}
			in := slices.Clone(w.ids)
			if got := tok.mergeShort(w); !slices.Equal(got, want) {
				t.Fatalf("mergeShort(%v) = %v, want %v", in, got, want)
			}
		}
	}
}
