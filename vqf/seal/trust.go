// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Trust is the set of keys whose signatures count.
type Trust struct {
	SM2      []TrustedSM2
	Minisign []TrustedMinisign
}

// TrustedSM2 is a key with the name of its file.
type TrustedSM2 struct {
	Name string
	Key  PublicKey
}

// TrustedMinisign is a key with the name of its file.
type TrustedMinisign struct {
	Name string
	Key  MinisignKey
}

// LoadTrust reads the public keys of a directory: NAME.sm2.pub and
// NAME.minisign.pub, one each. Other files, and those whose names begin with a
// point, are not looked at. A directory that is not there trusts nobody.
//
// A key file that cannot be read, is not well formed or is no regular file is an
// error that names it, since the signatures of its owner would be refused for no
// visible reason. The keys of the other files are returned beside it, so that one
// bad file neither locks everybody out nor lets a key count that was taken away.
// Only if the directory itself cannot be read is the Trust nil.
func LoadTrust(dir string) (*Trust, error) {
	paths, err := keyFiles(dir, SuffixSM2, SuffixMinisign)
	if err != nil {
		return nil, err
	}
	t := new(Trust)
	var bad []error
	for _, path := range paths {
		one, err := readTrusted(path, 0)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		if strings.HasSuffix(path, SuffixSM2) != (len(one.SM2) == 1) {
			bad = append(bad, failure{ErrKey, path + ": the key inside is of another kind than the name says"})
			continue
		}
		t.SM2 = append(t.SM2, one.SM2...)
		t.Minisign = append(t.Minisign, one.Minisign...)
	}
	return t, errors.Join(bad...)
}

// keyFiles are the files of a trust directory whose names end with one of the suffixes
// and begin with no point, by name; none when the directory is not there.
func keyFiles(dir string, suffixes ...string) ([]string, error) {
	entries, err := os.ReadDir(dir) // by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		name := e.Name()
		ends := func(suffix string) bool { return strings.HasSuffix(name, suffix) }
		if !strings.HasPrefix(name, ".") && slices.ContainsFunc(suffixes, ends) {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	return paths, nil
}

// ReadTrusted reads the file of one public key, SM2 (one line of 128 hex digits)
// or minisign; which, its content says. The path is one that somebody has just
// given, as for ReadKeyFile. Errors name the file.
func ReadTrusted(path string) (*Trust, error) { return readTrusted(path, pipeWait) }

func readTrusted(path string, wait time.Duration) (*Trust, error) {
	text, err := readSmall(path, wait)
	if err != nil {
		return nil, err
	}
	named := func(err error) error { return failure{ErrKey, fmt.Sprintf("%s: %v", path, err)} }
	lines := keyLines(text)
	if len(lines) != 1 {
		return nil, named(fmt.Errorf("a key file has one line beside comments, not %d", len(lines)))
	}
	name := filepath.Base(path)
	if isMinisign(text, lines[0]) {
		k, err := ParseMinisignPublic(text)
		if err != nil {
			return nil, named(err)
		}
		return &Trust{Minisign: []TrustedMinisign{{strings.TrimSuffix(name, SuffixMinisign), k}}}, nil
	}
	if isHex(lines[0], 64) {
		return nil, named(errors.New("64 hex digits are an SM2 private key or a fleet key: trust takes the public half of an SM2 or a minisign key"))
	}
	k, err := ParseSM2Public(lines[0])
	if err != nil {
		return nil, named(err)
	}
	return &Trust{SM2: []TrustedSM2{{strings.TrimSuffix(name, SuffixSM2), k}}}, nil
}

// FindSM2 finds a trusted key by the key itself. A nil Trust trusts nobody.
func (t *Trust) FindSM2(k PublicKey) (TrustedSM2, bool) {
	if t != nil {
		for _, c := range t.SM2 {
			if c.Key == k {
				return c, true
			}
		}
	}
	return TrustedSM2{}, false
}

// FindMinisign finds the trusted keys with the id that a signature names. An id
// is eight bytes that anybody can give a key, so that there may be several.
func (t *Trust) FindMinisign(id [8]byte) []TrustedMinisign {
	var found []TrustedMinisign
	if t != nil {
		for _, c := range t.Minisign {
			if c.Key.ID == id {
				found = append(found, c)
			}
		}
	}
	return found
}
