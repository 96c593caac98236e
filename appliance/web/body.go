// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"windhover/control"
)

// body reads a question into v. The memory of all questions together is bounded: what
// has come is booked until free is called, which is after the answer, and nothing is
// for what was announced. A client has bodyTime for all of it. received is the digest
// of what was read to its end.
func (h *handler) body(w http.ResponseWriter, r *http.Request, v any) (free func(), received string, err error) {
	if r.ContentLength > maxBody {
		return nil, "", tooLarge()
	}
	if err := plain(r); err != nil {
		return nil, "", err
	}
	b := &booked{r: http.MaxBytesReader(w, r.Body, maxBody), held: &h.held}
	if h.held.Load()+max(r.ContentLength, 0) > heldBodies {
		return nil, "", crowded()
	}
	defer func() {
		if err != nil {
			b.free()
		}
	}()
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(h.opt.Now().Add(bodyTime)) // a recorder of a test has none
	p, err := io.ReadAll(b)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, "", tooLarge()
	}
	if full := (*control.Error)(nil); errors.As(err, &full) {
		return nil, "", full
	}
	if err != nil {
		return nil, "", slow(err)
	}
	received = control.Digest(p)
	// What is read from here on is whether the client is still there.
	_ = rc.SetReadDeadline(time.Time{})
	if !utf8.Valid(p) {
		return nil, received, bad("", "the body is not UTF-8")
	}
	if err := json.Unmarshal(p, v); err != nil {
		return nil, received, wrongJSON(err)
	}
	return b.free, received, nil
}

// booked books what comes of a body.
type booked struct {
	r    io.Reader
	held *atomic.Int64
	n    int64
}

func (b *booked) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.n += int64(n)
	if b.held.Add(int64(n)) > heldBodies {
		return n, crowded()
	}
	return n, err
}

func (b *booked) free() { b.held.Add(-b.n) }

func crowded() *control.Error {
	full := control.Errorf(control.QueueFull, "the questions in work take %d MiB of memory", heldBodies>>20)
	full.RetryAfter = time.Second
	return full
}

// plain refuses a body that is not what it stands for: what is compressed would be
// taken for damaged.
func plain(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return unsupported("", "a body with Content-Encoding %.40q is not read here: send it as it is", coding)
	}
	return nil
}

func tooLarge() error {
	return control.Errorf(control.PayloadTooLarge, "the body has more than %d MiB", maxBody>>20)
}

// slow tells of a body that did not come to its end.
func slow(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &problem{control.Errorf(lateBody, "the body came too slowly"), ""}
	}
	return bad("", "the body was cut off")
}

// lateBody has no place among the codes of the protocol.
var lateBody = control.Code{Name: "request_timeout", Status: http.StatusRequestTimeout}

// wrongJSON says what is wrong without quoting it: prompts do not belong into logs.
func wrongJSON(err error) error {
	var p *problem
	if errors.As(err, &p) { // of a field that reads itself
		return p
	}
	if typ := (*json.UnmarshalTypeError)(nil); errors.As(err, &typ) {
		if typ.Field == "" {
			return bad("", "the body is a JSON %s, not an object", typ.Value)
		}
		field := strings.TrimPrefix(typ.Field, "common.")              // where this package keeps it is its own business
		if number, ok := strings.CutPrefix(typ.Value, "number "); ok { // one that does not fit
			return bad(field, "%s cannot be %.40s: want %s", field, number, fitting(typ.Type))
		}
		return bad(field, "%s cannot be a %s", field, typ.Value)
	}
	if syn := (*json.SyntaxError)(nil); errors.As(err, &syn) {
		if syn.Offset == 0 {
			return bad("", "the body is empty: want a JSON object")
		}
		return bad("", "the body is not JSON (at byte %d)", syn.Offset)
	}
	return bad("", "the body is not JSON")
}

// fitting says what kind of number has room in a type.
func fitting(t reflect.Type) string {
	if t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 {
		return "a smaller number"
	}
	return "a whole number, smaller than 2^63"
}

// seed is a whole number of 64 bits. A negative one, as OpenAI has them, and one above
// 2^63, as answers over MQTT tell them, are the same bits.
type seed uint64

// UnmarshalJSON implements json.Unmarshaler.
func (s *seed) UnmarshalJSON(p []byte) error {
	text := string(p)
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		*s = seed(u)
		return nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		*s = seed(i)
		return nil
	}
	return bad("seed", "seed: want a whole number from -2^63 to 2^64-1")
}

