// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"windhover/control"
	"windhover/control/ota"
	"windhover/vqf"
)

// envelopeEnd ends the name of a signed document.
const envelopeEnd = ".dsse"

// signDocument puts a document of a fleet into an envelope, or one more signature under
// one that is in its envelope already.
func signDocument(cmd *cobra.Command, path, out, signer string) error {
	keys, err := readFleetSigners(cmd, []string{signer})
	if err != nil {
		return err
	}
	data, err := readDocument(path)
	if err != nil {
		return err
	}
	e, about, err := envelopeOf(data)
	if err != nil {
		return noDocument(path, signer, err)
	}
	before := len(e.Signatures)
	e.Add(keys[0])
	if out == "" && before > 0 {
		out = path
	}
	if out == "" {
		out = strings.TrimSuffix(path, ".json") + envelopeEnd
	}
	reads := []string{signer}
	if before == 0 {
		reads = append(reads, path) // the document itself would be gone
	}
	to, err := target(cmd, out, reads...)
	if err != nil {
		return err
	}
	signed := e.Encode()
	if len(signed) > ota.MaxDocument {
		return fmt.Errorf("%s has %d bytes with its signatures, and a message takes %d: name fewer models", path, len(signed), ota.MaxDocument)
	}
	if err := vqf.ReplaceFile(to, signed); err != nil {
		return err
	}
	id := ota.KeyID(keys[0].Public().(ed25519.PublicKey))
	if wantJSON(cmd) {
		return printJSON(cmd, struct {
			Output     string `json:"output"`
			Type       string `json:"type"`
			Key        string `json:"key"`
			Signatures int    `json:"signatures"`
			Bytes      int    `json:"bytes"`
		}{out, e.PayloadType, id, len(e.Signatures), len(signed)})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: %s, key %s, %s, %d bytes\n", out, about, id, several(len(e.Signatures), "signature"), len(signed))
	return err
}

// noDocument is the error of a fleet key's file that it does not sign.
func noDocument(path, signer string, err error) error {
	code, why := control.BadRequest, err.Error()
	var coded *control.Error
	if errors.As(err, &coded) {
		code, why = coded.Code, coded.Message
	}
	return control.Errorf(code, "%s is no document of a fleet, and %s is a fleet key, which signs documents of a fleet and no model files: %s", path, signer, why)
}

// readDocument reads a small file.
func readDocument(path string) ([]byte, error) {
	f, size, err := openPlain(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // was only read
	if size > ota.MaxDocument {
		return []byte{}, nil // nothing that could be signed; the caller says so
	}
	return io.ReadAll(io.LimitReader(f, ota.MaxDocument))
}

// envelopeOf finds out what a document is, holds it to its rules, so that no box refuses
// what was signed, and returns its envelope with a line about it.
func envelopeOf(data []byte) (*ota.Envelope, string, error) {
	var is struct {
		PayloadType *string `json:"payloadType"`
		Rev         *int64  `json:"rev"`
		Release     *int64  `json:"release"`
	}
	if err := json.Unmarshal(data, &is); err != nil {
		return nil, "", errors.New("it is not JSON")
	}
	e := &ota.Envelope{Payload: data}
	switch {
	case is.PayloadType != nil:
		var err error
		if e, err = ota.ParseEnvelope(data, ota.MaxDocument); err != nil {
			return nil, "", err
		}
	case is.Rev != nil:
		e.PayloadType = ota.TypeDesired
	case is.Release != nil:
		e.PayloadType = ota.TypeRelease
	}
	switch e.PayloadType {
	case ota.TypeDesired:
		d, err := ota.ParseDesired(e.Payload)
		if err != nil {
			return nil, "", err
		}
		return e, fmt.Sprintf("desired document %d for %s, until %s", d.Rev, d.Target, d.ExpiresAt.UTC().Format("2006-01-02T15:04:05Z")), nil
	case ota.TypeRelease:
		r, err := ota.ParseRelease(e.Payload)
		if err != nil {
			return nil, "", err
		}
		return e, fmt.Sprintf("release %d of %s, version %s", r.Release, r.Name, r.Version), nil
	}
	return nil, "", errors.New("it is neither a desired document nor a release record nor an envelope with one")
}
