// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Version is that of the format, the v of each line.
const Version = 1

// Kinds of records. Those of what happened to models and to the configuration are named
// by who writes them.
const (
	KindStart   = "start"   // of the daemon
	KindStop    = "stop"    // in order
	KindRequest = "request" // that has ended
	KindJob     = "job"     // that has ended
	KindGap     = "gap"     // records are missing here
	KindRepair  = "repair"  // the end of a file could not be read
	KindRotate  = "rotate"  // the file before is full
)

// Hash is the SHA-256 of a line without its end.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes it in hexadecimal.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (h *Hash) UnmarshalText(p []byte) error {
	if len(p) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("audit: a hash of %d digits", len(p))
	}
	_, err := hex.Decode(h[:], p)
	return err
}

// Place is a line of a chain: its number, from 1 on, and its hash. The zero value is the
// place before the first line.
type Place struct {
	Seq  uint64 `json:"seq"`
	Hash Hash   `json:"hash"`
}

func (p Place) String() string { return fmt.Sprintf("%d:%s", p.Seq, p.Hash) }

// ParsePlace reads what String writes.
func ParsePlace(s string) (Place, error) {
	var p Place
	number, text, _ := strings.Cut(s, ":")
	seq, err := strconv.ParseUint(number, 10, 63)
	if err != nil || seq == 0 || p.Hash.UnmarshalText([]byte(text)) != nil {
		return p, fmt.Errorf("%.80q is no place in a chain: write SEQ:HASH, the hash with 64 hexadecimal digits", s)
	}
	p.Seq = seq
	return p, nil
}

// Record is what a line says beside its place. What is zero is left out. Digests are
// SHA-256 in hexadecimal; docs/OPERATIONS.md says of which bytes.
type Record struct {
	Time time.Time `json:"-"` // set by Append
	Kind string    `json:"kind"`

	Client string `json:"client,omitempty"`
	Via    string `json:"via,omitempty"` // mqtt, http or socket
	ID     string `json:"id,omitempty"`
	Op     string `json:"op,omitempty"`   // of a request
	Type   string `json:"type,omitempty"` // of a job

	Model       string   `json:"model,omitempty"`
	Version     string   `json:"version,omitempty"`
	ModelSHA256 string   `json:"model_sha256,omitempty"`
	Options     *Options `json:"options,omitempty"`

	RequestSHA256  string `json:"request_sha256,omitempty"`
	AnswerSHA256   string `json:"answer_sha256,omitempty"`
	ThinkingSHA256 string `json:"thinking_sha256,omitempty"`
	CallsSHA256    string `json:"tool_calls_sha256,omitempty"`

	Prompt     int    `json:"prompt_tokens,omitempty"`
	Cached     int    `json:"cached_tokens,omitempty"`
	Completion int    `json:"completion_tokens,omitempty"`
	Finish     string `json:"finish,omitempty"`
	Status     string `json:"status,omitempty"` // of a job
	Code       string `json:"code,omitempty"`   // of what went wrong
	MS         int64  `json:"ms,omitempty"`     // from acceptance to end

	Program      string `json:"program,omitempty"` // version of the daemon
	Device       string `json:"device,omitempty"`
	ConfigSHA256 string `json:"config_sha256,omitempty"`

	Rev    int64  `json:"rev,omitempty"`    // of a document of a fleet
	Target string `json:"target,omitempty"` // and for whom it is

	Lost  uint64 `json:"lost,omitempty"`  // records of a gap
	Since string `json:"since,omitempty"` // when the first of them was to be written
	Until string `json:"until,omitempty"` // and the last

	File       string   `json:"file,omitempty"` // of a rotation or a repair: its name
	Offset     int64    `json:"offset,omitempty"`
	Bytes      int64    `json:"bytes,omitempty"`
	FileSHA256 string   `json:"bytes_sha256,omitempty"` // of these bytes
	Reason     string   `json:"reason,omitempty"`
	Removed    []string `json:"removed,omitempty"` // names of files that keep leaves no room for
}

// Options are what determines an answer beside the request and the model, as it counted
// in the end.
type Options struct {
	Seed          string  `json:"seed"` // as text, for it may be above 2⁵³
	MaxTokens     int     `json:"max_tokens"`
	Temperature   float32 `json:"temperature"`
	TopP          float32 `json:"top_p"`
	TopK          int     `json:"top_k"`
	MinP          float32 `json:"min_p"`
	RepeatPenalty float32 `json:"repeat_penalty"`
	Think         bool    `json:"think"`
}

