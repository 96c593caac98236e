// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"windhover/control"
)

// given are sockets that the service manager holds open for the daemon
// (windhover.socket, windhover-http.socket): who connects while it restarts waits
// instead of being refused. nil: the daemon opens its own.
type given struct {
	local net.Listener // in place of paths.socket
	http  net.Listener // in place of http.listen
}

// takeSockets makes listeners of what systemd passed, as activation.Files has it. On
// an error none stays open.
func takeSockets(files []*os.File) (g given, err error) {
	for _, f := range files {
		l, lerr := net.FileListener(f)
		err = errors.Join(err, f.Close())
		var place *net.Listener
		switch {
		case lerr != nil:
			err = errors.Join(err, fmt.Errorf("socket %s from systemd: %w: it has to be a ListenStream=", f.Name(), lerr))
			continue
		case l.Addr().Network() == "unix":
			place = &g.local
		default:
			place = &g.http
		}
		if *place != nil {
			err = errors.Join(err, fmt.Errorf("socket %s from systemd: %s is one more of its kind: use one for the local socket and one for HTTP", f.Name(), l.Addr()), l.Close())
			continue
		}
		*place = l
	}
	if err != nil {
		return given{}, errors.Join(err, g.close())
	}
	return g, nil
}

// close closes what was not used.
func (g *given) close() (err error) {
	for _, l := range []net.Listener{g.local, g.http} {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	return err
}

// listenLocal is the local socket, systemd's or our own.
func (s *server) listenLocal() (net.Listener, error) {
	if l := s.given.local; l != nil {
		s.log.Info("the local socket is from systemd", "path", l.Addr().String())
		if l.Addr().String() != s.cfg.Paths.Socket {
			s.log.Warn("clients look for the local socket elsewhere: set paths.socket to that of windhover.socket", "key", "paths.socket", "looked_for", s.cfg.Paths.Socket)
		}
		return l, nil
	}
	return listenSocket(s.cfg.Paths.Socket)
}

// httpRetry is the pause between two tries to open http.listen.
const httpRetry = 2 * time.Second

// listenHTTP is where HTTP is served, nil for nowhere. An error may pass: the address
// is another program's, or of a network that comes up after the daemon.
func (s *server) listenHTTP() (net.Listener, error) {
	l := s.given.http
	if l == nil && s.cfg.HTTP.Listen == "" {
		return nil, nil
	}
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", s.cfg.HTTP.Listen); err != nil {
			return nil, err
		}
		s.httpOpen.Store(beyondLoopback(l))
		s.log.Info("HTTP listens", "address", l.Addr().String())
		return l, nil
	}
	if s.httpOpen.Store(beyondLoopback(l)); s.httpOpen.Load() && s.cfg.HTTP.TokenFile == "" {
		s.log.Error("no HTTP: the socket from systemd is open to the network: set http.token_file", "key", "http.token_file", "address", l.Addr().String(), "error", l.Close())
		return nil, nil
	}
	s.log.Info("the HTTP socket is from systemd", "address", l.Addr().String())
	return l, nil
}

// awaitHTTP tries again what failed, until ctx ends: nil then. All else serves
// meanwhile.
func (s *server) awaitHTTP(ctx context.Context, err error) net.Listener {
	s.log.Error("no HTTP yet: set http.listen to a free address of this machine, or to \"\"; trying again", "key", "http.listen", "every", httpRetry, "error", err)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(httpRetry):
		}
		if l, err := s.listenHTTP(); err == nil {
			return l
		}
	}
}

// beyondLoopback says whether others than this machine reach a listener.
func beyondLoopback(l net.Listener) bool {
	host, _, err := net.SplitHostPort(l.Addr().String())
	return err == nil && !control.IsLoopback(host)
}
