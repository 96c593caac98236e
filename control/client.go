// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// What a Client reports when no answer comes. Both mean that the device cannot be
// reached now.
var (
	ErrOffline  = errors.New("control: the device is offline")
	ErrNoAnswer = errors.New("control: the device does not answer")
)

// ErrLost says that the device forgot a request before its end was heard.
var ErrLost = errors.New("control: the device no longer knows the request")

// ClientConfig is what a Client needs to know.
type ClientConfig struct {
	Endpoint Endpoint
	Device   string
	// Name is the client segment of the topics: the MQTT user name where the broker
	// checks it. "": Endpoint.Username, else "cli".
	Name string
	// AnswerWithin is the longest silence of the device; 0: 15 s.
	AnswerWithin time.Duration
}

// Client asks one device over any broker. It reconnects by itself; replies are put in
// order by their seq, and what was missed is fetched. It is safe for concurrent use.
type Client struct {
	cfg    ClientConfig
	topics Topics
	link   *link
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	boxes  map[string]*mailbox // by id: of requests, of their fetches, of jobs
	status Status
}

// mailbox collects what came for one id, between the MQTT callback and the caller.
type mailbox struct {
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	replies []*Reply
	records []*JobRecord
	again   bool // a new connection: something may have been missed
}

const mailboxSize = 4096 // messages; more are dropped and fetched again

func (b *mailbox) put(f func()) {
	b.mu.Lock()
	if len(b.replies)+len(b.records) < mailboxSize {
		f()
	}
	b.mu.Unlock()
	b.signal()
}

func (b *mailbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *mailbox) take() (replies []*Reply, records []*JobRecord, again bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	replies, records, again = b.replies, b.records, b.again
	b.replies, b.records, b.again = nil, nil, false
	return replies, records, again
}

// DialClient connects; an error is that of the first try.
func DialClient(ctx context.Context, cfg ClientConfig) (*Client, error) {
	if cfg.Name == "" {
		if cfg.Name = cfg.Endpoint.Username; cfg.Name == "" {
			cfg.Name = "cli"
		}
	}
	if cfg.AnswerWithin <= 0 {
		cfg.AnswerWithin = 15 * time.Second
	}
	if !ValidClient(cfg.Name) || !ValidDevice(cfg.Device) {
		return nil, fmt.Errorf("control: client %q or device %q is malformed", cfg.Name, cfg.Device)
	}
	t := Topics{cfg.Device}
	c := &Client{cfg: cfg, topics: t, done: make(chan struct{}), boxes: map[string]*mailbox{}}
	c.link = &link{
		name: "client", endpoint: cfg.Endpoint, clientID: "windhover-" + newID(), clean: true,
		filters: []string{t.Replies(cfg.Name), t.Job(cfg.Name, "+"), t.Status()},
		box:     newOutbox(time.Now), handle: c.receive,
	}
	if err := startLink(ctx, c.link, c.reconnected, &c.stop, c.done); err != nil {
		return nil, err
	}
	return c, nil
}

// startLink runs l until the function it stores in stop is called, and waits for the
// first connection or the first failure.
func startLink(ctx context.Context, l *link, up func(), stop *context.CancelFunc, done chan struct{}) error {
	if err := l.endpoint.Check(); err != nil {
		return err
	}
	first := make(chan error, 1)
	report := func(err error) {
		select {
		case first <- err:
		default:
		}
	}
	l.onUp = func() { up(); report(nil) }
	l.onDown = func(error) {}
	l.onTry = report
	run, cancel := context.WithCancel(context.Background())
	*stop = cancel
	go func() { l.run(run); close(done) }()
	var err error
	select {
	case err = <-first:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		<-done
	}
	return err
}

// Close disconnects.
func (c *Client) Close() {
	c.stop()
	<-c.done
}

// Status is the last status of the device that was heard; the zero value when none.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// reconnected tells every caller that messages may have been missed.
func (c *Client) reconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.boxes {
		b.mu.Lock()
		b.again = true
		b.mu.Unlock()
		b.signal()
	}
}

// receive is the MQTT callback: it decodes and files, and never blocks.
func (c *Client) receive(m mqtt.Message) {
	switch topic := m.Topic(); topic {
	case c.topics.Status():
		var st Status
		if decodeJSON(m.Payload(), &st) {
			c.hear(st)
		}
	default:
		if r, err := DecodeReply(m.Payload()); err == nil && topic == c.topics.Reply(c.cfg.Name, r.ID) {
			c.file(r.ID, func(b *mailbox) { b.replies = append(b.replies, r) })
		} else if j, err := DecodeJob(m.Payload()); err == nil && topic == c.topics.Job(c.cfg.Name, j.ID) {
			c.file(j.ID, func(b *mailbox) { b.records = append(b.records, j) })
		}
	}
}

// hear keeps a status, but not the late will of an earlier start.
func (c *Client) hear(st Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.State == StateOffline && st.Session < c.status.Session {
		return
	}
	c.status = st
	for _, b := range c.boxes {
		b.signal()
	}
}

func (c *Client) file(id string, f func(*mailbox)) {
	c.mu.Lock()
	b := c.boxes[id]
	c.mu.Unlock()
	if b != nil {
		b.put(func() { f(b) })
	}
}

func (c *Client) open(id string, b *mailbox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boxes[id] = b
}

func (c *Client) drop(ids ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.boxes, id)
	}
}

func (c *Client) publish(topic string, payload []byte) {
	c.link.box.put(&message{topic: topic, payload: payload, qos: 1})
}

// Command submits a job and waits for its end. on, which may be nil, is told each
// record. An empty id gets a made one. The error of a job that did not succeed is its
// *Error, beside its record.
func (c *Client) Command(ctx context.Context, typ, id string, params []byte, on func(*JobRecord)) (*JobRecord, error) {
	if id == "" {
		id = newID()
	}
	b := &mailbox{wake: make(chan struct{}, 1)}
	c.open(id, b)
	defer c.drop(id)
	c.publish(c.topics.Command(typ, c.cfg.Name, id), params)
	silence := time.NewTimer(c.cfg.AnswerWithin)
	defer silence.Stop()
	version := 0
	for {
		select {
		case <-b.wake:
		case <-silence.C:
			if version == 0 {
				return nil, ErrNoAnswer
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		replies, records, _ := b.take()
		for _, r := range replies {
			if r.Type == TypeError {
				return nil, r.Err
			}
		}
		for _, j := range records {
			if j.Version <= version {
				continue
			}
			version = j.Version
			if on != nil {
				on(j)
			}
			if j.Final() {
				if j.Error != nil {
					return j, j.Error
				}
				return j, nil
			}
		}
	}
}

// Watch subscribes to filters and hands every message to on, one at a time, until ctx
// ends. It reconnects by itself; an error before that is that of the first try.
func Watch(ctx context.Context, ep Endpoint, filters []string, on func(topic string, retained bool, payload []byte)) error {
	queue := make(chan mqtt.Message, 1024) // a slow reader loses messages, as it would at the broker
	l := &link{
		name: "watch", endpoint: ep, clientID: "windhover-" + newID(), clean: true, filters: filters,
		box: newOutbox(time.Now),
		handle: func(m mqtt.Message) {
			select {
			case queue <- m:
			default:
			}
		},
	}
	var stop context.CancelFunc
	done := make(chan struct{})
	if err := startLink(ctx, l, func() {}, &stop, done); err != nil {
		return err
	}
	defer func() { stop(); <-done }()
	for {
		select {
		case m := <-queue:
			on(m.Topic(), m.Retained(), m.Payload())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
