// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"windhover/engine/tokenizer"
	"windhover/vqf"
	"windhover/vqf/gguf"
)

// ggufKeys reads metadata; the first wrong value is kept in err.
type ggufKeys struct {
	f      *gguf.File
	prefix string // the architecture, which begins its own keys
	err    error
}

func (k *ggufKeys) keep(err error) {
	if err != nil && k.err == nil && !errors.Is(err, gguf.ErrNoKey) {
		k.err = &failure{kind: ErrSource, msg: "metadata", err: err}
	}
}

// uint reads PREFIX.key as a number that fits the header; absent gives def.
func (k *ggufKeys) uint(key string, def uint32) uint32 {
	v, err := k.f.Uint(k.prefix + "." + key)
	if err != nil {
		k.keep(err)
		return def
	}
	if v > math.MaxInt32 {
		k.keep(fmt.Errorf("%s.%s is %d: absurd", k.prefix, key, v))
	}
	return uint32(v)
}

func (k *ggufKeys) float(key string, def float32) float32 {
	v, err := k.f.Float(k.prefix + "." + key)
	if err != nil {
		k.keep(err)
		return def
	}
	return float32(v)
}

func (k *ggufKeys) text(key string) string {
	v, err := k.f.Text(key)
	k.keep(err)
	return v
}

// id reads a token id by its whole key, -1 when there is none.
func (k *ggufKeys) id(key string) int {
	v, err := k.f.Uint(key)
	if err != nil {
		k.keep(err)
		return -1
	}
	if v > math.MaxInt32 {
		k.keep(fmt.Errorf("%s is %d: no token id", key, v))
		return -1
	}
	return int(v)
}

// openGGUF opens a GGUF file.
func openGGUF(path string, s *settings) (_ *source, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, ggufFailure("source", err)
	}
	src := &source{path: path, format: fmt.Sprintf("GGUF v%d", f.Version()), closer: f, names: ggufNames, experts: ggufExperts,
		byName: map[string]*tensor{}, ignored: func(string) bool { return false }}
	defer func() {
		if err != nil {
			err = errors.Join(err, src.closer.Close())
		}
	}()
	src.files = []sourceFile{{path, f.Size()}}
	if err := src.addGGUF(f); err != nil {
		return nil, err
	}
	k := &ggufKeys{f: f}
	k.prefix = k.text("general.architecture")
	if k.err == nil && k.prefix == "" {
		return nil, faulty("%s: general.architecture is missing", path)
	}
	if src.architecture, err = familyOf(k.prefix); err != nil {
		return nil, err
	}
	src.permuted = src.architecture == "llama"
	if err := k.refusals(); err != nil {
		return nil, err
	}
	if src.arch, src.context, err = k.arch(src, s); err != nil {
		return nil, err
	}
	switch {
	case s.Mmproj != "":
		if err := src.addProjector(k, s); err != nil {
			return nil, err
		}
	case sees(src.architecture):
		src.notes = append(src.notes, "a GGUF file has no vision tower inside: --mmproj FILE converts the projector that belongs to it")
	}
	src.words = words{name: k.text("general.name"), bosID: -1, eosID: -1}
	if s.Bare || !k.hasWords() {
		return src, k.err
	}
	k.pooling(src)
	if err := src.computed(orBare); err != nil {
		return nil, err
	}
	if err := k.words(src); err != nil {
		return nil, err
	}
	return src, k.err
}

// hasWords tells whether there is a vocabulary; a file may say that there is none.
func (k *ggufKeys) hasWords() bool {
	return k.f.Has("tokenizer.ggml.model") && k.text("tokenizer.ggml.model") != "none"
}

// ggufFailure says whether a file that does not open is faulty or of a kind
// that is not read.
func ggufFailure(what string, err error) error {
	kind := ErrSource
	if errors.Is(err, gguf.ErrType) {
		kind = ErrUnsupported
	}
	return &failure{kind: kind, msg: what, err: err}
}

// addGGUF adds a file's tensors.
func (s *source) addGGUF(f *gguf.File) error {
	for _, t := range f.Tensors() {
		if !t.Type.Readable() {
			return unsupported("tensor %q has type %s: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K and Q8_K are read", t.Name, t.Type)
		}
		if s.byName[t.Name] != nil {
			return faulty("tensor %q is in both files", t.Name)
		}
		shape := slices.Clone(t.Dims)
		slices.Reverse(shape)
		s.add(&tensor{name: t.Name, typ: t.Type.String(), shape: shape, readable: true,
			read: func(dst []float32, first uint64) error { return f.ReadFloats(dst, t, first) }})
	}
	return nil
}