// stops is a string or a list of strings.
type stops []string

// UnmarshalJSON implements json.Unmarshaler.
func (s *stops) UnmarshalJSON(p []byte) error {
	*s = nil
	var one string
	switch {
	case string(p) == "null":
		return nil
	case json.Unmarshal(p, &one) == nil:
		*s = stops{one}
		return nil
	}
	var list []string
	if json.Unmarshal(p, &list) != nil {
		return bad("stop", "stop is a string or a list of strings")
	}
	*s = list
	return nil
}

// common is what both kinds of questions may hold. Pointers tell absent from zero.
// Fields that are not here are ignored, as new clients bring new ones.
type common struct {
	Model         string   `json:"model"`
	Stream        bool     `json:"stream"`
	MaxTokens     *int     `json:"max_tokens"`
	Temperature   *float32 `json:"temperature"`
	TopP          *float32 `json:"top_p"`
	TopK          *int     `json:"top_k"`          // ours, as other servers have it
	MinP          *float32 `json:"min_p"`          // likewise
	RepeatPenalty *float32 `json:"repeat_penalty"` // likewise
	Truncate      string   `json:"truncate"`       // ours
	Seed          *seed    `json:"seed"`
	Stop          stops    `json:"stop"`
	User          string   `json:"user"`
	N             *int     `json:"n"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	PresencePenalty  float64            `json:"presence_penalty"`
	FrequencyPenalty float64            `json:"frequency_penalty"`
	LogitBias        map[string]float64 `json:"logit_bias"`
	elsewhere
}

// fill puts what the question says into a request of op. Ranges are checked where
// those of MQTT are.
func (h *handler) fill(op string, c *common) (*control.Request, error) {
	switch {
	case c.N != nil && *c.N != 1:
		return nil, unsupported("n", "n %d: this box gives one answer to a question", *c.N)
	case c.PresencePenalty != 0:
		return nil, unsupported("presence_penalty", "presence_penalty is not supported: use repeat_penalty")
	case c.FrequencyPenalty != 0:
		return nil, unsupported("frequency_penalty", "frequency_penalty is not supported: use repeat_penalty")
	case len(c.LogitBias) > 0:
		return nil, unsupported("logit_bias", "logit_bias is not supported")
	}
	if err := c.elsewhere.check(); err != nil {
		return nil, err
	}
	r := control.NewRequest(op)
	r.Client, r.Model, r.Stop = h.opt.Client+":", modelName(c.Model), c.Stop
	if control.ValidClient(c.User) {
		r.Client += c.User
	}
	r.Flush, r.FinalText, r.Truncate = 0, false, c.Truncate
	r.Temperature, r.TopP, r.TopK = c.Temperature, c.TopP, c.TopK
	if c.MinP != nil {
		r.MinP = *c.MinP
	}
	if c.RepeatPenalty != nil {
		r.RepeatPenalty = *c.RepeatPenalty
	}
	if c.Seed != nil {
		r.Seed = (*uint64)(c.Seed)
	}
	if r.MaxTokens = h.most(r.Model); c.MaxTokens != nil {
		r.MaxTokens = *c.MaxTokens
	}
	return r, nil
}

// modelName is the model that a question names. Clients have to name one: "default"
// is the one that a question over MQTT gets that names none.
func modelName(s string) string {
	if s == "default" {
		return ""
	}
	return s
}

// most is how long an answer may be that names no bound: a quarter of the context at
// most, so that the question has room.
func (h *handler) most(model string) int {
	for _, m := range h.box.Models() {
		if (m.Name == model || model == "" && m.Default) && m.Context > 0 {
			return max(1, min(defaultMost, m.Context/4))
		}
	}
	return defaultMost
}

// withParam says which field an error of the request's checks is about, where the
// message begins with its name.
func withParam(err error) error {
	var e *control.Error
	if !errors.As(err, &e) || e.Code != control.BadRequest {
		return err
	}
	var name string
	if _, scan := fmt.Sscanf(e.Message, "%s", &name); scan != nil {
		return err
	}
	switch name {
	case "max_tokens", "temperature", "top_p", "top_k", "min_p", "repeat_penalty", "stop", "truncate", "model", "dimensions":
		return &problem{e, name}
	}
	return err
}
