// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"windhover/control"
	"windhover/control/ota"
	"windhover/engine"
	"windhover/vqf"
)

// checker fills what depends on the machine and finds values that cannot work.
type checker struct {
	*Config
	places origins
	bad    map[string]bool // keys that are not what somebody wanted: what depends on them is not judged
	found  Problems
}

// finish completes a configuration and refuses values that cannot work.
func (c *Config) finish() error {
	if list := c.check(nil, nil); len(list) > 0 {
		return list
	}
	return nil
}

// check is finish for values that stand at places; keys in bad are known not to be set
// as somebody wanted.
func (c *Config) check(places origins, bad map[string]bool) Problems {
	k := &checker{Config: c, places: places, bad: bad}
	k.complete()
	k.checkMQTT()
	k.checkEmbedded()
	k.checkHTTP()
	k.checkEngine()
	k.checkVQF()
	k.checkUpdates()
	k.checkPolicy()
	k.checkLog()
	k.checkAudit()
	return k.found
}

// wrong notes what is wrong with a key: the text follows its name.
func (c *checker) wrong(key, format string, args ...any) {
	for k := key; k != ""; k = k[:max(strings.LastIndexAny(k, ".["), 0)] {
		if c.bad[k] {
			return // it has been told
		}
	}
	if !strings.HasPrefix(format, ":") {
		format = " " + format
	}
	c.found = append(c.found, Problem{Place: c.places.of(key), Key: key, Message: key + fmt.Sprintf(format, args...)})
}

// sound says whether all these keys are what somebody wanted them to be.
func (c *checker) sound(keys ...string) bool {
	for _, k := range keys {
		if c.bad[k] {
			return false
		}
	}
	return true
}

func (c *checker) oneOf(key, value string, allowed ...string) {
	for _, a := range allowed {
		if value == a {
			return
		}
	}
	c.wrong(key, "%q: use %s", value, strings.TrimPrefix(strings.Join(allowed, " or "), " or "))
}

func (c *checker) size(key, value string) {
	if _, err := ParseSize(value); err != nil {
		c.wrong(key, "%v", err)
	}
}

// complete fills what depends on the machine.
func (c *checker) complete() {
	if c.Device == "" {
		if host, err := os.Hostname(); err == nil {
			c.Device = control.DeviceName(host)
		} else {
			c.wrong("device", "is not set and the host name is unknown: %v", err)
		}
	} else if !control.ValidDevice(c.Device) {
		c.wrong("device", "%q: use 1 to 63 of a-z 0-9 -, starting with a letter or digit", c.Device)
	}
	if c.Paths.State == "" {
		c.wrong("paths.state", "is empty: name the directory that holds drop/, store/ and the rest")
	}
	// The daemon and its children run in directories of their own.
	for _, p := range []struct {
		key  string
		path *string
	}{{"paths.state", &c.Paths.State}, {"paths.trust", &c.Paths.Trust}, {"vqf.key_file", &c.VQF.KeyFile}, {"updates.ca_file", &c.Updates.CAFile}, {"audit.file", &c.Audit.File}} {
		if *p.path == "" {
			continue
		}
		abs, err := filepath.Abs(*p.path)
		if err != nil {
			c.wrong(p.key, "%v", err)
			continue
		}
		*p.path = abs
	}
	if c.Paths.Socket == "" {
		dir := os.Getenv("RUNTIME_DIRECTORY")
		if dir == "" {
			dir = c.Paths.State
		}
		c.Paths.Socket = filepath.Join(dir, "windhover.sock")
	}
	if c.MQTT.Username == "" {
		c.MQTT.Username = c.Device
	}
}

func (c *checker) checkMQTT() {
	m := c.MQTT
	c.brokerURL("mqtt.url", m.URL)
	c.brokerURL("mqtt.data_url", m.DataURL)
	c.pair("mqtt.cert_file", m.CertFile, "mqtt.key_file", m.KeyFile)
	c.pair("mqtt.data.cert_file", m.Data.CertFile, "mqtt.data.key_file", m.Data.KeyFile)
	if m.DataURL == "" && c.sound("mqtt.data_url") {
		for _, k := range []struct{ key, value string }{
			{"username", m.Data.Username}, {"password_file", m.Data.PasswordFile}, {"ca_file", m.Data.CAFile}, {"cert_file", m.Data.CertFile}, {"key_file", m.Data.KeyFile},
		} {
			if k.value != "" {
				c.wrong("mqtt.data."+k.key, "is for the broker of mqtt.data_url: set that too")
				break
			}
		}
	}
	if m.Share && len(m.Groups) == 0 && c.sound("mqtt.groups") {
		c.wrong("mqtt.share", "is on: name the groups whose requests this box shares in mqtt.groups")
	}
	if m.Share && m.URL == "" && c.sound("mqtt.url") {
		c.wrong("mqtt.share", "is on, and the broker inside has no shared subscriptions: set mqtt.url to one that has")
	}
	for i, g := range m.Groups {
		if !control.ValidGroup(g) {
			c.wrong(fmt.Sprintf("mqtt.groups[%d]", i), "%q: use 1 to 63 of a-z 0-9 -, starting with a letter or digit", g)
		}
	}
}

