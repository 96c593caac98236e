// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"windhover/vqf"
)

// journal is what an interrupted conversion needs, beside its partial file, to
// be continued: what it was made of, how far it came, and what was found on the
// way.
type journal struct {
	V       int               `json:"v"`
	Options map[string]string `json:"options"` // those that change bytes, and the converter
	Sources []journalSource   `json:"sources"`
	Plan    string            `json:"plan"`          // SHA-256 of header and directory
	Key     string            `json:"key,omitempty"` // a tag of Plan under the passphrase
	Mark    vqf.Mark          `json:"mark"`
	Errors  tallies           `json:"errors"`
}

type journalSource struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	Time  int64  `json:"mtime_ns"`
}

const (
	journalVersion = 1
	maxJournal     = 64 << 20
)

// JournalName is where a resumable conversion keeps its journal: beside the file
// it makes, and hidden as vqf.PartialName is.
func JournalName(path string) string {
	dir, base := filepath.Split(path)
	return filepath.Join(dir, "."+base+".journal")
}

// newJournal describes a conversion that has not begun.
func (j *work) newJournal() (*journal, error) {
	n := &journal{V: journalVersion, Options: j.optionWords()}
	for _, f := range j.files {
		st, err := os.Stat(f.path)
		if err != nil {
			return nil, fmt.Errorf("convert: %w", err)
		}
		n.Sources = append(n.Sources, journalSource{filepath.Base(f.path), f.size, st.ModTime().UnixNano()})
	}
	sum := sha256.Sum256(j.plan.Prefix())
	n.Plan = hex.EncodeToString(sum[:])
	if j.set.Encrypt != nil {
		// It gives away no more than the finished file does: both let who has
		// them try passphrases.
		tag := j.set.Encrypt.NewTag()
		tag.Write([]byte("journal " + n.Plan))
		n.Key = hex.EncodeToString(tag.Sum(nil))
	}
	return n, nil
}

// optionWords are the options by the names of their flags, as they were resolved.
func (j *work) optionWords() map[string]string {
	signer := ""
	if j.set.Sign != nil {
		signer = j.set.Sign.Public().Fingerprint() + " " + j.set.SignID
	}
	return map[string]string{
		"encrypt": strconv.FormatBool(j.set.Encrypt != nil), "sign": signer,
		"converter": j.set.Converter, "mode": string(j.spec.Mode), "q8-layout": j.spec.Q8.String(), "q4-layout": j.spec.Q4.String(),
		"header": strconv.Itoa(j.plan.Header.Fields), "bare": strconv.FormatBool(j.meta == nil), "vision": strconv.FormatBool(j.spec.Vision),
		"max-seq": strconv.FormatUint(uint64(j.arch.MaxSeqLen), 10), "name": j.set.Name,
		"quantiser": j.set.quantiser(j.spec.Mode), "importance": j.set.Importance.digest(),
	}
}

// differs says in what an earlier conversion was another one, "" if in nothing.
func (n *journal) differs(old *journal) string {
	if old.V != n.V {
		return fmt.Sprintf("journal version %d, now %d", old.V, n.V)
	}
	for _, key := range slices.Sorted(maps.Keys(n.Options)) {
		if was, is := old.Options[key], n.Options[key]; was != is {
			return fmt.Sprintf("%s %q, now %q", key, was, is)
		}
	}
	if len(old.Sources) != len(n.Sources) {
		return fmt.Sprintf("%d source files, now %d", len(old.Sources), len(n.Sources))
	}
	for i, is := range n.Sources {
		switch was := old.Sources[i]; {
		case was.File != is.File:
			return fmt.Sprintf("source %s, now %s", was.File, is.File)
		case was.Bytes != is.Bytes:
			return fmt.Sprintf("%s had %d bytes, now %d", is.File, was.Bytes, is.Bytes)
		case was.Time != is.Time:
			return fmt.Sprintf("%s is of %s, was of %s", is.File, when(is.Time), when(was.Time))
		}
	}
	switch {
	case old.Plan != n.Plan:
		return "the source's settings or tokenizer changed"
	case old.Key != n.Key:
		return "another passphrase"
	case !old.Errors.fits(n.Errors):
		return "the journal does not fit the model"
	}
	return ""
}

func when(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// readJournal returns nil when there is none, or none that can be read.
func readJournal(path string) *journal {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxJournal {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	n := new(journal)
	if json.Unmarshal(b, n) != nil {
		return nil
	}
	return n
}

// write replaces the journal at path: there is always a whole one.
func (n *journal) write(path string) (err error) {
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("convert: journal: %w", err)
	}
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("convert: journal: %w", err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("convert: journal: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("convert: journal: %w", err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("convert: journal: %w", err)
	}
	return nil
}

// removeJournal removes what write may have left.
func removeJournal(path string) error {
	for _, name := range []string{path, path + ".tmp"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("convert: journal: %w", err)
		}
	}
	return nil
}
