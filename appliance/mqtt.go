// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"strings"

	"windhover/control"
)

// status is the document of the local socket.
func (s *server) status() StatusDoc {
	c := s.control.Counters()
	st := s.backend.Stats()
	st.Queue, st.Active, st.Dropped = c.Waiting, c.Active, c.Dropped
	state := control.StateOnline
	if !c.Connected["data"] {
		state = control.StateDegraded
	}
	return StatusDoc{
		Device: s.cfg.Device, Version: Version, Uptime: st.UptimeS, MQTT: s.mqttLine(c), State: state,
		Kernels: kernelSummary(), Drop: s.cfg.Paths.drop(), Models: s.reg.list(), Stats: st,
	}
}

// mqttLine says where requests come in, and whether that works now.
func (s *server) mqttLine(c control.Counters) string {
	s.mu.Lock()
	at := s.mqtt
	s.mu.Unlock()
	switch {
	case at == "":
		return "waiting for broker"
	case c.NameTaken:
		return at + " (another box is called " + s.cfg.Device + ": give one of them another name)"
	case c.Connected["data"]:
		return at
	default:
		return at + " (not connected)"
	}
}

// tellStatus puts a line about the appliance where systemctl status shows it.
func (s *server) tellStatus() {
	if s.control == nil {
		return
	}
	var ready, others []string
	for _, d := range s.reg.list() {
		if d.State == stateReady {
			ready = append(ready, d.Name)
		} else {
			others = append(others, d.Name+" "+d.State)
		}
	}
	line := "no models: drop a .vqf file into " + s.cfg.Paths.drop()
	if len(ready)+len(others) > 0 {
		line = fmt.Sprintf("%d ready", len(ready))
		if len(ready) > 0 {
			line += ": " + some(ready)
		}
		if len(others) > 0 {
			line += "; " + some(others)
		}
	}
	if !s.control.Counters().Connected["data"] {
		line += "; waiting for broker"
	}
	s.notify.status(line)
}

// some lists the first of many; the service manager takes no line of any length.
func some(list []string) string {
	const most = 8
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}

func (s *server) setMQTT(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mqtt = url
}
