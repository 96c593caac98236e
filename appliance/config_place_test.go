// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"
)

// configCase is a directory of configuration files, an environment, and what is said.
type configCase struct {
	name, files string // txtar
	env         []string
	want        string // lines; DIR stands for the directory
}

// problemsOf reads the configuration of a case, as often as it takes to notice that an
// order is not fixed.
func (c configCase) problemsOf(t *testing.T) (l Loaded, said string) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(c.files)).Files {
		write(t, filepath.Join(dir, f.Name), string(f.Data))
	}
	for i := range 5 {
		var err error
		l, err = ReadConfig(filepath.Join(dir, "config.toml"), false, c.env)
		again := ""
		if err != nil {
			again = strings.ReplaceAll(err.Error(), dir, "DIR")
		}
		if i > 0 && again != said {
			t.Fatalf("said once\n%s\nand then\n%s", said, again)
		}
		said = again
	}
	return l, said
}

// Every error says where the value stands that is wrong: in the file that had the last
// word, in the environment, or nowhere; and all errors are told.
func TestConfigErrorsHavePlaces_P169(t *testing.T) {
	for _, c := range []configCase{
		{"a value", "-- config.toml --\n[engine]\n  kv = \"f32\"\n", nil, `config: DIR/config.toml:2:8: engine.kv "f32": use f16 or int8`},
		{"a dotted key", "-- config.toml --\n# first\nengine . kv=\"f32\"\n", nil, `config: DIR/config.toml:2:13: engine.kv "f32": use f16 or int8`},
		{"an inline table", "-- config.toml --\nengine = { threads = 1, kv = 'f32' }\n", nil, `config: DIR/config.toml:1:30: engine.kv "f32": use f16 or int8`},
		{"the last file", "-- config.toml --\n[engine]\nkv = \"int8\"\n-- conf.d/10.toml --\n\nengine.kv = \"f8\"\n-- conf.d/20.toml --\nengine.threads = 1\n", nil,
			`config: DIR/conf.d/10.toml:2:13: engine.kv "f8": use f16 or int8`},
		{"the environment", "-- config.toml --\n[engine]\nkv = \"f8\"\n", []string{"WINDHOVER_ENGINE_KV=f32"}, `config: environment variable WINDHOVER_ENGINE_KV: engine.kv "f32": use f16 or int8`},
		{"the environment makes it good", "-- config.toml --\n[engine]\nkv = 8\n", []string{"WINDHOVER_ENGINE_KV=int8"}, `config: DIR/config.toml:2:6: engine.kv is of type integer, want a string`},
		{"a default beside it", "-- config.toml --\n[mqtt.embedded]\nlisten = \":1883\"\n", nil, `config: DIR/config.toml:2:10: mqtt.embedded.listen ":1883" is open to the network: set mqtt.embedded.users_file`},
		{"an element", "-- config.toml --\n[mqtt]\ngroups = [\"a\",\n  \"B!\"]\n", nil, `config: DIR/config.toml:3:3: mqtt.groups[1] "B!": use 1 to 63 of a-z 0-9 -, starting with a letter or digit`},
		{"an element of another type", "-- config.toml --\nmqtt.groups = [\"a\", [1], 2]\n", nil,
			"config: DIR/config.toml:1:15: mqtt.groups[1] is of type array, want a string\nconfig: DIR/config.toml:1:26: mqtt.groups[2] is of type integer, want a string"},
		{"an element of the environment", "", []string{"WINDHOVER_MQTT_GROUPS=a,B!"}, `config: environment variable WINDHOVER_MQTT_GROUPS: mqtt.groups[1] "B!": use 1 to 63 of a-z 0-9 -, starting with a letter or digit`},
		{"a policy", "-- config.toml --\n[[policy]]\nclient = \"[\"\n-- conf.d/1.toml --\n[[policy]]\nclient = \"a\"\n[[policy]]\nclient = \"b\"\nallow = [\"x\", \"[\"]\n", nil,
			`config: DIR/conf.d/1.toml:5:15: policy[1].allow[1] "[" is no pattern of job types`},
		{"a policy without client", "-- config.toml --\n[[policy]]\nclient = \"a\"\n\n[[policy]]\nallow = []\n", nil, `config: DIR/config.toml:4:3: policy[1].client "" is no pattern of client names`},
		{"inline policies", "-- config.toml --\npolicy = [{client = \"a\"}, {client = \"[\", allowed = []}]\n", nil,
			"config: DIR/config.toml:1:42: unknown key \"policy[1].allowed\": did you mean policy.allow?\nconfig: DIR/config.toml:1:37: policy[1].client \"[\" is no pattern of client names"},
		{"policy is no table", "-- config.toml --\npolicy = [1]\n", nil, `config: DIR/config.toml:1:11: policy[0] is of type integer, want a table`},
		{"policy is no list", "-- config.toml --\n[policy]\nclient = \"a\"\n", nil, `config: DIR/config.toml:1:2: policy is of type table, want a list of tables`},
		{"no date", "-- config.toml --\ndevice = 2026-11-30\n", nil, `config: DIR/config.toml:1:10: device is of type date or time, want a string`},
		{"no float", "-- config.toml --\nengine.threads = 1.5\n", nil, `config: DIR/config.toml:1:18: engine.threads is of type float, want a whole number`},
		{"all of them", "-- config.toml --\n[engine]\nthread = 1\nkv = \"x\"\nfamily = \"y\"\nthreads = \"z\"\n-- conf.d/1.toml --\n[vqf]\ncheck = \"never\"\nexpect = \"Q9\"\n", []string{"WINDHOVER_HTTP_LISTEN=8417", "WINDHOVER_ENGINE_PIN=perhaps"},
			`config: DIR/config.toml:2:1: unknown key "engine.thread": did you mean engine.threads?
config: DIR/config.toml:5:11: engine.threads is of type string, want a whole number
config: environment variable WINDHOVER_ENGINE_PIN: engine.pin "perhaps" is no boolean: use true or false
config: environment variable WINDHOVER_HTTP_LISTEN: http.listen "8417": write it as ADDRESS:PORT, or "" to turn it off
config: DIR/config.toml:3:6: engine.kv "x": use f16 or int8
config: DIR/config.toml:4:10: engine.family "y": use q4 or q8
config: DIR/conf.d/1.toml:2:9: vqf.check "never": use install or always or size
config: DIR/conf.d/1.toml:3:10: vqf.expect: unknown flag "Q9" in "Q9": use `},
		{"no errors that follow from others", "-- config.toml --\n[mqtt]\nurl = 3\nshare = true\ngroup = [\"a\"]\n[mqtt.embedded]\nlisten = \":1883\"\nuser_file = \"/x\"\n", nil,
			`config: DIR/config.toml:2:7: mqtt.url is of type integer, want a string
config: DIR/config.toml:4:1: unknown key "mqtt.group": did you mean mqtt.groups?
config: DIR/config.toml:7:1: unknown key "mqtt.embedded.user_file": did you mean mqtt.embedded.users_file?`},
		{"an unknown table", "-- config.toml --\n[motor]\nspeed = 1\nrange = 2\n", nil, `config: DIR/config.toml:1:2: unknown key "motor"`},
		{"another table", "-- config.toml --\n[engine]\nrequire_signature = true\n", nil, `config: DIR/config.toml:2:1: unknown key "engine.require_signature": did you mean drop.require_signature?`},
		{"capitals", "-- config.toml --\n[Engine]\nKV = \"f16\"\n", nil, `config: DIR/config.toml:1:2: unknown key "Engine"`},
		{"a quoted key", "-- config.toml --\n\"engine.kv\" = \"f16\"\n", nil, `config: DIR/config.toml:1:1: unknown key "\"engine.kv\""`},
		{"twice", "-- config.toml --\n[engine]\nkv = \"f16\"\nkv = \"int8\"\n", nil, `config: DIR/config.toml:3:1: `},
		{"a table twice", "-- config.toml --\n[engine]\nkv = \"f16\"\n[engine]\n", nil, `config: DIR/config.toml:3:2: `},
		{"no TOML", "-- config.toml --\n[engine]\nkv = f16\n-- conf.d/1.toml --\nx\n", nil, "config: DIR/config.toml:2:6: expected keyword \"false\"\nconfig: DIR/conf.d/1.toml:1:2: expected '=' after key"},
		{"UTF-16", "-- config.toml --\n\xff\xfed\x00e\x00\n", nil, `config: DIR/config.toml:1:1: is written in UTF-16: save it as UTF-8`},
		{"Latin-1", "-- config.toml --\n# ok \xc3\xa4\ndevice = \"k\xfcche\"\n", nil, `config: DIR/config.toml:2:12: byte 0xfc is not UTF-8: save the file as UTF-8`},
		{"begun by a mark", "-- config.toml --\n\xef\xbb\xbfdevice = \"Edge\"\n", nil, `config: DIR/config.toml:1:10: device "Edge": use 1 to 63`},
		{"a mark inside", "-- config.toml --\n\n\xef\xbb\xbfdevice = \"edge\"\n", nil, `config: DIR/config.toml:2:1: `},
		{"a null", "-- config.toml --\ndevice = \"a\x00b\"\n", nil, `config: DIR/config.toml:1:`},
		{"lines of Windows", "-- config.toml --\n[engine]\r\nkv = \"f16\"\r\nfamily = \"x\"\r\n", nil, `config: DIR/config.toml:3:10: engine.family "x": use q4 or q8`},
		{"no UTF-8 in the environment", "", []string{"WINDHOVER_DEVICE=a\xff"}, `config: environment variable WINDHOVER_DEVICE: device "a\xff" is not UTF-8`},
		{"a port", "-- config.toml --\nhttp.listen = \"127.0.0.1:70000\"\nmqtt.url = \"mqtts://a:70000\"\n", nil,
			"config: DIR/config.toml:2:12: mqtt.url \"mqtts://a:70000\": port 70000 is none: use 1 to 65535\nconfig: DIR/config.toml:1:15: http.listen \"127.0.0.1:70000\": port \"70000\" is none: use 1 to 65535, or 0 for any"},
		{"the log", "-- config.toml --\nlog = {format = \"xml\", level = \"all\", burst = -1}\n", nil,
			"config: DIR/config.toml:1:17: log.format \"xml\": use text or json\nconfig: DIR/config.toml:1:32: log.level \"all\": use debug or info or warn or error\nconfig: DIR/config.toml:1:47: log.burst -1: use 1 or more"},
		{"anonymous", "-- config.toml --\nanonymous.allow = [\"a\", \"\"]\n", nil, `config: DIR/config.toml:1:25: anonymous.allow[1] "" is no pattern of job types`},
		{"conf.d is a file", "-- conf.d --\n", nil, `config: DIR/conf.d: is no directory: move it away`},
		{"a table of that name", "-- conf.d/1.toml/x --\n", nil, `config: DIR/conf.d/1.toml: is a directory: name a file`},
		{"nothing of editors", "-- conf.d/.#1.toml --\nx\n-- conf.d/1.toml~ --\nx\n-- conf.d/1.toml.bak --\nx\n", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, said := c.problemsOf(t)
			got, want := strings.Split(said, "\n"), strings.Split(c.want, "\n")
			if len(got) != len(want) {
				t.Fatalf("got\n%s\nwant\n%s", said, c.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], want[i]) || c.want == "" && said != "" {
					t.Errorf("got\n%s\nwant\n%s", got[i], want[i])
				}
			}
			if said != "" && !reflect.DeepEqual(l.Config, Config{}) {
				t.Error("a configuration that is refused is handed out")
			}
		})
	}
}

