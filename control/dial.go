// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"golang.org/x/net/proxy"
)

const (
	connectTimeout = 10 * time.Second
	keepAlive      = 20 * time.Second
)

// Endpoint is a broker and how to get in. Files are read again at each connection,
// so that credentials and certificates can be replaced without a restart.
type Endpoint struct {
	URL          string // mqtt:// mqtts:// ws:// wss://, host and optional port and path
	Username     string
	Password     string // used where PasswordFile is ""
	PasswordFile string // its first line
	CAFile       string // "": the system's
	CertFile     string // client certificate; with KeyFile
	KeyFile      string

	// AllowPlaintext permits mqtt:// and ws:// to a host that is not this one.
	AllowPlaintext bool

	// RetryMin and RetryMax bound the pause between two tries; 0: 500 ms and 30 s.
	RetryMin, RetryMax time.Duration
	// WriteTimeout bounds one write; 0: 10 s.
	WriteTimeout time.Duration
}

// Check finds what is wrong with an endpoint before anything connects. The errors
// name the configuration key.
func (e Endpoint) Check() error {
	_, err := e.parse()
	return err
}

func (e Endpoint) parse() (*url.URL, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("control: mqtt.url %q is not a URL like mqtts://host:8883", Redact(e.URL))
	}
	if u.User != nil {
		return nil, fmt.Errorf("control: mqtt.url %q: put the user into mqtt.username and mqtt.password_file", Redact(e.URL))
	}
	port := ""
	secure := false
	switch u.Scheme {
	case "mqtt", "tcp":
		u.Scheme, port = "mqtt", "1883"
	case "mqtts", "ssl", "tls":
		u.Scheme, port, secure = "mqtts", "8883", true
	case "ws":
		port = "80"
	case "wss":
		port, secure = "443", true
	default:
		return nil, fmt.Errorf("control: mqtt.url %q: scheme must be mqtt, mqtts, ws or wss", Redact(e.URL))
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	if !secure && !e.AllowPlaintext && !IsLoopback(u.Hostname()) {
		return nil, fmt.Errorf("control: mqtt.url %q is not encrypted and leaves this machine: use mqtts:// or wss://, or set mqtt.allow_plaintext = true", Redact(e.URL))
	}
	if (e.CertFile == "") != (e.KeyFile == "") {
		return nil, fmt.Errorf("control: mqtt.cert_file and mqtt.key_file belong together")
	}
	return u, nil
}

// Redact is a URL as people and logs may see it: without user, password and query, where
// secrets stand. It need not be one.
func Redact(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if ok {
		scheme += "://"
	} else {
		scheme, rest = "", s
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = "…" + rest[i:]
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i+1] + "…"
	}
	return scheme + rest
}

// IsLoopback says whether host (a name or an address, without port) is this machine
// for certain: localhost or a loopback address.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// credentials reads the user name and password as they are now.
func (e Endpoint) credentials() (user, password string, err error) {
	if e.PasswordFile == "" {
		return e.Username, e.Password, nil
	}
	b, err := os.ReadFile(e.PasswordFile)
	if err != nil {
		return "", "", fmt.Errorf("control: mqtt.password_file: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return e.Username, strings.TrimSuffix(line, "\r"), nil
}

// files sums up what the files that the endpoint names hold; "" while one of them
// cannot be read.
func (e Endpoint) files() string {
	h := sha256.New()
	for _, name := range []string{e.PasswordFile, e.CAFile, e.CertFile, e.KeyFile} {
		if name == "" {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return ""
		}
		_, _ = fmt.Fprintf(h, "%d\n%s", len(b), b) // a hash takes everything
	}
	return string(h.Sum(nil))
}

// renewed says whether the files hold something else than before and can be used: a
// certificate whose key is still to be written is none yet.
func (e Endpoint) renewed(before string) bool {
	now := e.files()
	if now == "" || now == before {
		return false
	}
	if _, _, err := e.credentials(); err != nil {
		return false
	}
	u, err := e.parse()
	if err != nil {
		return false
	}
	_, err = e.tlsConfig(u.Hostname())
	return err == nil
}

func (e Endpoint) tlsConfig(host string) (*tls.Config, error) {
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if e.CAFile != "" {
		pem, err := os.ReadFile(e.CAFile)
		if err != nil {
			return nil, fmt.Errorf("control: mqtt.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("control: mqtt.ca_file %q holds no certificate in PEM", e.CAFile)
		}
	}
	if e.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("control: mqtt.cert_file, mqtt.key_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// open makes the network connection: TCP or TLS, with the proxy of the environment,
// or a web socket. Incoming publishes are cut (see truncatingConn).
func (e Endpoint) open(ctx context.Context) (net.Conn, error) {
	u, err := e.parse()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	tlsc, err := e.tlsConfig(u.Hostname())
	if err != nil {
		return nil, err
	}
	var nc net.Conn
	switch u.Scheme {
	case "ws", "wss":
		nc, err = mqtt.NewWebsocket(u.String(), tlsc, connectTimeout, nil, nil)
	default:
		nc, err = dialTCP(ctx, u.Host)
		if err == nil && u.Scheme == "mqtts" {
			nc, err = handshake(ctx, nc, tlsc)
		}
	}
	if err != nil {
		return nil, err
	}
	return &truncatingConn{Conn: nc, limit: maxPacket}, nil
}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	direct := &net.Dialer{KeepAlive: 30 * time.Second}
	if host, _, err := net.SplitHostPort(addr); err == nil && IsLoopback(host) {
		return direct.DialContext(ctx, "tcp", addr)
	}
	d, ok := proxy.FromEnvironmentUsing(direct).(proxy.ContextDialer)
	if !ok {
		d = direct
	}
	return d.DialContext(ctx, "tcp", addr)
}

func handshake(ctx context.Context, nc net.Conn, c *tls.Config) (net.Conn, error) {
	t := tls.Client(nc, c)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = nc.Close() // the handshake's error is the one that counts
		return nil, err
	}
	return t, nil
}
