// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// verifyDoc is what verify prints with --json.
type verifyDoc struct {
	*vqf.VerifyReport
	OK       bool           `json:"ok"`
	Computed string         `json:"computed"` // checksum, or tag of an encrypted file
	Stored   string         `json:"stored"`
	Match    string         `json:"match"` // yes, no, "no checksum", unknown
	Minisign minisignReport `json:"minisign"`
	// The names of both before there were tags.
	StoredSum   string     `json:"checksum_stored"`
	ComputedSum string     `json:"checksum_computed"`
	Error       *jsonError `json:"error,omitempty"`
}

func newVerify() *cobra.Command {
	var keyFile, dir, pub string
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check everything in a VQF file that can be checked without running it",
		Long: `Reads the whole file once and prints a line for each check: magic, version,
header, size, flags, the offsets and their chain, the bytes of every tensor by
formula and by architecture, padding, embedded tokenizer, layouts, checksum or tag,
signature; then the numbers in the header, what was computed, what is stored. A
stored checksum of 0 means that the writer made none. If there is FILE.minisig, the
file is read once more for it.

An encrypted file needs its passphrase. With --trust or --pub, a signature by one of
those keys, inside or beside the file, is required; without, one that is there is
checked against the key it names, which says nothing about who made it.

Exits with 1 when a check fails.`,
		Example: `  windhover verify model.vqf
  windhover verify --json model.vqf
  windhover verify --key-file secret.txt --trust ` + trustHome + ` model.vqf
  windhover verify --pub works.sm2.pub model.vqf`,
		Args: models(1, cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			key, err := appliance.ReadPassphrase(keyFile)
			if err != nil {
				return err
			}
			trust, err := appliance.ReadTrust(dir, pub)
			if err != nil {
				return err
			}
			update, end := progress(cmd, "verifying")
			defer end()
			beside, badMinisign := checkMinisign(cmd.Context(), a[0], trust, update)
			inside := trust
			if beside.Trusted && !knowsSigner(a[0], trust) {
				// One signature by a trusted key is enough: that the other is by a
				// stranger is a remark then.
				inside = &seal.Trust{Minisign: trust.Minisign}
			}
			report, err := vqf.Verify(cmd.Context(), a[0], vqf.VerifyOptions{Key: key, Trust: inside}, update)
			if err != nil {
				return err
			}
			end()
			switch {
			case badMinisign != nil, beside.Trusted:
				report.Add("minisign", vqf.StatusOK, beside.note(), badMinisign)
			case beside.Present:
				report.Add("minisign", vqf.StatusNote, beside.note(), nil)
			}
			if dir != "" || pub != "" {
				requireSignature(report, &beside, trust)
			}
			return printVerify(cmd, report, beside)
		},
	}
	addKeyFileFlag(cmd, &keyFile)
	cmd.Flags().StringVar(&dir, "trust", "", "directory of public keys one of which must have signed the file")
	cmd.Flags().StringVar(&pub, "pub", "", "file with the public key that must have signed the file")
	addProgressFlag(cmd)
	return cmd
}

// knowsSigner says whether the key that the file names as its signer is trusted.
func knowsSigner(path string, trust *seal.Trust) bool {
	info, err := vqf.Inspect(path)
	if err != nil {
		return false // Verify says why
	}
	_, ok := trust.FindSM2(seal.PublicKey(info.Header.Sig.Pub))
	return ok
}

// requireSignature adds the line that says whether somebody who is trusted
// signed the file, in it or beside it.
func requireSignature(r *vqf.VerifyReport, beside *minisignReport, trust *seal.Trust) {
	switch err := r.RequireSignature(); {
	case err == nil:
		r.Add("signed", vqf.StatusOK, fmt.Sprintf("inside, by %s (%s)", r.Signature.Signer, r.Signature.Fingerprint), nil)
	case beside.Trusted:
		r.Add("signed", vqf.StatusOK, "beside, by "+beside.Signer, nil)
	case beside.Present && !r.Signature.Present && r.OK():
		r.Add("signed", "", "", refuse(vqf.ErrUntrusted, "%s%s: made by minisign key %s, which is none of the %d trusted", r.Path, seal.MinisignSuffix, beside.Key, len(trust.Minisign)))
	default:
		r.Add("signed", "", "", err)
	}
}

func printVerify(cmd *cobra.Command, report *vqf.VerifyReport, beside minisignReport) error {
	if !wantJSON(cmd) {
		if _, err := fmt.Fprint(cmd.OutOrStdout(), report); err != nil {
			return err
		}
		return keyHint(report.Err())
	}
	d := verifyDoc{VerifyReport: report, OK: report.OK(), Minisign: beside,
		StoredSum: hex64(report.Stored), ComputedSum: hex64(report.Computed), Error: newJSONError(keyHint(report.Err()))}
	d.Computed, d.Stored, d.Match = report.Sums()
	err := printJSON(cmd, d)
	if err == nil && !report.OK() {
		err = shownError{keyHint(report.Err())}
	}
	return err
}

func hex64(n uint64) string { return fmt.Sprintf("0x%016x", n) }
