// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"strings"

	"windhover/vqf"
)

// Report is what a conversion found and made.
type Report struct {
	Source       string   `json:"source"`
	Format       string   `json:"format"`
	SourceBytes  int64    `json:"source_bytes"`
	Architecture string   `json:"architecture"`
	Arch         vqf.Arch `json:"arch"`
	Context      uint64   `json:"context_length"`          // tokens the model was made for
	Params       int64    `json:"params"`                  // of the text model
	VisionParams int64    `json:"vision_params,omitempty"` // of the vision tower, 0 without
	Found        string   `json:"tensors_found"`           // "146 BF16, 57 F32"
	SourceCount  int      `json:"tensors_in_source"`
	Tied         bool     `json:"tied"`
	Mode         vqf.Mode `json:"mode"`
	Auto         bool     `json:"auto"` // the mode was chosen by the model's size
	Q8Layout     string   `json:"q8_layout"`
	Q4Layout     string   `json:"q4_layout"`
	Quantiser    string   `json:"quantiser"`            // docs/FORMAT.md section 16
	Importance   string   `json:"importance,omitempty"` // what errors were weighed by, when optimising
	WeightBytes  int64    `json:"weight_bytes"`         // mapped when serving
	KVBytes      int64    `json:"kv_bytes"`             // f16 cache of a full context
	Embedded     bool     `json:"embedded"`             // tokenizer and metadata are in the file
	Pooling      string   `json:"pooling,omitempty"`    // how embeddings are made; "": none, or nobody is told
	Notes        []string `json:"notes"`                // what the user should know

	Output    string             `json:"output"`
	Tensors   int                `json:"tensors"`
	Bytes     int64              `json:"bytes"`
	Flags     vqf.Flags          `json:"flags"` // as the self-check read them
	FlagNames []string           `json:"flag_names"`
	MemSum    string             `json:"memsum"`   // checksum kept while writing
	FileSum   string             `json:"file_sum"` // of what was read back
	SHA256    string             `json:"sha256"`
	Signer    string             `json:"signer,omitempty"`        // fingerprint of the key that signed it
	Errors    map[string]float64 `json:"errors"`                  // relative RMS by quantised tensor
	MaxErrors map[string]float64 `json:"max_errors"`              // largest difference of a weight from the source's
	Quality   []Quality          `json:"quality"`                 // the same and more, in file order
	Resumed   int64              `json:"resumed_bytes,omitempty"` // taken over from a conversion that was interrupted
	Seconds   float64            `json:"seconds"`
}

// head fills in what is known before the work begins; e is nil for a bare file.
func (r *Report) head(m *model, spec vqf.Spec, plan *vqf.Plan, e *meta) {
	a := m.arch
	r.Source, r.Format = m.path, m.format
	for _, f := range m.files {
		r.SourceBytes += f.size
	}
	r.Architecture, r.Arch, r.Context, r.Params = m.architecture, a, m.context, m.params
	r.Found, r.SourceCount, r.Tied = m.types(), len(m.tensors), m.tied
	r.Mode, r.Q8Layout, r.Q4Layout = spec.Mode, spec.Q8.String(), spec.Q4.String()
	r.Tensors = len(plan.Tensors)
	r.WeightBytes = plan.Size()
	r.KVBytes = 2 * 2 * int64(a.NLayers) * int64(a.KVDim()) * int64(a.MaxSeqLen)
	r.Notes = append(r.Notes, m.notes...)
	if e != nil {
		r.Embedded, r.Pooling = true, e.Pooling
	}
	if m.vision != nil {
		r.VisionParams = m.vision.pictures.Params
	}
}

// String is the report as the command line prints it, a line ending included.
func (r *Report) String() string {
	var b strings.Builder
	a := &r.Arch
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", key, fmt.Sprintf(format, args...))
	}
	line("source", "%s: %s, %s", r.Source, r.Format, mib(r.SourceBytes))
	line("arch", "%s dim=%d layers=%d heads=%d kv=%d hd=%d ff=%d vocab=%d rope_theta=%g eps=%g q_norm=%d mrope=%d max_seq=%d (of %d)",
		r.Architecture, a.Dim, a.NLayers, a.NHeads, a.NKVHeads, a.HeadDim, a.FFNDim, a.VocabSize, a.RopeTheta, a.NormEps,
		a.HasQNorm, a.HasMRope, a.MaxSeqLen, r.Context)
	why := ""
	if r.Auto {
		why = " (auto)"
	}
	line("mode", "%s%s, %d parameters, q8 %s, q4 %s", r.Mode, why, r.Params, r.Q8Layout, r.Q4Layout)
	made := r.Quantiser
	if r.Importance != "" {
		made += ", by " + r.Importance
	}
	line("quantiser", "%s", made)
	line("memory", "about %s to serve: weights %s, kv %s for %d tokens (f16)", mib(r.WeightBytes+r.KVBytes), mib(r.WeightBytes), mib(r.KVBytes), a.MaxSeqLen)
	line("tensors", "%d found: %s", r.SourceCount, r.Found)
	if r.Tied {
		b.WriteString("output.weight absent: tied embeddings\n")
	}
	if a.MoE() {
		line("experts", "%d of width %d, %d compute for a token", a.NExperts, a.MoEFFN, a.TopK)
	}
	if r.VisionParams > 0 {
		line("vision", "%d blocks of width %d, heads=%d ff=%d patch=%d merge=%d deepstack=%d, %d parameters in q8 and f32",
			a.VisDepth, a.VisHidden, a.VisHeads, a.VisFFN, a.VisPatch, a.VisMerge, a.VisDSCount, r.VisionParams)
	} else {
		b.WriteString("text only: no vision tensors\n")
	}
	if r.Pooling != "" {
		line("embeddings", "of the %s token", r.Pooling)
	}
	for _, n := range r.Notes {
		line("note", "%s", n)
	}
	if r.Signer != "" {
		line("signed", "by %s", r.Signer)
	}
	fmt.Fprintf(&b, "wrote %s: %d tensors, %s, flags=0x%03x, memsum=%s file_sum=%s, %.2f seconds\n",
		r.Output, r.Tensors, mib(r.Bytes), uint32(r.Flags), r.MemSum, r.FileSum, r.Seconds)
	fmt.Fprintf(&b, "self-check: PASS, flags=0x%03x (%s), full check\n", uint32(r.Flags), r.Flags)
	return b.String()
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