// What is no file that a person wrote is refused at once.
func TestConfigFilesThatAreNone_P169(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(unix.Mkfifo(at("fifo"), 0o644), os.Symlink("nowhere", at("dangling")), os.Mkdir(at("dir"), 0o755), os.Symlink("good", at("link"))); err != nil {
		t.Fatal(err)
	}
	write(t, at("good"), "device = \"a\"\n")
	write(t, at("large"), "# "+strings.Repeat("x", maxConfigFile))
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for _, c := range []struct{ name, want string }{
		{"fifo", "is not a regular file"}, {"socket", "is not a regular file"}, {"/dev/zero", "is not a regular file"}, {"dangling", "is a symbolic link to nothing"}, {"dir", "is a directory"},
		{"large", "more than 262144 bytes"}, {"good/x", "not a directory"}, {"absent", "no such file"}, {"link", ""}, {"good", ""},
	} {
		path := c.name
		if !filepath.IsAbs(path) {
			path = at(path)
		}
		_, err := ReadConfig(path, true, nil)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var list Problems
		if !errors.As(err, &list) || len(list) != 1 || list[0].File != path || !strings.Contains(list[0].Message, c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		// In conf.d it is the same, but that a file is there.
		conf := t.TempDir()
		if err := errors.Join(os.Mkdir(filepath.Join(conf, "conf.d"), 0o755), os.Symlink(path, filepath.Join(conf, "conf.d", "1.toml"))); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadConfig(filepath.Join(conf, "config.toml"), false, nil); err == nil || !strings.Contains(err.Error(), filepath.Join(conf, "conf.d", "1.toml")+": ") {
			t.Errorf("%s in conf.d: %v", c.name, err)
		}
	}
	if got := FormatOf(at("fifo"), nil); got != "" {
		t.Errorf("the format of a log by a FIFO: %q", got)
	}
	// As large as a file may be, and nothing in it is a key, or all of it is one list.
	many := strings.Builder{}
	for i := 0; many.Len() < maxConfigFile-16; i++ {
		fmt.Fprintf(&many, "k%d = 1\n", i)
	}
	write(t, at("many"), many.String())
	_, err = ReadConfig(at("many"), true, nil)
	var list Problems
	if !errors.As(err, &list) || len(list) != maxProblems+1 || list[0].Error() != "config: "+at("many")+":1:1: unknown key \"k0\"" || list[99].Line != 100 {
		t.Errorf("many keys: %.200v", err)
	}
	write(t, at("long"), "mqtt.groups = ["+strings.Repeat("\n'a',", (maxConfigFile-32)/5)+"1]\n")
	if _, err := ReadConfig(at("long"), true, nil); err == nil || !strings.HasPrefix(err.Error(), "config: "+at("long")+":52423:5: mqtt.groups[52422] is of type integer") {
		t.Errorf("a long list: %.200v", err)
	}
	if _, err := ReadConfig(at("absent"), true, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.Symlink("nowhere", at("conf.d")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(at("good"), true, nil); err == nil || !strings.Contains(err.Error(), at("conf.d")+": is a symbolic link to nothing") {
		t.Errorf("conf.d leads nowhere: %v", err)
	}
}

// A variable that is no key is told when it begins like a section's.
func TestConfigVariables_P169(t *testing.T) {
	l, err := ReadConfig("", false, []string{"WINDHOVER_MQTT_ULR=mqtts://u:secret@x", "WINDHOVER_ENGINE=1", "WINDHOVER_POLICY=a", "WINDHOVER_LOG_ZZZZZZZZZZZZ=1",
		"WINDHOVER_TEST_BOX=1", "WINDHOVER_SOAK=1", "WINDHOVER_MODEL=x", "WINDHOVER_HTTPS_PROXY=x", "HTTP_PROXY=x", "WINDHOVER_HTTP_LISTEN=127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range l.Warnings {
		got = append(got, w.Error())
	}
	want := []string{
		"config: environment variable WINDHOVER_ENGINE: is no key",
		"config: environment variable WINDHOVER_LOG_ZZZZZZZZZZZZ: is no key",
		"config: environment variable WINDHOVER_MQTT_ULR: is no key: did you mean WINDHOVER_MQTT_URL?",
		"config: environment variable WINDHOVER_POLICY: policy cannot be set by the environment: write it into a file",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if l.Config.HTTP.Listen != "127.0.0.1:1" {
		t.Error(l.Config.HTTP.Listen)
	}
}

// No two keys have one variable, and each key that can be set by one is.
func TestConfigVariableOfEachKey(t *testing.T) {
	seen := map[string]string{}
	for _, k := range keyFields(new(Config)) {
		if other := seen[k.variable()]; other != "" {
			t.Errorf("%s is of %s and %s", k.variable(), other, k.key)
		}
		seen[k.variable()] = k.key
		value := map[reflect.Kind]string{reflect.String: "x", reflect.Bool: "true", reflect.Int: "7", reflect.Slice: "x"}[k.field.Kind()]
		if k.key == "policy" {
			continue
		}
		if value == "" {
			t.Fatalf("%s is of a type that no file can set: %v", k.key, k.field.Type())
		}
		if err := setFromString(k.field, value); err != nil || k.field.IsZero() {
			t.Errorf("%s = %q: %v", k.key, value, err)
		}
	}
}

func TestNearKey(t *testing.T) {
	for in, want := range map[string]string{
		"engine.vk": "engine.kv", "engine.thread": "engine.threads", "mqtt.ulr": "mqtt.url", "mqtt.embeded.listen": "mqtt.embedded.listen", "http.tokenfile": "http.token_file",
		"Engine.KV": "engine.kv", "token_file": "http.token_file", "devise": "device", "x": "", "colour": "", "mqtt.colour": "", "engine.speed": "",
	} {
		if got := nearKey(in, allKeys()); got != want {
			t.Errorf("nearKey(%q): got %q, want %q", in, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"kv", "vk", 1}, {"abcd", "abxd", 1}, {"kitten", "sitting", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("%q %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// Whatever the bytes are, reading them ends, and what is wrong has a place.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{"", "device = \"a\"\n", "[engine]\nkv = \"f32\"\n", "[[policy]]\nclient = \"a\"\nallow = [\"x\"]\n[policy.x]\n", "policy = [{client = \"a\", allow = [1]}, []]\n", "a.b.\"c.d\" = {x = [[{y = 1}]]}\n",
		"mqtt.groups = [\n# c\n\"a\" , 'b',]\n", "\xef\xbb\xbf", "\xff", "engine.threads = 0x7fffffffffffffff\n", "device = \"\"\"\na\"\"\"\n", "[mqtt]\nurl = \"mqtt://u:p@h\"\n", "[a]\n[[a.b]]\n[[a.b.c]]\nx=1\n[a.b.d]\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := reader{cfg: DefaultConfig(), places: origins{}, bad: map[string]bool{}}
		r.document("f", raw)
		for _, p := range r.problems {
			if p.File != "f" || p.Line < 1 || p.Column < 1 || p.Message == "" || !strings.HasPrefix(p.Error(), "config: f:") {
				t.Errorf("%+v", p)
			}
		}
		lines := strings.Count(string(raw), "\n") + 1
		for key, p := range r.places {
			if p.File != "f" || p.Line < 1 || p.Line > lines || p.Column < 1 {
				t.Errorf("%s stands at %v", key, p)
			}
		}
		if r.lost {
			return
		}
		for _, p := range r.cfg.check(r.places, r.bad) {
			if p.Message == "" {
				t.Errorf("%+v", p)
			}
		}
	})
}
