// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"windhover/control"
)

// Every key of the configuration is either one that counts at once or one that needs a
// restart, and windhover.toml(5) names the former.
func TestEveryKeyCountsAtOnceOrNot_P250(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "packaging", "man", "windhover.toml.5"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), ".Sh WHEN A CHANGE COUNTS\n")
	if !ok {
		t.Fatal("windhover.toml.5 does not say when a change counts")
	}
	section, _, _ = strings.Cut(section, "\n.Sh ")
	told := map[string]bool{}
	for _, line := range strings.Split(section, "\n") {
		if list, ok := strings.CutPrefix(line, ".It Li "); ok {
			for _, key := range strings.Split(list, " , ") {
				told[key] = true
			}
		}
	}
	seen := map[string]bool{}
	for _, k := range keyFields(new(Config)) {
		seen[k.key] = true
		when := counts[k.key]
		if when != atOnce && when != atRestart {
			t.Errorf("%s: say in the table of reload.go when a change of it counts", k.key)
		}
		if told[k.key] != (when == atOnce) {
			t.Errorf("%s counts %s, windhover.toml.5 says otherwise", k.key, when)
		}
	}
	for key := range counts {
		if !seen[key] {
			t.Errorf("%s is no key", key)
		}
	}
	for key := range told {
		if !seen[key] {
			t.Errorf("windhover.toml.5 names %s, which is no key", key)
		}
	}
}

// otherValue is a value of a key that is not its own and works.
func otherValue(k keyField) reflect.Value {
	special := map[string]string{"http.listen": "127.0.0.1:1", "mqtt.embedded.listen": "127.0.0.1:1", "engine.kv": "int8", "engine.residency": "full", "engine.family": "q8",
		"engine.memory_limit": "1G", "engine.cache_memory": "1G", "engine.prefix_cache": "save", "engine.prefix_cache_size": "2G", "vqf.layout": "strict", "vqf.expect": "", "vqf.check": "size",
		"updates.window": "01:00-02:00", "updates.max_rate": "1M", "updates.max_bytes": "1M", "log.format": "json", "log.level": "warn", "mqtt.url": "mqtts://a", "mqtt.data_url": "mqtts://b"}
	v := reflect.New(k.field.Type()).Elem()
	value, isSpecial := special[k.key]
	switch v.Kind() {
	case reflect.String:
		if v.SetString("other"); isSpecial {
			v.SetString(value)
		}
	case reflect.Bool:
		v.SetBool(!k.field.Bool())
	case reflect.Int:
		v.SetInt(k.field.Int() + 1)
	default:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if v.Type() == reflect.TypeFor[[]string]() {
			v.Index(0).SetString("other")
		} else {
			v.Index(0).Set(reflect.ValueOf(Policy{Client: "other"}))
		}
	}
	return v
}

// A change of any key is named, in the list that it belongs to, and what counts is in
// the configuration that goes on, alone.
func TestChangeOfEachKeyIsNamed_P250(t *testing.T) {
	base := DefaultConfig()
	base.Device, base.Paths.Socket, base.MQTT.Username = "a", "/s", "a"
	for i, k := range keyFields(&base) {
		read := base
		keyFields(&read)[i].field.Set(otherValue(k))
		next, now, later := merge(base, read, func(Config) bool { return true })
		if counts[k.key] == atOnce {
			if !slices.Equal(now, []string{k.key}) || later != nil || !reflect.DeepEqual(next, read) {
				t.Errorf("%s: counts %v, later %v", k.key, now, later)
			}
			if again, now, later := merge(next, read, func(Config) bool { return true }); now != nil || later != nil || !reflect.DeepEqual(again, next) {
				t.Errorf("%s a second time: counts %v, later %v", k.key, now, later)
			}
		} else if !slices.Equal(later, []string{k.key}) || now != nil || !reflect.DeepEqual(next, base) {
			t.Errorf("%s: counts %v, later %v", k.key, now, later)
		}
	}
	read := base
	read.MQTT.Groups, read.Engine.SharePrefixes = []string{}, nil
	if _, now, later := merge(base, read, nil); now != nil || later != nil {
		t.Errorf("an empty list is another than none: %v %v", now, later)
	}
}

