// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"windhover/control"
	"windhover/vqf/seal"
)

// What a model document says about who stands for a model.
const (
	trustLocal    = "local" // nobody but whoever may write to the drop directory
	trustSM2      = "sm2"
	trustMinisign = "minisign"
)

// voucher is a good signature by a key that was trusted when it was checked. It is
// remembered with the installed model: whether its key still counts is asked at each
// start, without reading the file again.
type voucher struct {
	Kind string `json:"kind"`         // trustSM2, trustMinisign
	Name string `json:"name"`         // of the key, from its file in the trust directory
	Key  string `json:"key"`          // the whole public key
	Of   string `json:"of,omitempty"` // file beside the weights that it signs; "": the weights
}

// short is the key as people compare it.
func (v voucher) short() string {
	switch v.Kind {
	case trustSM2:
		if k, err := seal.ParseSM2Public(v.Key); err == nil {
			return k.Fingerprint()
		}
	case trustMinisign:
		if k, err := seal.ParseMinisignPublic([]byte(v.Key)); err == nil {
			return k.Name()
		}
	}
	return v.Key
}

func (v voucher) String() string { return fmt.Sprintf("%s (%s %s)", v.Name, v.Kind, v.short()) }

// authority says whose signatures this box believes, and whether it needs one.
type authority struct {
	// The policy. Only refresh writes it after the start, under mu: it does not
	// change within a look at the drop directory, whose goroutine reads it freely.
	// Others ask policy.
	dir     string // paths.trust
	require bool   // drop.require_signature
	getenv  func(string) string
	log     *slog.Logger
	now     func() time.Time
	pass    *passphrase
	changed func() // other keys than before count; nil: nobody wants to know

	mu   sync.Mutex  // guards what follows; never held while files are read
	next *policy     // from the next refresh on; nil: as it is
	last *seal.Trust // the keys that count
	told string      // what was wrong at the last look
	bad  spoiled
}

// spoiled are files of keys that were good and are not, by name, and since when that is
// seen. Their own times say less: a clock may have been set since they were written.
type spoiled map[string]time.Time

// policy is the part of the configuration that a running daemon takes over.
type policy struct {
	dir     string
	require bool
}

// newAuthority is the authority of a configuration, which knows the keys of now.
func newAuthority(cfg Config, getenv func(string) string, log *slog.Logger) *authority {
	pass := &passphrase{file: cfg.VQF.KeyFile, getenv: getenv, tell: func() {
		log.Warn("the passphrase of encrypted models comes from the environment, where other programs of this user can read it: use vqf.key_file or the credential "+credentialName, "variable", keyVariable)
	}}
	a := &authority{dir: cfg.Paths.Trust, require: cfg.Drop.RequireSignature, getenv: getenv, log: log, now: time.Now, pass: pass}
	a.refresh()
	return a
}

// adopt makes the policy of a configuration that was read again count from the next
// refresh on.
func (a *authority) adopt(cfg Config) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next = &policy{dir: cfg.Paths.Trust, require: cfg.Drop.RequireSignature}
}

// policy is what the configuration says, for whoever is not looking at the drop
// directory.
func (a *authority) policy() policy {
	a.mu.Lock()
	defer a.mu.Unlock()
	return policy{a.dir, a.require}
}

// refresh takes over a new policy and reads the keys again. It is called by one
// goroutine at a time. What cannot be read is told once, and the other keys go on.
func (a *authority) refresh() {
	a.mu.Lock()
	if p := a.next; p != nil {
		if p.dir != a.dir {
			a.last, a.told = nil, "" // of another directory
		}
		a.dir, a.require, a.next = p.dir, p.require, nil
	}
	last := a.last
	a.mu.Unlock()
	t, err := loadTrust(a.dir, a.getenv)
	if a.take(t, err, last) && a.changed != nil {
		a.changed()
	}
}

// take makes what was read count; it reports whether there was a change.
func (a *authority) take(t *seal.Trust, err error, last *seal.Trust) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	msg := ""
	if err != nil {
		msg = oneLine(err)
	}
	if msg != "" && msg != a.told {
		if t == nil {
			a.log.Error("trusted keys cannot be read: those read before go on, after a start none", "path", a.dir, "error", msg)
		} else {
			a.log.Error("trusted keys cannot be read: the other keys go on", "path", a.dir, "error", msg)
		}
	}
	a.told = msg
	if t == nil {
		return false
	}
	var bad spoiled
	if err != nil {
		bad = a.bad.keep(a.dir, t, last, a.now())
	}
	a.bad = bad
	other := !reflect.DeepEqual(a.last, t)
	a.last = t
	return other
}

// keep keeps the keys whose file is not good for less than a minute, because somebody may
// just be writing it. One that stays so, or is gone, has none. It returns those that are
// not good now.
func (s spoiled) keep(dir string, t, last *seal.Trust, now time.Time) spoiled {
	if last == nil {
		return nil
	}
	bad := spoiled{}
	young := func(name string) bool {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || !fi.Mode().IsRegular() {
			return false
		}
		since, known := s[name]
		if !known {
			since = now
		}
		bad[name] = since
		return now.Sub(since) < rescan
	}
	for _, k := range last.SM2 {
		same := func(o seal.TrustedSM2) bool { return o.Name == k.Name }
		if !slices.ContainsFunc(t.SM2, same) && young(k.Name+seal.SuffixSM2) {
			t.SM2 = append(t.SM2, k)
		}
	}
	for _, k := range last.Minisign {
		same := func(o seal.TrustedMinisign) bool { return o.Name == k.Name }
		if !slices.ContainsFunc(t.Minisign, same) && young(k.Name+seal.SuffixMinisign) {
			t.Minisign = append(t.Minisign, k)
		}
	}
	return bad
}

