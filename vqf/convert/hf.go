// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"windhover/engine/pooling"
	"windhover/engine/tokenizer"
	"windhover/vqf/safetensors"
)

// openDir opens a Hugging Face directory.
func openDir(dir string, s *settings) (*source, error) {
	c, err := readConfig(dir)
	if err != nil {
		return nil, err
	}
	if s.Mmproj != "" {
		return nil, &failure{kind: ErrOption, msg: fmt.Sprintf("mmproj %s: a Hugging Face directory has its vision tower inside, a projector file goes with a GGUF file", s.Mmproj)}
	}
	src := &source{path: dir, names: hfNames, experts: hfExperts, byName: map[string]*tensor{}}
	src.words = words{name: c.text1("_name_or_path"), bosID: -1, eosID: -1}
	if filepath.IsAbs(src.words.name) {
		src.words.name = filepath.Base(src.words.name) // of someone's own machine
	}
	if err := src.hfPooling(dir); err != nil {
		return nil, err
	}
	embeds := src.words.pooling == pooling.Last
	if src.architecture, err = c.architecture(embeds); err != nil {
		return nil, err
	}
	if !s.Bare {
		if err := src.computed(orBare); err != nil {
			return nil, err
		}
	}
	if err := c.refusals(src.architecture); err != nil {
		return nil, err
	}
	if src.arch, src.context, err = c.arch(src.architecture, s); err != nil {
		return nil, err
	}
	tie, said := c.flag("tie_word_embeddings")
	src.ownHead, src.headless = said && !tie, embeds
	if c.err != nil {
		return nil, c.err
	}
	src.ignored = func(name string) bool {
		return strings.HasSuffix(name, ".rotary_emb.inv_freq") || // derived from rope_theta
			sees(src.architecture) && src.vision == nil && strings.HasPrefix(name, hfTowerPrefix)
	}
	if err := src.hfWeights(dir); err != nil {
		return nil, err
	}
	if err := src.findTower(dir, c, s); err != nil {
		return nil, errors.Join(err, src.closer.Close())
	}
	if err := src.addFile(c.path); err != nil {
		return nil, errors.Join(err, src.closer.Close())
	}
	if s.Bare {
		return src, nil
	}
	if err := src.hfWords(dir, c); err != nil {
		return nil, errors.Join(err, src.closer.Close())
	}
	return src, nil
}

// hfWeights opens the safetensors files.
func (s *source) hfWeights(dir string) error {
	m, err := safetensors.OpenModel(dir)
	if err != nil {
		return &failure{kind: ErrSource, msg: "source", err: err}
	}
	s.closer = m
	for _, f := range m.Files() {
		s.files = append(s.files, sourceFile{f.Path(), f.Size()})
	}
	s.format = fmt.Sprintf("Hugging Face, %s", count(len(m.Files()), "safetensors file"))
	for _, t := range m.Tensors() {
		readable := t.DType == "F32" || t.DType == "F16" || t.DType == "BF16"
		s.add(&tensor{name: t.Name, typ: t.DType, shape: t.Shape, readable: readable,
			read: func(dst []float32, first uint64) error { return m.ReadFloats(dst, t, first) }})
	}
	return nil
}

