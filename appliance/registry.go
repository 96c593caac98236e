// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"

	"windhover/control"
	"windhover/engine"
	"windhover/engine/tokenizer"
)

// States of a model document (docs/PROTOCOL.md, "Models").
const (
	stateWaiting   = "waiting"
	stateVerifying = "verifying"
	stateLoading   = "loading"
	stateProbing   = "probing"
	stateReady     = "ready"
	stateFailed    = "failed"
	stateStalled   = "stalled"
	stateUnloading = "unloading"
)

// servable is a loaded model. *engine.Model is one; tests have a fake.
type servable interface {
	Info() engine.Info
	Meta() *engine.Meta
	Tokenizer() *tokenizer.Tokenizer
	Template() *tokenizer.Template
	Steps() uint64
	Picture(ctx context.Context, r io.Reader) (*engine.Picture, error)
	Video(ctx context.Context, n int, rate float64, open func(i int) (io.ReadCloser, error)) (*engine.Picture, error)
	Place(prompt string, pictures []*engine.Picture) (string, error)
	Generate(ctx context.Context, req engine.Request, on func(engine.Event) error) (*engine.Result, error)
	Dimensions() int
	EmbedTokens(text string) []int32
	Embed(ctx context.Context, req engine.EmbedRequest, each func(i int, vector []float32) error) (*engine.Embedded, error)
	Rebase(other *os.File) error
	Close() error
}

// serving is one loaded version of a model, shared by the requests that run on it.
// The registry's mutex guards refs and retired.
type serving struct {
	servable
	Name    string
	Key     string // entry in the store
	Version string
	Digest  string

	installed installed
	guard     *guard
	refs      int
	retired   bool
	idle      chan struct{} // closed when retired and unused
}

func newServing(name string, s servable, g *guard, in installed) *serving {
	return &serving{
		servable: s, Name: name, Key: in.Key, Version: in.Version, Digest: in.SHA256,
		installed: in, guard: g, idle: make(chan struct{}),
	}
}

// Close frees the model and lets whoever wants write to its file.
func (s *serving) Close() error {
	err := s.servable.Close()
	s.guard.release()
	return err
}

func (s *serving) ref() control.ModelRef {
	return control.ModelRef{Name: s.Name, Version: s.Version, SHA256: s.Digest}
}

// modelEntry is what the registry knows of one model name.
type modelEntry struct {
	doc control.Model
	cur *serving // nil while nothing serves under this name
	// swap is open while one version is unloaded to make room for the next:
	// requests wait for it to close. nil otherwise.
	swap chan struct{}
	// leaving is the version of a model that was taken away, until its last request is
	// done; nil otherwise.
	leaving *serving
}

// registry knows the models, which version of each serves, and which model is
// the default. A request holds the version it started with until it is done; a
// new version takes the requests that start after the swap.
type registry struct {
	changed func() // told of every change, outside the lock; must be quick

	mu     sync.Mutex // guards the fields that follow
	models map[string]*modelEntry
	order  []string // names that serve; the last one is the default
	wanted []string // the order of the last run, for names that are still to come
}

func newRegistry(changed func()) *registry {
	if changed == nil {
		changed = func() {}
	}

	return &registry{changed: changed, models: map[string]*modelEntry{}}
}

