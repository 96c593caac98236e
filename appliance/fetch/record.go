// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"windhover/appliance/disk"
	"windhover/control"
	"windhover/control/ota"
)

// Ends of the names in Fetcher.Dir; before them stands the digest of the file.
const (
	partEnd   = ".part"
	recordEnd = ".json"
)

// recordVersion is the schema of records that this program writes.
const recordVersion = 1

// maxRecord bounds a record in bytes: a bit for each of 2^18 blocks, in base64.
const maxRecord = 128 << 10

func (f *Fetcher) part(sum ota.Digest) string   { return filepath.Join(f.Dir, sum.String()+partEnd) }
func (f *Fetcher) record(sum ota.Digest) string { return filepath.Join(f.Dir, sum.String()+recordEnd) }

// record says what a .part file has for sure.
type record struct {
	V     int        `json:"v"`
	Size  int64      `json:"size"`
	Block int64      `json:"block"`
	Index ota.Digest `json:"index"` // SHA-256 of the digests of all blocks
	Have  []byte     `json:"have"`  // a bit a block, lowest first
	// Spent are bytes of MaxBytes that are gone. Where there is a limit they are taken
	// before they are read, so that no crash makes a download cost more than was allowed.
	Spent int64 `json:"spent"`
}

func newRecord(x *ota.Index) *record {
	return &record{V: recordVersion, Size: x.Size, Block: x.Block, Index: sha256.Sum256(x.Hashes), Have: make([]byte, (x.Count()+7)/8)}
}

func (r *record) has(i int) bool { return r.Have[i/8]>>(i%8)&1 != 0 }
func (r *record) set(i int)      { r.Have[i/8] |= 1 << (i % 8) }
func (r *record) unset(i int)    { r.Have[i/8] &^= 1 << (i % 8) }

var (
	errLost  = errors.New("fetch: the record of the download is lost") // or of another index
	errLater = errors.New("fetch: the record of the download is of a later program")
)

// parseRecord reads a record of the download of x.
func parseRecord(data []byte, x *ota.Index) (*record, error) {
	var is struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(data, &is); err != nil {
		return nil, errLost
	}
	if is.V > recordVersion {
		return nil, errLater
	}
	r, fresh := new(record), newRecord(x)
	if json.Unmarshal(data, r) != nil || r.V != recordVersion || r.Size != x.Size || r.Block != x.Block || r.Index != fresh.Index || len(r.Have) != len(fresh.Have) || r.Spent < 0 {
		return nil, errLost
	}
	for i := x.Count(); i < 8*len(r.Have); i++ {
		r.unset(i)
	}
	return r, nil
}

// load finds the record of a download. It is errLost if there is none that helps.
func (f *Fetcher) load(x *ota.Index) (*record, error) {
	path := f.record(x.SHA256)
	data, err := disk.ReadFile(f.Disk, path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errLost
	}
	if err != nil {
		return nil, err
	}
	r, err := parseRecord(data, x)
	if errors.Is(err, errLater) {
		return nil, control.Errorf(control.Incompatible, "%s was written by a later program: update this one, or remove the file to begin the download again", path)
	}
	return r, err
}

// save makes a record outlast a power cut, and the name of the .part file too.
func (f *Fetcher) save(sum ota.Digest, r *record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("fetch: record: %w", err)
	}
	return disk.Replace(f.Disk, f.record(sum), append(data, '\n'), 0o600)
}
