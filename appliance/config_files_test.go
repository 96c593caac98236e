// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Each key that names a file is looked at where it counts, and nowhere else; what is
// there and good is not told.
func TestCheckFiles_P251(t *testing.T) {
	dir := t.TempDir()
	good, empty, fifo, text := filepath.Join(dir, "good.pem"), filepath.Join(dir, "empty"), filepath.Join(dir, "fifo"), filepath.Join(dir, "text")
	srv := httptest.NewTLSServer(nil)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	srv.Close()
	write(t, good, string(cert))
	write(t, empty, "\n")
	write(t, text, "s3cret\n")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var keys []keyField
	for _, k := range keyFields(new(Config)) {
		if strings.HasSuffix(k.key, "_file") || strings.HasSuffix(k.key, "_credentials") {
			keys = append(keys, k)
		}
	}
	// A broker elsewhere, and the one inside.
	outside := Config{MQTT: MQTT{URL: "mqtts://a", DataURL: "mqtts://b"}, HTTP: HTTP{Listen: ":1"}}
	inside := Config{MQTT: MQTT{Embedded: Embedded{LeafURL: "tls://c"}}}
	told := map[string]int{}
	for _, base := range []Config{outside, inside} {
		for path, want := range map[string]string{filepath.Join(dir, "none"): "no such file", empty: "is empty", fifo: "is not a regular file", dir: "is a directory",
			"/run/credentials/windhover.service/none": "is not there now: a credential is", good: ""} {
			cfg := base
			cfg.Paths.State = dir
			for _, k := range keyFields(&cfg) {
				if strings.HasSuffix(k.key, "_file") || strings.HasSuffix(k.key, "_credentials") {
					k.field.SetString(path)
				}
			}
			refused, warnings := Loaded{Config: cfg}.CheckFiles()
			if len(refused) > 0 {
				t.Errorf("%s: %v", path, refused)
			}
			for _, w := range warnings {
				if want == "" || !strings.Contains(w.Message, want) || !strings.HasPrefix(w.Message, w.Key+" ") {
					t.Errorf("%s: %v, want %q", path, w, want)
				}
				told[w.Key]++
			}
		}
	}
	for _, k := range keys {
		if n := told[k.key]; n != 5 && n != 10 && !strings.HasPrefix(k.key, "audit.") {
			t.Errorf("%s: %d warnings", k.key, n)
		}
	}
	cfg := DefaultConfig()
	cfg.Paths.State, cfg.MQTT.URL, cfg.MQTT.CAFile, cfg.Updates.CAFile = dir, "mqtts://a", text, text
	_, warnings := Loaded{Config: cfg}.CheckFiles()
	if len(warnings) != 2 || strings.Contains(Problems(warnings).Error(), "s3cret") || !strings.Contains(warnings[0].Message, "holds no certificate in PEM") {
		t.Errorf("no certificate: %v", warnings)
	}
}

// Directories: without one for the state nothing starts.
func TestCheckDirectories_P251(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, "x")
	for _, c := range []struct {
		name             string
		change           func(*Config)
		refused, warning string
	}{
		{"nothing", func(*Config) {}, "", ""},
		{"the state is a file", func(c *Config) { c.Paths.State = file }, "paths.state", ""},
		{"the state is below a file", func(c *Config) { c.Paths.State = filepath.Join(file, "x") }, "paths.state", ""},
		{"the state is still to be made", func(c *Config) { c.Paths.State = filepath.Join(dir, "x", "y") }, "", ""},
		{"the socket is below a file", func(c *Config) { c.Paths.Socket = filepath.Join(file, "sock") }, "paths.socket", ""},
		{"keys are needed", func(c *Config) { c.Drop.RequireSignature = true }, "", "paths.trust"},
		{"keys are a file", func(c *Config) { c.Paths.Trust = file }, "", "paths.trust"},
	} {
		cfg := Config{Paths: Paths{State: dir, Socket: filepath.Join(dir, "sock"), Trust: filepath.Join(dir, "trust.d")}}
		c.change(&cfg)
		refused, warnings := Loaded{Config: cfg}.CheckFiles()
		key := func(list Problems) string {
			if len(list) == 0 {
				return ""
			}
			return list[0].Key
		}
		if key(refused) != c.refused || key(warnings) != c.warning {
			t.Errorf("%s: refused %v, warnings %v", c.name, refused, warnings)
		}
	}
	cfg := Config{Paths: Paths{State: dir, Trust: filepath.Join(dir, "trust.d")}}
	if _, w := (Loaded{Config: cfg, places: origins{"paths.trust": {File: "f", Line: 1, Column: 1}}}).CheckFiles(); len(w) != 1 || w[0].File != "f" {
		t.Errorf("a directory that somebody names is not there: %v", w)
	}
	if os.Geteuid() != 0 {
		write(t, filepath.Join(dir, "closed"), "x")
		if err := os.Chmod(filepath.Join(dir, "closed"), 0); err != nil {
			t.Fatal(err)
		}
		cfg.VQF.KeyFile = filepath.Join(dir, "closed")
		if _, w := (Loaded{Config: cfg}).CheckFiles(); len(w) != 1 || !strings.Contains(w[0].Message, "permission denied") {
			t.Errorf("a file that may not be read: %v", w)
		}
	}
}

// What is shown as the configuration is one, whatever is in it, and hides secrets.
func TestShownConfigurationReads_P251(t *testing.T) {
	cfg := DefaultConfig()
	places := origins{}
	for _, k := range keyFields(&cfg) {
		k.field.Set(otherValue(k))
		places[k.key] = Place{File: "odd\nname", Line: 3, Column: 1}
		if k.field.Kind() == reflect.String {
			k.field.SetString(k.field.String() + "\" '\n\t\\ä")
		}
	}
	cfg.Policy = append(cfg.Policy, Policy{Client: "two", Allow: []string{"a", "b"}})
	l := Loaded{Config: cfg, places: places}
	text, err := l.TOML()
	if err != nil {
		t.Fatal(err)
	}
	r := reader{places: origins{}, bad: map[string]bool{}}
	r.document("shown", text)
	if len(r.problems) > 0 {
		t.Fatalf("%v in\n%s", r.problems, text)
	}
	for i, k := range keyFields(&cfg) {
		if got := keyFields(&r.cfg)[i].field; k.key != "policy" && !same(k.field, got) && !strings.Contains(k.field.String(), "://") {
			t.Errorf("%s: %v became %v", k.key, k.field, got)
		}
	}
	if len(r.cfg.Policy) != 2 || r.cfg.Policy[1].Allow[1] != "b" || len(l.Origins()) != len(keyFields(&cfg)) {
		t.Errorf("%+v", r.cfg.Policy)
	}
}
