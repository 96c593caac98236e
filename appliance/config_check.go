// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"windhover/control"
	"windhover/control/ota"
	"windhover/engine"
)

// finish fills what depends on the machine and refuses values that cannot work.
func (c *Config) finish() error {
	if c.Device == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("config: device is not set and the host name is unknown: %v", err)
		}
		c.Device = control.DeviceName(host)
	}
	if !control.ValidDevice(c.Device) {
		return fmt.Errorf("config: device %q: use 1 to 63 of a-z 0-9 -, starting with a letter or digit", c.Device)
	}
	if c.Paths.State == "" {
		return fmt.Errorf("config: paths.state is empty: name the directory that holds drop/, store/ and the rest")
	}
	abs, err := filepath.Abs(c.Paths.State)
	if err != nil {
		return fmt.Errorf("config: paths.state: %v", err)
	}
	c.Paths.State = abs
	// The daemon and its children run in directories of their own.
	for key, path := range map[string]*string{"paths.trust": &c.Paths.Trust, "vqf.key_file": &c.VQF.KeyFile, "updates.ca_file": &c.Updates.CAFile} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("config: %s: %v", key, err)
		}
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
	for _, check := range []func() error{c.checkMQTT, c.checkHTTP, c.checkEngine, c.checkVQF, c.checkUpdates, c.checkPolicy} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkMQTT() error {
	for key, raw := range map[string]string{"mqtt.url": c.MQTT.URL, "mqtt.data_url": c.MQTT.DataURL} {
		if raw == "" {
			continue
		}
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" {
			return fmt.Errorf("config: %s %q: write it as mqtt://HOST:1883 or mqtts://HOST:8883", key, raw)
		}
		switch u.Scheme {
		case "mqtts", "wss":
		case "mqtt", "ws":
			if !control.IsLoopback(u.Hostname()) && !c.MQTT.AllowPlaintext {
				return fmt.Errorf("config: %s %q: plaintext beyond loopback: use mqtts://, or set mqtt.allow_plaintext = true", key, raw)
			}
		default:
			return fmt.Errorf("config: %s %q: scheme %q: use mqtt, mqtts, ws or wss", key, raw, u.Scheme)
		}
	}
	if (c.MQTT.CertFile == "") != (c.MQTT.KeyFile == "") {
		return fmt.Errorf("config: mqtt.cert_file and mqtt.key_file go together: set both or none")
	}
	if (c.MQTT.Data.CertFile == "") != (c.MQTT.Data.KeyFile == "") {
		return fmt.Errorf("config: mqtt.data.cert_file and mqtt.data.key_file go together: set both or none")
	}
	if c.MQTT.Data != (Data{}) && c.MQTT.DataURL == "" {
		return fmt.Errorf("config: mqtt.data is for the broker of mqtt.data_url: set that too")
	}
	if c.MQTT.Share && len(c.MQTT.Groups) == 0 {
		return fmt.Errorf("config: mqtt.share: name the groups whose requests this box shares in mqtt.groups")
	}
	if c.MQTT.Share && c.MQTT.URL == "" {
		return fmt.Errorf("config: mqtt.share: the broker inside has no shared subscriptions: set mqtt.url to one that has")
	}
	if err := c.MQTT.leaf().Check(); err != nil {
		return fmt.Errorf("config: %s", strings.TrimPrefix(err.Error(), "broker: "))
	}
	if c.MQTT.URL == "" {
		host, _, err := net.SplitHostPort(c.MQTT.Embedded.Listen)
		if err != nil {
			return fmt.Errorf("config: mqtt.embedded.listen %q: write it as ADDRESS:PORT", c.MQTT.Embedded.Listen)
		}
		if !control.IsLoopback(host) && c.MQTT.Embedded.UsersFile == "" {
			return fmt.Errorf("config: mqtt.embedded.listen %q is open to the network: set mqtt.embedded.users_file", c.MQTT.Embedded.Listen)
		}
	}
	return nil
}

func (c *Config) checkHTTP() error {
	if c.HTTP.Listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(c.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("config: http.listen %q: write it as ADDRESS:PORT, or \"\" to turn it off", c.HTTP.Listen)
	}
	if !control.IsLoopback(host) && c.HTTP.TokenFile == "" {
		return fmt.Errorf("config: http.listen %q is open to the network: set http.token_file", c.HTTP.Listen)
	}
	return nil
}

// prefixCacheSave is the value of engine.prefix_cache that keeps them on disk.
const prefixCacheSave = "save"

