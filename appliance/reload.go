// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"

	"windhover/control"
)

// When a change of a key counts in a daemon that runs, once it has read its configuration
// again.
const (
	atOnce    = "at once"
	atRestart = "restart"
)

// counts says it for each key; docs/OPERATIONS.md has the list for people. What counts at
// once does so from the next request, command, document or look at the drop directory on.
var counts = map[string]string{
	"device": atRestart, "paths.state": atRestart, "paths.socket": atRestart, "paths.trust": atOnce,

	"mqtt.url": atRestart, "mqtt.data_url": atRestart, "mqtt.username": atRestart, "mqtt.password_file": atRestart,
	"mqtt.ca_file": atRestart, "mqtt.cert_file": atRestart, "mqtt.key_file": atRestart, "mqtt.allow_plaintext": atRestart,
	"mqtt.broker_enforces_acl": atOnce, "mqtt.groups": atRestart, "mqtt.share": atRestart, "mqtt.home_assistant": atOnce,
	"mqtt.data.username": atRestart, "mqtt.data.password_file": atRestart, "mqtt.data.ca_file": atRestart, "mqtt.data.cert_file": atRestart, "mqtt.data.key_file": atRestart,
	"mqtt.embedded.listen": atRestart, "mqtt.embedded.users_file": atRestart, "mqtt.embedded.leaf_url": atRestart,
	"mqtt.embedded.leaf_credentials": atRestart, "mqtt.embedded.leaf_ca_file": atRestart,

	"http.listen": atRestart, "http.token_file": atOnce, "http.hosts": atOnce,

	"engine.threads": atRestart, "engine.pin": atRestart, "engine.context": atRestart, "engine.kv": atRestart, "engine.residency": atRestart,
	"engine.family": atRestart, "engine.memory_limit": atRestart, "engine.sequences": atRestart, "engine.cache_memory": atRestart,
	"engine.prefix_cache": atRestart, "engine.prefix_cache_size": atRestart, "engine.share_prefixes": atOnce,

	"drop.require_signature": atOnce, "drop.observe_s": atOnce,
	"vqf.layout": atOnce, "vqf.expect": atOnce, "vqf.check": atOnce, "vqf.key_file": atRestart,

	"updates.threshold": atOnce, "updates.release_keys": atOnce, "updates.release_threshold": atOnce, "updates.window": atOnce,
	"updates.max_rate": atOnce, "updates.max_bytes": atOnce, "updates.ca_file": atRestart,

	"policy": atOnce, "anonymous.allow": atOnce,
	"audit.file": atRestart, "audit.max_size": atRestart, "audit.keep": atRestart, "audit.sync": atRestart, "audit.required": atRestart,
	"log.format": atRestart, "log.level": atOnce, "log.burst": atOnce, "log.prompts": atRestart,
}

// reloaded is what became of a configuration that was read again.
type reloaded struct {
	Applied []string `json:"applied"`       // keys that count from now on
	Restart []string `json:"needs_restart"` // keys that do not
	err     error
}

// wait returns when ctx ends; until then it reads the configuration again when asked.
func (s *server) wait(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.opt.Reload:
			s.notify.reloading()
			s.reload()
			s.notify.ready()
		case answer := <-s.reloads:
			s.notify.reloading()
			answer <- s.reload()
			s.notify.ready()
		}
	}
}

// reload reads the configuration and the drop directory again. What a running daemon
// takes over is named, and what it does not; of one with an error it takes over nothing.
func (s *server) reload() reloaded {
	l, err := s.opt.Load()
	s.doubt(l.Warnings)
	if err != nil {
		s.refuse(err)
		return reloaded{err: err}
	}
	next, now, later := merge(*s.backend.now(), l.Config, s.canTake)
	if err := s.takeOver(next); err != nil {
		s.refuse(err)
		return reloaded{err: err}
	}
	s.lack(next)
	if len(now) > 0 {
		s.log.Info("configuration read; these keys count from now on", "event", "config_reloaded", "keys", now)
	}
	if len(later) > 0 {
		s.log.Warn("configuration read; these keys need a restart", "event", "config_reloaded", "keys", later)
	} else if len(now) == 0 {
		s.log.Info("configuration read: nothing changed", "event", "config_reloaded")
	}
	s.backend.wakeDrop()
	s.event(control.Occurrence{Event: "config_reloaded"})
	return reloaded{Applied: append([]string{}, now...), Restart: append([]string{}, later...)}
}

