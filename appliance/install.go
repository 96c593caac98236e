// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"windhover/control"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// installed is what is remembered of a model that was verified, so that a
// restart does not read gigabytes again: the files it came from and the copy in
// the store, each by device, inode, size and time, and what signatures and tag
// said.
type installed struct {
	Entry   string   `json:"entry"` // in the drop directory
	Source  fileID   `json:"source"`
	Side    []fileID `json:"side,omitempty"`
	Key     string   `json:"key"` // entry in the store
	Stored  fileID   `json:"stored"`
	SHA256  string   `json:"sha256"` // "": installed with vqf.check = "size"
	Version string   `json:"version"`

	File    string    `json:"file,omitempty"`    // name of the dropped weights, for messages
	Beside  []string  `json:"beside,omitempty"`  // names of the files beside them
	Sigs    []fileID  `json:"sigs,omitempty"`    // the detached signatures that were looked at
	Signed  []voucher `json:"signed,omitempty"`  // good signatures
	Foreign string    `json:"foreign,omitempty"` // a signature of the weights by a key that was not trusted
	Regime  string    `json:"regime,omitempty"`  // under which this was found out; "": by a version that did not look
	Held    bool      `json:"held,omitempty"`    // by a .skip file, when last seen
	Sealed  string    `json:"sealed,omitempty"`  // keyCheck of the passphrase that the tag was compared with

	Fleet bool     `json:"fleet,omitempty"` // installed by an update
	Trial *onTrial `json:"trial,omitempty"` // it took the place of another version and has not held yet; nil: it has

	crowded bool // another version serves, whose memory this one will get if it needs it
}

// book is the file that keeps them, by model name, and the default order.
type book struct {
	path   string
	V      int                  `json:"v"`
	Models map[string]installed `json:"models"`
	Order  []string             `json:"order"`
	// Updates are the versions that updates installed, by digest. Which of them serve,
	// and under which names, is in active.json.
	Updates map[string]installed `json:"updates,omitempty"`

	unsaved time.Time // last try to store it that went wrong; zero: the disk has it
}

// bookVersion is the schema of the book. One without a number is read as the first; a
// later one is refused, untouched.
const bookVersion = 1

// bookBytes is the most the book may have.
const bookBytes = 64 << 20

