// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// signVariable holds an SM2 private key in the original engine's environment.
const signVariable = "VLLM_VQF_SIGN_PRIV"

// trustHome is where a box keeps the keys it trusts, for hints.
const trustHome = "/etc/windhover/trust.d"

// addKeyFileFlag adds the flag for the passphrase of encrypted files.
func addKeyFileFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "key-file", "", "file with the passphrase of encrypted files (default: the systemd credential vqf-key, else VLLM_VQF_KEY)")
}

// needPassphrase is ReadPassphrase for a verb that cannot do without.
func needPassphrase(file string) (*seal.Key, error) {
	k, err := appliance.ReadPassphrase(file)
	if err == nil && k == nil {
		err = refuse(seal.ErrPassphrase, "a passphrase is needed: give --key-file FILE, the systemd credential vqf-key, or VLLM_VQF_KEY")
	}
	return k, err
}

// readSigner reads the private key of --key, else the one in VLLM_VQF_SIGN_PRIV.
// It is nil where there is neither.
func readSigner(file string) (*seal.SigningKey, error) {
	if file != "" {
		return seal.ReadSigningKey(file)
	}
	if v := os.Getenv(signVariable); v != "" {
		k, err := seal.ParseSM2Private(v)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", signVariable, err)
		}
		return &seal.SigningKey{SM2: k}, nil
	}
	return nil, nil
}

// readInside reads the SM2 key of --sign, nil without one.
func readInside(cmd *cobra.Command, file string) (*seal.PrivateKey, error) {
	if file == "" {
		return nil, nil
	}
	k, err := seal.ReadSigningKey(file)
	if err != nil {
		return nil, err
	}
	if k.SM2 == nil {
		return nil, usagef(cmd, "--sign takes an SM2 key: sign with the minisign key afterwards, it signs beside the file")
	}
	return k.SM2, nil
}

// hint says on a terminal what comes next.
func hint(cmd *cobra.Command, format string, a ...any) {
	if isTerminal(cmd.ErrOrStderr()) && !wantJSON(cmd) {
		note(cmd, format, a...)
	}
}

// keyHint adds what a verb with --key-file takes to an error about a passphrase
// that is missing.
func keyHint(err error) error {
	if errors.Is(err, vqf.ErrKey) || errors.Is(err, control.PassphraseMissing) {
		return fmt.Errorf("%w; here: --key-file FILE", err)
	}
	return err
}
