// SPDX-License-Identifier: Apache-2.0

package testmodel

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"windhover/kernels"
	"windhover/vqf"
)

// With Config.Vision the model looks at pictures: a tower of two blocks, patches of
// 8 pixels, a token for 16 x 16 of them. What it sees changes its noise, not what
// it recites.
const (
	TokenVisionStart = TokenCount     // <|vision_start|>
	TokenVisionEnd   = TokenCount + 1 // <|vision_end|>
	TokenImage       = TokenCount + 2 // <|image_pad|>
	TokenVideo       = TokenCount + 3 // <|video_pad|>

	PlaceSide = 16    // pixels
	MinPixels = 1024  // of a picture: 4 tokens
	MaxPixels = 16384 // 64 tokens
)

var visionTokens = []string{"<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"}

// visionTemplate is Template with contents in parts.
const visionTemplate = `{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}` +
	`{%- if m.content is string %}{{ m.content }}{%- else %}{%- for p in m.content %}` +
	`{%- if p.type == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}` +
	`{%- elif p.type == 'video' %}{{ '<|vision_start|><|video_pad|><|vision_end|>' }}` +
	`{%- else %}{{ p.text }}{%- endif %}{%- endfor %}{%- endif %}{{ '<|im_end|>\n' }}{%- endfor %}` +
	`{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}` +
	`{%- if enable_thinking is defined and enable_thinking %}{{ '<think>' }}{%- endif %}{%- endif %}`

// seeing adds the tower to a header.
func seeing(a *vqf.Arch) {
	half := int32(a.HeadDim / 2)
	a.HasMRope, a.MRopeNSec, a.MRopeSections = 1, 3, [4]int32{half - 2*(half/3), half / 3, half / 3}
	a.HasVision, a.VisDepth, a.VisHidden, a.VisHeads, a.VisFFN = 1, 2, 32, 2, 48
	a.VisPatch, a.VisTemporal, a.VisMerge, a.VisInChan, a.VisMaxPos = PlaceSide/2, 2, 2, 3, 16
	a.VisOutDim, a.VisDSCount, a.VisDSIdx = a.Dim, 1, [4]int32{0}
	a.VisionStartID, a.VisionEndID, a.ImageTokenID, a.VideoTokenID = TokenVisionStart, TokenVisionEnd, TokenImage, TokenVideo
}

// tower is the source of the tower's values: noise that keeps things at unit size.
func (c Config) tower(name string, part int) []float32 {
	a := c.arch()
	seeing(&a)
	s, ok := a.Shape(name)
	if !ok {
		panic(fmt.Sprintf("testmodel: internal error: no tensor %q", name))
	}
	n := s.Rows * s.Cols
	switch {
	case strings.HasSuffix(name, "norm1_w"), strings.HasSuffix(name, "norm2_w"), strings.HasSuffix(name, "_nw"):
		return ones(n, c.noise(name, part, n, 0.2))
	case s.Rows == 1:
		return c.noise(name, part, n, 0.1)
	}
	return c.noise(name, part, n, 1/math.Sqrt(float64(s.Cols)))
}

// towerTensor makes the bytes of a tensor of the tower. Rows end in zeros where the
// file has more columns than the model.
func towerTensor(a *vqf.Arch, t vqf.Tensor, src Source) ([]byte, error) {
	s, ok := a.Shape(t.Name)
	if !ok {
		return nil, fmt.Errorf("not in the catalogue")
	}
	var out []byte
	for part := range s.Parts {
		x, err := src(t.Name, part)
		if err != nil {
			return nil, err
		}
		if t.Type == vqf.F32 {
			for _, v := range x {
				out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
			}
			continue
		}
		if t.Name == "v_q8_fc2" {
			for r := range s.Rows {
				clear(x[r*s.Cols:][a.VisFFN:s.Cols])
			}
		}
		blocks := make([]byte, len(x)/kernels.BlockLen*kernels.Q8BlockBytes)
		kernels.QuantizeQ8(blocks, x)
		out = append(out, blocks...)
	}
	return out, nil
}
