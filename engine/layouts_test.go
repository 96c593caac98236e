// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"windhover/internal/testmodel"
	"windhover/vqf"
)

// kinds are the files that exist: each way of quantising in each layout. The first
// of each way is row-major, which naive reads.
func kinds() map[string][]testmodel.Config { return kindsOf(noisy()) }

func kindsOf(c testmodel.Config) map[string][]testmodel.Config {
	with := func(mode vqf.Mode, q8, q4 vqf.Layout) testmodel.Config {
		c := c
		c.Mode, c.Q8, c.Q4 = mode, q8, q4
		return c
	}
	row, four, eight := vqf.LayoutRow, vqf.Layout4x4, vqf.Layout8x8
	return map[string][]testmodel.Config{
		"q8":   {with(vqf.ModeQ8, row, four), with(vqf.ModeQ8, four, four), with(vqf.ModeQ8, eight, four)},
		"g256": {with(vqf.ModeG256, row, four), with(vqf.ModeG256, four, four), with(vqf.ModeG256, eight, four)},
		"q4":   {with(vqf.ModeQ4, eight, row), with(vqf.ModeQ4, eight, four)},
		"q4i":  {with(vqf.ModeQ4I, row, four)},
	}
}

// Whatever the way of quantising, the embedding and the encryption: every layout
// of the same weights gives the same bits in both paths, and the float path the
// numbers of an independent computation on the file's dequantised values. Nothing
// in these files but the scales tells 4x4 from row-major, so that the look at
// them decides.
func TestEveryKindOfFile(t *testing.T) {
	t.Run("dense", func(t *testing.T) { everyKind(t, kinds()) })
	t.Run("mixture", func(t *testing.T) { everyKind(t, kindsOf(mixed())) })
}

func everyKind(t *testing.T, kinds map[string][]testmodel.Config) {
	tokens := noise(12)
	for name, files := range kinds {
		for _, embF32 := range []bool{false, true} {
			want := map[string][]float32{}
			for _, c := range files {
				c.EmbF32, c.Bare = embF32, true
				path := testmodel.Write(t, c)
				what := fmt.Sprintf("%s, q8 %v, q4 %v, embedding in F32 %v", name, c.Q8, c.Q4, embF32)
				for _, act := range activations() {
					opt := Options{Activations: act, NoTokenizer: true, Threads: 1}
					got := logitsOf(t, load(t, path, opt), tokens, 0)
					if want[act] == nil {
						want[act] = got
						if act == "f32" {
							closeTo(t, what, got, naive(t, path, tokens))
						}
					}
					sameBits(t, what+", "+act, got, want[act])
					got = logitsOf(t, load(t, sealed(t, path, secret), withKey(t, opt)), tokens, 0)
					sameBits(t, what+", encrypted, "+act, got, want[act])
				}
			}
		}
	}
}

// Q4 codes as int8 are the same weights as Q4: the codes and the halves of the
// scales are equal, so are the exact integer sum of a block and the product of its
// scales, and the blocks are added in the same order. Hence the same bits, in the
// int8 path and in the float path, in which a weight is the one rounded product of
// the same two numbers.
func TestQ4IGivesTheBitsOfQ4(t *testing.T) {
	for _, act := range activations() {
		opt := Options{Activations: act}
		got := logitsOf(t, load(t, testmodel.Write(t, kinds()["q4i"][0]), opt), noise(20), 0)
		for _, c := range kinds()["q4"] {
			want := logitsOf(t, load(t, testmodel.Write(t, c), opt), noise(20), 0)
			sameBits(t, fmt.Sprintf("q4i and q4 %v, %s", c.Q4, act), got, want)
		}
	}
}

// mixture64 is the feed-forward part of a mixture of experts, docs/FORMAT.md section
// 12: softmax over all experts, the best ones' shares made to add up to 1.
func mixture64(a *vqf.Arch, router, gate, up, down, h []float64) []float64 {
	ne, mf, dim := int(a.NExperts), int(a.MoEFFN), int(a.Dim)
	p := mul64(router, h)
	order := make([]int, ne)
	for e := range p {
		p[e], order[e] = math.Exp(p[e]), e
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[j], p[i]) })
	chosen, sum := order[:a.TopK], 0.0
	for _, e := range chosen {
		sum += p[e]
	}
	out := make([]float64, dim)
	for _, e := range chosen {
		g, u := mul64(gate[e*mf*dim:(e+1)*mf*dim], h), mul64(up[e*mf*dim:(e+1)*mf*dim], h)
		for r := range out {
			for i := range g {
				out[r] += p[e] / sum * down[r*ne*mf+e*mf+i] * u[i] * g[i] / (1 + math.Exp(-g[i]))
			}
		}
	}
	return out
}

// closeTo holds float32 sums to the same in float64.
func closeTo(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	largest, worst := 0.0, 0.0
	for i, w := range want {
		largest = max(largest, math.Abs(w))
		worst = max(worst, math.Abs(float64(got[i])-w))
	}
	if len(got) != len(want) || largest == 0 || worst > 1e-5*largest {
		t.Errorf("%s: %d logits off by up to %g, the largest is %g; want within 1e-5 of it", what, len(got), worst, largest)
	}
}

