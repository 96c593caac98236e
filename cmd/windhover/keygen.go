// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"windhover/vqf/seal"
)

func newKeygen() *cobra.Command {
	var kind, name string
	cmd := &cobra.Command{
		Use:   "keygen --type sm2|minisign|ed25519 [-o NAME]",
		Short: "Make a key that signs model files or documents of a fleet",
		Long: `Makes a pair of keys and writes two files, the private one for its owner alone:

  sm2       NAME.sm2.key, NAME.sm2.pub: signs inside a VQF file (windhover sign)
  minisign  NAME.minisign.key, NAME.minisign.pub: signs beside any file, and is one
            of the program minisign too, without a password
  ed25519   NAME.fleet.key, NAME.fleet.pub: signs documents of a fleet

Files that are there are never overwritten. A box trusts the public keys in
` + trustHome + `.`,
		Example: `  windhover keygen --type sm2 -o works
  windhover keygen --type minisign -o works`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			generate := map[string]func(string) (*seal.KeyPair, error){
				"sm2": seal.NewSM2Pair, "minisign": seal.NewMinisignPair, "ed25519": seal.NewFleetPair,
			}[kind]
			switch {
			case kind == "":
				return usagef(cmd, "--type is needed: sm2, minisign or ed25519")
			case generate == nil:
				return usagef(cmd, "no key type %q: use sm2, minisign or ed25519", kind)
			}
			if endsAsDirectory(name) {
				return usagef(cmd, "-o %s is a directory: give what the names of both files begin with", name)
			}
			if err := checkOut(name); err != nil {
				return err
			}
			p, err := generate(name)
			if err != nil {
				return err
			}
			if wantJSON(cmd) {
				return printJSON(cmd, struct {
					Type        string `json:"type"`
					Private     string `json:"private"`
					Public      string `json:"public"`
					Fingerprint string `json:"fingerprint"`
				}{kind, p.Private, p.Public, p.Fingerprint})
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "private      %s\npublic       %s\nfingerprint  %s\n", p.Private, p.Public, p.Fingerprint); err != nil {
				return err
			}
			hint(cmd, "Keep %s secret and keep a copy of it where it cannot get lost.", p.Private)
			if kind == "ed25519" {
				hint(cmd, "Sign a document:  windhover sign desired.json --key %s\nLet a box know:   copy %s to its %s", p.Private, p.Public, trustHome)
			} else {
				hint(cmd, "Sign a file:      windhover sign MODEL.vqf --key %s\nLet a box know:   copy %s to its %s", p.Private, p.Public, trustHome)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kind, "type", "", "sm2, minisign or ed25519")
	completes(cmd, "type", "sm2", "minisign", "ed25519")
	cmd.Flags().StringVarP(&name, "out", "o", "windhover", "what the names of both files begin with")
	return cmd
}
