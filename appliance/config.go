// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"path/filepath"
	"time"
)

// Config is what config.toml, conf.d/*.toml and the environment say. Every key
// has a default, so that no file is needed; DefaultConfig gives them.
//
// The TOML names are the fixed interface to operators: see docs/DESIGN.md.
type Config struct {
	Device    string    `toml:"device"`
	Paths     Paths     `toml:"paths"`
	MQTT      MQTT      `toml:"mqtt"`
	HTTP      HTTP      `toml:"http"`
	Engine    Engine    `toml:"engine"`
	Drop      Drop      `toml:"drop"`
	VQF       VQF       `toml:"vqf"`
	Updates   Updates   `toml:"updates"`
	Policy    []Policy  `toml:"policy"`
	Anonymous Anonymous `toml:"anonymous"`
	Log       Log       `toml:"log"`
	Audit     Audit     `toml:"audit"`
}

// Paths says where the appliance keeps its state.
type Paths struct {
	State  string `toml:"state"`  // holds drop/ import/ store/ …
	Socket string `toml:"socket"` // "": $RUNTIME_DIRECTORY/windhover.sock, else state/windhover.sock
	Trust  string `toml:"trust"`  // public keys whose signatures count; "": none
}

// MQTT says which broker to use; without a URL the embedded one.
type MQTT struct {
	URL               string   `toml:"url"`      // "": the embedded broker
	DataURL           string   `toml:"data_url"` // "": as URL
	Username          string   `toml:"username"` // "": the device name
	PasswordFile      string   `toml:"password_file"`
	CAFile            string   `toml:"ca_file"`
	CertFile          string   `toml:"cert_file"`
	KeyFile           string   `toml:"key_file"`
	AllowPlaintext    bool     `toml:"allow_plaintext"` // beyond loopback
	BrokerEnforcesACL bool     `toml:"broker_enforces_acl"`
	Groups            []string `toml:"groups"`         // that the box belongs to
	Share             bool     `toml:"share"`          // take part of the requests to groups
	HomeAssistant     bool     `toml:"home_assistant"` // let it find this box
	Data              Data     `toml:"data"`
	Embedded          Embedded `toml:"embedded"`
}

// Data says how to get in at the broker of data_url; what is "" is as in MQTT.
type Data struct {
	Username     string `toml:"username"`
	PasswordFile string `toml:"password_file"`
	CAFile       string `toml:"ca_file"`
	CertFile     string `toml:"cert_file"`
	KeyFile      string `toml:"key_file"`
}

// Embedded configures the broker inside the daemon.
type Embedded struct {
	Listen    string `toml:"listen"`
	UsersFile string `toml:"users_file"` // needed beyond loopback

	LeafURL         string `toml:"leaf_url"`         // NATS server or cluster to join; "": none
	LeafCredentials string `toml:"leaf_credentials"` // file
	LeafCAFile      string `toml:"leaf_ca_file"`     // "": the system's
}

// HTTP configures the local server of health, metrics, the page and the interface for
// programs; Listen "" turns it off.
type HTTP struct {
	Listen    string   `toml:"listen"`
	TokenFile string   `toml:"token_file"` // needed beyond loopback
	Hosts     []string `toml:"hosts"`      // names of this machine besides localhost, its own and addresses
}

// Engine configures inference.
type Engine struct {
	Threads     int    `toml:"threads"` // 0: all big cores
	Pin         bool   `toml:"pin"`
	Context     int    `toml:"context"`      // tokens; 0: what file and memory allow
	KV          string `toml:"kv"`           // "f16" or "int8"
	Residency   string `toml:"residency"`    // "auto", "full", "experts" or "layered"
	Family      string `toml:"family"`       // "q4" or "q8": which copy of a dual file computes
	MemoryLimit string `toml:"memory_limit"` // "4GiB"; "0": MemAvailable and the cgroup's limit

	Sequences       int    `toml:"sequences"`         // requests computed at once, at most 8; 0: 8
	CacheMemory     string `toml:"cache_memory"`      // of the KV cache of all requests and kept prefixes; "0": what memory allows
	PrefixCache     string `toml:"prefix_cache"`      // "off", or "save": prefixes outlive a restart
	PrefixCacheSize string `toml:"prefix_cache_size"` // of that file

	SharePrefixes []string `toml:"share_prefixes"` // patterns of clients that share theirs with whom the same one names
}

