// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"windhover/vqf"
)

// passphrase says where the passphrase of encrypted models comes from, who else can
// read it, and whether it is needed.
func (d *doctor) passphrase(context.Context) {
	const name = "passphrase"
	var encrypted []string
	for _, path := range d.models() {
		if info, err := vqf.Inspect(path); err == nil && info.Header.Flags&vqf.FlagEnc != 0 {
			encrypted = append(encrypted, filepath.Base(path))
		}
	}
	need := "no encrypted model in the drop directory"
	if len(encrypted) > 0 {
		need = "needed by " + strings.Join(encrypted, ", ")
	}
	p := &passphrase{file: d.cfg.VQF.KeyFile, getenv: d.getenv}
	path, variable := p.source()
	switch {
	case variable != "":
		d.warn(name, "use vqf.key_file, or the credential "+credentialName+" (drop-in vqf-key.conf)",
			"in the environment variable %s, where other programs of this user can read it; %s", variable, need)
		return
	case path == "" && len(encrypted) > 0 && d.unit():
		d.warn(name, "give the unit the credential "+credentialName+" (drop-in vqf-key.conf), or set vqf.key_file; if it has the credential, this is fine",
			"not seen from here; %s", need)
		return
	case path == "" && len(encrypted) > 0:
		d.fail(name, "set vqf.key_file, or give the unit the credential "+credentialName+" (drop-in vqf-key.conf)", "none; %s", need)
		return
	case path == "":
		d.ok(name, "none; %s", need)
		return
	}
	fi, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.ok(name, "%s, which this user may not see; %s", path, need)
	case err != nil:
		d.fail(name, "put the passphrase there, or correct vqf.key_file", "%s", oneLine(err))
	case fi.Mode().Perm()&0o004 != 0:
		d.warn(name, "chmod o= "+path, "%s (%s) can be read by everybody on this machine; %s", path, fi.Mode().Perm(), need)
	case fi.Mode().Perm()&0o022 != 0:
		d.warn(name, "chmod go-w "+path, "%s (%s) can be changed by others than its owner; %s", path, fi.Mode().Perm(), need)
	default:
		d.readable(name, p, path, need)
	}
}

// readable says whether the passphrase can be used, as far as this user may look.
func (d *doctor) readable(name string, p *passphrase, path, need string) {
	switch _, err := p.key(); {
	case errors.Is(err, fs.ErrPermission):
		d.ok(name, "%s, which this user may not read; the appliance has to: chgrp windhover and mode 0640; %s", path, need)
	case err != nil:
		d.fail(name, "put the passphrase into it, on one line", "%s", oneLine(err))
	default:
		d.ok(name, "%s; %s", path, need)
	}
}

// unit says that the appliance runs, or would, as a service of its own, whose
// credentials nobody else sees.
func (d *doctor) unit() bool {
	_, err := fs.Stat(d.root, "lib/systemd/system/windhover.service")
	return d.running != nil || err == nil
}

// trust says whose signatures count, and whether one is needed.
func (d *doctor) trust(context.Context) {
	const name = "signatures"
	policy := "not required"
	if d.cfg.Drop.RequireSignature {
		policy = "required"
	}
	dir := d.cfg.Paths.Trust
	t, err := loadTrust(dir, d.getenv)
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.fail(name, "chmod a+rx "+dir+", and a+r the keys in it: they are public", "%s: %s", policy, oneLine(err))
		return
	case err != nil:
		d.fail(name, "repair or remove that key: as it is, what it signed is not trusted", "%s: %s", policy, oneLine(err))
		return
	}
	var keys []string
	for _, k := range t.SM2 {
		keys = append(keys, fmt.Sprintf("%s (sm2 %s)", k.Name, k.Key.Fingerprint()))
	}
	for _, k := range t.Minisign {
		keys = append(keys, fmt.Sprintf("%s (minisign %s)", k.Name, k.Key.Name()))
	}
	detail := fmt.Sprintf("%s; keys trusted in %s: ", policy, dir)
	if dir == "" {
		detail = policy + "; keys trusted: "
	}
	if len(keys) == 0 {
		detail += "none"
	}
	detail += strings.Join(keys, ", ")
	switch writer := othersWrite(dir); {
	case len(keys) == 0 && d.cfg.Drop.RequireSignature:
		d.fail(name, "copy the public key of whoever signs to "+dir+": until then no model is let in", "%s", detail)
	case writer != "":
		d.warn(name, "chown root and chmod go-w "+writer, "%s; %s can be changed by others than root: whoever can decides which models are trusted", detail, writer)
	default:
		d.ok(name, "%s", detail)
	}
}

// othersWrite is the first of a trust directory and its keys that somebody beside
// its owner and root may change, "" for none.
func othersWrite(dir string) string {
	if dir == "" {
		return ""
	}
	paths := []string{dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pub") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	for _, path := range paths {
		fi, err := os.Stat(path)
		if err != nil {
			continue
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		if fi.Mode().Perm()&0o022 != 0 || ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return path
		}
	}
	return ""
}