// refusals checks every setting that changes what the model computes and that
// the engine does not have.
func (k *ggufKeys) refusals() error {
	refuse := func(key string, why string) error {
		v, _ := k.f.Scalar(key) // present: it was just read
		return unsupported("%s is %.80s: %s", key, v, why)
	}
	if t := k.text("general.type"); t != "" && t != "model" {
		return refuse("general.type", "give the model itself")
	}
	if n, err := k.f.Uint("split.count"); err == nil && n > 1 {
		return refuse("split.count", "join the parts of the split file first")
	}
	own := func(key string) string { return k.prefix + "." + key }
	if k.uint("expert_count", 0) > 0 && !hasExperts(k.prefix) {
		return refuse(own("expert_count"), "of the mixtures of experts qwen3moe and qwen3vlmoe are converted")
	}
	if k.uint("attention.sliding_window", 0) > 0 {
		return refuse(own("attention.sliding_window"), "attention with a sliding window is not supported")
	}
	if t := k.text(own("rope.scaling.type")); t != "" && t != "none" {
		return refuse(own("rope.scaling.type"), "rotary embeddings are not scaled")
	}
	for _, key := range []string{"rope.scaling.factor", "rope.scale_linear", "rope.scaling.attn_factor", "logit_scale", "embedding_scale", "residual_scale", "attention.scale"} {
		if v := k.float(key, 1); v != 1 {
			return refuse(own(key), "no such scaling is computed")
		}
	}
	for _, key := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
		if v := k.float(key, 0); v != 0 {
			return refuse(own(key), "no such scaling is computed")
		}
	}
	if causal, err := k.f.Bool(own("attention.causal")); err == nil && !causal {
		return refuse(own("attention.causal"), "only causal attention is computed")
	}
	return k.err
}

// arch fills the header's fields as docs/FORMAT.md section 8.3 says.
func (k *ggufKeys) arch(src *source, s *settings) (a vqf.Arch, context uint64, err error) {
	a = vqf.Arch{
		NLayers: k.uint("block_count", 0), Dim: k.uint("embedding_length", 0), NHeads: k.uint("attention.head_count", 0),
		NormEps: k.float("attention.layer_norm_rms_epsilon", 1e-6), RopeTheta: k.float("rope.freq_base", 10000),
		BosID: vqf.NoToken, EosID: vqf.NoToken,
	}
	a.NKVHeads = k.uint("attention.head_count_kv", a.NHeads)
	a.HeadDim = k.uint("attention.key_length", 0)
	if hasExperts(k.prefix) {
		if err := k.mixture(&a, src.path); err != nil {
			return a, 0, err
		}
	} else {
		a.FFNDim = k.uint("feed_forward_length", 0)
	}
	if _, elem, n, err := k.f.Kind("tokenizer.ggml.tokens"); err == nil && elem == gguf.TypeString {
		a.VocabSize = uint32(n) // arrays are limited far below
	} else if !k.hasWords() {
		a.VocabSize = k.uint("vocab_size", 0)
	}
	for _, f := range []struct {
		key string
		v   uint32
	}{{"block_count", a.NLayers}, {"embedding_length", a.Dim}, {"attention.head_count", a.NHeads}, {"feed_forward_length", a.FFNDim}} {
		if f.v == 0 && k.err == nil {
			return a, 0, faulty("%s: %s.%s is missing or 0", src.path, k.prefix, f.key)
		}
	}
	if a.VocabSize == 0 {
		return a, 0, faulty("%s: tokenizer.ggml.tokens is missing or empty: the size of the vocabulary is its length", src.path)
	}
	if k.err != nil {
		return a, 0, k.err
	}
	if a.HeadDim == 0 {
		if a.Dim%a.NHeads != 0 {
			return a, 0, faulty("%s: width %d does not divide into %d heads, and there is no attention.key_length", src.path, a.Dim, a.NHeads)
		}
		a.HeadDim = a.Dim / a.NHeads
	}
	a.HeadDimFull = a.HeadDim
	for _, f := range []struct {
		key  string
		want uint32
	}{{"attention.value_length", a.HeadDim}, {"rope.dimension_count", a.HeadDim}, {"vocab_size", a.VocabSize}} {
		if v := k.uint(f.key, f.want); v != f.want {
			return a, 0, unsupported("%s: %s.%s is %d, where only %d is supported", src.path, k.prefix, f.key, v, f.want)
		}
	}
	if id := k.id("tokenizer.ggml.bos_token_id"); id >= 0 {
		a.BosID = uint32(id)
	}
	if id := k.id("tokenizer.ggml.eos_token_id"); id >= 0 {
		a.EosID = uint32(id)
	}
	if strings.Contains(k.prefix, "qwen3") {
		// Plain text Qwen3 too, whose positions are equal in all sections.
		a.HasQNorm, a.HasMRope = 1, 1
		a.MRopeNSec = uint32(copy(a.MRopeSections[:], k.sections()))
	}
	context = uint64(k.uint("context_length", 32768))
	if k.err != nil {
		return a, 0, k.err
	}
	a.MaxSeqLen, err = s.maxSeq(context)
	return a, context, err
}