// What does not work beside that which stays until a restart waits for it too.
func TestMergeWorks_P250(t *testing.T) {
	works := func(c Config) bool { return len(c.check(nil, nil)) == 0 }
	live := DefaultConfig()
	live.Device = "a"
	live.HTTP = HTTP{Listen: ":8417", TokenFile: "/token"}
	live.Updates.ReleaseKeys, live.Updates.ReleaseThreshold = []string{"a", "b"}, 2
	if err := live.finish(); err != nil {
		t.Fatal(err)
	}
	read := live
	read.HTTP = HTTP{Listen: "127.0.0.1:8417"}
	read.Updates.ReleaseKeys, read.Updates.ReleaseThreshold = []string{"a"}, 1
	read.Policy = []Policy{{Client: "ops", Allow: []string{"gc"}}}
	if !works(read) {
		t.Fatal("a bad example")
	}
	next, now, later := merge(live, read, works)
	if !slices.Equal(now, []string{"updates.release_keys", "updates.release_threshold", "policy"}) || !slices.Equal(later, []string{"http.listen", "http.token_file"}) {
		t.Errorf("counts %v, later %v", now, later)
	}
	if next.HTTP.TokenFile != "/token" || next.Updates.ReleaseThreshold != 1 || !works(next) {
		t.Errorf("goes on with %+v", next)
	}
}

// Models are held to what was read again from the next look at the drop directory on.
func TestDeployerTakesOver_P250(t *testing.T) {
	r := newRig(t, t.TempDir())
	l := newLoader(DefaultConfig(), r.who.pass, 1, r.pulse)
	r.layouts = l.adopt
	cfg := DefaultConfig()
	cfg.VQF, cfg.Drop.ObserveS = VQF{Check: "always", Layout: "strict", Expect: "DIM", KeyFile: "/other"}, 7
	r.next.Store(&cfg)
	if r.check != "install" {
		t.Fatal(r.check)
	}
	r.scan(context.Background())
	opt, err := l.options()
	if err == nil || !strings.Contains(err.Error(), "DIM") {
		t.Errorf("the layout that is expected does not count: %v", err)
	}
	cfg.VQF.Expect = "0"
	r.next.Store(&cfg)
	r.scan(context.Background())
	if opt, err = l.options(); err != nil || !opt.VQF.Strict || r.check != "always" || r.observing.Seconds() != 7 || l.cfg.VQF.KeyFile != "" {
		t.Errorf("%+v, %v, %q, %v", opt.VQF, err, r.check, r.observing)
	}
}

