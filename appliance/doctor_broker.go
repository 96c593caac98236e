// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"time"

	"windhover/control"
)

// doctorClient is the name that the doctor asks under.
const doctorClient = "doctor"

// doctorPatience is how long the doctor waits for a broker, and for an answer.
const doctorPatience = 6 * time.Second

// broker sends a request through the broker to the appliance and back, with the
// rights of the device: a broker does not tell that it dropped a message.
func (d *doctor) broker(ctx context.Context) {
	ep := d.deviceEndpoint()
	at := control.Redact(ep.URL)
	ctx, cancel := context.WithTimeout(ctx, 3*doctorPatience)
	defer cancel()
	c, err := control.DialClient(ctx, control.ClientConfig{Endpoint: ep, Device: d.cfg.Device, Name: doctorClient, AnswerWithin: doctorPatience})
	switch {
	case err == nil:
	case control.Denied(err) && d.cfg.MQTT.URL == "":
		d.ok("broker", "%s asks for a user of %s, as it should; no request was tried", at, d.cfg.MQTT.Embedded.UsersFile)
		return
	case control.Denied(err):
		d.fail("broker", "check mqtt.username, mqtt.password_file and the broker's users", "%s refuses %s", at, d.user(ep))
		return
	case d.running == nil && d.cfg.MQTT.URL == "":
		d.warn("broker", "it is inside the appliance: start that", "nobody answers at %s", at)
		return
	default:
		d.fail("broker", "check the broker, mqtt.url and the network", "%s: %s", at, oneLine(err))
		return
	}
	defer c.Close()
	d.ok("broker", "%s lets %s in", at, d.user(ep))
	d.loopback(ctx, c)
	d.open(ctx, ep)
}

// deviceEndpoint is the broker as the appliance itself connects to it.
func (d *doctor) deviceEndpoint() control.Endpoint {
	m := d.cfg.MQTT
	ep := ClientEndpoint(d.cfg)
	if m.URL != "" {
		_, ep = m.endpoints()
	}
	return ep
}

func (d *doctor) user(ep control.Endpoint) string {
	if ep.Username == "" {
		return "anybody on this machine"
	}
	return "the user " + ep.Username
}

// loopback asks for the messages of a request that never was: the answer is short,
// needs no model, and shows that both directions work.
func (d *doctor) loopback(ctx context.Context, c *control.Client) {
	r := control.NewRequest(control.OpFetch)
	r.Target = "doctor-probe"
	start := time.Now()
	_, err := c.Send(ctx, r, nil)
	took := time.Since(start)
	switch {
	case err == nil:
		d.ok("loop-back", "a request came back from the appliance after %d ms", took.Milliseconds())
	case d.running == nil && (errors.Is(err, control.ErrOffline) || errors.Is(err, control.ErrNoAnswer)):
		d.warn("loop-back", "start the appliance; if it runs, check device and the broker's rights", "the broker answers, an appliance named %s does not", d.cfg.Device)
	case errors.Is(err, control.ErrOffline), errors.Is(err, control.ErrNoAnswer):
		d.fail("loop-back", "check that the user may read and write windhover/v1/"+d.cfg.Device+"/# at the broker",
			"the appliance runs, but a request to it does not come back: %s", oneLine(err))
	default:
		d.fail("loop-back", "see the log of the appliance: journalctl -u windhover", "%s", oneLine(err))
	}
}

// open warns of a broker that lets in whoever comes, though we have credentials.
func (d *doctor) open(ctx context.Context, ep control.Endpoint) {
	if d.cfg.MQTT.URL == "" || ep.PasswordFile == "" && ep.CertFile == "" {
		return
	}
	ep.Username, ep.PasswordFile, ep.CertFile, ep.KeyFile = "", "", "", ""
	c, err := control.DialClient(ctx, control.ClientConfig{Endpoint: ep, Device: d.cfg.Device, Name: doctorClient})
	if err != nil {
		return
	}
	c.Close()
	d.warn("broker_open", "set allow_anonymous false at the broker", "%s lets in clients without credentials: anybody may ask, and read answers", control.Redact(ep.URL))
}