// line is a record in its place, in the order in which it is written.
type line struct {
	V    int    `json:"v"`
	Seq  uint64 `json:"seq"`
	Time string `json:"time"`
	Prev Hash   `json:"prev"`
	Record
}

// timeFormat is RFC 3339 with milliseconds, UTC.
const timeFormat = "2006-01-02T15:04:05.000Z"

const (
	maxText    = 256 // bytes of a text in a record, so that nobody fills the disk by a name
	maxRemoved = 64  // names in a record
	maxLine    = 64 << 10
)

// encode returns the line that follows a place, with its end, and the place of it.
func (r Record) encode(after Place) ([]byte, Place, error) {
	for _, s := range []*string{&r.Client, &r.ID, &r.Op, &r.Type, &r.Model, &r.Version, &r.Code, &r.Reason, &r.File, &r.Target} {
		*s = strings.ToValidUTF8((*s)[:min(len(*s), maxText)], "\uFFFD")
	}
	r.Removed = r.Removed[:min(len(r.Removed), maxRemoved)]
	l := line{V: Version, Seq: after.Seq + 1, Time: r.Time.UTC().Format(timeFormat), Prev: after.Hash, Record: r}
	data, err := l.text()
	if err != nil { // a number of the options that is none
		l.Options = nil
		if data, err = l.text(); err != nil {
			return nil, after, fmt.Errorf("audit: a record of kind %s: %w", r.Kind, err)
		}
	}
	return data, Place{l.Seq, sha256.Sum256(data[:len(data)-1])}, nil
}

// text is the one form of a line, with its end.
func (l *line) text() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(l) // ends the line
	return b.Bytes(), err
}

// parse reads a whole line. One that is not in its one form, has a field twice, say, is
// none of ours, whatever a reader would make of it.
func parse(p []byte) (Record, error) {
	var l line
	dec := json.NewDecoder(bytes.NewReader(p))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return l.Record, fmt.Errorf("the record is not of this format: %w", err)
	}
	if text, err := l.text(); err != nil || !bytes.Equal(text[:len(text)-1], p) {
		return l.Record, fmt.Errorf("the record is not written as this format has it")
	}
	return l.Record, nil
}

// head is what every line begins with.
type head struct {
	seq  uint64
	at   string
	time time.Time // that is at, once whole has found it
	prev Hash
	kind string
}

// laterError is a line that a later program wrote.
type laterError struct{ v string }

func (e laterError) Error() string {
	return fmt.Sprintf("is of format %.20s, and this version of windhover knows %d", e.v, Version)
}

// parseHead reads the beginning of a line, which has one form only.
func parseHead(p []byte) (h head, err error) {
	rest := p
	field := func(before, until string) string {
		after, ok := bytes.CutPrefix(rest, []byte(before))
		value, left, found := bytes.Cut(after, []byte(until))
		if err == nil && (!ok || !found) {
			err = fmt.Errorf("does not go on with %s", before)
		}
		rest = left
		return string(value)
	}
	v := field(`{"v":`, `,`)
	if err == nil && v != strconv.Itoa(Version) {
		if _, number := strconv.ParseUint(v, 10, 31); number == nil {
			return h, laterError{v}
		}
		err = fmt.Errorf("has the format %.20q", v)
	}
	seq, at := field(`"seq":`, `,`), field(`"time":"`, `",`)
	prev := field(`"prev":"`, `",`)
	h.kind = field(`"kind":"`, `"`)
	if err != nil {
		return h, err
	}
	if h.seq, err = strconv.ParseUint(seq, 10, 63); err != nil || h.seq == 0 || seq[0] == '0' {
		return h, fmt.Errorf("has the seq %.20q", seq)
	}
	h.at = at
	if h.prev.UnmarshalText([]byte(prev)) != nil || strings.ToLower(prev) != prev {
		return h, fmt.Errorf("has the prev %.80q", prev)
	}
	return h, nil
}

// whole sees that a line is one to its end.
func (h *head) whole(p []byte) (err error) {
	if h.time, err = time.Parse(timeFormat, h.at); err != nil {
		return fmt.Errorf("has the time %.40q", h.at)
	}
	if !json.Valid(p) {
		return fmt.Errorf("is no JSON object")
	}
	return nil
}
