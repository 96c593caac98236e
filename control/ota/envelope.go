// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"windhover/control"
)

// Payload types of envelopes.
const (
	TypeDesired = "application/vnd.windhover.desired+json"
	TypeRelease = "application/vnd.windhover.release+json"
	TypeIndex   = "application/vnd.windhover.index+json"
)

// Bounds of what is read before anything in it is believed.
const (
	MaxDocument   = 120 << 10 // of an envelope in a message, in bytes
	MaxIndex      = 16 << 20  // of an envelope with an index, in bytes
	maxSignatures = 32
)

// Envelope is a payload with signatures (DSSE). A signature covers the type and the
// bytes of the payload, so that nothing depends on how JSON is written.
type Envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     []byte      `json:"payload"` // base64 in JSON
	Signatures  []Signature `json:"signatures"`
}

// Signature is one of them. The id only says which key to try.
type Signature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"` // base64 in JSON
}

// ParseEnvelope reads an envelope of at most limit bytes. Nothing in it may be
// believed before Open. The error is control.BadRequest.
func ParseEnvelope(data []byte, limit int) (*Envelope, error) {
	if len(data) > limit {
		return nil, control.Errorf(control.PayloadTooLarge, "the envelope has %d bytes, the limit is %d", len(data), limit)
	}
	e := new(Envelope)
	if err := decode(data, e, "envelope"); err != nil {
		return nil, err
	}
	if len(e.Signatures) > maxSignatures {
		return nil, control.Errorf(control.BadRequest, "the envelope has %d signatures, the limit is %d", len(e.Signatures), maxSignatures)
	}
	return e, nil
}

// Sign makes an envelope. Several keys give several signatures.
func Sign(typ string, payload []byte, keys ...ed25519.PrivateKey) *Envelope {
	e := &Envelope{PayloadType: typ, Payload: payload}
	for _, k := range keys {
		e.Add(k)
	}
	return e
}

// Add signs once more; a signature that says it is of the same key is replaced.
func (e *Envelope) Add(k ed25519.PrivateKey) {
	id := KeyID(k.Public().(ed25519.PublicKey))
	e.Signatures = slices.DeleteFunc(e.Signatures, func(s Signature) bool { return s.KeyID == id })
	e.Signatures = append(e.Signatures, Signature{KeyID: id, Sig: ed25519.Sign(k, pae(e.PayloadType, e.Payload))})
}

// Encode is the envelope as it is sent and stored, one line.
func (e *Envelope) Encode() []byte { return encode(e) }

// Open returns the payload if enough keys of the role signed it as one of the type,
// with the names of those keys. It is the only way to a payload that is believed.
//
// The error is control.SignatureMissing (none, or fewer good ones than the threshold),
// control.SignatureInvalid (one names a known key that did not make it),
// control.KeyUnknown (no key of the role signed), control.MixAndMatch (signed as
// something else) or control.Unsupported (as something unknown).
func (e *Envelope) Open(typ string, r Role) (payload []byte, signers []string, err error) {
	switch e.PayloadType {
	case typ:
	case TypeDesired, TypeRelease, TypeIndex:
		return nil, nil, control.Errorf(control.MixAndMatch, "the envelope holds %s where %s belongs", e.PayloadType, typ)
	default:
		return nil, nil, control.Errorf(control.Unsupported, "the envelope holds an unknown type where %s belongs", typ)
	}
	if len(e.Signatures) == 0 {
		return nil, nil, control.Errorf(control.SignatureMissing, "the envelope has no signature: sign it with a fleet key")
	}
	good, err := r.count(pae(typ, e.Payload), e.Signatures)
	if err != nil {
		return nil, nil, err
	}
	switch need := max(r.Threshold, 1); { // no configuration makes signatures needless
	case len(good) == 0:
		return nil, nil, control.Errorf(control.KeyUnknown, "no key that this device trusts for %s has signed", typ)
	case len(good) < need:
		return nil, nil, control.Errorf(control.SignatureMissing, "trusted keys that have signed: %d, needed: %d", len(good), need)
	}
	return e.Payload, good, nil
}

// pae is what a signature covers: the pre-authentication encoding of DSSE.
func pae(typ string, payload []byte) []byte {
	b := make([]byte, 0, len(payload)+len(typ)+64)
	b = append(b, "DSSEv1 "...)
	b = strconv.AppendInt(b, int64(len(typ)), 10)
	b = append(b, ' ')
	b = append(b, typ...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, ' ')
	return append(b, payload...)
}

// decode reads one JSON value and nothing behind it.
func decode(data []byte, v any, what string) error {
	if !utf8.Valid(data) {
		return control.Errorf(control.BadRequest, "the %s is not UTF-8", what)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(v); err != nil {
		return control.Errorf(control.BadRequest, "the %s is not what it should be: %v", what, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return control.Errorf(control.BadRequest, "there is something behind the %s", what)
	}
	return nil
}

// encode writes a value of this package, which always can be.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("ota: internal error: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// KeyID is how an envelope names a key: the first 8 bytes in hex, as keygen shows
// them.
func KeyID(k ed25519.PublicKey) string { return hex.EncodeToString(k[:8]) }
