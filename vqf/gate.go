// SPDX-License-Identifier: Apache-2.0

package vqf

// checkFlags is the gate every load passes, docs/FORMAT.md section 4.2: no
// unknown bit, no flag that contradicts the directory, no layout that is not
// one of section 6.
func checkFlags(h *Header, ts []Tensor) error {
	bad := func(format string, args ...any) *FormatError { return badField("flags", 8, format, args...) }
	if unknown := h.Flags &^ knownFlags; unknown != 0 {
		return bad("unknown bits 0x%x: written by a newer converter", uint32(unknown)).as(ErrUnsupported)
	}
	names := index(ts)
	_, q8 := names["q8_q"]
	_, q4 := names["q4_q"]
	has := func(f Flags) bool { return h.Flags&f != 0 }
	switch {
	case has(FlagQ8BufQ4) && !q8:
		return bad("Q8BUF_Q4 is set, but there are no q8_* tensors")
	case has(FlagG256) && !q8:
		return bad("G256 is set, but there are no q8_* tensors")
	case has(FlagQ8BufQ4) && has(FlagQ8x8):
		return bad("Q8BUF_Q4 and Q8_8X8 are set, but Q4 codes in int8 are always row-major")
	case has(FlagQ8BufQ4) && has(FlagG256):
		return bad("Q8BUF_Q4 and G256 are set, but one tensor cannot be both")
	case has(FlagVision) && !hasVision(names):
		return bad("VISION is set, but there are no vision tensors")
	}
	return checkTiling(h, q8, q4)
}

// checkTiling refuses layout flags that the geometry cannot carry: an original
// writer leaves some matrices row-major then, and the flag lies about them
// (docs/FORMAT.md section 6.10).
func checkTiling(h *Header, q8, q4 bool) error {
	if q8 && h.Flags&FlagQ8x8 != 0 {
		if h.Arch.VocabSize%8 != 0 {
			return badField("flags", 8, "Q8_8X8 with a vocabulary of %d, which is not a multiple of 8: q8_lm is partly row-major in such files (hazard 1); convert the model again", h.Arch.VocabSize).as(ErrUnsupported)
		}
		if err := q8Gate(&h.Arch, Layout8x8, true); err != nil {
			return badField("flags", 8, "Q8_8X8 is set, but %v", err)
		}
	}
	if q4 && h.Flags&FlagQ4x4 != 0 {
		if err := q4Gate(&h.Arch); err != nil {
			return badField("flags", 8, "Q4_4X4 is set, but %v", err)
		}
	}
	return nil
}

// checkStrict is the strict setting of the gate: the file's layout bits equal
// the engine's.
func checkStrict(file, engine Flags) error {
	if file&LayoutMask == engine&LayoutMask {
		return nil
	}
	return &MismatchError{File: file & LayoutMask, Engine: engine & LayoutMask}
}