func openBook(path string) (*book, error) {
	b := &book{path: path}
	err := readJSON(path, bookBytes, b)
	if b.V > bookVersion {
		return nil, control.Errorf(control.Incompatible, "%s is of schema %d, and this version of windhover knows up to %d: install the later version again, or give it another paths.state", path, b.V, bookVersion)
	}
	b.V = bookVersion
	if b.Models == nil {
		b.Models = map[string]installed{}
	}
	if b.Updates == nil {
		b.Updates = map[string]installed{}
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
		if in.Trial != nil && in.Trial.Before.Key == key && in.Trial.Before.Stored == id {
			return true
		}
	}
	for _, in := range b.Updates {
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

// compared reports whether the tag of the file at path is known to be good under key.
func (in installed) compared(key *seal.Key, path string) bool {
	fi, err := os.Stat(path)
	return key != nil && in.Sealed == keyCheck(key) && err == nil && identify(fi).content() == in.Stored
}

// install brings a complete candidate into the store: adopted first, verified
// second, so that what was verified is what will be mapped. With an error the record
// has what was found out before, of the digest at most.
func (d *deployer) install(ctx context.Context, c candidate) (in installed, err error) {
	d.pulse.look("taking "+c.Entry+" into the store", readLimit)
	var dir string
	politely(func() { dir, err = d.store.adopt(ctx, c) })
	if err != nil {
		return installed{}, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // the first error is the one to tell
		}
	}()
	guard, err := d.guardOrCopy(ctx, filepath.Join(dir, storedName))
	if err != nil {
		return installed{}, err
	}
	defer guard.release()
	d.pulse.look("verifying "+c.Entry, readLimit)
	var base string
	politely(func() { in, base, err = d.examine(ctx, c, dir) })
	if !guard.intact() { // whatever was read is not what is there now
		return installed{}, errChanged
	}
	if err == nil {
		err = d.who.admit(in)
	}
	if err != nil {
		return in, err
	}
	if in.Key, err = d.store.settleIn(dir, base, d.book.verified); err != nil {
		return installed{}, err
	}
	fi, err := os.Stat(d.store.weights(in.Key))
	if err != nil {
		return installed{}, err
	}
	in.Stored = identify(fi).content()
	return in, nil
}

// examine reads the files of a candidate as they lie in a directory of the store,
// once, and finds out what there is to know: checksum or tag, digest, signatures. The
// record lacks its place in the store; base is what the key there begins with.
// Whether the policy lets the model serve is for admit to say.
func (d *deployer) examine(ctx context.Context, c candidate, dir string) (in installed, base string, err error) {
	weights := filepath.Join(dir, storedName)
	in = installed{Entry: c.Entry, File: filepath.Base(c.Weights), Sigs: c.sigContents(), Regime: d.who.regime()}
	in.Source, in.Side = c.contents()
	for _, path := range c.Side {
		in.Beside = append(in.Beside, c.beside(path))
	}
	key, err := d.who.pass.keyOf(weights)
	if err != nil {
		return installed{}, "", err
	}
	in.Sealed = keyCheck(key)
	sig, signed := c.signature(c.Weights)
	if d.check == "size" && !signed && plain(weights) {
		base, err = identityKey(weights)
	} else if err = d.read(ctx, &in, weights, key, sig, signed); err == nil {
		base = "sha256-" + in.SHA256
	}
	if err == nil {
		err = d.vouchBeside(ctx, &in, c, dir)
	}
	if err == nil {
		in.Version, err = versionOf(weights, key, in.SHA256, base)
	}
	return in, base, err
}

// plain says that a file is neither encrypted nor signed: nothing but its checksum
// asks for reading it whole.
func plain(weights string) bool {
	info, err := vqf.Inspect(weights)
	return err == nil && info.Header.Flags&(vqf.FlagEnc|vqf.FlagSigned) == 0
}

// read reads the weights whole. A damaged file is called that before anything is
// said about its signatures.
func (d *deployer) read(ctx context.Context, in *installed, weights string, key *seal.Key, sig detached, signed bool) error {
	beside, cancel := context.WithCancel(ctx)
	defer cancel()
	trust := d.who.trust()
	wait := d.who.vouchAside(beside, sig, signed, weights, "")
	rep, err := digest(ctx, weights, vqf.VerifyOptions{Key: key, Trust: trust})
	if rep != nil {
		in.SHA256 = rep.SHA256
	}
	if err != nil {
		cancel()
		_, _ = wait() // nothing it could say matters any more
		return err
	}
	inside, err := embedded(rep, trust)
	v, serr := wait()
	if err != nil {
		return err
	}
	in.Signed, in.Foreign = append(inside.by, v.by...), inside.foreign
	if in.Foreign == "" {
		in.Foreign = v.foreign
	}
	return serr
}

// vouchBeside checks the signatures of the files beside the weights.
func (d *deployer) vouchBeside(ctx context.Context, in *installed, c candidate, dir string) error {
	for _, path := range c.Side {
		sig, signed := c.signature(path)
		if !signed {
			continue
		}
		name := c.beside(path)
		v, err := d.who.vouch(ctx, sig, filepath.Join(dir, name), name)
		if err != nil {
			return err
		}
		in.Signed = append(in.Signed, v.by...)
	}
	return nil
}

// digest reads the whole file once. The checksum or tag in its trailer must be that
// of the content; with an error the report is nil where nothing was read. Whether its
// structure serves is for the loader to say.
func digest(ctx context.Context, path string, opt vqf.VerifyOptions) (*vqf.VerifyReport, error) {
	rep, err := vqf.Verify(ctx, path, opt, beating(ctx))
	if err != nil {
		return nil, err
	}
	switch {
	case rep.SHA256 == "": // not worth reading: header or directory are broken
		return nil, rep.Err()
	case rep.Stored != 0 && rep.Stored != rep.Computed:
		// Said before what the damage broke: it is the cause.
		return rep, fmt.Errorf("%w: stored %016x, computed %016x: the file was damaged on its way, copy it again", vqf.ErrChecksum, rep.Stored, rep.Computed)
	case errors.Is(rep.Err(), vqf.ErrTag):
		return rep, rep.Err()
	}
	return rep, nil
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
func versionOf(path string, key *seal.Key, digest, base string) (string, error) {
	// The tag was compared a moment ago.
	f, err := vqf.Open(path, vqf.OpenOptions{Key: key, Verified: true, Lazy: true})
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
		return base, nil
	}
}
