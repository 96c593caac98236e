// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"windhover/control"
	"windhover/control/broker"
)

// endpoints are the brokers of the two links, as the device connects to them.
func (m MQTT) endpoints() (ctl, data control.Endpoint) {
	ctl = control.Endpoint{URL: m.URL, Username: m.Username, PasswordFile: m.PasswordFile, CAFile: m.CAFile,
		CertFile: m.CertFile, KeyFile: m.KeyFile, AllowPlaintext: m.AllowPlaintext}
	data = ctl
	data.URL = cmp.Or(m.DataURL, m.URL)
	if d := m.Data; m.DataURL != "" {
		data.Username = cmp.Or(d.Username, data.Username)
		data.PasswordFile = cmp.Or(d.PasswordFile, data.PasswordFile)
		data.CAFile = cmp.Or(d.CAFile, data.CAFile)
		if d.CertFile != "" {
			data.CertFile, data.KeyFile = d.CertFile, d.KeyFile
		}
	}
	return ctl, data
}

// leaf is the link of the embedded broker to a cluster.
func (m MQTT) leaf() broker.Leaf {
	if m.URL != "" {
		return broker.Leaf{}
	}
	return broker.Leaf{URL: m.Embedded.LeafURL, Credentials: m.Embedded.LeafCredentials, CAFile: m.Embedded.LeafCAFile, AllowPlaintext: m.AllowPlaintext}
}

// ClientEndpoint is the broker by which a client on this machine reaches the
// appliance. The configured user is the device itself, so that no credentials
// are taken over.
func ClientEndpoint(cfg Config) control.Endpoint {
	m := cfg.MQTT
	if m.URL == "" {
		return control.Endpoint{URL: "mqtt://" + loopback(m.Embedded.Listen)}
	}
	_, data := m.endpoints() // clients ask where requests are heard
	return control.Endpoint{URL: data.URL, CAFile: data.CAFile, AllowPlaintext: m.AllowPlaintext}
}

// loopback turns an address to listen on into one to connect to.
func loopback(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen // the configuration was checked: this does not happen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// DialError says why a broker could not be connected to: nobody is there
// (ErrUnreachable), or we are not let in (control.Forbidden).
func DialError(err error, url string) error {
	url = control.Redact(url)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case control.Denied(err):
		return control.Errorf(control.Forbidden, "broker %s refuses this user: give --username and --password-file", url)
	}
	var op *net.OpError
	if errors.As(err, &op) { // the rest names the address once more
		return fmt.Errorf("%w: broker %s: %v: is the appliance running?", ErrUnreachable, url, op.Err)
	}
	return fmt.Errorf("%w: broker %s: %v", ErrUnreachable, url, err)
}

// AnswerError says what became of a request that was sent. The device's own error
// stays as it is.
func AnswerError(err error, url string) error {
	url = control.Redact(url)
	switch {
	case errors.Is(err, control.ErrOffline):
		return fmt.Errorf("%w: broker %s answers, but the appliance is offline: start it (systemctl start windhover), or check --device", ErrUnreachable, url)
	case errors.Is(err, control.ErrNoAnswer):
		return fmt.Errorf("%w: broker %s answers, but the appliance does not: check --device, and that this user may publish requests", ErrUnreachable, url)
	}
	return err
}