// naive computes the logits of a row-major file from docs/FORMAT.md alone, in
// float64 and without anything of this package.
func naive(t *testing.T, path string, tokens []int32) []float64 {
	t.Helper()
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a := f.Arch()
	dim, hd, heads, kv, ff := int(a.Dim), int(a.HeadDim), int(a.NHeads), int(a.NKVHeads), int(a.FFNDim)
	family := "q8_"
	if f.HasQ4() {
		family = "q4_"
	}
	known := map[string][]float64{}
	get := func(name string, layer, layers int) []float64 {
		all := known[name]
		if all == nil {
			all = decode(t, f, name)
			known[name] = all
		}
		n := len(all) / layers
		return all[layer*n:][:n]
	}
	keys, values := make([][][]float64, a.NLayers), make([][][]float64, a.NLayers)
	var logits []float64
	for pos, id := range tokens {
		x := append([]float64{}, get("token_embed", int(id), int(a.VocabSize))...)
		for l := range int(a.NLayers) {
			w := func(name string) []float64 { return get(family+name, l, int(a.NLayers)) }
			v := func(name string) []float64 { return get(name, l, int(a.NLayers)) }
			h := norm64(x, v("attn_norm"))
			q, k := mul64(w("q"), h), mul64(w("k"), h)
			for i := range heads {
				turn64(q[i*hd:][:hd], v("q_norm"), pos, float64(a.RopeTheta))
			}
			for i := range kv {
				turn64(k[i*hd:][:hd], v("k_norm"), pos, float64(a.RopeTheta))
			}
			keys[l], values[l] = append(keys[l], k), append(values[l], mul64(w("v"), h))
			att := make([]float64, heads*hd)
			for i := range heads {
				g := i / (heads / kv) * hd
				attend64(att[i*hd:][:hd], q[i*hd:][:hd], keys[l], values[l], g)
			}
			add64(x, mul64(w("o"), att))
			h = norm64(x, v("ffn_norm"))
			if a.NExperts > 0 {
				add64(x, mixture64(&a, v("moe_router"), w("gate"), w("up"), w("down"), h))
				continue
			}
			gate, up := mul64(w("gate"), h), mul64(w("up"), h)
			for i := range ff {
				up[i] *= gate[i] / (1 + math.Exp(-gate[i]))
			}
			add64(x, mul64(w("down"), up))
		}
		logits = append(logits, mul64(get(family+"lm", 0, 1), norm64(x, get("final_norm", 0, 1)))...)
	}
	if len(logits) != len(tokens)*int(a.VocabSize) || dim == 0 {
		t.Fatalf("%d logits", len(logits))
	}
	return logits
}

// decode reads a tensor's values, docs/FORMAT.md sections 3.1, 6.1, 6.2 and 6.8.
func decode(t *testing.T, f *vqf.File, name string) []float64 {
	t.Helper()
	b, err := f.Data(name)
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := f.Tensor(name)
	half := func(b []byte) float64 {
		h := int(b[0]) | int(b[1])<<8
		sign, exp, man := 1-2*float64(h>>15), h>>10&31, float64(h&1023)
		if exp == 0 {
			return sign * math.Ldexp(man, -24)
		}
		return sign * math.Ldexp(1024+man, exp-25)
	}
	var out []float64
	switch entry.Type {
	case vqf.F32:
		for i := 0; i < len(b); i += 4 {
			out = append(out, float64(math.Float32frombits(uint32(b[i])|uint32(b[i+1])<<8|uint32(b[i+2])<<16|uint32(b[i+3])<<24)))
		}
	case vqf.F16:
		for i := 0; i < len(b); i += 2 {
			out = append(out, half(b[i:]))
		}
	case vqf.Q8_0:
		for ; len(b) >= 34; b = b[34:] {
			for _, c := range b[2:34] {
				out = append(out, half(b)*float64(int8(c)))
			}
		}
	case vqf.Q4_0:
		for ; len(b) >= 18; b = b[18:] {
			for shift := 0; shift <= 4; shift += 4 {
				for _, c := range b[2:18] {
					out = append(out, half(b)*float64(int(c>>shift&15)-8))
				}
			}
		}
	default:
		t.Fatalf("%s: %v", name, entry.Type)
	}
	return out
}

func mul64(w, x []float64) []float64 {
	out := make([]float64, len(w)/len(x))
	for r := range out {
		for i, v := range x {
			out[r] += w[r*len(x)+i] * v
		}
	}
	return out
}

func norm64(x, w []float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v / math.Sqrt(sum/float64(len(x))+1e-6) * w[i]
	}
	return out
}

func turn64(x, w []float64, pos int, theta float64) {
	copy(x, norm64(x, w))
	half := len(x) / 2
	for i := range half {
		sin, cos := math.Sincos(float64(pos) * math.Pow(theta, -float64(i)/float64(half)))
		x[i], x[i+half] = x[i]*cos-x[i+half]*sin, x[i+half]*cos+x[i]*sin
	}
}

func attend64(out, q []float64, keys, values [][]float64, at int) {
	p, sum := make([]float64, len(keys)), 0.0
	for i, k := range keys {
		for j, v := range q {
			p[i] += v * k[at+j]
		}
		p[i] = math.Exp(p[i] / math.Sqrt(float64(len(q))))
		sum += p[i]
	}
	for i, v := range values {
		for j := range out {
			out[j] += p[i] / sum * v[at+j]
		}
	}
}

func add64(x, y []float64) {
	for i, v := range y {
		x[i] += v
	}
}
