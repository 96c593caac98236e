// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"windhover/vqf"
	"windhover/vqf/seal"
)

// Sentinels that callers match with errors.Is.
var (
	// ErrUnsupported is a sound source that cannot be converted: its
	// architecture, one of its settings or a tensor type has no place here.
	ErrUnsupported = errors.New("unsupported model")
	// ErrSource is a source that is incomplete or contradicts itself.
	ErrSource = errors.New("faulty model")
	// ErrOption is an option that does not exist or does not fit the model.
	ErrOption = errors.New("bad option")
)

// failure is an error of this package with the sentinel it matches.
type failure struct {
	kind error
	msg  string
	err  error // cause, nil where there is none
}

func (f *failure) Error() string {
	if f.err != nil {
		return "convert: " + f.msg + ": " + f.err.Error()
	}
	return "convert: " + f.msg
}

func (f *failure) Unwrap() []error {
	if f.err != nil {
		return []error{f.kind, f.err}
	}
	return []error{f.kind}
}

func unsupported(format string, args ...any) error {
	return &failure{kind: ErrUnsupported, msg: fmt.Sprintf(format, args...)}
}

func faulty(format string, args ...any) error {
	return &failure{kind: ErrSource, msg: fmt.Sprintf(format, args...)}
}

// Options says what to write. The zero value converts with the defaults.
type Options struct {
	Mode      string // auto, q4, q8, dual, q4i, g256; "": auto
	Q8Layout  string // 8x8, 4x4, row; "": 8x8, or 4x4 when VLLM_Q8_8X8 begins with 0
	Header    string // auto, 41, 45; "": auto
	Mmproj    string // GGUF file with the vision tower of a GGUF model
	TextOnly  bool   // leave out the vision tower that a directory has
	Bare      bool   // leave out tokenizer and metadata
	MaxSeq    int    // context in the header; 0: the model's, at most 8192
	Threads   int    // 0: as many as Go runs at once
	Chunk     int    // rows a piece; 0: what fits the caches
	Name      string // of the model, for the metadata; "": what the source says
	Converter string // name and version, for the metadata; "": windhover

	// Resume keeps what is done when the conversion is interrupted, also by
	// kill or by loss of power, and continues what an earlier one kept, if it
	// was the same one: vqf.PartialName and JournalName. The result is the one
	// of a conversion in one go.
	Resume     bool
	checkpoint time.Duration // between journals; 0: checkpointEvery

	// Optimize chooses scale and codes of each block of four-bit weights for
	// the smallest squared error instead of rounding them (docs/FORMAT.md
	// section 7.9). With Importance, which may be nil, errors count by what
	// the columns of a matrix are fed.
	Optimize   bool
	Importance *Importance

	Encrypt *seal.Key        // encrypts the result under this passphrase
	Sign    *seal.PrivateKey // signs the result
	SignID  string           // signer id; "": seal.IDKestrel
}

// maxContext is what a header says at most unless MaxSeq is given
// (docs/FORMAT.md section 8.2).
const maxContext = 8192

// maxAutoQ8 is the largest number of parameters for which auto means q8: small
// models lose much in four bits.
const maxAutoQ8 = 1_000_000_000

// settings are the options once they are checked.
type settings struct {
	Options
	mode   vqf.Mode // "" until the model's size is known
	q8     vqf.Layout
	fields int
}

func (o Options) resolve() (*settings, error) {
	s := &settings{Options: o}
	bad := func(format string, args ...any) (*settings, error) {
		return nil, &failure{kind: ErrOption, msg: fmt.Sprintf(format, args...)}
	}
	switch o.Mode {
	case "", "auto":
	case "q4", "q8", "dual", "q4i", "g256":
		s.mode = vqf.Mode(o.Mode)
	default:
		return bad("no mode %q: use auto, q4, q8, dual, q4i or g256", o.Mode)
	}
	word := o.Q8Layout
	if word == "" {
		if word = "8x8"; strings.HasPrefix(os.Getenv("VLLM_Q8_8X8"), "0") {
			word = "4x4"
		}
	}
	var err error
	if s.q8, err = vqf.ParseLayout(word); err != nil {
		return bad("no q8 layout %q: use 8x8, 4x4 or row", word)
	}
	switch o.Header {
	case "", "auto":
	case "41", "45":
		s.fields, _ = strconv.Atoi(o.Header) // one of two constants
	default:
		return bad("no header %q: use auto, 41 or 45", o.Header)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"max-seq", o.MaxSeq}, {"threads", o.Threads}, {"chunk", o.Chunk}} {
		if n.value < 0 {
			return bad("%s %d: it must not be negative", n.name, n.value)
		}
	}
	if o.SignID != "" && (o.Sign == nil || !seal.KnownID(o.SignID)) {
		return bad("signer id %q: it goes with a key, and readers accept %s and %s", o.SignID, seal.IDKestrel, seal.IDShs)
	}
	if (o.Encrypt != nil || o.Sign != nil) && s.fields == 41 {
		return bad("header 41: encrypted and signed files have 45 fields")
	}
	if s.Importance != nil && !s.Optimize {
		return bad("importance of the weights' inputs is used to optimise, and optimising was not asked for")
	}
	if s.Threads == 0 {
		s.Threads = runtime.GOMAXPROCS(0)
	}
	if s.checkpoint == 0 {
		s.checkpoint = checkpointEvery
	}
	if s.Converter == "" {
		s.Converter = "windhover"
	}
	return s, nil
}

// DefaultOutput is where the result of src goes when nothing else is said:
// model.vqf inside a directory, else the file's own name ending in .vqf.
func DefaultOutput(src string) string {
	if st, err := os.Stat(src); err == nil && st.IsDir() {
		return filepath.Join(src, "model.vqf")
	}
	return strings.TrimSuffix(src, filepath.Ext(src)) + ".vqf"
}

// maxSeq is the header's context for a model trained for context tokens.
func (s *settings) maxSeq(context uint64) (uint32, error) {
	want := uint64(s.MaxSeq)
	switch {
	case want == 0:
		return uint32(min(context, maxContext)), nil
	case want > context:
		return 0, &failure{kind: ErrOption, msg: fmt.Sprintf("max-seq %d is more than the %d tokens the model was made for", want, context)}
	}
	return uint32(want), nil
}