// Drop configures the drop directory.
type Drop struct {
	RequireSignature bool `toml:"require_signature"` // by a key of paths.trust
	ObserveS         int  `toml:"observe_s"`         // seconds for which a file that replaces a model is on trial; 0: it is not
}

// VQF configures how weight files are checked.
type VQF struct {
	Layout  string `toml:"layout"`   // "any" or "strict"
	Expect  string `toml:"expect"`   // the strict gate's engine flags
	Check   string `toml:"check"`    // "install", "always" or "size"
	KeyFile string `toml:"key_file"` // passphrase of encrypted files; "": the credential vqf-key
}

// Updates configures updates over the air: whose documents count, and what a download
// may cost this box, whatever a document says.
type Updates struct {
	Threshold        int      `toml:"threshold"`         // different fleet keys that have to sign a document
	ReleaseKeys      []string `toml:"release_keys"`      // fleet keys, by name, that sign releases and block indexes alone; none: all sign all
	ReleaseThreshold int      `toml:"release_threshold"` // of these that have to sign
	Window           string   `toml:"window"`            // "02:00-05:00", local time; "": what the document says
	MaxRate          string   `toml:"max_rate"`          // bytes a second, "1M"; "0": what the document says
	MaxBytes         string   `toml:"max_bytes"`         // of one model over the network; "0": what the document says
	CAFile           string   `toml:"ca_file"`           // of web servers; "": what the system trusts
}

// Policy allows the clients that match a glob some job types (globs too).
type Policy struct {
	Client string   `toml:"client"`
	Allow  []string `toml:"allow"`
}

// Anonymous lists the job types allowed while the broker does not enforce who
// publishes as whom. The embedded broker on loopback without users adds convert
// and verify.
type Anonymous struct {
	Allow []string `toml:"allow"`
}

// Log configures logging.
type Log struct {
	Format  string `toml:"format"`  // "": text; "json"
	Level   string `toml:"level"`   // "debug", "info", "warn" or "error"
	Burst   int    `toml:"burst"`   // records of one kind at once, then one in 10 s; 0: no limit
	Prompts bool   `toml:"prompts"` // debugging only: prompts and answers in the log
}

// observing is ObserveS.
func (d Drop) observing() time.Duration { return time.Duration(d.ObserveS) * time.Second }

// DefaultConfig is the configuration of a machine without any file.
func DefaultConfig() Config {
	return Config{
		Paths: Paths{State: "/var/lib/windhover", Trust: "/etc/windhover/trust.d"},
		MQTT:  MQTT{Embedded: Embedded{Listen: "127.0.0.1:1883"}},
		HTTP:  HTTP{Listen: "127.0.0.1:8417"},
		Engine: Engine{Pin: true, KV: "f16", Residency: "auto", Family: "q4", MemoryLimit: "0",
			CacheMemory: "0", PrefixCache: "off", PrefixCacheSize: "1GiB", SharePrefixes: []string{}},
		Updates: Updates{Threshold: 1, ReleaseThreshold: 1, MaxRate: "0", MaxBytes: "0"},
		Drop:    Drop{ObserveS: 300},
		Audit:   Audit{MaxSize: "64MiB", Keep: 16, Sync: "interval"},
		VQF:     VQF{Layout: "any", Expect: "Q8_8X8|Q4_4X4", Check: "install"},
		Log:     Log{Level: "info", Burst: 10},
	}
}

// The directories below paths.state. All are on one filesystem, because a
// model reaches the store by a hard link or a rename.
func (p Paths) drop() string       { return filepath.Join(p.State, "drop") }
func (p Paths) imports() string    { return filepath.Join(p.State, "import") }
func (p Paths) incoming() string   { return filepath.Join(p.State, "incoming") }
func (p Paths) downloads() string  { return filepath.Join(p.incoming(), "updates") }
func (p Paths) store() string      { return filepath.Join(p.State, "store") }
func (p Paths) state() string      { return filepath.Join(p.State, "state") }
func (p Paths) quarantine() string { return filepath.Join(p.State, "quarantine") }
func (p Paths) broker() string     { return filepath.Join(p.State, "broker") }
