// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A shell completes the values of flags that take a few, and no names of files there.
func TestFlagsCompleteTheirValues(t *testing.T) {
	modes, residencies := "auto q4 q8 dual q4i g256", "auto full experts layered"
	for flag, want := range map[string]string{
		"convert --mode": modes, "convert --q8-layout": "8x8 4x4 row", "convert --header": "auto 41 45", "convert --sign-id": "vllm-kestrel-vqf vllm-shs-vqf",
		"job convert --mode": modes, "job convert --q8-layout": "8x8 4x4 row", "job convert --header": "auto 41 45",
		"run --family": "q4 q8", "run --kv": "f16 int8", "run --residency": residencies, "run --tool-choice": "auto none required",
		"embed --family": "q4 q8", "embed --kv": "f16 int8", "embed --residency": residencies,
		"eval --family": "q4 q8", "eval --kv": "f16 int8", "eval --residency": residencies, "eval --activations": "int8 f32",
		"send --tool-choice": "auto none required", "keygen --type": "sm2 minisign ed25519", "sign --id": "vllm-kestrel-vqf vllm-shs-vqf",
		"serve --log-format": "text json", "serve --log-level": "debug info warn error",
		"bench --mode": "q8 q4 dual", "bench --kv": "f16 int8",
	} {
		var out, stderr bytes.Buffer
		if code := run(t.Context(), append([]string{"__complete"}, append(strings.Fields(flag), "")...), strings.NewReader(""), &out, &stderr); code != exitOK {
			t.Fatalf("%s: exit code %d: %s", flag, code, stderr.String())
		}
		got := strings.Fields(out.String())
		if n := len(got) - 1; n < 0 || !slices.Equal(got[:n], strings.Fields(want)) || got[n] != ":36" { // the order, and no files
			t.Errorf("%s: got %q, want %q and :36", flag, got, want)
		}
	}
}

// A flag whose help lists words completes words, all of which its help has, but for the
// ids of signers.
func TestFlagsThatListValuesCompleteThem(t *testing.T) {
	lists := regexp.MustCompile(`^([\w ]+: )?[a-z0-9]+(, or|,| or) [a-z0-9]+[, ]`)
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			complete, has := cmd.GetFlagCompletionFunc(f.Name)
			if !has {
				if f.Value.Type() == "string" && lists.MatchString(f.Usage+" ") && !strings.Contains(f.Usage, "such as") {
					t.Errorf("%s --%s: %q completes no values", cmd.CommandPath(), f.Name, f.Usage)
				}
				return
			}
			seen++
			values, _ := complete(cmd, nil, "")
			for _, v := range values {
				if !strings.Contains(f.Usage, v) && !strings.HasSuffix(f.Name, "id") && f.Name != "shape" {
					t.Errorf("%s --%s completes %q, and its help says %q", cmd.CommandPath(), f.Name, v, f.Usage)
				}
			}
		})
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot())
	if seen < 20 {
		t.Errorf("%d flags complete values", seen)
	}
}