// SIGHUP on a daemon that serves: what can count does, at once and without the loss of a
// connection, and what is wrong changes nothing.
func TestReloadWhileServing_P250(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	write(t, token, "s3cret\n")
	b := startBox(t, func(c *Config) { c.Engine.Sequences = 1 })
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	c := b.client(t, "line-1")
	reload := func(change func(*Config)) {
		t.Helper()
		cfg := b.cfg
		change(&cfg)
		b.cfg = cfg
		b.reload(t)
		b.heard(t, "RELOADING=1")
		b.heard(t, "READY=1")
	}
	get := func(host, bearer string) int {
		t.Helper()
		r, err := http.NewRequest("GET", "http://"+b.cfg.HTTP.Listen+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Host = host; bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	drop := func(bearer string) int {
		t.Helper()
		r, err := http.NewRequest("PUT", "http://"+b.cfg.HTTP.Listen+"/v1/drop/x.vqf", strings.NewReader("no model"))
		if err != nil {
			t.Fatal(err)
		}
		if bearer != "" {
			r.Header.Set("Authorization", "Bearer "+bearer)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := get("proxy.example", ""); got != http.StatusForbidden {
		t.Errorf("a name that nobody gave it: %d", got)
	}
	reload(func(c *Config) { c.HTTP.Hosts = []string{"proxy.example"} })
	if got := get("proxy.example", ""); got != http.StatusOK {
		t.Errorf("http.hosts does not count: %d", got)
	}
	reload(func(c *Config) { c.HTTP.TokenFile = token })
	if a, b, d := get("localhost", ""), get("localhost", "s3cret"), drop("s3cret"); a != http.StatusUnauthorized || b != http.StatusOK || d != http.StatusCreated && d != http.StatusOK {
		t.Errorf("http.token_file does not count: %d without, %d with, a model %d", a, b, d)
	}
	reload(func(c *Config) { c.HTTP.TokenFile = "" })
	if got := get("localhost", ""); got != http.StatusOK {
		t.Errorf("without a token again: %d", got)
	}

	// Who may submit what.
	jobOf := func(id string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), waitFor)
		defer cancel()
		rec, err := c.Command(ctx, "gc", id, []byte("{}"), nil)
		if errors.Is(err, control.Forbidden) {
			return "forbidden"
		}
		if err != nil {
			t.Fatal(err)
		}
		return rec.Status
	}
	if got := jobOf("one"); got != "forbidden" {
		t.Errorf("gc by anybody: %s", got)
	}
	reload(func(c *Config) { c.Anonymous.Allow = []string{"gc"} })
	if got := jobOf("two"); got != "succeeded" {
		t.Errorf("anonymous.allow does not count: %s", got)
	}
	reload(func(c *Config) { c.MQTT.BrokerEnforcesACL = true })
	if got := jobOf("three"); got != "forbidden" {
		t.Errorf("mqtt.broker_enforces_acl does not count: %s", got)
	}
	reload(func(c *Config) { c.Policy = []Policy{{Client: "line-*", Allow: []string{"gc"}}} })
	if got := jobOf("four"); got != "succeeded" {
		t.Errorf("policy does not count: %s", got)
	}

	// Whose prompts begin alike.
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	other := b.client(t, "line-2")
	cached := func(c *control.Client) int {
		t.Helper()
		a, err := c.Send(ctx, request("a prompt of both of them", 2), nil)
		if err != nil {
			t.Fatal(err)
		}
		return a.Done.Usage.Cached
	}
	if a, b := cached(c), cached(other); a != 0 || b != 0 {
		t.Errorf("cached %d and %d", a, b)
	}
	reload(func(c *Config) { c.Engine.SharePrefixes = []string{"line-*"} })
	cached(c)
	if cached(other) == 0 {
		t.Error("engine.share_prefixes does not count")
	}

	// The job says the same, and of one with an error nothing counts.
	b.cfg.HTTP.Hosts, b.cfg.Engine.KV = nil, "int8"
	rec, err := b.job(t, "config_reload", "again", map[string]string{})
	var said struct {
		Applied []string
		Restart []string `json:"needs_restart"`
	}
	if err != nil || json.Unmarshal(rec.Result, &said) != nil || !slices.Equal(said.Applied, []string{"http.hosts"}) || !slices.Equal(said.Restart, []string{"engine.kv"}) {
		t.Errorf("config_reload: %s, %v", rec.Result, err)
	}
	b.cfg.HTTP.Hosts = []string{"proxy.example"}
	b.wrong = Problems{{Place: Place{"/etc/x.toml", 3, 4, ""}, Key: "engine.kv", Message: `engine.kv "x": use f16 or int8`}}
	if _, err := b.job(t, "config_reload", "bad", map[string]string{}); !errors.Is(err, control.BadRequest) || !strings.Contains(err.Error(), "/etc/x.toml:3:4: engine.kv") {
		t.Errorf("config_reload of one with an error: %v", err)
	}
	if got := get("proxy.example", ""); got != http.StatusForbidden {
		t.Errorf("a configuration with an error counts: %d", got)
	}
}

// Each thing that is wrong has a record with its place.
func TestReloadErrorsAreLogged_P250(t *testing.T) {
	var out bytes.Buffer
	s := &server{log: slog.New(slog.NewTextHandler(&out, nil))}
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	write(t, file, "[engine]\nkv = \"x\"\nfamily = \"y\"\n")
	l, err := ReadConfig(file, true, []string{"WINDHOVER_ENGINE_KW=x"})
	s.doubt(l.Warnings)
	s.refuse(err)
	got := regexp.MustCompile(`(?m)^time=\S+ `).ReplaceAllString(strings.ReplaceAll(out.String(), dir, "DIR"), "")
	want := `level=WARN msg="a variable of the environment says nothing" variable=WINDHOVER_ENGINE_KW error="is no key: did you mean WINDHOVER_ENGINE_KV?"
level=ERROR msg="configuration not taken over: it stays as it was" key=engine.kv error="DIR/config.toml:2:6: engine.kv \"x\": use f16 or int8"
level=ERROR msg="configuration not taken over: it stays as it was" key=engine.family error="DIR/config.toml:3:10: engine.family \"y\": use q4 or q8"
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A file that the configuration names and nobody can use is told of, with its key.
func TestFilesOfNoUse(t *testing.T) {
	dir := t.TempDir()
	empty, good := filepath.Join(dir, "empty"), filepath.Join(dir, "good")
	write(t, empty, "\n")
	write(t, good, "secret\n")
	for name, tt := range map[string]struct {
		token, key string
		want       string
	}{
		"not there": {filepath.Join(dir, "none"), good, "no such file"},
		"empty":     {empty, good, "is empty"},
		"good":      {good, good, ""},
		"not named": {"", "", ""},
	} {
		var out bytes.Buffer
		c := DefaultConfig()
		c.HTTP.TokenFile, c.VQF.KeyFile = tt.token, tt.key
		(&server{log: slog.New(slog.NewTextHandler(&out, nil))}).lack(c)
		got := out.String()
		if (got != "") != (tt.want != "") || !strings.Contains(got, tt.want) || got != "" && !strings.Contains(got, "key=http.token_file") || strings.Contains(got, "secret") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
