// SPDX-License-Identifier: Apache-2.0

package ota_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"windhover/control"
	"windhover/control/ota"
)

// section is what docs/PROTOCOL.md says of updates.
func section(t *testing.T) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(doc), "\n## Updates over the air\n")
	if !ok {
		t.Fatal("docs/PROTOCOL.md has no such section")
	}
	return text
}

// TestSignatureCovers_P74 signs by hand what the page says is signed.
func TestSignatureCovers_P74(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	role := ota.Role{Keys: []ota.Key{{Name: "works", Public: key.Public().(ed25519.PublicKey)}}, Threshold: 1}
	payload := `{"rev": 1,   "e": "é"}`
	signed := fmt.Sprintf("DSSEv1 %d %s %d %s", len(ota.TypeDesired), ota.TypeDesired, len(payload), payload)
	text := fmt.Sprintf(`{"payloadType":%q,"payload":%q,"signatures":[{"sig":%q}]}`, ota.TypeDesired,
		base64.StdEncoding.EncodeToString([]byte(payload)), base64.StdEncoding.EncodeToString(ed25519.Sign(key, []byte(signed))))
	e, err := ota.ParseEnvelope([]byte(text), ota.MaxDocument)
	if err != nil {
		t.Fatal(err)
	}
	if got, by, err := e.Open(ota.TypeDesired, role); err != nil || string(got) != payload || len(by) != 1 {
		t.Errorf("%s by %v, %v", got, by, err)
	}
}

// The document of the page is one that a device takes.
func TestProtocolExample(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(section(t), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d examples, want an envelope, a document and a report", len(blocks))
	}
	if r, err := control.DecodeReported([]byte(blocks[2][1])); err != nil || r.Rev != 42 || r.Models[0].Progress.Pct != 56 {
		t.Errorf("the report of the page reads as %+v, %v", r, err)
	}
	digests := 0
	payload := regexp.MustCompile("…").ReplaceAllStringFunc(blocks[1][1], func(string) string {
		digests++
		return fmt.Sprintf("%064x", digests)
	})
	d, err := ota.ParseDesired([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	if d.Rev != 42 || d.Models[0].Compat.RAMBytes != 1700000000 || d.Rollout.MaxBPS != 4000000 || d.Health.Probe != "golden-1" {
		t.Errorf("the example reads as %+v", d)
	}
	if !strings.Contains(blocks[0][1], ota.TypeDesired) {
		t.Error("the envelope of the page has another type")
	}
	for _, typ := range []string{ota.TypeIndex, ota.TypeRelease} {
		if !strings.Contains(section(t), typ) {
			t.Errorf("the page does not name %s", typ)
		}
	}
}

// Every attack of the page has codes that there are.
func TestProtocolAttacks(t *testing.T) {
	_, table, _ := strings.Cut(section(t), "| attack | code |")
	table, _, _ = strings.Cut(table, "\n\n")
	there := map[string]bool{}
	for _, c := range control.Codes() {
		there[c.Name] = true
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(table, -1) {
		if m[1] == "issued_at" {
			continue
		}
		named[m[1]] = true
		if !there[m[1]] {
			t.Errorf("the page names %s, which is no code", m[1])
		}
	}
	if len(named) != 10 {
		t.Errorf("the page names %d codes: %v", len(named), named)
	}
}