// brokerURL checks the URL of a broker. Those with a user in them are refused: they are
// shown in the log, on the page and by status.
func (c *checker) brokerURL(key, raw string) {
	if raw == "" {
		return
	}
	shown := control.Redact(raw)
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "":
		c.wrong(key, "%q: write it as mqtt://HOST:1883 or mqtts://HOST:8883", shown)
		return
	case u.User != nil:
		section := strings.TrimSuffix(strings.TrimSuffix(key, "url"), "data_")
		if key == "mqtt.data_url" {
			section += "data."
		}
		c.wrong(key, "%q has a user in it: use %susername and %spassword_file", shown, section, section)
		return
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 {
			c.wrong(key, "%q: port %s is none: use 1 to 65535", shown, p)
		}
	}
	switch u.Scheme {
	case "mqtts", "wss":
	case "mqtt", "ws":
		if !control.IsLoopback(u.Hostname()) && !c.MQTT.AllowPlaintext && c.sound("mqtt.allow_plaintext") {
			c.wrong(key, "%q: plaintext beyond loopback: use mqtts://, or set mqtt.allow_plaintext = true", shown)
		}
	default:
		c.wrong(key, "%q: scheme %q: use mqtt, mqtts, ws or wss", shown, u.Scheme)
	}
}

// pair checks two keys of which each needs the other.
func (c *checker) pair(a, va, b, vb string) {
	if (va == "") == (vb == "") || !c.sound(a, b) {
		return
	}
	if va == "" {
		a, b = b, a
	}
	c.wrong(a, "and %s go together: set both or none", b)
}

func (c *checker) checkEmbedded() {
	if c.MQTT.URL != "" || !c.sound("mqtt.url") {
		return
	}
	e := c.MQTT.Embedded
	if err := c.MQTT.leaf().Check(); err != nil && c.sound("mqtt.allow_plaintext") {
		text := strings.TrimPrefix(err.Error(), "broker: mqtt.embedded.leaf_url")
		c.wrong("mqtt.embedded.leaf_url", "%s", strings.TrimPrefix(strings.TrimPrefix(text, ":"), " "))
	}
	if host, ok := c.address("mqtt.embedded.listen", e.Listen, ""); ok && !control.IsLoopback(host) && e.UsersFile == "" && c.sound("mqtt.embedded.users_file") {
		c.wrong("mqtt.embedded.listen", "%q is open to the network: set mqtt.embedded.users_file", e.Listen)
	}
}

// address checks an address to listen on.
func (c *checker) address(key, value, or string) (host string, ok bool) {
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		c.wrong(key, "%q: write it as ADDRESS:PORT%s", value, or)
		return "", false
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		c.wrong(key, "%q: port %q is none: use 1 to 65535, or 0 for any", value, port)
		return "", false
	}
	return host, true
}

func (c *checker) checkHTTP() {
	if c.HTTP.Listen == "" {
		return
	}
	host, ok := c.address("http.listen", c.HTTP.Listen, `, or "" to turn it off`)
	if ok && !control.IsLoopback(host) && c.HTTP.TokenFile == "" && c.sound("http.token_file") {
		c.wrong("http.listen", "%q is open to the network: set http.token_file", c.HTTP.Listen)
	}
}

// prefixCacheSave is the value of engine.prefix_cache that keeps them on disk.
const prefixCacheSave = "save"

