// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

const (
	base     = "windhover/v1/edge1/"
	patience = 10 * time.Minute // for an answer, restarts of the broker included
	again    = 20 * time.Second // after which a request goes out once more, under its id
)

// reply is what a device needs of docs/PROTOCOL.md's replies, and of records of jobs.
type reply struct {
	T      string `json:"t"`
	ID     string `json:"id"`
	Text   string `json:"text"`
	Finish string `json:"finish"`
	IDs    []int  `json:"ids"`
	Found  bool   `json:"found"`
	Model  struct {
		SHA256  string `json:"sha256"`
		Version string `json:"version"`
	} `json:"model"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Status string `json:"status"` // of a job
}

func (r reply) terminal() bool { return r.T == "done" || r.T == "error" }

// device is one of the fleet: a name and a connection that comes back by itself.
type device struct {
	name string
	mq   mqtt.Client

	mu   sync.Mutex
	open map[string]chan reply // by id of the request or job; "" takes ids that nobody chose
	last map[string][]byte     // retained documents by what is below base
}

// newDevice connects, and goes on trying for as long as it has to.
func newDevice(name string, documents ...string) *device {
	d := &device{name: name, open: map[string]chan reply{}, last: map[string][]byte{}}
	topics := map[string]byte{base + "res/" + name + "/#": 1, base + "job/" + name + "/+": 1}
	for _, t := range documents {
		topics[base+t] = 1
	}
	o := mqtt.NewClientOptions().AddBroker("tcp://127.0.0.1:1883").SetClientID("hours-" + name).
		SetKeepAlive(2 * time.Minute).SetConnectRetry(true).SetConnectRetryInterval(5 * time.Second).SetMaxReconnectInterval(15 * time.Second).
		SetOrderMatters(false).SetDefaultPublishHandler(d.heard)
	o.SetOnConnectHandler(func(c mqtt.Client) { c.SubscribeMultiple(topics, d.heard) })
	d.mq = mqtt.NewClient(o)
	d.mq.Connect()
	return d
}

func (d *device) heard(_ mqtt.Client, m mqtt.Message) {
	below := strings.TrimPrefix(m.Topic(), base)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !strings.HasPrefix(below, "res/") && !strings.HasPrefix(below, "job/") {
		d.last[below] = m.Payload()
		return
	}
	var r reply
	// The model of accepted is a name alone: what else there is counts. Nothing is there
	// in the empty message of a record that goes.
	if err := json.Unmarshal(m.Payload(), &r); err != nil && r.T == "" && r.Status == "" {
		return
	}
	c := d.open[below[strings.LastIndexByte(below, '/')+1:]]
	if c == nil {
		c = d.open[""]
	}
	select {
	case c <- r: // a nil channel takes none
	default:
	}
}

// document is the last one heard of a topic below base.
func (d *device) document(below string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.last[below])
}

func (d *device) listen(id string) (c chan reply, stop func()) {
	c = make(chan reply, 64)
	d.mu.Lock()
	d.open[id] = c
	d.mu.Unlock()
	return c, func() {
		d.mu.Lock()
		delete(d.open, id)
		d.mu.Unlock()
	}
}

// ask publishes a request until there is an answer, and returns its end. What was
// accepted is told to began, if there is one.
func (d *device) ask(op, id string, payload any, began func()) (reply, error) {
	return d.follow("req/"+d.name+"/"+op, id, payload, began, reply.terminal)
}

// job publishes a command and returns its final record.
func (d *device) job(kind, id string, payload any) (reply, error) {
	return d.follow("cmd/"+kind+"/"+d.name+"/"+id, id, payload, nil, func(r reply) bool {
		return r.T == "error" || r.Status != "" && r.Status != "queued" && r.Status != "running"
	})
}

func (d *device) follow(below, id string, payload any, began func(), end func(reply) bool) (reply, error) {
	c, stop := d.listen(id)
	defer stop()
	data, ok := payload.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(payload); err != nil {
			return reply{}, err
		}
	}
	d.mq.Publish(base+below, 1, false, data)
	late := time.NewTimer(patience)
	defer late.Stop()
	repeat := time.NewTicker(again)
	defer repeat.Stop()
	for {
		select {
		case r := <-c:
			if end(r) {
				return r, nil
			}
			if r.T == "accepted" && began != nil {
				began()
				began = nil
			}
		case <-repeat.C:
			if id != "" { // without one it would be another request
				d.mq.Publish(base+below, 1, false, data)
			}
		case <-late.C:
			return reply{}, fmt.Errorf("%s %q: no end within %v", below, id, patience)
		}
	}
}

// publish sends what nobody answers.
func (d *device) publish(below string, retained bool, data []byte) error {
	t := d.mq.Publish(base+below, 1, retained, data)
	if !t.WaitTimeout(patience) {
		return errors.New(below + ": the broker does not take it")
	}
	return t.Error()
}
