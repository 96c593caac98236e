// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDoctorPassphrase(t *testing.T) {
	secret := sealedModel(t, sealing{passphrase: "swordfish"}, nil)
	tests := []struct {
		name    string
		model   bool   // an encrypted model is there
		file    string // content of vqf.key_file; "-": not set, "": not there
		mode    os.FileMode
		env     string
		running bool
		want    string
		says    string
	}{
		{"nothing", false, "-", 0, "", false, FindingOK, "none"},
		{"a model and no passphrase", true, "-", 0, "", false, FindingBad, "m.vqf"},
		{"a model and a unit", true, "-", 0, "", true, FindingWarn, "not seen from here"},
		{"a file", true, "swordfish\n", 0o600, "", false, FindingOK, "m.vqf"},
		{"a file for all", true, "swordfish\n", 0o644, "", false, FindingWarn, "everybody"},
		{"a file that others change", false, "swordfish\n", 0o660, "", false, FindingWarn, "changed by others"},
		{"an empty file", false, "\n", 0o600, "", false, FindingBad, "empty"},
		{"a file that is gone", false, "", 0, "", false, FindingBad, "no such file"},
		{"environment", false, "-", 0, "swordfish", false, FindingWarn, keyVariable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := visit(t, meminfo(16<<30))
			if tt.model {
				writeBytes(t, filepath.Join(d.cfg.Paths.drop(), "m.vqf"), secret)
			}
			if tt.file != "-" {
				d.cfg.VQF.KeyFile = filepath.Join(d.cfg.Paths.State, "key")
			}
			if tt.mode != 0 {
				write(t, d.cfg.VQF.KeyFile, tt.file)
				if err := os.Chmod(d.cfg.VQF.KeyFile, tt.mode); err != nil {
					t.Fatal(err)
				}
			}
			d.getenv = func(name string) string { return map[string]string{keyVariable: tt.env}[name] }
			if tt.running {
				d.running = &StatusDoc{}
			}
			f := only(t, d, d.passphrase)
			if f.Status != tt.want || !strings.Contains(f.Detail, tt.says) || (f.Advice == "") != (tt.want == FindingOK) {
				t.Errorf("%+v, want %s, %q", f, tt.want, tt.says)
			}
			if strings.Contains(f.Detail+f.Advice, "swordfish") {
				t.Errorf("it tells the passphrase: %+v", f)
			}
			if tt.name == "a file" {
				if f := only(t, d, d.memory); f.Status != FindingOK || !strings.Contains(f.Detail, "m ") {
					t.Errorf("memory: %+v", f)
				}
			}
		})
	}
}

func TestDoctorTrust(t *testing.T) {
	key := newSM2(t).Public()
	for _, c := range []struct {
		name    string
		files   map[string]string
		mode    os.FileMode
		require bool
		want    string
		says    string
	}{
		{"none", nil, 0o644, false, FindingOK, "not required; keys trusted in"},
		{"none, and one is needed", nil, 0o644, true, FindingBad, "none"},
		{"a key", map[string]string{"a.sm2.pub": key.String() + "\n"}, 0o644, true, FindingOK, "a (sm2 " + key.Fingerprint() + ")"},
		{"a broken key", map[string]string{"a.sm2.pub": "zz\n"}, 0o644, false, FindingBad, "a.sm2.pub"},
		{"a key that all may change", map[string]string{"a.sm2.pub": key.String() + "\n"}, 0o666, false, FindingWarn, "changed by others"},
	} {
		d := visit(t, nil)
		d.cfg.Drop.RequireSignature = c.require
		for name, text := range c.files {
			write(t, filepath.Join(d.cfg.Paths.Trust, name), text)
			if err := os.Chmod(filepath.Join(d.cfg.Paths.Trust, name), c.mode); err != nil {
				t.Fatal(err)
			}
		}
		if f := only(t, d, d.trust); f.Status != c.want || !strings.Contains(f.Detail, c.says) || (f.Advice == "") != (c.want == FindingOK) {
			t.Errorf("%s: %+v, want %s, %q", c.name, f, c.want, c.says)
		}
	}
}
