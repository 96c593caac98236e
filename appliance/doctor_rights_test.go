// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctorProvesRights has a broker that grants every subscription, acknowledges every
// publish, and lets some of them nowhere: only a round trip shows it.
func TestDoctorProvesRights(t *testing.T) {
	all := "topic readwrite windhover/v1/box/#\n"
	for name, c := range map[string]struct {
		acl  string
		want string
	}{
		"all rights":            {all, FindingOK},
		"answers are not heard": {"topic write windhover/v1/box/#\ntopic read windhover/v1/box/req/#\ntopic read windhover/v1/box/status\n", FindingBad},
		"requests do not come":  {"topic write windhover/v1/box/#\ntopic read windhover/v1/box/res/#\ntopic read windhover/v1/box/status\n", FindingBad},
	} {
		t.Run(name, func(t *testing.T) {
			m := &mosquitto{conf: filepath.Join(t.TempDir(), "mosquitto.conf"), addr: freePort(t)}
			_, port, err := net.SplitHostPort(m.addr)
			if err != nil {
				t.Fatal(err)
			}
			acl := filepath.Join(filepath.Dir(m.conf), "acl")
			write(t, acl, "user box\n"+c.acl)
			conf := fmt.Sprintf("log_type error\nallow_anonymous true\nacl_file %s\nlistener %s 127.0.0.1\n", acl, port)
			if os.Geteuid() == 0 {
				conf += "user root\n" // it must read our files
			}
			write(t, m.conf, conf)
			m.start(t)
			t.Cleanup(m.kill)
			b := startBox(t, func(c *Config) { c.MQTT.URL = "mqtt://" + m.addr })
			until(t, "both links", func() bool {
				doc, err := LocalStatus(context.Background(), b.cfg)
				return err == nil && !strings.Contains(doc.MQTT, "waiting") && doc.State == "online"
			})
			r, err := Doctor(context.Background(), b.cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Findings {
				if f.Name == "loop-back" {
					if f.Status != c.want || c.want == FindingBad && !strings.Contains(f.Advice, "windhover/v1/box/#") {
						t.Errorf("%+v, want %v", f, c.want)
					}
					return
				}
			}
			t.Errorf("no finding about the loop-back: %+v", r.Findings)
		})
	}
}
