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

	"windhover/vqf"
)

// installed is what is remembered of a model that was verified, so that a
// restart does not read gigabytes again: the files it came from and the copy in
// the store, each by device, inode, size and time.
type installed struct {
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
}

func openBook(path string) (*book, error) {
	b := &book{path: path}
	err := readJSON(path, b)
	if b.Models == nil {
		b.Models = map[string]installed{}
	}
	return b, err
}

func (b *book) save() error { return writeJSON(b.path, b, 0o600) }

// knows returns the record of c if c and the copy in the store are still what
// was verified.
func (b *book) knows(c candidate, st store) (installed, bool) {
	in, ok := b.Models[c.Name]
	if !ok || in.Source != c.ID.content() || len(in.Side) != len(c.SideIDs) {
		return installed{}, false
	}
	for i, id := range c.SideIDs {
		if in.Side[i] != id.content() {
			return installed{}, false
		}
	}
	fi, err := os.Stat(st.weights(in.Key))
	return in, err == nil && identify(fi).content() == in.Stored
}

// install brings a complete candidate into the store: adopted first, verified
// second, so that what was verified is what will be mapped.
func install(ctx context.Context, st store, c candidate, check string, progress func(done, total int64)) (in installed, err error) {
	dir, err := st.adopt(ctx, c)
	if err != nil {
		return installed{}, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // the first error is the one to tell
		}
	}()
	weights := filepath.Join(dir, "model.vqf")
	key := ""
	if check == "size" {
		if key, err = identityKey(weights); err != nil {
			return installed{}, err
		}
	} else {
		if in.SHA256, err = digest(ctx, weights, progress); err != nil {
			return installed{}, err
		}
		key = "sha256-" + in.SHA256
	}
	if in.Version, err = versionOf(weights, in.SHA256, key); err != nil {
		return installed{}, err
	}
	var path string
	if in.Key, path, err = st.settleIn(dir, key); err != nil {
		return installed{}, err
	}
	fi, err := os.Stat(path)
	if err != nil {
		return installed{}, err
	}
	in.Source, in.Stored = c.ID.content(), identify(fi).content()
	for _, id := range c.SideIDs {
		in.Side = append(in.Side, id.content())
	}
	return in, nil
}

// digest reads the whole file once: the checksum in its trailer is compared and
// the SHA-256 comes back. Whether its structure serves is for the loader to say.
func digest(ctx context.Context, path string, progress func(done, total int64)) (string, error) {
	rep, err := vqf.Verify(ctx, path, progress)
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
