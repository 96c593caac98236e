// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// Leaf joins the broker to a NATS server or cluster as a leaf node: clients there and
// here see one another's topics, retained messages included, while each side keeps its
// own store and its own clients. The link is made from here, and made again whenever it
// is lost; without it the broker works as if there were none.
type Leaf struct {
	URL string // nats://host:7422, or tls://host:7422; "": no link
	// Credentials is a file: what NATS calls credentials (a JWT and its seed), or
	// user:password on its first line; "": none are asked for.
	Credentials string
	CAFile      string // for tls://; "": the system's
	// AllowPlaintext permits nats:// to another machine.
	AllowPlaintext bool
}

// leafPort is where NATS listens for leaf nodes.
const leafPort = "7422"

// natsCredentials begins a credentials file of NATS.
const natsCredentials = "-----BEGIN NATS USER JWT-----"

// Check finds what is wrong with a link before anything connects. The errors name the
// configuration key.
func (l Leaf) Check() error {
	_, err := l.parse()
	return err
}

func (l Leaf) parse() (*url.URL, error) {
	if l.URL == "" {
		return nil, nil
	}
	u, err := url.Parse(l.URL)
	if err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls" {
		return nil, fmt.Errorf("broker: mqtt.embedded.leaf_url: write it as tls://HOST:%s or nats://HOST:%s", leafPort, leafPort)
	}
	if u.User != nil {
		return nil, fmt.Errorf("broker: mqtt.embedded.leaf_url has a user or token in it: put that into mqtt.embedded.leaf_credentials")
	}
	if u.Scheme == "nats" && !l.AllowPlaintext && !loopback(u.Hostname()) {
		return nil, fmt.Errorf("broker: mqtt.embedded.leaf_url %q is not encrypted and leaves this machine: use tls://, or set mqtt.allow_plaintext = true", l.URL)
	}
	u.Host = u.Hostname() + ":" + cmp.Or(u.Port(), leafPort)
	if strings.Contains(u.Hostname(), ":") {
		u.Host = "[" + u.Hostname() + "]:" + cmp.Or(u.Port(), leafPort)
	}
	return u, nil
}

// remote is the link as the server's options say it.
func (l Leaf) remote() (*server.RemoteLeafOpts, error) {
	u, err := l.parse()
	if u == nil || err != nil {
		return nil, err
	}
	r := &server.RemoteLeafOpts{URLs: []*url.URL{u}}
	if l.Credentials != "" {
		data, err := os.ReadFile(l.Credentials)
		if err != nil {
			return nil, fmt.Errorf("broker: mqtt.embedded.leaf_credentials: %w", err)
		}
		if line, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n"); strings.HasPrefix(line, natsCredentials) {
			r.Credentials = l.Credentials
		} else if user, password, ok := strings.Cut(strings.TrimRight(line, "\r"), ":"); ok && user != "" {
			u.User = url.UserPassword(user, password)
		} else {
			return nil, fmt.Errorf("broker: mqtt.embedded.leaf_credentials %s: neither credentials of NATS nor user:password", l.Credentials)
		}
	}
	if u.Scheme != "tls" {
		return r, nil
	}
	r.TLS, r.TLSConfig = true, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	if l.CAFile != "" {
		pem, err := os.ReadFile(l.CAFile)
		if err != nil {
			return nil, fmt.Errorf("broker: mqtt.embedded.leaf_ca_file: %w", err)
		}
		r.TLSConfig.RootCAs = x509.NewCertPool()
		if !r.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("broker: mqtt.embedded.leaf_ca_file %q holds no certificate in PEM", l.CAFile)
		}
	}
	return r, nil
}

// join adds the link to the options of a server. The name of the device is then the
// domain of its store, by which the server knows whose sessions are whose; a broker
// that had no link before begins with new sessions.
func (l Leaf) join(o *server.Options, device string) error {
	r, err := l.remote()
	if r == nil || err != nil {
		return err
	}
	o.LeafNode.Remotes = []*server.RemoteLeafOpts{r}
	o.JetStreamDomain = cmp.Or(device, "windhover")
	o.ServerName = "windhover-" + o.JetStreamDomain // a cluster takes two of one name for one
	return nil
}

// Linked says whether the link to a cluster stands.
func (b *Broker) Linked() bool { return b.srv.NumLeafNodes() > 0 }
