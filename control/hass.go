// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"strings"
)

// Home Assistant finds the device by a retained document below its discovery prefix
// (docs/PROTOCOL.md, "Home Assistant"). Everything in it points at topics that the
// protocol has anyway, but for the update entity, whose state only Home Assistant
// reads.

// hassClient is the client segment that the discovered entities use.
const hassClient = "homeassistant"

// hassPrefix begins the topics of discovery documents.
const hassPrefix = "homeassistant/device/windhover_"

// Discovery is where Home Assistant looks for the device.
func (t Topics) Discovery() string { return hassPrefix + t.Device + "/config" }

// Update is the retained state of Home Assistant's update entity.
func (t Topics) Update() string { return t.base() + "ha/update" }

// SetHomeAssistant says whether Home Assistant may find the device from now on.
func (s *Server) SetHomeAssistant(on bool) {
	s.found.Store(on)
	s.hass()
}

// hassUpdate is the state of the update entity, as Home Assistant names its fields.
type hassUpdate struct {
	Installed  string `json:"installed_version"`
	Latest     string `json:"latest_version"`
	Title      string `json:"title"`
	InProgress bool   `json:"in_progress"`
	Percent    *int   `json:"update_percentage"` // null: not known
	Summary    string `json:"release_summary,omitempty"`
}

// hass publishes the discovery document and the state of the update entity where they
// changed, or takes those of an earlier run back where they are not wanted.
func (s *Server) hass() {
	s.finding.Lock()
	defer s.finding.Unlock()
	if !s.found.Load() {
		s.docs.clear(s.topics.Discovery())
		s.docs.clear(s.topics.Update())
		return
	}
	var model Model
	for _, m := range s.backend.Models() {
		if m.Default {
			model = m
		}
	}
	for topic, doc := range map[string]any{
		s.topics.Discovery(): s.discovery(model.Name),
		s.topics.Update():    s.hassUpdate(model),
	} {
		p, err := encode(doc)
		if err != nil {
			s.cfg.Notify(Notice{Event: NoticeState, Topic: topic, Err: err})
			continue
		}
		s.docs.publish(topic, p, false)
	}
}

// hassUpdate is what the update entity shows: the default model, what the fleet wants
// in its place, and how far that is.
func (s *Server) hassUpdate(m Model) hassUpdate {
	u := hassUpdate{Installed: m.Version, Latest: m.Version, Title: m.Name}
	s.mu.Lock()
	r := s.reported
	s.mu.Unlock()
	if r == nil || m.Name == "" {
		return u
	}
	for _, w := range r.Models {
		if w.Name != m.Name || w.Version == m.Version || r.Status == DesiredFailed || w.Error != nil {
			continue
		}
		u.Latest = w.Version
		if w.Status == JobRunning {
			u.InProgress, u.Summary = true, w.Phase
			if f := w.Progress; f != nil && f.Total > 0 {
				pct := min(max(f.Pct, 0), 100)
				u.Percent = &pct
			}
		}
	}
	return u
}

// entity is a component of the discovery document.
type entity map[string]any

// discovery is the document by which Home Assistant makes its entities.
func (s *Server) discovery(model string) any {
	info := s.backend.Info()
	ents := map[string]entity{
		"state": s.sensor("State", s.topics.Status(), "{{ value_json.state }}", entity{"entity_category": "diagnostic"}),
		"speed": s.sensor("Speed", s.topics.Stats(), "{{ value_json.decode_tok_s | round(1) }}",
			entity{"unit_of_measurement": "tok/s", "state_class": "measurement", "icon": "mdi:speedometer"}),
		"queue": s.sensor("Open requests", s.topics.Stats(), "{{ value_json.queue + value_json.active }}",
			entity{"state_class": "measurement"}),
		"temperature": s.sensor("Temperature", s.topics.Stats(), "{{ value_json.temp_c | round(1) }}",
			entity{"device_class": "temperature", "unit_of_measurement": "°C", "state_class": "measurement", "entity_category": "diagnostic"}),
		"memory": s.sensor("Free memory", s.topics.Stats(), "{{ value_json.mem_available }}",
			entity{"device_class": "data_size", "unit_of_measurement": "B", "state_class": "measurement", "entity_category": "diagnostic"}),
		"disk": s.sensor("Free disk", s.topics.Stats(), "{{ value_json.disk_free }}",
			entity{"device_class": "data_size", "unit_of_measurement": "B", "state_class": "measurement", "entity_category": "diagnostic"}),
		// A state has 255 characters at most; the whole text is in the message.
		"answer": s.sensor("Answer", s.topics.Reply(hassClient, "+"),
			"{% if value_json.t == 'done' and value_json.text is defined %}{{ value_json.text[:250] }}{% else %}{{ this.state }}{% endif %}",
			entity{"icon": "mdi:message-reply-text"}),
		"question": {"platform": "text", "name": "Question", "command_topic": s.topics.Request(hassClient, OpPrompt),
			"max": 255, "qos": 1, "icon": "mdi:message-question"},
		"model": {"platform": "update", "name": "Model", "state_topic": s.topics.Update(), "qos": 1},
	}
	types := s.backend.JobTypes()
	button := func(key, name, typ, payload string) {
		if slices.Contains(types, typ) {
			ents[key] = entity{"platform": "button", "name": name, "command_topic": s.topics.Command(typ, hassClient, noID),
				"payload_press": payload, "qos": 1, "entity_category": "config"}
		}
	}
	button("gc", "Free disk space", "gc", "{}")
	if ValidModel(model) {
		button("verify", "Verify the model", "verify", `{"model":"`+model+`"}`)
		button("rollback", "Go back to the model before", "model_rollback", `{"model":"`+model+`"}`)
	}
	id := "windhover_" + s.cfg.Device
	for key, e := range ents {
		e["unique_id"] = id + "_" + key
		e["default_entity_id"] = e["platform"].(string) + "." + strings.ReplaceAll(id, "-", "_") + "_" + key
	}
	return map[string]any{
		"device": map[string]any{
			"identifiers": []string{id}, "name": s.cfg.Device, "manufacturer": "Windhover",
			"model": strings.TrimSpace(info.Board), "sw_version": info.Version,
		},
		"origin":                map[string]any{"name": "windhover", "sw_version": info.Version},
		"availability_topic":    s.topics.Status(),
		"availability_template": "{{ 'online' if value_json.state in ['online', 'degraded'] else 'offline' }}",
		"components":            ents,
	}
}

func (s *Server) sensor(name, topic, template string, more entity) entity {
	e := entity{"platform": "sensor", "name": name, "state_topic": topic, "value_template": template, "qos": 1}
	for k, v := range more {
		e[k] = v
	}
	return e
}
