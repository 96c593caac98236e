// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"windhover/vqf"
	"windhover/vqf/seal"
)

func newSign() *cobra.Command {
	var signer, out, id, keyFile, comment string
	cmd := &cobra.Command{
		Use:   "sign FILE --key KEY [-o OUT]",
		Short: "Sign a model file, inside or beside it, or a document of a fleet",
		Long: `Signs with the private key in the file KEY (see keygen), whose kind says how:

  SM2       inside a VQF file: the file is written anew, in place unless -o says
            where, and gets the 45-field header if it has the other. An encrypted
            file needs its passphrase, because the plain bytes are signed, and stays
            encrypted under it.
  minisign  beside any file: FILE.minisig, or what -o says.
  ed25519   a document of a fleet, which says what boxes are to run, or a release
            record: NAME.json goes into the envelope NAME.dsse, and an envelope gets
            one more signature, in place unless -o says where. docs/PROTOCOL.md says
            what may be in them.

Sign last: encrypting, decrypting or packing makes either kind of signature useless,
and signing inside the one beside.`,
		Example: `  windhover sign model.vqf --key works.sm2.key
  windhover sign model.vqf --key works.minisign.key --comment 'release 7'
  windhover sign desired.json --key works.fleet.key`,
		Args: models(1, cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			if strings.HasSuffix(signer, seal.SuffixFleetKey) {
				if err := idle(cmd, "with a fleet key", "id", "key-file", "comment"); err != nil {
					return err
				}
				return signDocument(cmd, a[0], out, signer)
			}
			k, err := readSigner(signer)
			if err != nil {
				return err
			}
			switch {
			case k == nil:
				return usagef(cmd, "--key is needed: windhover keygen makes one")
			case k.Minisign != nil:
				if err := idle(cmd, "with a minisign key", "id", "key-file"); err != nil {
					return err
				}
				return signBeside(cmd, k.Minisign, a[0], out, comment, signer)
			}
			if err := idle(cmd, "with an SM2 key", "comment"); err != nil {
				return err
			}
			if !seal.KnownID(id) {
				return usagef(cmd, "no reader accepts the signer id %q: use %s or %s", id, seal.IDKestrel, seal.IDShs)
			}
			if out == "" {
				out = a[0]
			}
			path, err := target(cmd, out, signer, passphraseFile(keyFile))
			if err != nil {
				return err
			}
			if err := signInside(cmd, k.SM2, id, a[0], path, keyFile); err != nil {
				return err
			}
			staleBeside(cmd, out, path)
			hint(cmd, "Check it with:    windhover verify --pub NAME%s %s", seal.SuffixSM2, out)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&signer, "key", "", "file with the private key (default: an SM2 key in VLLM_VQF_SIGN_PRIV)")
	f.StringVarP(&out, "out", "o", "", "file to write (default: FILE itself with an SM2 key, FILE.minisig with a minisign key, NAME.dsse for NAME.json)")
	f.StringVar(&id, "id", seal.IDKestrel, "signer id, for readers that want "+seal.IDShs)
	completes(cmd, "id", seal.IDKestrel, seal.IDShs)
	f.StringVar(&comment, "comment", "", "line that a minisign signature covers (default: time and name of the file)")
	addKeyFileFlag(cmd, &keyFile)
	addProgressFlag(cmd)
	return cmd
}

// signInside writes the file anew with an SM2 signature in its header.
func signInside(cmd *cobra.Command, k *seal.PrivateKey, id, path, out, keyFile string) error {
	opt := vqf.ResealOptions{Sign: k, SignID: id}
	flags, err := lockedBy(path)
	if err != nil {
		return err
	}
	encrypted := flags&vqf.FlagEnc != 0
	if encrypted || keyFile != "" { // of a plain file it is a mistake only if there is none
		key, err := needPassphrase(keyFile)
		if err != nil {
			return err
		}
		if encrypted {
			opt.From, opt.To = key, key
		}
	}
	return reseal(cmd, "signing", path, out, opt)
}

// staleBeside says which signatures beside a file, that is new under its names,
// are of what it was.
func staleBeside(cmd *cobra.Command, names ...string) {
	for _, name := range slices.Compact(names) {
		if _, err := os.Stat(name + seal.MinisignSuffix); err == nil {
			note(cmd, "windhover: %s%s is of the file as it was and no longer fits: sign with that key again", name, seal.MinisignSuffix)
		}
	}
}

// lockedBy gives the flags of a VQF file; the error is that it is none, or cannot
// be read.
func lockedBy(path string) (vqf.Flags, error) {
	info, err := vqf.Inspect(path)
	if err != nil {
		return 0, err
	}
	if info.Header.Version == 0 {
		return 0, info.Refused
	}
	return info.Header.Flags, nil
}
