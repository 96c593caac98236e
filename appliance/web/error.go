// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"windhover/control"
)

// problem is a failure as this interface tells it: an error of the protocol and, of a
// wrong request, the field that is wrong.
type problem struct {
	*failure
	param string
}

// failure is embedded under another name than that of its method Error.
type failure = control.Error

func bad(param, format string, args ...any) *problem {
	return &problem{control.Errorf(control.BadRequest, format, args...), param}
}

func unsupported(param, format string, args ...any) *problem {
	return &problem{control.Errorf(control.Unsupported, format, args...), param}
}

func forbidden(format string, args ...any) *problem {
	return &problem{control.Errorf(control.Forbidden, format, args...), ""}
}

// noToken has no place among the codes of the protocol: MQTT leaves it to the broker.
var noToken = control.Code{Name: "invalid_api_key", Status: http.StatusUnauthorized}

func unauthorized() *problem {
	return &problem{control.Errorf(noToken, "a bearer token is needed, as the API key of a client: see http.token_file"), ""}
}

// noRoute likewise.
var noRoute = control.Code{Name: "unknown_url", Status: http.StatusNotFound}

func unknownRoute(r *http.Request) *problem {
	return &problem{control.Errorf(noRoute, "%.20s %.100s is not served here", r.Method, r.URL.Path), ""}
}

// noMethod likewise, under the name that OpenAI gives it.
var noMethod = control.Code{Name: "method_not_supported", Status: http.StatusMethodNotAllowed}

func wrongMethod(r *http.Request, allowed string) *problem {
	return &problem{control.Errorf(noMethod, "%.100q is not asked with %.20q: use %s", r.URL.Path, r.Method, allowed), ""}
}

// problemOf finds the code in an error.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	var e *control.Error
	if errors.As(err, &e) {
		return &problem{e, ""}
	}
	if errors.Is(err, context.Canceled) { // net/http: the client is gone, or will send nothing more, which looks the same
		return &problem{control.Errorf(control.Canceled, "the connection was closed before the answer: keep it open in both directions until then"), ""}
	}
	return &problem{control.Errorf(control.Internal, "%v", err), ""}
}

// shape is how OpenAI's clients read an error.
type shape struct {
	Error shapeBody `json:"error"`
}

type shapeBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// shape returns the status of the answer and its body. Codes keep their names, except
// the two that clients know under another.
func (p *problem) shape() (int, shape) {
	status, code := p.Code.Status, p.Code.Name
	switch p.Code {
	case control.UnknownModel:
		code = "model_not_found"
	case control.ContextOverflow:
		status, code = http.StatusBadRequest, "context_length_exceeded"
	}
	kind := "invalid_request_error"
	switch {
	case status == http.StatusUnauthorized:
		kind = "authentication_error"
	case status == http.StatusForbidden:
		kind = "permission_error"
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status >= 500:
		kind = "server_error"
	}
	body := shapeBody{Message: p.Message, Type: kind, Code: code}
	if p.Incident != "" {
		body.Message = fmt.Sprintf("%s (incident %s)", p.Message, p.Incident)
	}
	if p.param != "" {
		body.Param = &p.param
	}
	return status, shape{body}
}

// writeError answers with a failure. When it may be tried again says Retry-After.
func writeError(w http.ResponseWriter, err error) {
	p := problemOf(err)
	status, body := p.shape()
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(p.RetryAfter.Milliseconds(), 10))
	}
	writeJSON(w, status, body)
}

// writeJSON answers with a document. A client that is gone cannot be told that its
// answer failed: the error of writing is of no use.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}