// sections reads the split of rotary dimensions among time, height and width.
func (k *ggufKeys) sections() []int32 {
	list, err := k.f.Ints(k.prefix + ".rope.dimension_sections")
	if err != nil {
		k.keep(err)
		return []int32{24, 20, 20}
	}
	var out []int32
	for _, v := range list {
		if v <= 0 || len(out) == 4 {
			break
		}
		if v > math.MaxInt32 {
			k.keep(fmt.Errorf("%s.rope.dimension_sections has %d: absurd", k.prefix, v))
			break
		}
		out = append(out, int32(v))
	}
	return out
}

// ends are tokens that end an answer by what they are called. GGUF names one
// end token only, where the source's generation_config.json has several.
var ends = []string{"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"}

// words makes tokenizer.json and takes chat template and generation defaults.
func (k *ggufKeys) words(src *source) error {
	in := tokenizer.GGUFVocab{Model: k.text("tokenizer.ggml.model"), Pre: k.text("tokenizer.ggml.pre"),
		BosID: k.id("tokenizer.ggml.bos_token_id"), EosID: k.id("tokenizer.ggml.eos_token_id"), PadID: k.id("tokenizer.ggml.padding_token_id")}
	var err error
	in.Tokens, err = k.f.Texts("tokenizer.ggml.tokens")
	k.keep(err)
	in.Merges, err = k.f.Texts("tokenizer.ggml.merges")
	k.keep(err)
	types, err := k.f.Ints("tokenizer.ggml.token_type")
	k.keep(err)
	for _, t := range types {
		in.Types = append(in.Types, int32(t))
	}
	in.AddBOS, err = k.f.Bool("tokenizer.ggml.add_bos_token")
	k.keep(err)
	in.AddEOS, err = k.f.Bool("tokenizer.ggml.add_eos_token")
	k.keep(err)
	if k.err != nil {
		return k.err
	}
	b, err := tokenizer.GGUFToJSON(in)
	if err != nil {
		return &failure{kind: ErrUnsupported, msg: src.path + " (--bare converts without a tokenizer)", err: err}
	}
	tok, err := src.setTokenizer(src.path, b)
	if err != nil {
		return err
	}
	w := &src.words
	w.template, w.addBOS = k.text("tokenizer.chat_template"), in.AddBOS
	w.bosID, w.eosID = in.BosID, in.EosID
	// Where the token behind a text is another than the end token, as with
	// Qwen3-Embedding, writers of GGUF give it the name of the latter, which becomes
	// the end of a turn.
	if turn := k.id("tokenizer.ggml.eot_token_id"); w.pooling != "" && in.AddEOS && turn >= 0 && turn < len(in.Tokens) {
		w.eosID = turn
	}
	if w.bosID >= 0 {
		w.bosToken = in.Tokens[w.bosID] // GGUFToJSON holds ids to the vocabulary
	}
	if w.eosID >= 0 {
		w.eosToken = in.Tokens[w.eosID]
	}
	w.stop(in.EosID)
	w.special = map[string]int{}
	for meaning, key := range map[string]string{"eot": "eot", "eom": "eom", "pad": "padding", "unk": "unknown"} {
		if id := k.id("tokenizer.ggml." + key + "_token_id"); id >= 0 {
			w.special[meaning] = id
		}
	}
	for _, meaning := range []string{"eot", "eom"} {
		if id, ok := w.special[meaning]; ok {
			w.stop(id)
		}
	}
	for _, token := range ends {
		if id, ok := tok.ID(token); ok && tok.Special(id) {
			w.stop(int(id))
		}
	}
	w.resolve(tok)
	k.sampling(&w.generation)
	return k.err
}

// sampling reads the generation defaults that newer files carry.
func (k *ggufKeys) sampling(g *generation) {
	for key, p := range map[string]**float32{"temp": &g.Temperature, "top_p": &g.TopP, "min_p": &g.MinP, "penalty_repeat": &g.RepeatPenalty} {
		v, err := k.f.Float("general.sampling." + key)
		if err != nil {
			k.keep(err)
			continue
		}
		x := float32(v)
		*p = &x
	}
	if n := k.id("general.sampling.top_k"); n >= 0 {
		g.TopK = &n
	}
}