// trust are the keys that count, as of the last refresh.
func (a *authority) trust() *seal.Trust {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		return new(seal.Trust)
	}
	return a.last
}

// loadTrust reads the trust directory and the original engine's VLLM_VQF_SIGN_PUB.
// An empty directory name trusts nobody. Beside an error that names what is wrong
// there may be the keys that are good; nil says that it is not known which there are.
func loadTrust(dir string, getenv func(string) string) (*seal.Trust, error) {
	t := new(seal.Trust)
	var bad error
	if dir != "" {
		if t, bad = seal.LoadTrust(dir); t == nil {
			return nil, bad
		}
	}
	const variable = "VLLM_VQF_SIGN_PUB"
	if v := getenv(variable); v != "" {
		k, err := seal.ParseSM2Public(v)
		if err != nil {
			return t, errors.Join(bad, fmt.Errorf("environment variable %s: %w", variable, err))
		}
		if _, known := t.FindSM2(k); !known {
			t.SM2 = append(t.SM2, seal.TrustedSM2{Name: variable, Key: k})
		}
	}
	return t, bad
}

// strict says that a signed file needs a trusted key, as VLLM_VQF_VERIFY=1 asks of
// the original engine, though an unsigned one does not.
func (a *authority) strict() bool { return strings.HasPrefix(a.getenv("VLLM_VQF_VERIFY"), "1") }

// fingerprints names the trusted keys, for the info document.
func (a *authority) fingerprints() []string {
	t := a.trust()
	list := []string{}
	for _, k := range t.SM2 {
		list = append(list, trustSM2+":"+k.Key.Fingerprint())
	}
	for _, k := range t.Minisign {
		list = append(list, trustMinisign+":"+k.Key.Name())
	}
	return list
}

// regime is a name for all that a verdict on signatures depends on beside the files:
// a verdict under another regime says nothing.
func (a *authority) regime() string {
	t := a.trust()
	var keys []string
	for _, k := range t.SM2 {
		keys = append(keys, k.Key.String())
	}
	for _, k := range t.Minisign {
		keys = append(keys, k.Key.String())
	}
	slices.Sort(keys)
	return shortSum(fmt.Sprintf("%v %v %q", a.require, a.strict(), keys))
}

// regimeOf is the part of the regime that may mend a failure with this code: keys
// and policy, or the passphrase; "" for the codes that neither mends.
func (a *authority) regimeOf(c control.Code) string {
	switch c {
	case control.SignatureMissing, control.KeyUnknown, control.MinisignInvalid:
		return a.regime()
	case control.PassphraseMissing, control.TagMismatch:
		return shortSum(a.pass.identity())
	}
	return ""
}

func shortSum(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// believed are the vouchers of a file whose keys count in t.
func believed(in installed, of string, t *seal.Trust) []voucher {
	var list []voucher
	for _, v := range in.Signed {
		counts := v.Kind == trustSM2 && slices.ContainsFunc(t.SM2, func(k seal.TrustedSM2) bool { return k.Key.String() == v.Key }) ||
			v.Kind == trustMinisign && slices.ContainsFunc(t.Minisign, func(k seal.TrustedMinisign) bool { return k.Key.String() == v.Key })
		if v.Of == of && counts {
			list = append(list, v)
		}
	}
	return list
}

// standing is what a model may be trusted with by the keys of now: who stands for
// it, nil for nobody.
func (a *authority) standing(in installed) *voucher {
	list := believed(in, "", a.trust())
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// kindOf is the trust that a document shows.
func kindOf(v *voucher) string {
	if v == nil {
		return trustLocal
	}
	return v.Kind
}

// admit refuses a model that the policy of now does not let serve. It reads no
// file: in remembers what was found out when the model was installed.
func (a *authority) admit(in installed) error {
	t := a.trust()
	if len(believed(in, "", t)) == 0 {
		switch {
		case !a.require && (in.Foreign == "" || !a.strict()):
			return nil
		case in.Foreign != "":
			return control.Errorf(control.KeyUnknown, "it is signed by %s, which is not trusted here: copy the public key to %s", in.Foreign, a.dir)
		case len(in.Signed) > 0:
			return control.Errorf(control.KeyUnknown, "it was signed by %s, which is no longer trusted: put the public key back into %s, or sign the file anew", in.Signed[0], a.dir)
		default:
			return a.unsigned(in.File)
		}
	}
	if !a.require {
		return nil
	}
	for _, name := range in.Beside {
		if len(believed(in, name, t)) == 0 {
			return a.unsignedSide(name)
		}
	}
	return nil
}

// unsigned and unsignedSide say what the policy misses.
func (a *authority) unsigned(name string) *control.Error {
	return control.Errorf(control.SignatureMissing,
		"%s is not signed and drop.require_signature is set: sign it with windhover sign, or put %s%s beside it", name, name, signatureEnd)
}

func (a *authority) unsignedSide(name string) *control.Error {
	return control.Errorf(control.SignatureMissing,
		"%s is not signed and drop.require_signature is set: the signature of the weights does not cover it; put %s%s beside it, or pack it into the weights with windhover pack and sign those", name, name, signatureEnd)
}