func (c *checker) checkEngine() {
	e := c.Engine
	for _, k := range []struct {
		key string
		n   int
	}{{"engine.threads", e.Threads}, {"engine.context", e.Context}} {
		if k.n < 0 {
			c.wrong(k.key, "%d: cannot be negative", k.n)
		}
	}
	c.oneOf("engine.kv", e.KV, "f16", "int8")
	c.oneOf("engine.residency", e.Residency, engine.ResidencyAuto, engine.ResidencyFull, engine.ResidencyExperts, engine.ResidencyLayered)
	c.oneOf("engine.family", e.Family, "q4", "q8")
	if e.Sequences < 0 || e.Sequences > engine.MaxSequences {
		c.wrong("engine.sequences", "%d: use 1 to %d, or 0 for %d", e.Sequences, engine.MaxSequences, engine.MaxSequences)
	}
	c.oneOf("engine.prefix_cache", e.PrefixCache, "off", prefixCacheSave)
	c.patterns("engine.share_prefixes", e.SharePrefixes, "client names")
	c.size("engine.memory_limit", e.MemoryLimit)
	c.size("engine.cache_memory", e.CacheMemory)
	c.size("engine.prefix_cache_size", e.PrefixCacheSize)
}

// patterns checks a list of shell patterns.
func (c *checker) patterns(key string, list []string, of string) {
	for i, p := range list {
		if _, err := path.Match(p, ""); p == "" || err != nil {
			c.wrong(fmt.Sprintf("%s[%d]", key, i), "%q is no pattern of %s", p, of)
		}
	}
}

// maxObserve is the longest trial in seconds: a day.
const maxObserve = 24 * 60 * 60

func (c *checker) checkVQF() {
	c.oneOf("vqf.layout", c.VQF.Layout, "any", "strict")
	c.oneOf("vqf.check", c.VQF.Check, "install", "always", "size")
	if _, err := vqf.ParseFlags(c.VQF.Expect); err != nil {
		c.wrong("vqf.expect", ": %s", strings.TrimPrefix(err.Error(), "vqf: "))
	}
	if c.Drop.RequireSignature && c.Paths.Trust == "" && c.sound("paths.trust") {
		c.wrong("drop.require_signature", "is on, and no signature counts without keys: set paths.trust to the directory with their public halves")
	}
	if c.Drop.ObserveS < 0 || c.Drop.ObserveS > maxObserve {
		c.wrong("drop.observe_s", "%d: use 0 to %d seconds", c.Drop.ObserveS, maxObserve)
	}
}

func (c *checker) checkUpdates() {
	u := c.Updates
	for _, k := range []struct {
		key string
		n   int
	}{{"updates.threshold", u.Threshold}, {"updates.release_threshold", u.ReleaseThreshold}} {
		if k.n < 1 {
			c.wrong(k.key, "%d: use at least 1: no configuration makes signatures needless", k.n)
		}
	}
	if n := len(u.ReleaseKeys); n > 0 && u.ReleaseThreshold > n && c.sound("updates.release_keys") {
		c.wrong("updates.release_threshold", "is %d and updates.release_keys has %d: they could never sign enough", u.ReleaseThreshold, n)
	}
	if _, err := ota.ParseWindow(u.Window); err != nil {
		c.wrong("updates.window", ": %v", err)
	}
	c.size("updates.max_rate", u.MaxRate)
	c.size("updates.max_bytes", u.MaxBytes)
}

func (c *checker) checkPolicy() {
	for i, p := range c.Policy {
		entry := fmt.Sprintf("policy[%d]", i)
		if _, err := path.Match(p.Client, ""); p.Client == "" || err != nil {
			c.wrong(entry+".client", "%q is no pattern of client names", p.Client)
		}
		c.patterns(entry+".allow", p.Allow, "job types")
	}
	c.patterns("anonymous.allow", c.Anonymous.Allow, "job types")
}

func (c *checker) checkLog() {
	c.oneOf("log.format", c.Log.Format, "", "text", "json")
	c.oneOf("log.level", c.Log.Level, "", "debug", "info", "warn", "error")
	if c.Log.Burst < 0 {
		c.wrong("log.burst", "%d: use 1 or more, or 0 for no limit", c.Log.Burst)
	}
}

// ParseSize reads "1234", "512MiB", "4G": bytes with an optional binary unit.
func ParseSize(s string) (int64, error) {
	t := strings.TrimSpace(s)
	num := strings.TrimRight(t, "KMGTiBkmgtb ")
	unit := strings.ToUpper(strings.TrimSpace(t[len(num):]))
	unit = strings.TrimSuffix(strings.TrimSuffix(unit, "B"), "I")
	shift, ok := map[string]uint{"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]
	n, err := strconv.ParseInt(num, 10, 64)
	if !ok || err != nil || n < 0 || n > (1<<62)>>shift {
		return 0, fmt.Errorf("%q is no size: write bytes, or a number with K, M, G or T", s)
	}
	return n << shift, nil
}
