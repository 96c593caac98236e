// SPDX-License-Identifier: Apache-2.0

package control

import (
	"fmt"
	"path"
)

// Policy says which client may submit which job. Inference is open to every client
// that the broker lets write to req/; this is the second line of defence behind the
// broker's own access list (docs/PROTOCOL.md, "Security").
type Policy struct {
	Rules []Rule // [[policy]]; any rule that matches and allows is enough

	// EnforcesACL (mqtt.broker_enforces_acl) says that the client segment of a topic
	// is true because the broker checks it. Without it Rules count for nobody.
	EnforcesACL bool

	// Anonymous (anonymous.allow) lists the job types that anybody may submit while
	// EnforcesACL is false.
	Anonymous []string
}

// Rule allows job types to clients. Both are shell patterns: "ops*", "model_*".
type Rule struct {
	Client string
	Allow  []string
}

// Check finds a malformed pattern.
func (p Policy) Check() error {
	for i, r := range p.Rules {
		for _, pat := range append([]string{r.Client}, r.Allow...) {
			if _, err := path.Match(pat, ""); err != nil || pat == "" {
				return fmt.Errorf("control: policy[%d]: pattern %q is malformed", i, pat)
			}
		}
	}
	for _, pat := range p.Anonymous {
		if _, err := path.Match(pat, ""); err != nil || pat == "" {
			return fmt.Errorf("control: anonymous.allow: pattern %q is malformed", pat)
		}
	}
	return nil
}

// SetPolicy makes another policy count for commands that come from now on. The error is
// that of Check, and leaves the one before.
func (s *Server) SetPolicy(p Policy) error {
	if err := p.Check(); err != nil {
		return err
	}
	s.jobs.policy.Store(&p)
	return nil
}

// Allows says whether client may submit a job of type typ.
func (p Policy) Allows(client, typ string) bool {
	if !p.EnforcesACL {
		return matchAny(p.Anonymous, typ)
	}
	for _, r := range p.Rules {
		if ok, err := path.Match(r.Client, client); ok && err == nil && matchAny(r.Allow, typ) {
			return true
		}
	}
	return false
}

func matchAny(patterns []string, s string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, s); ok && err == nil {
			return true
		}
	}
	return false
}