// acquire returns the version of the model that serves now; name "" is the default.
// The caller must call release once. Where a version is being exchanged it waits.
func (r *registry) acquire(ctx context.Context, name string) (s *serving, release func(), err error) {
	for {
		s, swap, err := r.find(name, true)
		if err != nil {
			return nil, nil, err
		}
		if s != nil {
			return s, sync.OnceFunc(func() { r.release(s) }), nil
		}
		select {
		case <-swap:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// find looks a model up, by its name or name@version. Without an error exactly one of s and swap is set.
func (r *registry) find(name string, take bool) (s *serving, swap chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name == "" {
		if len(r.order) == 0 {
			return nil, nil, r.noneReady()
		}
		name = r.order[len(r.order)-1]
	}
	name, version, pinned := strings.Cut(name, "@")
	e, ok := r.models[name]
	switch {
	case !ok:
		return nil, nil, control.Errorf(control.UnknownModel, "no model %q is installed: drop %s.vqf, or leave the model out to use the default", name, name)
	case e.cur != nil && pinned && e.cur.Version != version:
		return nil, nil, control.Errorf(control.UnknownModel, "model %q serves version %s, not %s: leave @%s out, or drop that version", name, e.cur.Version, version, version)
	case e.cur != nil:
		if take {
			e.cur.refs++
		}
		return e.cur, nil, nil
	case e.swap != nil:
		return nil, e.swap, nil
	case e.doc.State == stateUnloading:
		return nil, nil, control.Errorf(control.UnknownModel, "model %q was removed, and ends its last requests", name)
	case e.doc.Error != nil:
		return nil, nil, control.Errorf(control.UnknownModel, "model %q is not served: %s: %s", name, e.doc.Error.Code.Name, e.doc.Error.Message)
	default:
		return nil, nil, control.Errorf(control.ModelNotReady, "model %q is %s", name, e.doc.State)
	}
}

// resolve names what a request for name would run on now.
func (r *registry) resolve(name string) (control.ModelRef, error) {
	s, swap, err := r.find(name, false)
	if err != nil || swap != nil {
		return control.ModelRef{Name: name}, err
	}
	return s.ref(), nil
}

// suspend takes the serving version of a model away to make room for the next
// one; requests wait until activate, withdraw or resume. It returns nil if
// nothing serves.
func (r *registry) suspend(name string) *serving {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.models[name]
	if !ok || e.cur == nil {
		return nil
	}
	old := e.cur
	e.cur, e.swap = nil, make(chan struct{})
	r.retire(old)
	return old
}

// resume ends a suspension without the new version: s serves instead, or,
// when it is nil, nothing.
func (r *registry) resume(name string, s *serving) {
	r.mu.Lock()
	e := r.entry(name)
	e.cur = s
	e.endSwap()
	if s == nil {
		e.doc.State = stateFailed
		r.order = slices.DeleteFunc(r.order, func(n string) bool { return n == name })
	}
	r.mu.Unlock()
	r.changed()
}

func (e *modelEntry) endSwap() {
	if e.swap != nil {
		close(e.swap)
		e.swap = nil
	}
}

// lose stops serving s under name, because of failure, if it still does.
func (r *registry) lose(name string, s *serving, failure *control.Error) {
	r.mu.Lock()
	if e, ok := r.models[name]; ok && e.cur == s {
		e.cur = nil
		e.doc.State, e.doc.Error = stateFailed, failure
		r.order = slices.DeleteFunc(r.order, func(n string) bool { return n == name })
	}
	r.retire(s)
	r.mu.Unlock()
	r.changed()
}

func (r *registry) release(s *serving) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.refs--
	if s.retired && s.refs == 0 {
		close(s.idle)
	}
}

// activate makes s the version that serves under name, and name the default
// unless the model served before. It returns the version replaced, or nil.
func (r *registry) activate(name string, s *serving, doc control.Model) *serving {
	r.mu.Lock()
	e := r.entry(name)
	old := e.cur
	e.cur, e.doc = s, doc
	e.endSwap()
	if !slices.Contains(r.order, name) {
		r.order = append(r.order, name)
		r.reorder(name)
	}
	r.retire(old)
	r.mu.Unlock()
	r.changed()
	return old
}

// prefer tells the default order of the last run.
func (r *registry) prefer(order []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = slices.Clone(order)
}

// reorder gives name, which has just been added, the place it had in the last
// run. A name that had none is new, and the default.
func (r *registry) reorder(name string) {
	r.order = r.placed(r.order[:len(r.order)-1], name)
}

// placed is an order with one more name, at the place that it had in the last run, or
// last.
func (r *registry) placed(order []string, name string) []string {
	rank := slices.Index(r.wanted, name)
	if rank < 0 {
		return append(order, name)
	}
	at := 0
	for i, n := range order {
		if other := slices.Index(r.wanted, n); other >= 0 && other < rank {
			at = i + 1
		}
	}
	return slices.Insert(order, at, name)
}

// current returns the versions that serve; the caller releases each.
func (r *registry) current() []*serving {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*serving
	for _, e := range r.models {
		if e.cur != nil {
			e.cur.refs++
			list = append(list, e.cur)
		}
	}
	return list
}

// all returns the versions that serve, the default first, and marks them as retired.
func (r *registry) all() []*serving {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*serving
	for _, name := range slices.Backward(r.order) {
		if e := r.models[name]; e.cur != nil {
			list = append(list, e.cur)
			r.retire(e.cur)
			e.cur = nil
		}
	}
	return list
}

// withdraw stops serving name. The previous default becomes the default again. While
// requests run on what served, the document of the model says that it is unloading.
func (r *registry) withdraw(name string) *serving {
	r.mu.Lock()
	e, ok := r.models[name]
	if !ok || e.doc.State == stateUnloading {
		r.mu.Unlock()
		return nil
	}
	old := e.cur
	e.endSwap()
	if old != nil && old.refs > 0 {
		e.cur, e.leaving = nil, old
		e.doc.State, e.doc.Error, e.doc.Tentative = stateUnloading, nil, false
	} else {
		delete(r.models, name)
	}
	r.order = slices.DeleteFunc(r.order, func(n string) bool { return n == name })
	r.retire(old)
	r.mu.Unlock()
	r.changed()
	return old
}

// drained forgets a model that was withdrawn, now that s is unloaded, unless another
// version of it has come since.
func (r *registry) drained(s *serving) {
	r.mu.Lock()
	e, ok := r.models[s.Name]
	gone := ok && e.leaving == s
	if gone {
		e.leaving = nil
		if e.doc.State == stateUnloading {
			delete(r.models, s.Name)
		}
	}
	r.mu.Unlock()
	if gone {
		r.changed()
	}
}

// retire marks a version as replaced; idle closes when its last request is done.
func (r *registry) retire(s *serving) {
	if s == nil || s.retired {
		return
	}
	s.retired = true
	if s.refs == 0 {
		close(s.idle)
	}
}

// makeDefault puts name last in the default order.
func (r *registry) makeDefault(name string) error {
	r.mu.Lock()
	e, ok := r.models[name]
	if !ok || e.cur == nil {
		r.mu.Unlock()
		return control.Errorf(control.UnknownModel, "no model %q serves", name)
	}
	r.order = append(slices.DeleteFunc(r.order, func(n string) bool { return n == name }), name)
	r.mu.Unlock()
	r.changed()
	return nil
}

// update changes the document of a model, which is made if there is none.
func (r *registry) update(name string, change func(*control.Model)) {
	r.mu.Lock()
	e := r.entry(name)
	before := e.doc
	change(&e.doc)
	same := reflect.DeepEqual(before, e.doc)
	r.mu.Unlock()
	if !same {
		r.changed()
	}
}

func (r *registry) entry(name string) *modelEntry {
	e, ok := r.models[name]
	if !ok {
		e = &modelEntry{doc: control.Model{V: 1, Name: name}}
		r.models[name] = e
	}
	return e
}
