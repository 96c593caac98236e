// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// namedFile is a file that a key of the configuration names.
type namedFile struct {
	key, path string
	pem       bool // holds certificates
}

// files are those that the configuration needs as it is.
func (c Config) files() []namedFile {
	m := c.MQTT
	var list []namedFile
	if m.URL != "" {
		list = append(list, namedFile{"mqtt.password_file", m.PasswordFile, false}, namedFile{"mqtt.ca_file", m.CAFile, true},
			namedFile{"mqtt.cert_file", m.CertFile, true}, namedFile{"mqtt.key_file", m.KeyFile, false})
	} else {
		list = append(list, namedFile{"mqtt.embedded.users_file", m.Embedded.UsersFile, false})
	}
	if m.DataURL != "" {
		d := m.Data
		list = append(list, namedFile{"mqtt.data.password_file", d.PasswordFile, false}, namedFile{"mqtt.data.ca_file", d.CAFile, true},
			namedFile{"mqtt.data.cert_file", d.CertFile, true}, namedFile{"mqtt.data.key_file", d.KeyFile, false})
	}
	if m.URL == "" && m.Embedded.LeafURL != "" {
		list = append(list, namedFile{"mqtt.embedded.leaf_credentials", m.Embedded.LeafCredentials, false}, namedFile{"mqtt.embedded.leaf_ca_file", m.Embedded.LeafCAFile, true})
	}
	if c.HTTP.Listen != "" {
		list = append(list, namedFile{"http.token_file", c.HTTP.TokenFile, false})
	}
	return append(list, namedFile{"vqf.key_file", c.VQF.KeyFile, false}, namedFile{"updates.ca_file", c.Updates.CAFile, true})
}

// CheckFiles looks at the files and directories that the configuration names, with the
// rights of who asks. refused are those without which the daemon does not start; without
// the others it starts, and something that is asked of it does not work.
func (l Loaded) CheckFiles() (refused Problems, warnings []Problem) {
	c := l.Config
	at := func(key, format string, args ...any) Problem {
		return Problem{Place: l.places.of(key), Key: key, Message: key + " " + fmt.Sprintf(format, args...)}
	}
	for _, key := range []struct{ key, path string }{{"paths.state", c.Paths.State}, {"paths.socket", filepath.Dir(c.Paths.Socket)}} {
		if fi, err := os.Stat(key.path); err == nil && !fi.IsDir() || errors.Is(err, unix.ENOTDIR) {
			refused = append(refused, at(key.key, "%q: there is no directory, and none can be made: a file is in its place", key.path))
		}
	}
	if dir := c.Paths.Trust; dir != "" {
		_, err := os.ReadDir(dir)
		// The default need not be there, and is not asked for.
		if said := l.places.of("paths.trust") != (Place{}) || c.Drop.RequireSignature; err != nil && (said || !errors.Is(err, fs.ErrNotExist)) {
			warnings = append(warnings, at("paths.trust", "%q: %s", dir, reason(err)))
		}
	}
	for _, f := range c.files() {
		if f.path == "" {
			continue
		}
		if text := f.wrong(); text != "" {
			warnings = append(warnings, at(f.key, "%q: %s", f.path, text))
		}
	}
	return refused, warnings
}

// credentialsDir is where a service manager puts credentials, while the service runs.
const credentialsDir = "/run/credentials/"

// wrong says what is wrong with a file, without its content; "" is nothing.
func (n namedFile) wrong() string {
	raw, err := readConfigFile(n.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(n.path, credentialsDir):
		return "is not there now: a credential is, while the service runs, if the unit has it"
	case err != nil:
		return reason(err)
	case len(strings.TrimSpace(string(raw))) == 0:
		return "is empty"
	case n.pem && !x509.NewCertPool().AppendCertsFromPEM(raw):
		return "holds no certificate in PEM"
	}
	return ""
}
