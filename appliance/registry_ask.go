// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"slices"

	"windhover/control"
)

// ask is what f says of a model's entry, with the lock held; the zero value when there
// is none.
func ask[T any](r *registry, name string, f func(*modelEntry) T) (answer T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.models[name]; ok {
		answer = f(e)
	}
	return answer
}

// serves reports whether some version of a model serves, or is about to again.
func (r *registry) serves(name string) bool {
	return ask(r, name, func(e *modelEntry) bool { return e.cur != nil || e.swap != nil })
}

// known reports whether there is anything to say about a model, beside that it is on
// its way out.
func (r *registry) known(name string) bool {
	return ask(r, name, func(e *modelEntry) bool { return e.doc.State != stateUnloading })
}

// trustOf is what a model is trusted with.
func (r *registry) trustOf(name string) string {
	return ask(r, name, func(e *modelEntry) string { return e.doc.Trust })
}

// speedOf is how fast the version that serves, or did a moment ago, decodes; 0: not
// known.
func (r *registry) speedOf(name string) float64 {
	return ask(r, name, func(e *modelEntry) float64 { return e.doc.TokS.Decode })
}

// refOf is the version that serves now, the zero value if none does.
func (r *registry) refOf(name string) control.ModelRef {
	return ask(r, name, func(e *modelEntry) (ref control.ModelRef) {
		if e.cur != nil {
			ref = e.cur.ref()
		}
		return ref
	})
}

// runs reports whether what serves now is this installation.
func (r *registry) runs(name string, in installed) bool {
	return ask(r, name, func(e *modelEntry) bool {
		return e.cur != nil && e.cur.Key == in.Key && e.cur.installed.Stored == in.Stored
	})
}

// noneReady is the error of a request to an appliance without a default model.
func (r *registry) noneReady() error {
	for name, e := range r.models {
		switch e.doc.State {
		case stateWaiting, stateVerifying, stateLoading, stateProbing:
			return control.Errorf(control.ModelNotReady, "no model is ready yet: %s is %s", name, e.doc.State)
		}
	}
	return control.Errorf(control.UnknownModel, "no model is installed: drop a .vqf file")
}

// list returns the documents of all models, by name.
func (r *registry) list() []control.Model {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.docs()
}

// defaults is the default order, for keeping it over a restart. A model that is still on
// its way since the last one keeps its place in it.
func (r *registry) defaults() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	order := slices.Clone(r.order)
	for _, name := range r.wanted {
		if _, known := r.models[name]; known && !slices.Contains(order, name) {
			order = r.placed(order, name)
		}
	}
	return order
}

func (r *registry) doc(name string) control.Model {
	d := r.models[name].doc
	d.Default = len(r.order) > 0 && r.order[len(r.order)-1] == name
	return d
}

func (r *registry) docs() []control.Model {
	names := make([]string, 0, len(r.models))
	for n := range r.models {
		names = append(names, n)
	}
	slices.Sort(names)
	docs := make([]control.Model, len(names))
	for i, n := range names {
		docs[i] = r.doc(n)
	}
	return docs
}