// doubt tells what a person may have meant otherwise.
func (s *server) doubt(list []Problem) {
	for _, w := range list {
		s.log.Warn("a variable of the environment says nothing", "variable", w.Variable, "error", w.Message)
	}
}

// lack tells of files that the configuration names and that are of no use now: without
// a word here an interface whose token cannot be read would only say that the token is
// wrong. What is put there later counts all the same.
func (s *server) lack(c Config) {
	for _, f := range c.files() {
		if f.path == "" {
			continue
		}
		if text := f.wrong(); text != "" {
			s.log.Error("a file that the configuration names is of no use: put it there, for the user that this runs as to read", "key", f.key, "path", f.path, "error", text)
		}
	}
}

// refuse tells each thing that is wrong with a configuration.
func (s *server) refuse(err error) {
	var list Problems
	if !errors.As(err, &list) {
		s.log.Error("configuration not taken over: it stays as it was", "error", err)
	}
	for _, p := range list {
		s.log.Error("configuration not taken over: it stays as it was", "key", p.Key, "error", strings.TrimPrefix(p.Error(), "config: "))
	}
}

// canTake says whether a running daemon can go on with a configuration. The addresses it
// listens on are those of its start.
func (s *server) canTake(c Config) bool {
	return len(c.check(nil, nil)) == 0 && (c.HTTP.TokenFile != "" || !s.httpOpen.Load())
}

// merge is what a daemon that runs with live goes on with when it reads another
// configuration, the keys of that which count now, and those which need a restart. Keys
// that do not work beside what stays until a restart wait for it too: a token is not
// taken from a port that is still open to the network.
func merge(live, read Config, works func(Config) bool) (next Config, now, later []string) {
	take := func(want func(key string) bool) {
		next, now, later = live, nil, nil
		to, from := keyFields(&next), keyFields(&read)
		for i, k := range to {
			switch f := from[i].field; {
			case same(k.field, f):
			case counts[k.key] == atOnce && want(k.key):
				k.field.Set(f) // the lists of live are not written to
				now = append(now, k.key)
			default:
				later = append(later, k.key)
			}
		}
	}
	if take(func(string) bool { return true }); len(now) == 0 || works(next) {
		return next, now, later
	}
	var good []string // sections that work without the others
	for _, key := range slices.Clone(now) {
		section, _, _ := strings.Cut(key, ".")
		if slices.Contains(good, section) {
			continue
		}
		if take(func(k string) bool { s, _, _ := strings.Cut(k, "."); return s == section || slices.Contains(good, s) }); works(next) {
			good = append(good, section)
		}
	}
	take(func(k string) bool { s, _, _ := strings.Cut(k, "."); return slices.Contains(good, s) })
	return next, now, later
}

// same says whether two values are; a list that is empty is one that nobody set.
func same(a, b reflect.Value) bool {
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// takeOver makes next count, which differs from what counts in keys that may change.
func (s *server) takeOver(next Config) error {
	if err := s.control.SetPolicy(next.policy()); err != nil {
		return err
	}
	before := s.backend.now()
	s.backend.live.Store(&next)
	if next.MQTT.HomeAssistant != before.MQTT.HomeAssistant {
		s.control.SetHomeAssistant(next.MQTT.HomeAssistant)
	}
	if s.updates != nil {
		s.updates.adopt(next.Updates)
	}
	s.opt.Out.adopt(next.Log)
	s.backend.who.adopt(next)
	s.deployer.next.Store(&next)
	return nil
}

// now is the configuration that counts: that of the start, with what was taken over since.
func (b *backend) now() *Config {
	if c := b.live.Load(); c != nil {
		return c
	}
	return &b.cfg
}

// takeOver makes a configuration that was read again count for models. work is held.
func (d *deployer) takeOver() {
	c := d.next.Swap(nil)
	if c == nil {
		return
	}
	d.check, d.observing = c.VQF.Check, c.Drop.observing()
	if d.layouts != nil {
		d.layouts(c.VQF)
	}
}

// reloadJob has the configuration read again.
func (s *server) reloadJob(ctx context.Context) (any, error) {
	answer := make(chan reloaded, 1)
	select {
	case s.reloads <- answer:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r := <-answer
	if r.err != nil {
		return nil, control.Errorf(control.BadRequest, "%s", oneLine(r.err))
	}
	return r, nil
}
