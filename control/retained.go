// SPDX-License-Identifier: Apache-2.0

package control

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
)

// retained publishes the retained documents of models and jobs, and remembers on disk
// which topics hold one, so that a document can be cleared although the device was
// off, or the broker away, when its model or job went.
type retained struct {
	box  *outbox
	dir  string
	fail func(error) // the list could not be stored

	mu    sync.Mutex
	docs  map[string][]byte // by topic; nil: to be cleared, not acknowledged yet
	timer *time.Timer       // stores the list; nil while the file is true
}

const (
	retainedFile = "retained.json"
	// storeAfter gathers changes of the list: a flood of refused commands must not
	// become a flood of synced writes. What is lost with it are stale records.
	storeAfter = 2 * time.Second
)

func openRetained(dir string, box *outbox, fail func(error)) *retained {
	r := &retained{box: box, dir: dir, fail: fail, docs: map[string][]byte{}}
	b, err := os.ReadFile(filepath.Join(dir, retainedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r
	}
	var topics []string
	if err == nil {
		topics, err = parseRetained(b)
	}
	if err != nil {
		fail(err) // a list that cannot be read costs stale documents, not the start
		return r
	}
	for _, t := range topics {
		if (strings.HasPrefix(t, prefix) || strings.HasPrefix(t, hassPrefix)) && !strings.ContainsAny(t, "+#\x00") {
			r.docs[t] = nil
		}
	}
	return r
}

// publish sets the document of a topic. force sends it although it is the same.
func (r *retained) publish(topic string, doc []byte, force bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old, known := r.docs[topic]
	if !force && old != nil && string(old) == string(doc) {
		return
	}
	r.docs[topic] = doc
	if !known {
		r.save()
	}
	r.box.put(&message{topic: topic, payload: doc, qos: 1, retain: true, key: true})
}

// clear removes the document of a topic from the broker.
func (r *retained) clear(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.docs[topic]; known {
		r.docs[topic] = nil
		r.sendClear(topic)
	}
}

func (r *retained) sendClear(topic string) {
	r.box.put(&message{topic: topic, payload: []byte{}, qos: 1, retain: true, key: true, acked: func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if doc, known := r.docs[topic]; known && doc == nil {
			delete(r.docs, topic)
			r.save()
		}
	}})
}

// resync sends everything below base again: what is there, and the clearing of what
// is not.
func (r *retained) resync() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, doc := range r.docs {
		if doc == nil {
			r.sendClear(topic)
			continue
		}
		r.box.put(&message{topic: topic, payload: doc, qos: 1, retain: true, key: true})
	}
}

// keep clears the documents below base whose topic is not in live.
func (r *retained) keep(base string, live map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, doc := range r.docs {
		if doc != nil && strings.HasPrefix(topic, base) && !live[topic] {
			r.docs[topic] = nil
			r.sendClear(topic)
		}
	}
}

// save stores the list soon. mu is held.
func (r *retained) save() {
	if r.timer == nil {
		r.timer = time.AfterFunc(storeAfter, r.close)
	}
}

// close stores the list now, if it has changed.
func (r *retained) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil {
		return
	}
	r.timer.Stop()
	r.timer = nil
	topics := make([]string, 0, len(r.docs))
	for t := range r.docs {
		topics = append(topics, t)
	}
	sort.Strings(topics)
	b, err := encode(retainedList{schemaVersion, topics})
	if err == nil {
		err = writeFile(r.dir, retainedFile, b)
	}
	if err != nil {
		r.fail(err)
	}
}
