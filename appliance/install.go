// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"windhover/vqf"
)

// installed is what is remembered of a model that was verified, so that a
// restart does not read gigabytes again: the files it came from and the copy in
// the store, each by device, inode, size and time.
type installed struct {
	Entry   string   `json:"entry"` // in the drop directory
	Source  fileID   `json:"source"`
	Side    []fileID `json:"side,omitempty"`
	Key     string   `json:"key"` // entry in the store
	Stored  fileID   `json:"stored"`
	SHA256  string   `json:"sha256"` // "": installed with vqf.check = "size"
	Version string   `json:"version"`
}

// book is the file that keeps them, by model name, and the default order.
type book struct {
	path   string
	Models map[string]installed `json:"models"`
	Order  []string             `json:"order"`

	unsaved time.Time // last try to store it that went wrong; zero: the disk has it
}

// bookBytes is the most the book may have.
const bookBytes = 64 << 20

func openBook(path string) (*book, error) {
	b := &book{path: path}
	err := readJSON(path, bookBytes, b)
	if b.Models == nil {
		b.Models = map[string]installed{}
	}
	if err != nil {
		b.unsaved = time.Unix(0, 0) // what the store holds is not known: it stays until it is
	}
	return b, err
}

func (b *book) save() error { return writeJSON(b.path, b, 0o600) }

// knows returns the record of c if c and the copy in the store are still what
// was verified.
func (b *book) knows(c candidate, st store) (installed, bool) {
	in, ok := b.Models[c.Name]
	if file, side := c.contents(); !ok || in.Source != file || !slices.Equal(in.Side, side) {
		return installed{}, false
	}
	return in, in.intact(st)
}

// verified reports whether some model's record says that the file of this key, in
// this state, was verified.
func (b *book) verified(key string, id fileID) bool {
	for _, in := range b.Models {
		if in.Key == key && in.Stored == id {
			return true
		}
	}
	return false
}

// intact reports whether the copy in the store is still what was verified.
func (in installed) intact(st store) bool {
	fi, err := os.Stat(st.weights(in.Key))
	return err == nil && identify(fi).content() == in.Stored
}

// install brings a complete candidate into the store: adopted first, verified
// second, so that what was verified is what will be mapped.
func (d *deployer) install(ctx context.Context, c candidate) (in installed, err error) {
	dir, err := d.store.adopt(ctx, c)
	if err != nil {
		return installed{}, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // the first error is the one to tell
		}
	}()
	weights := filepath.Join(dir, "model.vqf")
	guard, err := d.guardOrCopy(ctx, weights)
	if err != nil {
		return installed{}, err
	}
	defer guard.release()
	base := ""
	if d.check == "size" {
		base, err = identityKey(weights)
	} else if in.SHA256, err = digest(ctx, weights, nil); err == nil {
		base = "sha256-" + in.SHA256
	}
	if err == nil {
		in.Version, err = versionOf(weights, in.SHA256, base)
	}
	if !guard.intact() { // whatever was read is not what is there now
		return installed{}, errChanged
	}
	if err != nil {
		return installed{}, err
	}
	if in.Key, err = d.store.settleIn(dir, base, d.book.verified); err != nil {
		return installed{}, err
	}
	fi, err := os.Stat(d.store.weights(in.Key))
	if err != nil {
		return installed{}, err
	}
	in.Entry, in.Stored = c.Entry, identify(fi).content()
	in.Source, in.Side = c.contents()
	return in, nil
}

// digest reads the whole file once: the checksum in its trailer is compared and
// the SHA-256 comes back. Whether its structure serves is for the loader to say.
func digest(ctx context.Context, path string, progress func(done, total int64)) (string, error) {
	rep, err := vqf.Verify(ctx, path, vqf.VerifyOptions{}, progress)
	if err != nil {
		return "", err
	}
	switch {
	case rep.SHA256 == "": // not worth reading: header or directory are broken
		return "", rep.Err()
	case rep.Stored != 0 && rep.Stored != rep.Computed:
		// Said before what the damage broke: it is the cause.
		return "", fmt.Errorf("%w: stored %016x, computed %016x: the file was damaged on its way, copy it again", vqf.ErrChecksum, rep.Stored, rep.Computed)
	}
	return rep.SHA256, nil
}

// identityKey names a file that is not to be read whole by its header, directory,
// size and time.
func identityKey(path string) (string, error) {
	info, err := vqf.Inspect(path)
	if err != nil {
		return "", err
	}
	if info.Refused != nil {
		return "", info.Refused
	}
	fi, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%v %v %d %d", info.Header, info.Tensors, fi.Size(), fi.ModTime().UnixNano()) // a hash never fails to write
	return "unread-" + hex.EncodeToString(h.Sum(nil))[:32], nil
}

// versionOf is what t_meta calls the version, else the beginning of the digest.
func versionOf(path, digest, key string) (string, error) {
	f, err := vqf.Open(path, vqf.OpenOptions{})
	if err != nil {
		return "", err
	}
	var meta struct {
		Version string `json:"model_version"`
	}
	if raw := f.Meta(); raw != nil {
		// The loader reports what is wrong with it.
		_ = json.Unmarshal(raw, &meta)
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	switch {
	case meta.Version != "" && len(meta.Version) <= 64:
		return meta.Version, nil
	case digest != "":
		return digest[:12], nil
	default:
		return key, nil
	}
}
