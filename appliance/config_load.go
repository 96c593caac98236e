// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"
)

// maxConfigFile is how many bytes a configuration file may have. People write it, and the
// time to read it grows with the square.
const maxConfigFile = 256 << 10

// Loaded is a configuration and where its values come from.
type Loaded struct {
	Config   Config
	Warnings []Problem // what a person may have meant otherwise; in a fixed order
	places   origins
}

// LoadConfig is ReadConfig for those who only want the result.
func LoadConfig(path string, mustExist bool, environ []string) (Config, error) {
	l, err := ReadConfig(path, mustExist, environ)
	return l.Config, err
}

// ReadConfig merges the defaults, the file at path, the *.toml files of conf.d
// beside it in name order, and the environment (as os.Environ gives it), and
// validates the result. An empty path reads no file. A missing file is an error
// only when mustExist is set: the default path may be absent.
//
// The error is of type Problems: all that is wrong, each with its place.
func ReadConfig(path string, mustExist bool, environ []string) (Loaded, error) {
	r := reader{cfg: DefaultConfig(), places: origins{}, bad: map[string]bool{}}
	if path != "" {
		files, problems := configFiles(path, mustExist)
		r.problems, r.lost = problems, len(problems) > 0
		for _, f := range files {
			r.file(f)
		}
	}
	r.environment(environ)
	if !r.lost { // of a file that nobody could read nobody knows the values
		r.problems = append(r.problems, r.cfg.check(r.places, r.bad)...)
	}
	if len(r.problems) > 0 {
		return Loaded{Warnings: r.warnings}, r.problems
	}
	return Loaded{Config: r.cfg, Warnings: r.warnings, places: r.places}, nil
}

// reader merges what it reads into a configuration.
type reader struct {
	cfg      Config
	places   origins
	bad      map[string]bool // keys that somebody tried to set and could not
	lost     bool            // the content of a file is not known
	problems Problems
	warnings []Problem
}

// configFiles are path and conf.d/*.toml of the same directory, those that are there.
// Names that begin with a dot are of editors.
func configFiles(path string, mustExist bool) (files []string, problems Problems) {
	switch _, err := os.Lstat(path); {
	case err == nil, !errors.Is(err, fs.ErrNotExist), mustExist:
		files = append(files, path) // reading it says what is wrong
	}
	dir := filepath.Join(filepath.Dir(path), "conf.d")
	entries, err := os.ReadDir(dir) // in the order of their names
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(dir); err == nil {
			problems = append(problems, Problem{Place: Place{File: dir}, Message: "is a symbolic link to nothing: remove it, or make what it names"})
		}
	case errors.Is(err, unix.ENOTDIR):
		if fi, err := os.Stat(filepath.Dir(path)); err == nil && fi.IsDir() {
			problems = append(problems, Problem{Place: Place{File: dir}, Message: "is no directory: move it away, *.toml files go into a directory of that name"})
		}
	case err != nil:
		problems = append(problems, Problem{Place: Place{File: dir}, Message: reason(err), cause: err})
	}
	for _, e := range entries {
		if n := e.Name(); strings.HasSuffix(n, ".toml") && !strings.HasPrefix(n, ".") {
			files = append(files, filepath.Join(dir, n))
		}
	}
	return files, problems
}

// reason is an error about a file without its name.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// readConfigFile reads a regular file of a size that a person writes, through links. It
// waits for nobody: a FIFO is refused, not opened.
func readConfigFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lerr := os.Lstat(path); lerr == nil {
			return nil, fmt.Errorf("is a symbolic link to nothing: %w", fs.ErrNotExist)
		}
	}
	if errors.Is(err, unix.ENXIO) {
		return nil, errNotRegular // a socket
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	switch fi, err := f.Stat(); {
	case err != nil:
		return nil, err
	case fi.IsDir():
		return nil, errors.New("is a directory: name a file")
	case !fi.Mode().IsRegular():
		return nil, errNotRegular
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxConfigFile {
		return nil, fmt.Errorf("has more than %d bytes: this is no configuration", maxConfigFile)
	}
	return raw, nil
}

// file takes over what a file says. A list replaces the one before as a whole.
func (r *reader) file(path string) {
	raw, err := readConfigFile(path)
	if err != nil {
		r.lost = true
		r.problems = append(r.problems, Problem{Place: Place{File: path}, Message: reason(err), cause: err})
		return
	}
	r.document(path, raw)
}

// document takes over what the text of a file says.
func (r *reader) document(path string, raw []byte) {
	raw = bytes.TrimPrefix(raw, []byte("\uFEFF")) // some editors begin a file so
	if p, ok := wrongEncoding(path, raw); !ok {
		r.lost = true
		r.problems = append(r.problems, p)
		return
	}
	var doc map[string]any
	if err := toml.Unmarshal(raw, &doc); err != nil {
		r.lost = true
		r.problems = append(r.problems, syntaxProblem(path, err))
		return
	}
	t := tomlFile{reader: r, path: path, spots: findSpots(raw)}
	t.table(reflect.ValueOf(&r.cfg).Elem(), doc, "")
	slices.SortStableFunc(t.found, func(a, b Problem) int { return comparePlaces(a.Place, b.Place) })
	r.problems = append(r.problems, t.found...)
	if len(t.found) >= maxProblems {
		r.lost = true
		r.problems = append(r.problems, Problem{Place: Place{File: path}, Message: "more is wrong: what comes next is not told"})
	}
}

func comparePlaces(a, b Place) int {
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	return a.Column - b.Column
}

// wrongEncoding finds what is not UTF-8; ok is true when all of it is.
func wrongEncoding(path string, raw []byte) (p Problem, ok bool) {
	if utf8.Valid(raw) {
		return Problem{}, true
	}
	if bytes.HasPrefix(raw, []byte{0xFF, 0xFE}) || bytes.HasPrefix(raw, []byte{0xFE, 0xFF}) {
		return Problem{Place: Place{path, 1, 1, ""}, Message: "is written in UTF-16: save it as UTF-8"}, false
	}
	at := 0
	for {
		c, n := utf8.DecodeRune(raw[at:])
		if c == utf8.RuneError && n <= 1 {
			break
		}
		at += n
	}
	return Problem{Place: newSpots(raw).place(path, at), Message: fmt.Sprintf("byte 0x%02x is not UTF-8: save the file as UTF-8", raw[at])}, false
}

// syntaxProblem is what go-toml says of a text that is no TOML.
func syntaxProblem(path string, err error) Problem {
	p := Problem{Place: Place{File: path}, Message: strings.TrimPrefix(err.Error(), "toml: "), cause: err}
	var dec *toml.DecodeError
	if errors.As(err, &dec) {
		p.Line, p.Column = dec.Position()
	}
	return p
}
