// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"windhover/engine"
	"windhover/vqf"
)

// infoDoc is what info prints with --json; parts that a format does not have are
// left out. The names are fixed.
type infoDoc struct {
	Format    string   `json:"format"` // vqf, gguf, safetensors
	Size      int64    `json:"size"`
	Version   uint32   `json:"version,omitempty"`
	Flags     *uint32  `json:"flags,omitempty"`
	FlagNames []string `json:"flag_names,omitempty"`
	Header    int      `json:"header,omitempty"` // fields: 41 or 45
	Encrypted bool     `json:"encrypted,omitempty"`
	Signer    string   `json:"signer,omitempty"` // fingerprint of the key that the file says signed it
	// Architecture is what config.json of a directory names.
	Architecture string         `json:"architecture,omitempty"`
	Arch         any            `json:"arch,omitempty"`
	DataOffset   uint64         `json:"data_offset,omitempty"`
	FileLen      uint64         `json:"file_len,omitempty"`
	Model        *infoModel     `json:"model,omitempty"`
	Memory       *infoMemory    `json:"memory,omitempty"`   // VQF, with --memory
	Metadata     map[string]any `json:"metadata,omitempty"` // GGUF
	Files        []string       `json:"files,omitempty"`    // safetensors
	Tensors      []infoTensor   `json:"tensors"`
	Groups       []vqf.GroupSum `json:"groups,omitempty"` // VQF
	Types        []infoType     `json:"types,omitempty"`  // GGUF, safetensors
	Error        *jsonError     `json:"error,omitempty"`

	path     string
	refused  error
	metaKeys []string // order of Metadata
}

// infoModel is what a VQF file says about its model beside the architecture.
type infoModel struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture"`
	Params       int64  `json:"params"` // 0: not known
	Mode         string `json:"mode"`
	Computes     string `json:"computes"` // family and layout
	Q8Layout     string `json:"q8_layout,omitempty"`
	Q4Layout     string `json:"q4_layout,omitempty"`
	Tokenizer    string `json:"tokenizer"` // embedded, or where it is looked for
	Template     bool   `json:"chat_template"`
	Converter    string `json:"converter"`
	// Vision is what the tower does with pictures; nil without one.
	Vision *infoVision `json:"tower,omitempty"`
	// How four-bit weights were made (docs/FORMAT.md section 16), "" for nobody
	// knows, and whether that was by looking for the smallest error.
	Quantiser string `json:"quantiser"`
	// Pooling is how embeddings of texts are made; "" for a model that makes none.
	Pooling   string `json:"pooling,omitempty"`
	Optimised bool   `json:"optimised"`
	// What quantising made of each tensor: relative RMS error and the largest
	// difference of a weight.
	Errors    map[string]float64 `json:"errors,omitempty"`
	MaxErrors map[string]float64 `json:"max_errors,omitempty"`
}

// infoVision is what a model with a vision tower does with pictures.
type infoVision struct {
	MinPixels int64   `json:"min_pixels"` // after resizing
	MaxPixels int64   `json:"max_pixels"`
	TokenSide int     `json:"token_side"` // pixels a side of what a token stands for
	Blocks    uint32  `json:"blocks"`
	Width     uint32  `json:"width"`
	DeepStack []int32 `json:"deepstack"` // blocks whose output goes to the first text layers
	Bytes     uint64  `json:"bytes"`
}

func (v *infoVision) String() string {
	area := int64(v.TokenSide) * int64(v.TokenSide)
	return fmt.Sprintf("resized to %d to %d pixels, %d to %d tokens (less where memory, context or time are short); a tower of %d blocks of %d, %s",
		v.MinPixels, v.MaxPixels, v.MinPixels/area, v.MaxPixels/area, v.Blocks, v.Width, mib(int64(v.Bytes)))
}

type infoTensor struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Rows   uint64   `json:"rows"`
	Cols   uint64   `json:"cols"`
	Shape  []uint64 `json:"shape,omitempty"` // outermost first; GGUF, safetensors
	Offset uint64   `json:"offset"`
	Bytes  uint64   `json:"bytes"`
	File   string   `json:"file,omitempty"` // in a directory
	SHA256 string   `json:"sha256,omitempty"`
}

type infoType struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
	Bytes uint64 `json:"bytes"`
}

// countTypes sums the tensors by type, in the order they appear.
func (d *infoDoc) countTypes() {
	at := map[string]int{}
	for _, t := range d.Tensors {
		i, ok := at[t.Type]
		if !ok {
			i = len(d.Types)
			at[t.Type] = i
			d.Types = append(d.Types, infoType{Type: t.Type})
		}
		d.Types[i].Count++
		d.Types[i].Bytes += t.Bytes
	}
}

