// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"testing"

	"windhover/control"
)

// TestEndpointsOfTwoBrokers is what each link connects with.
func TestEndpointsOfTwoBrokers(t *testing.T) {
	fleet := MQTT{URL: "mqtts://fleet", Username: "edge1", PasswordFile: "pw", CAFile: "ca", CertFile: "cert", KeyFile: "key"}
	same := control.Endpoint{URL: "mqtts://fleet", Username: "edge1", PasswordFile: "pw", CAFile: "ca", CertFile: "cert", KeyFile: "key"}
	for _, c := range []struct {
		name   string
		change func(*MQTT)
		data   control.Endpoint
	}{
		{"one broker", func(*MQTT) {}, same},
		{"another with the same way in", func(m *MQTT) { m.DataURL = "mqtts://lan" },
			control.Endpoint{URL: "mqtts://lan", Username: "edge1", PasswordFile: "pw", CAFile: "ca", CertFile: "cert", KeyFile: "key"}},
		{"another with its own", func(m *MQTT) {
			m.DataURL, m.Data = "mqtts://lan", Data{Username: "box", PasswordFile: "pw2", CAFile: "ca2", CertFile: "cert2", KeyFile: "key2"}
		}, control.Endpoint{URL: "mqtts://lan", Username: "box", PasswordFile: "pw2", CAFile: "ca2", CertFile: "cert2", KeyFile: "key2"}},
		{"another with a password of its own", func(m *MQTT) { m.DataURL, m.Data = "mqtts://lan", Data{PasswordFile: "pw2"} },
			control.Endpoint{URL: "mqtts://lan", Username: "edge1", PasswordFile: "pw2", CAFile: "ca", CertFile: "cert", KeyFile: "key"}},
	} {
		m := fleet
		c.change(&m)
		ctl, data := m.endpoints()
		if ctl != same || data != c.data {
			t.Errorf("%s: control by %+v, data by %+v", c.name, ctl, data)
		}
		client := ClientEndpoint(Config{MQTT: m})
		if client.URL != c.data.URL || client.CAFile != c.data.CAFile || client.PasswordFile != "" || client.KeyFile != "" {
			t.Errorf("%s: a client on this machine connects by %+v", c.name, client)
		}
	}
}