// hfWords reads tokenizer, chat template and generation defaults.
func (s *source) hfWords(dir string, c *config) error {
	var conf struct {
		ChatTemplate templateField `json:"chat_template"`
		BosToken     tokenField    `json:"bos_token"`
		EosToken     tokenField    `json:"eos_token"`
		PadToken     tokenField    `json:"pad_token"`
		UnkToken     tokenField    `json:"unk_token"`
		AddBOS       bool          `json:"add_bos_token"`
	}
	if err := s.readJSON(dir, "tokenizer_config.json", &conf); err != nil {
		return err
	}
	w := &s.words
	w.template, w.addBOS = string(conf.ChatTemplate), conf.AddBOS
	w.bosToken, w.eosToken = string(conf.BosToken), string(conf.EosToken)
	if err := s.hfTemplate(dir); err != nil {
		return err
	}
	tok, err := s.hfTokenizer(dir)
	if err != nil || tok == nil {
		return err
	}
	var gen struct {
		generation
		Penalty *float32 `json:"repetition_penalty"`
		Sample  *bool    `json:"do_sample"`
		EosID   idsField `json:"eos_token_id"`
	}
	if err := s.readJSON(dir, "generation_config.json", &gen); err != nil {
		return err
	}
	w.generation = gen.generation
	w.generation.RepeatPenalty = gen.Penalty
	if gen.Sample != nil && !*gen.Sample {
		w.generation.Temperature = new(float32)
	}
	for _, id := range gen.EosID {
		w.stop(id)
	}
	var eos idsField
	if raw := c.get("eos_token_id"); raw != nil {
		if err := json.Unmarshal(raw, &eos); err != nil {
			return faulty("%s: eos_token_id is %.40s, want an id or a list", c.path, raw)
		}
	}
	w.resolve(tok)
	for _, id := range eos {
		w.stop(id)
	}
	if w.eosID < 0 && len(w.stopIDs) > 0 {
		w.eosID = w.stopIDs[0]
	}
	for meaning, token := range map[string]tokenField{"pad": conf.PadToken, "unk": conf.UnkToken} {
		if id, ok := tok.ID(string(token)); ok && token != "" {
			w.special[meaning] = int(id)
		}
	}
	return nil
}

// readJSON reads a file that may be missing into v.
func (s *source) readJSON(dir, name string, v any) error {
	path := filepath.Join(dir, name)
	b, err := readSmall(path)
	if err != nil || b == nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return faulty("%s: %v", path, err)
	}
	return s.addFile(path)
}

// hfTemplate looks for a template in a file of its own, which goes before the
// one in tokenizer_config.json.
func (s *source) hfTemplate(dir string) error {
	path := filepath.Join(dir, "chat_template.jinja")
	b, err := readSmall(path)
	if err != nil {
		return err
	}
	if b != nil {
		s.words.template = string(b)
		return s.addFile(path)
	}
	if s.words.template != "" {
		return nil
	}
	var file struct {
		ChatTemplate templateField `json:"chat_template"`
	}
	err = s.readJSON(dir, "chat_template.json", &file)
	s.words.template = string(file.ChatTemplate)
	return err
}

// hfTokenizer takes tokenizer.json as it is, else makes one of vocab.json and
// merges.txt. It returns nil when there is neither.
func (s *source) hfTokenizer(dir string) (*tokenizer.Tokenizer, error) {
	path := filepath.Join(dir, "tokenizer.json")
	b, err := readSmall(path)
	if err != nil {
		return nil, err
	}
	if b != nil {
		return s.setTokenizer(path, b)
	}
	vocab, err := readSmall(filepath.Join(dir, "vocab.json"))
	if err != nil {
		return nil, err
	}
	merges, err := readSmall(filepath.Join(dir, "merges.txt"))
	if err != nil {
		return nil, err
	}
	if vocab == nil || merges == nil {
		return nil, nil
	}
	conf, err := readSmall(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil {
		return nil, err
	}
	path = filepath.Join(dir, "vocab.json")
	if b, err = tokenizer.VocabMergesToJSON(vocab, merges, conf); err != nil {
		return nil, &failure{kind: ErrUnsupported, msg: path + " (--bare converts without a tokenizer)", err: err}
	}
	if err := s.addFile(filepath.Join(dir, "merges.txt")); err != nil {
		return nil, err
	}
	return s.setTokenizer(path, b)
}

// setTokenizer checks that the engine will be able to use a tokenizer.json and
// that it belongs to the model.
func (s *source) setTokenizer(path string, b []byte) (*tokenizer.Tokenizer, error) {
	tok, err := tokenizer.Parse(b)
	if err != nil {
		return nil, &failure{kind: ErrUnsupported, msg: path + " (--bare converts without a tokenizer)", err: err}
	}
	if n := tok.VocabSize(); uint64(n) > uint64(s.arch.VocabSize) {
		return nil, faulty("%s has %d tokens, the model %d: they do not belong together", path, n, s.arch.VocabSize)
	}
	s.tokenizer = b
	if s.words.pooling != "" && len(tok.Suffix()) == 0 {
		s.notes = append(s.notes, "the tokenizer sets no token behind a text: embeddings are read at the text's own last one")
	}
	for _, f := range s.files {
		if f.path == path {
			return tok, nil
		}
	}
	return tok, s.addFile(path)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
