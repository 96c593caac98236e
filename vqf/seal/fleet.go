// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// FleetKey is an Ed25519 key whose signatures under documents of a fleet count, with
// the name of its file. It signs no model files.
type FleetKey struct {
	Name string
	Key  ed25519.PublicKey
}

// LoadFleet reads the fleet keys of a trust directory, NAME.fleet.pub, as LoadTrust
// reads the others: a file that holds no key is an error beside the keys of the
// rest, and a directory that is not there trusts nobody.
func LoadFleet(dir string) ([]FleetKey, error) {
	paths, err := keyFiles(dir, SuffixFleet)
	if err != nil {
		return nil, err
	}
	var keys []FleetKey
	var bad []error
	for _, path := range paths {
		k, err := readFleetKey(path, 0)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		keys = append(keys, k)
	}
	return keys, errors.Join(bad...)
}

// ReadFleetKey reads the file of one public fleet key: the line that says what it is,
// and 64 hex digits. The path is one that somebody has just given, as for
// ReadKeyFile. Errors name the file.
func ReadFleetKey(path string) (FleetKey, error) { return readFleetKey(path, pipeWait) }

func readFleetKey(path string, wait time.Duration) (FleetKey, error) {
	raw, err := readFleet(path, markFleet, wait)
	if err != nil {
		return FleetKey{}, err
	}
	return FleetKey{strings.TrimSuffix(filepath.Base(path), SuffixFleet), ed25519.PublicKey(raw)}, nil
}

// ReadFleetSigner reads a private fleet key, NAME.fleet.key.
func ReadFleetSigner(path string) (ed25519.PrivateKey, error) {
	seed, err := readFleet(path, markFleetKey, pipeWait)
	if err != nil {
		return nil, err
	}
	defer clear(seed)
	return ed25519.NewKeyFromSeed(seed), nil
}

// readFleet reads the 32 bytes of a key file that says that it is of the kind. One
// that says nothing is refused: a private and a public key of a fleet and a private
// SM2 key have the same length.
func readFleet(path, kind string, wait time.Duration) ([]byte, error) {
	text, err := readSmall(path, wait)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	named := func(format string, a ...any) error {
		return failure{ErrKey, fmt.Sprintf("%s: %s", path, fmt.Sprintf(format, a...))}
	}
	switch is := markOf(text); {
	case is == "":
		return nil, named("the file does not say that it is a %s key: it lacks the line %q", kind, marker+kind)
	case is != kind:
		return nil, named("this is a %s key: a %s one is needed", is, kind)
	}
	lines := keyLines(text)
	if len(lines) != 1 || len(lines[0]) != 2*ed25519.SeedSize {
		return nil, named("a fleet key is one line of %d hex digits beside the comment", 2*ed25519.SeedSize)
	}
	raw, err := hex.DecodeString(lines[0])
	if err != nil {
		return nil, named("a fleet key is one line of %d hex digits beside the comment", 2*ed25519.SeedSize)
	}
	return raw, nil
}
