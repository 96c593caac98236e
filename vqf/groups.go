// SPDX-License-Identifier: Apache-2.0

package vqf

import "strings"

// GroupSum is how many entries of a group there are and what they weigh,
// without padding.
type GroupSum struct {
	Group string `json:"group"`
	Count int    `json:"count"`
	Bytes uint64 `json:"bytes"`
}

// groups are the names GroupSums uses, in file order.
var groups = [...]string{
	"embedding", "norms", "router", "q8_*", "q4_*", "x8_*",
	"v_q8_*", "v small F32", "v_merger_*", "v_ds_*", "embedded", "unknown",
}

// GroupSums adds up the directory by kind of tensor; groups without an entry
// are left out.
func GroupSums(ts []Tensor) []GroupSum {
	sums := make(map[string]*GroupSum)
	for _, t := range ts {
		g := groupOf(t.Name)
		if sums[g] == nil {
			sums[g] = &GroupSum{Group: g}
		}
		sums[g].Count++
		sums[g].Bytes += t.Bytes
	}
	var out []GroupSum
	for _, g := range groups {
		if s := sums[g]; s != nil {
			out = append(out, *s)
		}
	}
	return out
}

func groupOf(name string) string {
	switch name {
	case "token_embed":
		return "embedding"
	case "final_norm", "attn_norm", "ffn_norm", "q_norm", "k_norm":
		return "norms"
	case "moe_router":
		return "router"
	case NameTokenizer, NameMeta:
		return "embedded"
	}
	for _, prefix := range []string{"q8_", "q4_", "x8_", "v_q8_", "v_merger_", "v_ds_"} {
		if strings.HasPrefix(name, prefix) {
			return prefix + "*"
		}
	}
	if strings.HasPrefix(name, "v_") {
		return "v small F32"
	}
	return "unknown"
}
