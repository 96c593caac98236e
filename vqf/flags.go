// SPDX-License-Identifier: Apache-2.0

package vqf

import (
	"fmt"
	"strings"
)

// Flags is the header's flag word, docs/FORMAT.md section 4.
type Flags uint32

// The flag bits. The first five describe how bytes are laid out.
const (
	FlagQ8x8    Flags = 1 << iota // text q8_* are 8x8 tiles
	FlagQ4x4                      // q4_* are 4x4 interleaved
	FlagX8                        // x8_* copies present
	FlagQ8BufQ4                   // q8_* hold Q4 codes as int8, row-major
	FlagG256                      // q8_* scales shared by 256 elements
	FlagEmbF16                    // token_embed is F16, else F32
	FlagVision                    // vision tensors present
	FlagEnc                       // data area encrypted
	FlagSigned                    // signature block filled
	FlagMoE                       // mixture of experts

	// LayoutMask is the part of the flags that the strict gate compares.
	LayoutMask = FlagQ8x8 | FlagQ4x4 | FlagX8 | FlagQ8BufQ4 | FlagG256
	knownFlags = FlagMoE<<1 - 1
)

var flagNames = [...]string{"Q8_8X8", "Q4_4X4", "X8", "Q8BUF_Q4", "G256", "EMB_F16", "VISION", "ENC", "SIGNED", "MOE"}

// Names returns the names of the set bits, lowest first; a bit without a name
// reads "BIT12".
func (f Flags) Names() []string {
	names := []string{}
	for bit := range 32 {
		switch {
		case f>>bit&1 == 0:
		case bit < len(flagNames):
			names = append(names, flagNames[bit])
		default:
			names = append(names, fmt.Sprintf("BIT%d", bit))
		}
	}
	return names
}

// String joins the names with "|"; no flags read "0".
func (f Flags) String() string {
	if f == 0 {
		return "0"
	}
	return strings.Join(f.Names(), "|")
}

// ParseFlags reads what String writes, such as "Q8_8X8|Q4_4X4". Spaces around
// names are allowed; an empty text is no flag at all.
func ParseFlags(s string) (Flags, error) {
	var f Flags
	if s = strings.TrimSpace(s); s == "" || s == "0" {
		return 0, nil
	}
next:
	for _, part := range strings.Split(s, "|") {
		part = strings.TrimSpace(part)
		for bit, name := range flagNames {
			if part == name {
				f |= 1 << bit
				continue next
			}
		}
		return 0, fmt.Errorf("vqf: unknown flag %q in %q: use %s", part, s, strings.Join(flagNames[:], "|"))
	}
	return f, nil
}
