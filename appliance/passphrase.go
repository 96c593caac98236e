// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"windhover/control"
	"windhover/vqf"
	"windhover/vqf/seal"
)

// credentialName is the systemd credential that holds the passphrase.
const credentialName = "vqf-key"

// keyVariable carries the passphrase in the original engine's environment.
const keyVariable = "VLLM_VQF_KEY"

// passphrase finds the key of encrypted files. The first of these counts: the file
// vqf.key_file, the systemd credential vqf-key, the environment variable
// VLLM_VQF_KEY. It is read anew whenever a model is installed or loaded, so that
// replacing the file needs no restart, and kept nowhere.
type passphrase struct {
	file   string // vqf.key_file
	getenv func(string) string
	tell   func() // the environment variable is in use; nil: nobody wants to know
	told   sync.Once
}

// source says where the passphrase comes from: the path of a file, or the name of
// the environment variable. Both are empty where there is none.
func (p *passphrase) source() (path, variable string) {
	if p.file != "" {
		return p.file, ""
	}
	if dir := p.getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		if path = filepath.Join(dir, credentialName); !blank(path) {
			return path, ""
		}
	}
	if p.getenv(keyVariable) != "" {
		return "", keyVariable
	}
	return "", ""
}

// blank says that there is no credential, or one that is what the unit falls back to
// where it has none to load: nothing, or the end of a line.
func blank(path string) bool {
	// A FIFO would wait for a writer; what is no file is for whoever reads it to refuse.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer func() { _ = f.Close() }() // read only
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return false
	}
	var b [3]byte
	n, err := io.ReadFull(f, b[:])
	return err != nil && len(bytes.TrimSpace(b[:n])) == 0
}

// key makes the key, nil where there is no passphrase. The error names the file
// and never its content.
func (p *passphrase) key() (*seal.Key, error) {
	path, variable := p.source()
	switch {
	case path != "":
		return seal.ReadStoredKeyFile(path)
	case variable != "":
		if p.tell != nil {
			p.told.Do(p.tell)
		}
		return seal.KeyFromPassphrase([]byte(p.getenv(variable)))
	}
	return nil, nil
}

// keyOf is the key for a weight file: nil for one that is not encrypted. For one
// that is, the error says what is lacking, with the code for that.
func (p *passphrase) keyOf(weights string) (*seal.Key, error) {
	info, err := vqf.Inspect(weights)
	if err != nil || info.Header.Flags&vqf.FlagEnc == 0 {
		return nil, err
	}
	k, err := p.key()
	if err != nil {
		return nil, control.Errorf(control.PassphraseMissing, "the model is encrypted and its passphrase cannot be read: %s", oneLine(err))
	}
	if k == nil {
		return nil, control.Errorf(control.PassphraseMissing,
			"the model is encrypted and there is no passphrase: set vqf.key_file, or give the unit the credential %s (drop-in vqf-key.conf)", credentialName)
	}
	return k, nil
}

// identity tells one passphrase from the next by the file it is in, not by what it
// says: it may be written where others read.
func (p *passphrase) identity() string {
	path, variable := p.source()
	if path == "" {
		return variable
	}
	fi, err := os.Stat(path)
	if err != nil {
		return "none"
	}
	return fmt.Sprint(path, identify(fi))
}

// keyCheck tells under which key the tag of a file was compared, so that a later
// start under another one compares again. It is as good as the encrypted file for
// guessing the passphrase, so it is kept where only the daemon reads.
func keyCheck(k *seal.Key) string {
	if k == nil {
		return ""
	}
	h := k.NewTag()
	_, _ = h.Write([]byte("windhover: which passphrase")) // a hash never fails to write
	return hex.EncodeToString(h.Sum(nil)[:8])
}
