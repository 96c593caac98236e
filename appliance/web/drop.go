// SPDX-License-Identifier: Apache-2.0

package web

import (
	"io"
	"net/http"
	"strings"
	"time"

	"windhover/control"
)

// drop takes a model file into the drop directory as it comes; it is never in memory
// as a whole. A client may take as long as it likes, but not stand still.
func (h *handler) drop(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if !validDrop(name) {
		writeError(w, bad("name", "name %.80q: use A-Z a-z 0-9 . _ - and end it with .vqf", name))
		return
	}
	if err := plain(r); err != nil {
		writeError(w, err)
		return
	}
	if r.Header.Get("Content-Range") != "" { // RFC 9110: never to be taken for the whole
		writeError(w, bad("", "a part of a file is not taken (Content-Range): send it whole"))
		return
	}
	if h.uploads.Add(1) > maxUploads {
		h.uploads.Add(-1)
		full := control.Errorf(control.QueueFull, "%d uploads are under way", maxUploads)
		full.RetryAfter = 10 * time.Second
		writeError(w, full)
		return
	}
	defer h.uploads.Add(-1)
	rc := http.NewResponseController(w)
	h.patient(rc)
	n, err := h.box.Drop(r.Context(), name, r.ContentLength, &steady{h: h, r: r.Body, rc: rc})
	h.hurry(rc)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, struct {
		Name  string `json:"name"`
		Bytes int64  `json:"bytes"`
	}{name, n})
}

// validDrop says whether a file of this name is one that the drop directory looks at,
// and the model has a name that requests can name.
func validDrop(name string) bool {
	model, ok := strings.CutSuffix(name, ".vqf")
	return ok && control.ValidFile(name) && control.ValidModel(model) && !strings.Contains(model, "@")
}

// steady gives each read of a body stallTime.
type steady struct {
	h  *handler
	r  io.Reader
	rc *http.ResponseController
}

func (s *steady) Read(p []byte) (int, error) {
	_ = s.rc.SetReadDeadline(s.h.opt.Now().Add(stallTime)) // a recorder of a test has none
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		err = slow(err)
	}
	return n, err
}
