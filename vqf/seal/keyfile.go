// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Ends of the names of key files. What a key may sign goes by the name, because
// an SM2 and a fleet key look alike.
const (
	SuffixSM2         = ".sm2.pub"
	SuffixSM2Key      = ".sm2.key"
	SuffixMinisign    = ".minisign.pub"
	SuffixMinisignKey = ".minisign.key"
	SuffixFleet       = ".fleet.pub"
	SuffixFleetKey    = ".fleet.key"
)

// What a key file of a fleet says of itself in a comment, because it looks like an
// SM2 key and a name is soon another one. Older files say nothing, and SM2 keys are
// one line alone, as the environment of the original engine takes them.
const (
	marker       = "# windhover key: "
	markFleetKey = "fleet private"
	markFleet    = "fleet public"
)

// markOf is the kind that a key file says it is of, empty if it says nothing.
func markOf(text []byte) string {
	for line := range strings.Lines(string(text)) {
		if kind, ok := strings.CutPrefix(strings.TrimSpace(line), marker); ok {
			return kind
		}
	}
	return ""
}

// marked is the content of a key file of one line.
func marked(kind, line string) []byte { return []byte(marker + kind + "\n" + line + "\n") }

// KeyPair is what a key generator makes: two files.
type KeyPair struct {
	Private, Public string // paths
	Fingerprint     string
}

// NewSM2Pair makes an SM2 key and writes NAME.sm2.key and NAME.sm2.pub, one line
// of hex each and nothing else, so that $(cat NAME.sm2.key) is the key. The private private one is for its owner alone; existing files are an
// error.
func NewSM2Pair(name string) (*KeyPair, error) {
	k, err := GenerateSM2()
	if err != nil {
		return nil, err
	}
	raw, err := k.key.ECDH()
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return writePair(name+SuffixSM2Key, []byte(hex.EncodeToString(raw.Bytes())+"\n"), name+SuffixSM2, []byte(k.pub.String()+"\n"), k.pub.Fingerprint())
}

// NewMinisignPair makes a minisign key without a password and writes
// NAME.minisign.key and NAME.minisign.pub, which the program minisign takes too.
func NewMinisignPair(name string) (*KeyPair, error) {
	k, err := GenerateMinisign()
	if err != nil {
		return nil, err
	}
	return writePair(name+SuffixMinisignKey, k.file(), name+SuffixMinisign, k.Public().File(), k.Public().Name())
}

// NewFleetPair makes an Ed25519 key for documents of a fleet and writes
// NAME.fleet.key (the seed) and NAME.fleet.pub, one line of hex each behind a
// comment that says what it is.
func NewFleetPair(name string) (*KeyPair, error) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	text := hex.EncodeToString(pub)
	return writePair(name+SuffixFleetKey, marked(markFleetKey, hex.EncodeToString(key.Seed())), name+SuffixFleet, marked(markFleet, text), text[:16])
}

// writePair writes both files or none.
func writePair(private string, secret []byte, public string, open []byte, fingerprint string) (*KeyPair, error) {
	defer clear(secret)
	if err := writeNew(private, secret, 0o600); err != nil {
		return nil, err
	}
	if err := writeNew(public, open, 0o644); err != nil {
		return nil, errors.Join(err, os.Remove(private))
	}
	return &KeyPair{Private: private, Public: public, Fingerprint: fingerprint}, nil
}

// writeNew writes a file that does not exist yet.
func writeNew(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and a key is never overwritten: take another name, or move it away: %w", path, fs.ErrExist)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// SigningKey is a private key of one of two kinds; the other is nil.
type SigningKey struct {
	SM2      *PrivateKey
	Minisign *MinisignPrivate
}

// ReadSigningKey reads a file with an SM2 private key (one line of 64 hex digits)
// or a minisign secret key; which, its content says. A public or a fleet key, which
// may look like the first, is refused by its name or by what it says of itself. The
// path is one that somebody has just given, as for ReadKeyFile. Errors name the file.
func ReadSigningKey(path string) (*SigningKey, error) {
	if strings.HasSuffix(path, SuffixFleetKey) {
		return nil, failure{ErrKey, fmt.Sprintf("%s is a fleet key, which signs documents of a fleet and no files: take an SM2 or a minisign key", path)}
	}
	if strings.HasSuffix(path, ".pub") {
		return nil, failure{ErrKey, fmt.Sprintf("%s: this is a public key: signing takes the private one", path)}
	}
	text, err := readSmall(path, pipeWait)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	named := func(err error) error { return failure{ErrKey, fmt.Sprintf("%s: %v", path, err)} }
	lines := keyLines(text)
	kind := markOf(text)
	switch {
	case kind != "":
		return nil, named(fmt.Errorf("the file says that it is a %s key, which signs no files: take an SM2 or a minisign key", kind))
	case len(lines) != 1:
		return nil, named(fmt.Errorf("a key file has one line beside comments, not %d", len(lines)))
	case isHex(lines[0], 2*len(PublicKey{})):
		return nil, named(errors.New("this is a public key: signing takes the private one"))
	case isMinisign(text, lines[0]):
		if _, err := ParseMinisignPublic(text); err == nil {
			return nil, named(errors.New("this is a public key: signing takes the private one"))
		}
		k, err := ParseMinisignPrivate(text)
		if err != nil {
			return nil, named(err)
		}
		return &SigningKey{Minisign: k}, nil
	}
	k, err := ParseSM2Private(lines[0])
	if err != nil {
		return nil, named(err)
	}
	return &SigningKey{SM2: k}, nil
}

// isMinisign tells the two formats of key files apart: minisign's lines of
// base64 all start with the algorithm "Ed" or "ED".
func isMinisign(text []byte, line string) bool {
	return bytes.HasPrefix(text, []byte("untrusted comment:")) || strings.HasPrefix(line, "RW") || strings.HasPrefix(line, "RU")
}

func isHex(s string, n int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == n
}
