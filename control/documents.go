// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"time"
)

// resync sends every retained document again, after each connection: the broker may
// have lost them, and the will has replaced the status.
func (s *Server) resync() {
	s.publishInfo()
	s.ModelsChanged()
	s.hass()
	s.docs.resync()
	s.publishStatus(true)
}

// SetState says what the device makes of itself: starting, online or degraded, with a
// reason for people. The published status also counts the data link in.
func (s *Server) SetState(state, reason string) {
	s.mu.Lock()
	if !s.closed {
		s.state, s.reason = state, reason
	}
	s.mu.Unlock()
	s.publishStatus(false)
}

// status is the document as it is true now. mu is held.
func (s *Server) status() Status {
	st := Status{V: 1, State: s.state, Session: s.session, Boot: s.boot, Since: s.since, Reason: s.reason}
	if s.state == StateOnline && s.dat != nil && !s.dat.connected.Load() {
		// A client that reads online may ask at once, so requests must be subscribed.
		st.State, st.Reason = StateDegraded, "no connection to the broker for requests"
		if s.dat.ups.Load() == 0 {
			st.State, st.Reason = StateStarting, ""
		}
	}
	return st
}

// publishStatus sends the status when it has changed, or when force says so.
func (s *Server) publishStatus(force bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := encode(s.status())
	if err != nil || !force && string(p) == string(s.lastStat) {
		return // err: strings, numbers and a time in this century always encode
	}
	s.lastStat = p
	// Who has nothing in work is offline a moment after stopping, and a link that is
	// slow would say the last alone.
	keep := s.state == StateStopping
	s.control.put(&message{topic: s.topics.Status(), payload: p, qos: 1, retain: true, key: true, keep: keep})
}

// InfoChanged publishes the info document again.
func (s *Server) InfoChanged() { s.publishInfo() }

func (s *Server) publishInfo() {
	i := s.backend.Info()
	i.V, i.Device = 1, s.cfg.Device
	i.Ops, i.JobTypes, i.Limits = Ops, slices.Concat(s.backend.JobTypes(), []string{jobCancel}), s.lim.info()
	if p, err := encode(i); err == nil {
		s.control.put(&message{topic: s.topics.Info(), payload: p, qos: 1, retain: true, key: true})
	} else {
		s.cfg.Notify(Notice{Event: NoticeState, Err: err})
	}
}

// ModelsChanged publishes the documents of the models that differ from what was
// published and clears those of models that are gone.
func (s *Server) ModelsChanged() {
	s.models.Lock()
	defer s.models.Unlock()
	live := map[string]bool{}
	for _, m := range s.backend.Models() {
		m.V = 1
		topic := s.topics.Model(m.Name)
		p, err := encode(m)
		if err != nil || !ValidModel(m.Name) {
			s.cfg.Notify(Notice{Event: NoticeState, Topic: topic, Err: err})
			continue
		}
		live[topic] = true
		s.docs.publish(topic, p, false)
	}
	s.docs.keep(s.topics.Model(""), live)
	s.hass()
}

// Event publishes what happened.
func (s *Server) Event(o Occurrence) {
	if o.At.IsZero() {
		o.At = s.cfg.Now().UTC()
	}
	if p, err := encode(o); err == nil {
		s.control.put(&message{topic: s.topics.Event(), payload: p, qos: 1})
	}
}

// publishStats sends the numbers; without a connection they are worth nothing.
func (s *Server) publishStats() {
	s.mu.Lock()
	up := s.dat != nil && s.dat.connected.Load()
	s.mu.Unlock()
	if !up {
		return
	}
	st := s.backend.Stats()
	st.Queue, st.Active = s.desk.load()
	c := s.Counters()
	st.MQTTReconnects, st.Dropped = c.Reconnects["control"]+c.Reconnects["data"], c.Dropped
	if p, err := encode(st); err == nil {
		s.data.put(&message{topic: s.topics.Stats(), payload: p, key: true})
	}
}

// SubmitJob takes a command from this machine; the policy does not apply to it.
// Errors that have a record stand in the record.
func (s *Server) SubmitJob(client, typ, id string, params []byte) (JobRecord, error) {
	if !ValidClient(client) || !ValidID(id) {
		return JobRecord{}, Errorf(BadRequest, "client %.80q or job id %.80q is malformed", client, id)
	}
	rec, err := s.jobs.submit(client, typ, id, params, true)
	if err != nil {
		return rec, err
	}
	return rec, nil
}

// CancelJob asks a job to end.
func (s *Server) CancelJob(client, id string) error {
	_, err := s.SubmitJob(client, jobCancel, id, []byte("{}"))
	return err
}

// Jobs returns the records, oldest first.
func (s *Server) Jobs() []JobRecord { return s.jobs.list() }

// LastMove is when the slowest loop of the server last moved; a watchdog that is fed
// while it is recent proves that they all do. Each loop moves at least every 5 s.
func (s *Server) LastMove() time.Time {
	oldest := time.Now()
	if t := s.beat.Load(); t != nil && t.Before(oldest) {
		oldest = *t
	}
	s.handling.Range(func(_, since any) bool {
		if t := since.(time.Time); t.Before(oldest) {
			oldest = t
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range []*link{s.ctl, s.dat} {
		if l == nil {
			continue
		}
		if t := l.beat.Load(); t != nil && t.Before(oldest) {
			oldest = *t
		}
	}
	return oldest
}
