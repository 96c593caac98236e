// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"

	"windhover/control"
)

// modelDoc is a model as OpenAI's clients read it, and what they pass over.
type modelDoc struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"` // since when this process runs: a file has no date that means anything
	OwnedBy string `json:"owned_by"`

	Version  string `json:"version,omitempty"`
	SHA256   string `json:"sha256,omitempty"`
	Default  bool   `json:"default"`
	Context  int    `json:"max_model_len"`
	Pictures bool   `json:"pictures"`
	Embeds   int    `json:"embedding_dimensions,omitempty"`
}

func (h *handler) modelDoc(m control.Model) modelDoc {
	return modelDoc{ID: m.Name, Object: "model", Created: h.started.Unix(), OwnedBy: "windhover",
		Version: m.Version, SHA256: m.SHA256, Default: m.Default, Context: m.Context, Pictures: m.Pictures != nil, Embeds: m.Embeds}
}

// models lists those that answer now.
func (h *handler) models(w http.ResponseWriter, _ *http.Request) {
	list := []modelDoc{}
	for _, m := range h.box.Models() {
		if m.State == ready {
			list = append(list, h.modelDoc(m))
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Object string     `json:"object"`
		Data   []modelDoc `json:"data"`
	}{"list", list})
}

func (h *handler) model(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("model")
	for _, m := range h.box.Models() {
		if m.State == ready && (m.Name == name || m.Name+"@"+m.Version == name || name == "default" && m.Default) {
			writeJSON(w, http.StatusOK, h.modelDoc(m))
			return
		}
	}
	writeError(w, &problem{control.Errorf(control.UnknownModel, "no model %.100q answers here", name), "model"})
}

// ready is the state of a model that answers (docs/PROTOCOL.md, "Models").
const ready = "ready"
