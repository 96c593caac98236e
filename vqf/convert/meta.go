// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"windhover/vqf"
)

// meta is the t_meta entry (docs/FORMAT.md section 16).
type meta struct {
	V             int            `json:"v"`
	Converter     string         `json:"converter"`
	Name          string         `json:"name"`
	Architecture  string         `json:"architecture"`
	ChatTemplate  string         `json:"chat_template"`
	BosToken      string         `json:"bos_token"`
	EosToken      string         `json:"eos_token"`
	AddBOS        bool           `json:"add_bos"`
	BosID         int            `json:"bos_id"`
	EosID         int            `json:"eos_id"`
	StopIDs       []int          `json:"stop_ids"`
	SpecialIDs    map[string]int `json:"special_ids"`
	Generation    generation     `json:"generation"`
	Mode          vqf.Mode       `json:"mode"`
	Quantiser     string         `json:"quantiser,omitempty"` // missing: nobody knows
	Q8Layout      string         `json:"q8_layout"`
	Q4Layout      string         `json:"q4_layout"`
	Tied          bool           `json:"tied"`
	Params        int64          `json:"params"`
	ContextLength uint64         `json:"context_length"`
	Pooling       string         `json:"pooling,omitempty"` // missing: no embeddings
	Vision        *pictures      `json:"vision,omitempty"`  // with vision tensors
	Sources       []metaSource   `json:"sources"`
	// Relative RMS error that quantising made, by tensor: numbers of one
	// length, since the entry's size is settled before they are known.
	Errors map[string]json.RawMessage `json:"errors"`
	// Largest difference that quantising made to a weight, likewise.
	MaxErrors map[string]json.RawMessage `json:"max_errors"`
}

type metaSource struct {
	File   string `json:"file"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

const noDigest = "0000000000000000000000000000000000000000000000000000000000000000"

// newMeta fills in all but digests and errors, which have place-holders of
// their final length.
func newMeta(m *model, s *settings, spec vqf.Spec) *meta {
	w := &m.words
	e := &meta{V: 1, Converter: s.Converter, Name: s.Name, Architecture: m.architecture,
		ChatTemplate: w.template, BosToken: w.bosToken, EosToken: w.eosToken, AddBOS: w.addBOS,
		BosID: w.bosID, EosID: w.eosID, StopIDs: w.stopIDs, SpecialIDs: w.special, Generation: w.generation,
		Mode: spec.Mode, Quantiser: s.quantiser(spec.Mode), Q8Layout: spec.Q8.String(), Q4Layout: spec.Q4.String(),
		Tied: m.tied, Params: m.params, ContextLength: m.context, Pooling: w.pooling, Errors: map[string]json.RawMessage{}, MaxErrors: map[string]json.RawMessage{}}
	if e.Name == "" {
		e.Name = w.name
	}
	if m.vision != nil {
		e.Vision = &m.vision.pictures
	}
	if e.StopIDs == nil {
		e.StopIDs = []int{}
	}
	for _, f := range m.files {
		e.Sources = append(e.Sources, metaSource{m.within(f.path), f.size, noDigest})
	}
	return e
}

// within is a file's name in the source's directory.
func (s *source) within(path string) string {
	if rel, err := filepath.Rel(s.path, path); err == nil && rel != "." && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return filepath.Base(path)
}

func (e *meta) setErrors(tensor string, relative, most float64) {
	e.Errors[tensor] = json.RawMessage(fmt.Sprintf("%.3e", relative))
	e.MaxErrors[tensor] = json.RawMessage(fmt.Sprintf("%.3e", most))
}

// encode returns the JSON, with characters as they are: a chat template is
// full of < and >.
func (e *meta) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("convert: metadata: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// checkTemplate keeps text out of the metadata that JSON would change.
func (w *words) checkTemplate() error {
	for _, s := range []string{w.template, w.bosToken, w.eosToken, w.name} {
		if strings.ToValidUTF8(s, "") != s {
			return faulty("chat template or token %.20q is no UTF-8", s)
		}
	}
	return nil
}

// digests hashes the source's files; it runs beside the conversion.
func digests(ctx context.Context, files []sourceFile) ([]string, error) {
	var out []string
	buf := make([]byte, 1<<20)
	for _, f := range files {
		sum, err := digest(ctx, f, buf)
		if err != nil {
			return nil, err
		}
		out = append(out, sum)
	}
	return out, nil
}

func digest(ctx context.Context, f sourceFile, buf []byte) (sum string, err error) {
	o, err := os.Open(f.path)
	if err != nil {
		return "", fmt.Errorf("convert: %w", err)
	}
	defer func() {
		if cerr := o.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("convert: %w", cerr)
		}
	}()
	h := sha256.New()
	for left := f.size; left > 0; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := io.ReadFull(o, buf[:min(left, int64(len(buf)))])
		if err != nil {
			return "", faulty("%s: %d bytes are gone: it changed while it was read", f.path, left-int64(n))
		}
		h.Write(buf[:n])
		left -= int64(n)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
