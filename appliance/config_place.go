// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Place is where a value of the configuration stands: in a file, or in a variable of the
// environment. The zero Place is none: the value is a default.
type Place struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`   // from 1; 0: the file as a whole
	Column   int    `json:"column,omitempty"` // from 1, in bytes
	Variable string `json:"variable,omitempty"`
}

func (p Place) String() string {
	switch {
	case p.Variable != "":
		return "environment variable " + p.Variable
	case p.Line > 0:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	default:
		return p.File
	}
}

// Problem is something wrong with a configuration.
type Problem struct {
	Place
	Key     string `json:"key,omitempty"` // "": not of one key
	Message string `json:"message"`       // names the key, not the place
	cause   error
}

func (p Problem) Error() string {
	if p.Place == (Place{}) {
		return "config: " + p.Message
	}
	return "config: " + p.Place.String() + ": " + p.Message
}

func (p Problem) Unwrap() error { return p.cause }

// Problems are all that is wrong with a configuration: those of files in the order in
// which they are read, then those of the environment, then those of values that cannot be.
type Problems []Problem

// Error is a line for each.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is find what is behind any of them.
func (p Problems) Unwrap() []error {
	list := make([]error, len(p))
	for i := range p {
		list[i] = p[i]
	}
	return list
}

// origins are the places of the values that are no defaults, by key; an element of a list
// is "mqtt.groups[1]", a key of one "policy[0].client".
type origins map[string]Place

// of is where the value of key stands; that of an element where its list does, if nothing
// better is known.
func (o origins) of(key string) Place {
	for {
		if p, ok := o[key]; ok {
			return p
		}
		at := strings.LastIndexByte(key, '[')
		if dot := strings.LastIndexByte(key, '.'); dot > at && at >= 0 {
			at = dot
		}
		if at < 0 {
			return Place{}
		}
		key = key[:at]
	}
}

// replace says that all of key comes from p now.
func (o origins) replace(key string, p Place) {
	for k := range o {
		if strings.HasPrefix(k, key+"[") {
			delete(o, k)
		}
	}
	o[key] = p
}

// spot is where a key and its value begin in a document, in bytes.
type spot struct{ key, value int }

// spots finds what stands where in a document that is known to be TOML.
type spots struct {
	raw    []byte
	lines  []int           // where they begin
	at     map[string]spot // by path
	tables map[string]int  // tables so far in arrays of them, by path
}

func newSpots(raw []byte) spots {
	s := spots{raw: raw, lines: []int{0}, at: map[string]spot{}, tables: map[string]int{}}
	for i, c := range raw {
		if c == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// findSpots looks at a document.
func findSpots(raw []byte) spots {
	s := newSpots(raw)
	var p unstable.Parser
	p.Reset(raw)
	table := ""
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = s.header(e)
		case unstable.KeyValue:
			s.keyValue(table, e)
		default: // comments are not kept
		}
	}
	return s
}

// header is the path of the table that it begins.
func (s spots) header(e *unstable.Node) string {
	path, first := "", -1
	for it := e.Key(); it.Next(); {
		k := it.Node()
		if first < 0 {
			first = int(k.Raw.Offset)
		}
		path = joinKey(path, string(k.Data))
		s.add(path, spot{first, first})
		if last := k.Next() == nil; last && e.Kind == unstable.ArrayTable {
			s.tables[path]++
		}
		if n := s.tables[path]; n > 0 {
			path = fmt.Sprintf("%s[%d]", path, n-1)
			s.add(path, spot{first, first})
		}
	}
	return path
}

func (s spots) keyValue(table string, e *unstable.Node) {
	path, at := table, spot{-1, -1}
	for it := e.Key(); it.Next(); {
		k := it.Node()
		if at.key < 0 {
			at.key = int(k.Raw.Offset)
		}
		at.value = s.behindEquals(int(k.Raw.Offset + k.Raw.Length))
		path = joinKey(path, string(k.Data))
		s.add(path, spot{at.key, at.key}) // a table, but for the last
	}
	s.at[path] = at
	s.value(path, at, e.Value())
}

// value looks into lists and tables.
func (s spots) value(path string, at spot, v *unstable.Node) {
	switch v.Kind {
	case unstable.Array:
		i := 0
		for it := v.Children(); it.Next(); i++ {
			elem, in := fmt.Sprintf("%s[%d]", path, i), at
			if n := it.Node(); n.Raw.Length > 0 {
				in = spot{int(n.Raw.Offset), int(n.Raw.Offset)}
			}
			s.add(elem, in)
			s.value(elem, in, it.Node())
		}
	case unstable.InlineTable:
		for it := v.Children(); it.Next(); {
			s.keyValue(path, it.Node())
		}
	default: // nothing is inside
	}
}

// add keeps the first place of a path.
func (s spots) add(path string, at spot) {
	if _, ok := s.at[path]; !ok {
		s.at[path] = at
	}
}

// behindEquals is where the value begins whose key ends at the offset.
func (s spots) behindEquals(at int) int {
	rest := s.raw[at:]
	return at + len(rest) - len(bytes.TrimLeft(rest, " \t="))
}

// place makes a Place of an offset.
func (s spots) place(file string, offset int) Place {
	line, exact := slices.BinarySearch(s.lines, offset)
	if exact {
		line++
	}
	line = max(line, 1)
	return Place{File: file, Line: line, Column: offset - s.lines[line-1] + 1}
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// joinKey is the path of a key in a table, written as TOML has it.
func joinKey(table, key string) string {
	if !bareKey.MatchString(key) {
		key = strconv.Quote(key)
	}
	if table == "" {
		return key
	}
	return table + "." + key
}
