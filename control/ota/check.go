// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strings"
	"time"

	"windhover/control"
)

// Bounds of a document.
const (
	maxModels   = 16
	maxURLs     = 8
	maxURL      = 2048
	maxList     = 64
	maxKeep     = 16
	maxNumber   = 1 << 53 // what JSON carries everywhere
	maxSize     = 1 << 46 // bytes of a file
	minBlock    = 4 << 10
	maxBlock    = 64 << 20
	maxBlocks   = 1 << 18
	maxPeriodS  = 7 * 24 * 3600
	maxValidity = 10 * 366 * 24 * time.Hour
)

// check holds a document to its bounds. What passes can be acted on without looking
// at its form again.
func (d *Desired) check() error {
	if err := supported(d.V); err != nil {
		return err
	}
	d.V = version
	bad := func(format string, a ...any) error {
		return control.Errorf(control.BadRequest, "desired document: "+format, a...)
	}
	switch {
	case d.Rev < 1 || d.Rev > maxNumber:
		return bad("rev %d is not from 1 to 2^53", d.Rev)
	case (d.Target.Device == "") == (d.Target.Group == ""):
		return bad("target is a device or a group")
	case !control.ValidDevice(d.Target.Device + d.Target.Group):
		return bad("target %q is no name of a device or group", d.Target.Device+d.Target.Group)
	case len(d.Models) > maxModels:
		return bad("%d models, the limit is %d", len(d.Models), maxModels)
	case d.Active != "" && !validName(d.Active):
		return bad("active %q is no name of a model", d.Active)
	case d.Keep < 1 || d.Keep > maxKeep:
		return bad("keep %d is not from 1 to %d", d.Keep, maxKeep)
	}
	if err := checkTimes(d.IssuedAt, d.ExpiresAt); err != nil {
		return bad("%v", err)
	}
	names := map[string]bool{}
	for i := range d.Models {
		m := &d.Models[i]
		if err := m.check(); err != nil {
			return bad("model %q: %v", m.Name, err)
		}
		if names[m.Name] {
			return bad("model %q is there twice", m.Name)
		}
		names[m.Name] = true
	}
	if err := errors.Join(d.Rollout.check(), d.Health.check()); err != nil {
		return bad("%v", err)
	}
	return nil
}

// checkTimes bounds how long a document may count: one that never ends is one whose
// replay is never noticed.
func checkTimes(issued, expires time.Time) error {
	switch {
	case issued.IsZero() || expires.IsZero():
		return errors.New("issued_at and expires_at are needed")
	case !issued.Before(expires):
		return errors.New("expires_at is not after issued_at")
	case expires.Sub(issued) > maxValidity:
		return errors.New("expires_at is more than ten years after issued_at")
	}
	return nil
}

func (m *Model) check() error {
	switch {
	case !validName(m.Name):
		return errors.New("this is no name of a model")
	case !control.ValidID(m.Version):
		return fmt.Errorf("version %q is not of the form [A-Za-z0-9._:-]{1,64}", m.Version)
	case m.Release < 1 || m.Release > maxNumber:
		return fmt.Errorf("release %d is not from 1 to 2^53", m.Release)
	case m.MinRelease < 0 || m.MinRelease > m.Release:
		return fmt.Errorf("min_release %d is not from 0 to the release", m.MinRelease)
	case len(m.URLs) < 1 || len(m.URLs) > maxURLs:
		return fmt.Errorf("%d urls, want 1 to %d", len(m.URLs), maxURLs)
	}
	for _, u := range append([]string{m.Index.URL}, m.URLs...) {
		if err := checkURL(u); err != nil {
			return err
		}
	}
	if m.SHA256 == (Digest{}) || m.Index.SHA256 == (Digest{}) {
		return errors.New("sha256 of the file and of its index are needed")
	}
	return errors.Join(checkBlocks(m.Size, m.Index.Block), m.Compat.check())
}

