// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestConfigLayers(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	write(t, file, "device = \"edge1\"\n[engine]\nthreads = 2\ncontext = 1024\n[[policy]]\nclient = \"a\"\nallow = [\"convert\"]\n")
	write(t, filepath.Join(dir, "conf.d", "20-more.toml"), "[engine]\nthreads = 3\n[[policy]]\nclient = \"ops*\"\nallow = [\"verify\"]\n")
	write(t, filepath.Join(dir, "conf.d", "10-first.toml"), "[engine]\nthreads = 4\n[paths]\nstate = \"/srv/windhover\"\n")
	write(t, filepath.Join(dir, "conf.d", "ignored.txt"), "nonsense")
	cfg, err := LoadConfig(file, true, []string{"WINDHOVER_ENGINE_CONTEXT=2048", "WINDHOVER_ANONYMOUS_ALLOW=convert, verify", "WINDHOVER_UNRELATED=x", "HOME=/"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Device != "edge1" || cfg.Engine.Threads != 3 || cfg.Engine.Context != 2048 || cfg.Paths.State != "/srv/windhover" {
		t.Errorf("got device %q threads %d context %d state %q", cfg.Device, cfg.Engine.Threads, cfg.Engine.Context, cfg.Paths.State)
	}
	if len(cfg.Policy) != 1 || cfg.Policy[0].Client != "ops*" {
		t.Errorf("a later file replaces the policies: got %v", cfg.Policy)
	}
	if got := strings.Join(cfg.Anonymous.Allow, " "); got != "convert verify" {
		t.Errorf("anonymous.allow: got %q", got)
	}
	if cfg.MQTT.Username != "edge1" || !cfg.Engine.Pin || cfg.MQTT.Embedded.Listen != "127.0.0.1:1883" {
		t.Errorf("defaults are lost: %+v", cfg)
	}
	// What it prints is a configuration that means the same.
	text, err := cfg.TOML()
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(dir, "again", "config.toml")
	write(t, again, string(text))
	back, err := LoadConfig(again, true, nil)
	if err != nil {
		t.Fatalf("config check prints what cannot be read: %v\n%s", err, text)
	}
	if !reflect.DeepEqual(back.Engine, cfg.Engine) || back.MQTT != cfg.MQTT || back.Paths != cfg.Paths {
		t.Errorf("config check prints another configuration:\n%s", text)
	}
}

func TestConfigRefusals(t *testing.T) {
	tests := []struct{ name, toml, env, want string }{
		{"unknown key", "device = \"a\"\n[engine]\nthread = 1\n", "", ":3:1: unknown key \"engine.thread\""},
		{"wrong type", "[engine]\nthreads = \"x\"\n", "", ":2:11: engine.threads is of type string, want a whole number"},
		{"no table", "engine = 3\n", "", ":1:10: engine is of type integer, want a table"},
		{"not toml", "device = \n", "", ":1:"},
		{"device name", "device = \"Edge_1\"\n", "", "device \"Edge_1\""},
		{"url", "[mqtt]\nurl = \"broker\"\n", "", "mqtt.url"},
		{"scheme", "[mqtt]\nurl = \"http://broker:1883\"\n", "", "scheme"},
		{"plaintext", "[mqtt]\nurl = \"mqtt://broker.example:1883\"\n", "", "allow_plaintext"},
		{"open broker", "[mqtt.embedded]\nlisten = \"0.0.0.0:1883\"\n", "", "users_file"},
		{"half a key pair", "[mqtt]\ncert_file = \"a\"\n", "", "key_file"},
		{"open http", "[http]\nlisten = \":8417\"\n", "", "token_file"},
		{"kv", "[engine]\nkv = \"f8\"\n", "", "engine.kv"},
		{"size", "[engine]\nmemory_limit = \"much\"\n", "", "memory_limit"},
		{"check", "[vqf]\ncheck = \"never\"\n", "", "vqf.check"},
		{"residency", "[engine]\nresidency = \"disk\"\n", "", "engine.residency"},
		{"sequences", "[engine]\nsequences = 9\n", "", "engine.sequences 9: use 1 to 8"},
		{"prefix cache", "[engine]\nprefix_cache = \"disk\"\n", "", "engine.prefix_cache"},
		{"prefix cache size", "[engine]\nprefix_cache_size = \"much\"\n", "", "engine.prefix_cache_size"},
		{"share prefixes", "[engine]\nshare_prefixes = [\"a*\", \"[\"]\n", "", "engine.share_prefixes"},
		{"share prefixes with nobody", "[engine]\nshare_prefixes = [\"\"]\n", "", "engine.share_prefixes"},
		{"cache memory", "[engine]\ncache_memory = \"-1\"\n", "", "engine.cache_memory"},
		{"signatures without keys", "[paths]\ntrust = \"\"\n[drop]\nrequire_signature = true\n", "", "paths.trust"},
		{"policy", "[[policy]]\nclient = \"[\"\n", "", "policy 1"},
		{"environment", "", "WINDHOVER_ENGINE_THREADS=many", "WINDHOVER_ENGINE_THREADS"},
		{"environment bool", "", "WINDHOVER_ENGINE_PIN=perhaps", "true or false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.toml")
			write(t, file, tt.toml)
			_, err := LoadConfig(file, true, []string{tt.env})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestConfigMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	if _, err := LoadConfig(path, false, nil); err != nil {
		t.Errorf("the default file may be absent: %v", err)
	}
	if _, err := LoadConfig(path, true, nil); err == nil {
		t.Error("a file that somebody names must be there")
	}
}

// The shipped configuration has every line commented out that is a default. Only
// the socket is set: a client on the command line has no RUNTIME_DIRECTORY to
// find the daemon by.
func TestShippedConfig(t *testing.T) {
	cfg, err := LoadConfig(filepath.Join("..", "packaging", "config.toml"), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := LoadConfig("", false, nil)
	if err != nil {
		t.Fatal(err)
	}
	want.Paths.Socket = "/run/windhover/windhover.sock"
	if !reflect.DeepEqual(cfg.Engine, want.Engine) || cfg.MQTT != want.MQTT || cfg.Paths != want.Paths || cfg.HTTP != want.HTTP {
		t.Errorf("packaging/config.toml changes a default: %+v", cfg)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "1234": 1234, "4G": 4 << 30, "512MiB": 512 << 20, " 2 gb ": 2 << 30, "1T": 1 << 40} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q): got %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "x", "-1", "1.5G", "9999999999T", "1Q"} {
		if got, err := ParseSize(in); err == nil {
			t.Errorf("ParseSize(%q): got %d, want an error", in, got)
		}
	}
}
