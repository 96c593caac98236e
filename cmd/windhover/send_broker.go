// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"windhover/appliance"
	"windhover/control"
)

// brokerFlags say which device to talk to and by which broker.
type brokerFlags struct {
	broker, device, client, username, passwordFile string
	caFile, certFile, keyFile                      string
	plaintext                                      bool
	timeout                                        time.Duration
}

func (b *brokerFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&b.device, "device", "", "name of the appliance (default: the configured one)")
	f.StringVar(&b.client, "client", "", "name to ask under (default: --username, else the user's)")
	f.DurationVar(&b.timeout, "timeout", 15*time.Second, "longest silence of the appliance")
	b.addBroker(cmd)
}

// addBroker adds those that say how to get to the broker.
func (b *brokerFlags) addBroker(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&b.broker, "broker", "", "broker, such as mqtts://host:8883 (default: the appliance's own)")
	f.StringVar(&b.username, "username", "", "MQTT user name")
	f.StringVar(&b.passwordFile, "password-file", "", "file with the password in its first line")
	f.StringVar(&b.caFile, "ca-file", "", "certificates that the broker's is checked against (default: the system's)")
	f.StringVar(&b.certFile, "cert-file", "", "client certificate")
	f.StringVar(&b.keyFile, "key-file", "", "key of the client certificate")
	f.BoolVar(&b.plaintext, "allow-plaintext", false, "permit mqtt:// to another machine")
	addConfigFlag(cmd)
}

// config fills in from the configuration what the flags leave open.
func (b *brokerFlags) config(cmd *cobra.Command) (control.ClientConfig, error) {
	if b.timeout <= 0 {
		return control.ClientConfig{}, usagef(cmd, "--timeout %s: give more than 0", b.timeout)
	}
	c, err := b.merge(cmd)
	b.broker, b.device = c.Endpoint.URL, c.Device
	return c, err
}

func (b *brokerFlags) merge(cmd *cobra.Command) (control.ClientConfig, error) {
	c := control.ClientConfig{
		Endpoint: control.Endpoint{URL: b.broker, Username: b.username, PasswordFile: b.passwordFile,
			CAFile: b.caFile, CertFile: b.certFile, KeyFile: b.keyFile, AllowPlaintext: b.plaintext},
		Device: b.device, Name: b.client, AnswerWithin: b.timeout,
	}
	if c.Name == "" {
		c.Name = clientName(b.username)
	}
	if b.broker != "" && b.device != "" && !cmd.Flags().Changed("config") {
		return c, nil // a file that is named is read in any case, so that a wrong one is not passed over
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return c, err
	}
	if c.Device == "" {
		c.Device = cfg.Device
	}
	if b.broker == "" {
		own := appliance.ClientEndpoint(cfg)
		c.Endpoint.URL = own.URL
		c.Endpoint.AllowPlaintext = c.Endpoint.AllowPlaintext || own.AllowPlaintext
		if c.Endpoint.CAFile == "" {
			c.Endpoint.CAFile = own.CAFile
		}
	}
	return c, nil
}

// dial connects; an error says whether nobody is there or we are not let in.
func (b *brokerFlags) dial(cmd *cobra.Command) (*control.Client, error) {
	cfg, err := b.config(cmd)
	if err != nil {
		return nil, err
	}
	switch {
	case !control.ValidClient(cfg.Name):
		return nil, usagef(cmd, "--client %q: use 1 to 64 of A-Z a-z 0-9 . _ -", cfg.Name)
	case !control.ValidDevice(cfg.Device):
		return nil, usagef(cmd, "--device %q: use 1 to 63 of a-z 0-9 -, starting with a letter or digit", cfg.Device)
	}
	if err := checkEndpoint(cmd, cfg.Endpoint); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), b.timeout+5*time.Second)
	defer cancel()
	c, err := control.DialClient(ctx, cfg)
	if err != nil {
		return nil, appliance.DialError(err, cfg.Endpoint.URL)
	}
	return c, nil
}

// checkEndpoint finds a mistake in the flags before anything connects, and calls
// the flags by their names.
func checkEndpoint(cmd *cobra.Command, ep control.Endpoint) error {
	err := ep.Check()
	if err == nil {
		scheme, _, _ := strings.Cut(ep.URL, "://")
		if slices.Contains([]string{"mqtt", "tcp", "ws"}, scheme) {
			return idle(cmd, "with "+scheme+"://, which is not encrypted", "ca-file", "cert-file", "key-file")
		}
		return nil
	}
	flags := strings.NewReplacer("mqtt.url", "--broker", "set mqtt.allow_plaintext = true", "give --allow-plaintext",
		"mqtt.username", "--username", "mqtt.password_file", "--password-file", "mqtt.cert_file", "--cert-file", "mqtt.key_file", "--key-file")
	return usagef(cmd, "%s", flags.Replace(err.Error()))
}

// clientName is a name that can stand in a topic: the MQTT user name, else the
// user's.
func clientName(username string) string {
	if username == "" {
		if u, err := user.Current(); err == nil {
			username = u.Username
		}
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, username)
	if name == "" || !control.ValidClient(name) {
		return "cli"
	}
	return name
}
