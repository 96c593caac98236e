// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
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
	l, err := ReadConfig(file, true, []string{"WINDHOVER_ENGINE_CONTEXT=2048", "WINDHOVER_ANONYMOUS_ALLOW=convert, verify", "WINDHOVER_UNRELATED=x", "HOME=/"})
	if err != nil {
		t.Fatal(err)
	}
	cfg := l.Config
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
	text, err := l.TOML()
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(dir, "again", "config.toml")
	write(t, again, string(text))
	back, err := LoadConfig(again, true, nil)
	if err != nil {
		t.Fatalf("config check prints what cannot be read: %v\n%s", err, text)
	}
	if !reflect.DeepEqual(back.Engine, cfg.Engine) || fmt.Sprint(back.MQTT) != fmt.Sprint(cfg.MQTT) || back.Paths != cfg.Paths {
		t.Errorf("config check prints another configuration:\n%s", text)
	}
}

// TestLaterFilesReplaceLists_P109 says each key that holds a list in two files and in the
// environment: the last one counts, whole, an empty one too, and a file that does not
// name the key changes nothing.
func TestLaterFilesReplaceLists_P109(t *testing.T) {
	keys := listKeys(reflect.TypeFor[Config](), nil)
	if len(keys) < 5 || !slices.ContainsFunc(keys, func(k listKey) bool { return k.name() == "mqtt.groups" }) {
		t.Fatalf("list keys: %v", keys)
	}
	for _, k := range keys {
		t.Run(k.name(), func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "config.toml")
			write(t, file, k.toml("aa", "bb"))
			later := filepath.Join(dir, "conf.d", "20.toml")
			for _, c := range []struct {
				later string
				want  []string
			}{
				{"", []string{"aa", "bb"}},
				{k.toml("cc"), []string{"cc"}},
				{k.toml(), nil},
			} {
				write(t, later, c.later)
				r := reader{cfg: DefaultConfig(), places: origins{}, bad: map[string]bool{}}
				r.file(file)
				r.file(later)
				if got := k.values(reflect.ValueOf(r.cfg)); !slices.Equal(got, c.want) || len(r.problems) > 0 {
					t.Errorf("got %v, %v, want %v, after\n%s", got, r.problems, c.want, c.later)
				}
				if k.tables {
					continue
				}
				r.environment([]string{EnvPrefix + strings.ToUpper(strings.Join(k.path, "_")) + "=dd"})
				if got := k.values(reflect.ValueOf(r.cfg)); !slices.Equal(got, []string{"dd"}) || len(r.problems) > 0 {
					t.Errorf("the environment makes it %v", got)
				}
			}
		})
	}
}

// listKey is a key that holds a list: of strings, or of tables.
type listKey struct {
	path   []string
	index  []int
	tables bool
}

func listKeys(typ reflect.Type, at []int) []listKey {
	var out []listKey
	for i := range typ.NumField() {
		f := typ.Field(i)
		index, name := append(slices.Clone(at), i), f.Tag.Get("toml")
		switch f.Type.Kind() {
		case reflect.Struct:
			for _, k := range listKeys(f.Type, index) {
				k.path = append([]string{name}, k.path...)
				out = append(out, k)
			}
		case reflect.Slice:
			out = append(out, listKey{[]string{name}, index, f.Type.Elem().Kind() == reflect.Struct})
		}
	}
	return out
}

func (k listKey) name() string { return strings.Join(k.path, ".") }

// toml writes the key with these values; of a table it is the first key that says who.
func (k listKey) toml(values ...string) string {
	if k.tables && len(values) > 0 {
		text := ""
		for _, v := range values {
			text += fmt.Sprintf("[[%s]]\nclient = %q\n", k.name(), v)
		}
		return text
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = strconv.Quote(v)
	}
	return k.name() + " = [" + strings.Join(quoted, ", ") + "]\n"
}

func (k listKey) values(cfg reflect.Value) []string {
	var out []string
	for list, i := cfg.FieldByIndex(k.index), 0; i < list.Len(); i++ {
		if v := list.Index(i); k.tables {
			out = append(out, v.Field(0).String())
		} else {
			out = append(out, v.String())
		}
	}
	return out
}

func TestConfigRefusals_P169(t *testing.T) {
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
		{"half a key pair for data", "[mqtt]\nurl = \"mqtts://a\"\ndata_url = \"mqtts://b\"\n[mqtt.data]\nkey_file = \"a\"\n", "", "mqtt.data.cert_file"},
		{"data without a broker", "[mqtt]\nurl = \"mqtts://a\"\n[mqtt.data]\nusername = \"a\"\n", "", "mqtt.data_url"},
		{"share with nobody", "[mqtt]\nurl = \"mqtts://a\"\nshare = true\n", "", "mqtt.groups"},
		{"share inside", "[mqtt]\nshare = true\ngroups = [\"a\"]\n", "", "shared subscriptions"},
		{"leaf in the clear", "[mqtt.embedded]\nleaf_url = \"nats://hub.example\"\n", "", "mqtt.embedded.leaf_url"},
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
		{"policy", "[[policy]]\nclient = \"[\"\n", "", "policy[0].client \"[\""},
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
	if !reflect.DeepEqual(cfg.Engine, want.Engine) || fmt.Sprint(cfg.MQTT) != fmt.Sprint(want.MQTT) || cfg.Paths != want.Paths || fmt.Sprint(cfg.HTTP) != fmt.Sprint(want.HTTP) {
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