func (c *Config) checkEngine() error {
	e := c.Engine
	if e.Threads < 0 || e.Context < 0 {
		return fmt.Errorf("config: engine.threads and engine.context cannot be negative")
	}
	if err := oneOf("engine.kv", e.KV, "f16", "int8"); err != nil {
		return err
	}
	if err := oneOf("engine.residency", e.Residency, engine.ResidencyAuto, engine.ResidencyFull, engine.ResidencyExperts, engine.ResidencyLayered); err != nil {
		return err
	}
	if err := oneOf("engine.family", e.Family, "q4", "q8"); err != nil {
		return err
	}
	if e.Sequences < 0 || e.Sequences > engine.MaxSequences {
		return fmt.Errorf("config: engine.sequences %d: use 1 to %d, or 0 for %d", e.Sequences, engine.MaxSequences, engine.MaxSequences)
	}
	if err := oneOf("engine.prefix_cache", e.PrefixCache, "off", prefixCacheSave); err != nil {
		return err
	}
	for _, p := range e.SharePrefixes {
		if _, err := path.Match(p, ""); p == "" || err != nil {
			return fmt.Errorf("config: engine.share_prefixes: %q is no pattern of client names", p)
		}
	}
	for _, s := range []struct{ key, value string }{
		{"memory_limit", e.MemoryLimit}, {"cache_memory", e.CacheMemory}, {"prefix_cache_size", e.PrefixCacheSize},
	} {
		if _, err := ParseSize(s.value); err != nil {
			return fmt.Errorf("config: engine.%s: %v", s.key, err)
		}
	}
	return nil
}

// maxObserve is the longest trial in seconds: a day.
const maxObserve = 24 * 60 * 60

func (c *Config) checkVQF() error {
	if err := oneOf("vqf.layout", c.VQF.Layout, "any", "strict"); err != nil {
		return err
	}
	if c.Drop.RequireSignature && c.Paths.Trust == "" {
		return fmt.Errorf("config: drop.require_signature: no signature counts without keys: set paths.trust to the directory with their public halves")
	}
	if c.Drop.ObserveS < 0 || c.Drop.ObserveS > maxObserve {
		return fmt.Errorf("config: drop.observe_s %d: use 0 to %d seconds", c.Drop.ObserveS, maxObserve)
	}
	return oneOf("vqf.check", c.VQF.Check, "install", "always", "size")
}

func (c *Config) checkUpdates() error {
	u := c.Updates
	for _, g := range c.MQTT.Groups {
		if !control.ValidGroup(g) {
			return fmt.Errorf("config: mqtt.groups: %q: use 1 to 63 of a-z 0-9 -, starting with a letter or digit", g)
		}
	}
	if u.Threshold < 1 || u.ReleaseThreshold < 1 {
		return fmt.Errorf("config: updates.threshold and updates.release_threshold are at least 1: no configuration makes signatures needless")
	}
	if len(u.ReleaseKeys) > 0 && u.ReleaseThreshold > len(u.ReleaseKeys) {
		return fmt.Errorf("config: updates.release_threshold is %d and there are %d updates.release_keys: they could never sign enough", u.ReleaseThreshold, len(u.ReleaseKeys))
	}
	if _, err := ota.ParseWindow(u.Window); err != nil {
		return fmt.Errorf("config: updates.window: %v", err)
	}
	for key, value := range map[string]string{"updates.max_rate": u.MaxRate, "updates.max_bytes": u.MaxBytes} {
		if _, err := ParseSize(value); err != nil {
			return fmt.Errorf("config: %s: %v", key, err)
		}
	}
	return nil
}

func (c *Config) checkPolicy() error {
	for i, p := range c.Policy {
		if _, err := path.Match(p.Client, ""); p.Client == "" || err != nil {
			return fmt.Errorf("config: policy %d: client %q is no pattern of client names", i+1, p.Client)
		}
		for _, a := range p.Allow {
			if _, err := path.Match(a, ""); err != nil {
				return fmt.Errorf("config: policy %d: %q is no pattern of job types", i+1, a)
			}
		}
	}
	return nil
}

// TOML is the merged configuration as a file would say it. Nothing in it is
// secret: secrets are in the files it names.
func (c Config) TOML() ([]byte, error) {
	var b bytes.Buffer
	enc := toml.NewEncoder(&b)
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("config: %v", err)
	}
	return b.Bytes(), nil
}

func oneOf(key, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("config: %s %q: use %s", key, value, strings.Join(allowed, " or "))
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