func checkBlocks(size, block int64) error {
	switch {
	case size < 1 || size > maxSize:
		return fmt.Errorf("size %d is not from 1 to %d", size, int64(maxSize))
	case block < minBlock || block > maxBlock || block&(block-1) != 0:
		return fmt.Errorf("block %d is no power of two from %d to %d", block, minBlock, maxBlock)
	case (size+block-1)/block > maxBlocks:
		return fmt.Errorf("%d blocks, the limit is %d: take larger ones", (size+block-1)/block, maxBlocks)
	}
	return nil
}

// checkURL lets https through, and http to this machine. The content is signed, but
// who downloads what is nobody else's business.
func checkURL(s string) error {
	if len(s) > maxURL {
		return fmt.Errorf("a url has %d bytes, the limit is %d", len(s), maxURL)
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return fmt.Errorf("%q is no url of the form https://host/path", s)
	}
	ip := net.ParseIP(u.Hostname())
	if local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); u.Scheme != "https" && !(u.Scheme == "http" && local) {
		return fmt.Errorf("%q: only https is downloaded from", s)
	}
	return nil
}

func (c Compat) check() error {
	if len(c.Arch) > maxList || len(c.Features) > maxList || len(c.VQF) > maxList {
		return fmt.Errorf("a list of compat has more than %d entries", maxList)
	}
	if c.RAMBytes < 0 || c.RAMBytes > maxNumber {
		return fmt.Errorf("ram_bytes %d is out of range", c.RAMBytes)
	}
	return nil
}

func (r Rollout) check() error {
	_, err := ParseWindow(r.Window)
	switch {
	case err != nil:
		return err
	case r.Salt != "" && !control.ValidID(r.Salt):
		return fmt.Errorf("salt %q is not of the form [A-Za-z0-9._:-]{1,64}", r.Salt)
	case !(r.Percent >= 0 && r.Percent <= 100): // NaN neither
		return fmt.Errorf("percent %v is not from 0 to 100", r.Percent)
	case r.JitterS < 0 || r.JitterS > maxPeriodS:
		return fmt.Errorf("jitter_s %d is not from 0 to %d", r.JitterS, maxPeriodS)
	case r.MaxBPS < 0 || r.MaxBPS > maxNumber || r.MaxBytes < 0 || r.MaxBytes > maxNumber:
		return errors.New("max_bps or max_bytes is out of range")
	}
	return nil
}

func (h Health) check() error {
	switch {
	case h.Probe != "" && !control.ValidID(h.Probe):
		return fmt.Errorf("probe %q is not of the form [A-Za-z0-9._:-]{1,64}", h.Probe)
	case !(h.MinTPSRatio >= 0 && h.MinTPSRatio <= 1) || !(h.MaxErrorRatio >= 0 && h.MaxErrorRatio <= 1) || math.Signbit(h.MinTPSRatio) || math.Signbit(h.MaxErrorRatio):
		return errors.New("min_tps_ratio and max_error_ratio are from 0 to 1")
	case h.ObserveS < 0 || h.ObserveS > maxPeriodS:
		return fmt.Errorf("observe_s %d is not from 0 to %d", h.ObserveS, maxPeriodS)
	case h.Golden != nil:
		return h.Golden.check()
	}
	return nil
}

// Bounds of a golden prompt.
const (
	maxGoldenText   = 4 << 10 // bytes, each of prompt and answer
	maxGoldenTokens = 256
)

func (g *Golden) check() error {
	switch {
	case g.Prompt == "" || len(g.Prompt) > maxGoldenText || len(g.Answer) > maxGoldenText:
		return fmt.Errorf("golden: prompt and answer have at most %d bytes, and the prompt is not empty", maxGoldenText)
	case g.Tokens < 1 || g.Tokens > maxGoldenTokens:
		return fmt.Errorf("golden: tokens %d is not from 1 to %d", g.Tokens, maxGoldenTokens)
	}
	return nil
}

// validName is the rule for names of models: those of files in the drop directory.
func validName(s string) bool { return control.ValidClient(s) && !strings.HasPrefix(s, ".") }
