// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"windhover/appliance/web"
	"windhover/control"
)

// webBox is the appliance as package web sees it.
type webBox struct {
	s *server
	// trusted: whoever comes in here may do what a member of the group windhover may,
	// since the socket lets in no one else. So may who has shown the token.
	trusted bool
}

var _ web.Box = webBox{}

// Ask implements web.Box: by the queue of all requests.
func (b webBox) Ask(ctx context.Context, r *control.Request, reply func(*control.Reply) error) error {
	return b.s.control.Ask(ctx, r, reply)
}

// Models implements web.Box.
func (b webBox) Models() []control.Model { return b.s.reg.list() }

// View implements web.Box.
func (b webBox) View() web.View {
	doc := b.s.status()
	count := b.s.control.Counters()
	return web.View{
		Device: doc.Device, Version: doc.Version, Board: board(), State: doc.State, MQTT: doc.MQTT, Drop: doc.Drop,
		Connected: count.Connected["data"] && !count.NameTaken,
		RAMBytes:  b.s.backend.memory().most(), Models: doc.Models, Stats: doc.Stats,
		Hour: b.s.backend.metrics.hour.sum(time.Since(b.s.backend.metrics.started)),
		Jobs: b.s.control.Jobs(), Events: b.s.recent.last(),
	}
}

// anonymousDrop is the entry of anonymous.allow that lets in models from who has shown
// nothing. It is no job type, but it stands for as much.
const anonymousDrop = "drop"

// Drop implements web.Box. The scan is woken, which looks at the file as at any other.
func (b webBox) Drop(ctx context.Context, name string, size int64, r io.Reader) (int64, error) {
	p := b.s.backend.now().policy()
	p.EnforcesACL = false // nobody has checked a name here
	if !b.trusted && !web.ShowedToken(ctx) && !p.Allows("", anonymousDrop) {
		return 0, control.Errorf(control.Forbidden, "this port takes no models: set http.token_file, add %q to anonymous.allow, or copy the file into %s", anonymousDrop, b.s.cfg.Paths.drop())
	}
	n, err := receive(ctx, b.s.cfg.Paths.drop(), name, size, r)
	if err != nil {
		return n, err
	}
	b.s.log.Info("model uploaded", "entry", name, "bytes", n)
	b.s.backend.wakeDrop()
	return n, nil
}

// door says who may come in by the port.
func (s *server) door() web.Door {
	now := s.backend.now().HTTP
	d := web.Door{TokenFile: now.TokenFile, Hosts: slices.Clone(now.Hosts)}
	names := []string{s.cfg.Device}
	if host, err := os.Hostname(); err == nil {
		short, _, _ := strings.Cut(host, ".")
		names = append(names, host, short)
	}
	if host, _, err := net.SplitHostPort(s.cfg.HTTP.Listen); err == nil && host != "" {
		d.Hosts = append(d.Hosts, host)
	}
	for _, n := range names {
		d.Hosts = append(d.Hosts, n, n+".local") // .local: as mDNS has it
	}
	return d
}
