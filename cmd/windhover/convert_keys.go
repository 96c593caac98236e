// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"windhover/vqf/convert"
	"windhover/vqf/seal"
)

// convertKeys are the flags of convert that encrypt and sign its result.
type convertKeys struct {
	encrypt       bool
	file          string
	signer, signs string
}

func (k *convertKeys) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&k.encrypt, "encrypt", false, "encrypt the result; the passphrase is that of --key-file")
	addKeyFileFlag(cmd, &k.file)
	f.StringVar(&k.signer, "sign", "", "file with the SM2 private key that signs the result")
	f.StringVar(&k.signs, "sign-id", "", "signer id, for readers that want "+seal.IDShs)
	completes(cmd, "sign-id", seal.IDKestrel, seal.IDShs)
}

// read puts the keys into the options.
func (k *convertKeys) read(cmd *cobra.Command, opt *convert.Options) (err error) {
	if k.signer == "" {
		err = idle(cmd, "without --sign", "sign-id")
	}
	if err == nil && !k.encrypt {
		err = idle(cmd, "without --encrypt", "key-file")
	}
	if err != nil {
		return err
	}
	if k.encrypt {
		if opt.Encrypt, err = needPassphrase(k.file); err != nil {
			return err
		}
	}
	opt.Sign, err = readInside(cmd, k.signer)
	opt.SignID = k.signs
	return err
}
