// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"windhover/vqf"
	"windhover/vqf/seal"
)

func newEncrypt() *cobra.Command {
	return newCipher(true, &cobra.Command{
		Use:   "encrypt FILE -o OUT --key-file SECRET",
		Short: "Encrypt the weights of a VQF file",
		Long: `Writes the file with its data encrypted under a passphrase (SM4-CTR) and a tag
(HMAC-SM3) in place of the checksum. Header and directory stay readable: size, names
and shapes can be seen, no weight, no tokenizer. OUT may be FILE.

The passphrase is the content of the file SECRET but for one newline at its end;
without --key-file it is the systemd credential vqf-key, else the environment
variable VLLM_VQF_KEY, which other programs of the same user can read. The format
does not stretch it: let a machine draw it (see the example).

A signature inside does not survive: --sign makes a new one, --drop-signature does
without.`,
		Example: `  head -c 32 /dev/urandom | base64 > secret.txt && chmod 600 secret.txt
  windhover encrypt model.vqf -o model.enc.vqf --key-file secret.txt --sign works.sm2.key`,
	})
}

func newDecrypt() *cobra.Command {
	return newCipher(false, &cobra.Command{
		Use:   "decrypt FILE -o OUT --key-file SECRET",
		Short: "Decrypt a VQF file",
		Long: `Writes an encrypted file as a plain one, with a checksum. The tag is compared
before anything is written: of a file that was changed, or with another passphrase,
nothing comes out. OUT may be FILE. For the passphrase and signatures see
windhover encrypt --help.`,
		Example: `  windhover decrypt model.enc.vqf -o model.vqf --key-file secret.txt`,
	})
}

// newCipher is either verb.
func newCipher(encrypt bool, cmd *cobra.Command) *cobra.Command {
	var out, keyFile, signer string
	var drop bool
	cmd.Args = models(1, cobra.ExactArgs(1))
	cmd.RunE = func(cmd *cobra.Command, a []string) error {
		if out == "" {
			return usagef(cmd, "-o is needed, which may name the file itself")
		}
		if drop && signer != "" {
			return usagef(cmd, "--sign and --drop-signature are two answers: give one")
		}
		path, err := target(cmd, out, passphraseFile(keyFile), signer)
		if err != nil {
			return err
		}
		flags, err := lockedBy(a[0])
		switch was := flags&vqf.FlagEnc != 0; {
		case err != nil:
			return err
		case was && encrypt:
			return refuse(vqf.ErrUnsupported, "%s is encrypted already: decrypt it first if it is to have another passphrase", a[0])
		case !was && !encrypt:
			return refuse(vqf.ErrUnsupported, "%s is not encrypted: there is nothing to decrypt", a[0])
		case flags&vqf.FlagSigned != 0 && signer == "" && !drop:
			return refuse(vqf.ErrUnsupported, "%s is signed, and the signature does not hold for the new file: give --sign KEY, or --drop-signature", a[0])
		}
		opt := vqf.ResealOptions{DropSignature: drop}
		what, key := "encrypting", &opt.To
		if !encrypt {
			what, key = "decrypting", &opt.From
		}
		if *key, err = needPassphrase(keyFile); err != nil {
			return err
		}
		if opt.Sign, err = readInside(cmd, signer); err != nil {
			return err
		}
		return reseal(cmd, what, a[0], path, opt)
	}
	f := cmd.Flags()
	f.StringVarP(&out, "out", "o", "", "file to write")
	f.StringVar(&signer, "sign", "", "file with the SM2 private key that signs the result")
	f.BoolVar(&drop, "drop-signature", false, "let a signature inside go")
	addKeyFileFlag(cmd, &keyFile)
	addProgressFlag(cmd)
	return cmd
}

// reseal runs vqf.Reseal and prints what came of it.
func reseal(cmd *cobra.Command, what, path, out string, opt vqf.ResealOptions) error {
	start := time.Now()
	update, end := progress(cmd, what)
	defer end()
	// The file is checked, copied and read back: three times its size.
	res, err := vqf.Reseal(cmd.Context(), path, out, opt, func(done, total int64) { update(done/3, total/3) })
	if err != nil {
		return err
	}
	end()
	d := struct {
		Output      string  `json:"output"`
		Bytes       int64   `json:"bytes"`
		Encrypted   bool    `json:"encrypted"`
		Signed      bool    `json:"signed"`
		ID          string  `json:"id,omitempty"`
		Fingerprint string  `json:"fingerprint,omitempty"`
		SHA256      string  `json:"sha256"`
		Seconds     float64 `json:"seconds"`
	}{Output: out, Bytes: res.Size, Encrypted: opt.To != nil, Signed: opt.Sign != nil, SHA256: res.SHA256, Seconds: time.Since(start).Seconds()}
	state := "plain"
	if d.Encrypted {
		state = "encrypted"
	}
	if d.Signed {
		if d.ID = opt.SignID; d.ID == "" {
			d.ID = seal.IDKestrel
		}
		d.Fingerprint = opt.Sign.Public().Fingerprint()
		state += ", signed by " + d.Fingerprint
	}
	if wantJSON(cmd) {
		return printJSON(cmd, d)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: %s, %s, %.2f seconds, %.0f MB/s\n", out, mib(res.Size), state, d.Seconds, float64(res.Size)/1e6/d.Seconds)
	return err
}