// print writes the document for people.
func (d *infoDoc) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(key, format string, a ...any) {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", key, fmt.Sprintf(format, a...)) // Flush tells
	}
	line("file", "%s", d.path)
	switch {
	case d.Header > 0:
		line("format", "VQF version %d, header of %d fields", d.Version, d.Header)
	case d.Version > 0:
		line("format", "%s version %d", strings.ToUpper(d.Format), d.Version)
	default:
		line("format", "%s", d.Format)
	}
	line("size", "%d bytes, %s", d.Size, mib(d.Size))
	if d.Flags != nil {
		line("flags", "0x%03x %s", *d.Flags, vqf.Flags(*d.Flags))
	}
	if d.Encrypted {
		line("encrypted", "SM4-CTR: model, tokenizer and layouts are not shown; windhover verify --key-file FILE checks them")
	}
	if d.Signer != "" {
		line("signed", "says the file, by %s; not checked: windhover verify --pub KEY does that", d.Signer)
	}
	if m := d.Model; m != nil {
		m.print(line)
	}
	if d.Memory != nil {
		line("memory", "%s", d.Memory)
	}
	if d.Architecture != "" {
		line("architecture", "%s", plainText(d.Architecture))
	}
	if a, ok := d.Arch.(*vqf.Arch); ok {
		line("arch", "%s", archText(a))
	}
	for _, key := range d.metaKeys {
		line(plainText(key), "%s", metaText(d.Metadata[key]))
	}
	if d.DataOffset > 0 {
		line("data", "offset %d, file_len %d", d.DataOffset, d.FileLen)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return d.printTensors(out)
}

func (m *infoModel) print(line func(key, format string, a ...any)) {
	name := m.Name
	if name == "" {
		name = "(no name)"
	}
	params := ""
	if m.Params > 0 {
		params = fmt.Sprintf(", %d parameters", m.Params)
	}
	line("model", "%s, %s%s", plainText(name), plainText(m.Architecture), params)
	line("computes", "%s", m.Computes)
	m.printQuality(line)
	template := "with a chat template"
	if !m.Template {
		template = "no chat template"
	}
	line("tokenizer", "%s, %s", m.Tokenizer, template)
	switch m.Pooling {
	case "":
	case engine.PoolLast:
		line("embeddings", "of a text's last token")
	default:
		line("embeddings", "pooled by %s, which is not computed here", plainText(m.Pooling))
	}
	if m.Vision != nil {
		line("pictures", "%s", m.Vision)
	}
	if m.Converter != "" {
		line("converter", "%s", plainText(m.Converter))
	}
}

// printQuality says how the weights were made and what that cost.
func (m *infoModel) printQuality(line func(key, format string, a ...any)) {
	quantiser := "not known"
	switch {
	case m.Optimised:
		quantiser = plainText(m.Quantiser) + ", four-bit weights optimised"
	case m.Quantiser != "":
		quantiser = plainText(m.Quantiser) + ", not optimised"
	}
	line("quantiser", "%s", quantiser)
	if len(m.Errors) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(m.Errors))
	least, worst := names[0], names[0]
	for _, name := range names {
		if m.Errors[name] < m.Errors[least] {
			least = name
		}
		if m.Errors[name] > m.Errors[worst] {
			worst = name
		}
	}
	text := fmt.Sprintf("relative RMS %.2f %% in %s to %.2f %% in %s", 100*m.Errors[least], plainText(least), 100*m.Errors[worst], plainText(worst))
	if len(m.MaxErrors) > 0 {
		text += fmt.Sprintf("; largest of a weight %.3g", slices.Max(slices.Collect(maps.Values(m.MaxErrors))))
	}
	line("errors", "%s", text)
}

// metaText is a value of a GGUF file on one line, not too long a one.
func metaText(v any) string {
	text, ok := v.(string)
	if !ok {
		return fmt.Sprint(v)
	}
	if r := []rune(text); len(r) > 100 {
		text = string(r[:100]) + "…"
	}
	return plainText(text)
}

// plainText quotes what a terminal would act on: names come from files of anybody.
func plainText(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// archText names every field that is not zero.
func archText(a *vqf.Arch) string {
	var words []string
	v := reflect.ValueOf(*a)
	for i := range v.NumField() {
		value := v.Field(i).Interface()
		if value == vqf.NoToken {
			value = "none"
		}
		if !v.Field(i).IsZero() {
			words = append(words, fmt.Sprintf("%s=%v", v.Type().Field(i).Tag.Get("json"), value))
		}
	}
	return strings.Join(words, " ")
}

func (d *infoDoc) printTensors(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	// The name is the last column, which is not padded: it stands left.
	_, _ = fmt.Fprintf(w, "\n%s\t%s\t%s\t%s\t%s\t  %s\n", "TYPE", "ROWS", "COLS", "OFFSET", "BYTES", "TENSOR") // Flush tells, here and below
	for _, t := range d.Tensors {
		name := plainText(t.Name)
		if t.File != "" && len(d.Files) > 1 {
			name += "  in " + plainText(t.File)
		}
		if t.SHA256 != "" {
			name += "  sha256 " + t.SHA256
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t  %s\n", t.Type, t.Rows, t.Cols, t.Offset, t.Bytes, name)
	}
	kind := "GROUP"
	if d.Groups == nil {
		kind = "TYPE"
	}
	_, _ = fmt.Fprintf(w, "\nTENSORS\tBYTES\tMIB\t  %s\n", kind)
	for _, g := range d.Groups {
		_, _ = fmt.Fprintf(w, "%d\t%d\t%.1f\t  %s\n", g.Count, g.Bytes, float64(g.Bytes)/(1<<20), g.Group)
	}
	for _, g := range d.Types {
		_, _ = fmt.Fprintf(w, "%d\t%d\t%.1f\t  %s\n", g.Count, g.Bytes, float64(g.Bytes)/(1<<20), g.Type)
	}
	return w.Flush()
}
