// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	maxAlternatives = 1024 // values of enum, schemas of anyOf
	maxWays         = 4096 // on from one place, all alternatives within each other
	maxProperties   = 512
	maxKeyBytes     = 256
	maxRefBytes     = 1024
	maxLength       = 1 << 20 // of minLength and maxLength
	maxItems        = 1 << 16
)

// Grammar is what an answer may be. It does not change.
type Grammar struct{ p *program }

// Bytes is what it takes in memory, about.
func (g *Grammar) Bytes() int64 {
	const nodeBytes, altBytes, setBytes, needBytes = 48, 4, 32, 4
	n := int64(cap(g.p.nodes))*nodeBytes + int64(len(g.p.need))*needBytes + int64(cap(g.p.sets))*setBytes
	for i := range g.p.nodes {
		n += altBytes * int64(cap(g.p.nodes[i].alts))
	}
	return n
}

// Compile makes the grammar of the values that a JSON schema allows. Errors: *[Error].
func Compile(schema []byte) (*Grammar, error) {
	v, err := parse(schema)
	if err != nil {
		return nil, err
	}
	c := newCompiler(v)
	start, err := c.value(&c.root, "", c.ret)
	if err != nil {
		return nil, err
	}
	return c.grammar(start)
}

// Object is the grammar of any JSON object.
func Object() *Grammar {
	g, err := Compile([]byte(`{"type":"object"}`))
	if err != nil {
		panic("grammar: internal error: " + err.Error())
	}
	return g
}

// Tool is a function that a model may call.
type Tool struct {
	Name       string
	Parameters []byte // the JSON schema of the object of its arguments; nil: any object
}

// Call is the grammar of a call of one of the tools, as models of Qwen's kind write
// it between their markers: {"name": …, "arguments": {…}}. Errors: *[Error], whose
// place begins with the number of the tool.
func Call(tools []Tool) (*Grammar, error) {
	c := newCompiler(value{})
	var alts []int32
	for i, t := range tools {
		v, err := parameters(t.Parameters)
		if err == nil {
			c.root, c.refs = v, map[string]int32{}
			var args, end int32
			end = c.bytes('}', '}', c.ret)
			if args, err = c.value(&c.root, "", end); err == nil {
				err = c.rest()
			}
			alts = append(alts, c.text(`{"name": `+quote(t.Name)+`, "arguments": `, args))
		}
		if e, ok := err.(*Error); ok {
			e.At = fmt.Sprintf("/tools/%d%s", i, e.At)
			return nil, e
		}
	}
	if len(alts) == 0 {
		return nil, problem("", "no tools to call")
	}
	return c.grammar(c.split(alts...))
}

// parameters reads the schema of the arguments of a tool, which are an object.
func parameters(raw []byte) (value, error) {
	v := value{kind: "object"}
	if raw != nil {
		var err error
		if v, err = parse(raw); err != nil {
			return v, err
		}
	}
	typ, named := v.fields["type"]
	switch {
	case v.kind == "object" && len(v.keys) == 0, v.kind == "boolean" && v.truth:
		return parse([]byte(`{"type":"object"}`))
	case named && typ.text != "object":
		return v, problem("/type", "the arguments of a tool are an object")
	}
	return v, nil
}

// compiler makes a program of a schema.
type compiler struct {
	*builder
	root    value
	refs    map[string]int32 // rule of each reference
	pending []string         // references whose rules have no entry yet
	places  map[int32]string // where a rule was first called
}

func newCompiler(root value) *compiler {
	return &compiler{builder: newBuilder(), root: root, refs: map[string]int32{}, places: map[int32]string{}}
}

// grammar completes what begins at start.
func (c *compiler) grammar(start int32) (*Grammar, error) {
	if err := c.rest(); err != nil {
		return nil, err
	}
	if c.full {
		return nil, problem("", "too large: an automaton of more than %d nodes", maxNodes)
	}
	if r, found := c.circular(0); found {
		return nil, problem(c.places[int32(r)], "$ref leads back to itself and to no value")
	}
	if n := c.widest(); n > maxWays {
		return nil, problem("", "too many alternatives at one place: %d, at most %d", n, maxWays)
	}
	p, ends := c.finish(start)
	if !ends {
		return nil, problem("", "no value ends within %d levels: what a required property or item refers to needs itself", maxFrames)
	}
	return &Grammar{p: p}, nil
}

// rest compiles what references lead to.
func (c *compiler) rest() error {
	for len(c.pending) > 0 && !c.full {
		ref := c.pending[0]
		c.pending = c.pending[1:]
		rule := c.refs[ref]
		target, at, err := c.find(ref, c.places[rule])
		if err != nil {
			return err
		}
		if c.rules[rule], err = c.value(target, at, c.ret); err != nil {
			return err
		}
	}
	return nil
}

// badTilde is none of the two escapes of a JSON pointer.
var badTilde = regexp.MustCompile(`~([^01]|$)`)

// find follows a reference within the schema: a JSON pointer as the fragment of a URI,
// whose percent escapes are undone before those of the pointer (RFC 6901, section 6).
func (c *compiler) find(ref, from string) (*value, string, error) {
	if len(ref) > maxRefBytes {
		return nil, "", problem(from, "$ref %.80q has %d bytes, at most %d", ref, len(ref), maxRefBytes)
	}
	fragment, local := strings.CutPrefix(ref, "#")
	at, err := url.PathUnescape(fragment)
	switch {
	case local && err != nil:
		return nil, "", problem(from, "$ref %.80q: a %% in it stands before two digits of base 16; %% itself is %%25", ref)
	case !local || at != "" && at[0] != '/':
		return nil, "", problem(from, "$ref %.80q: only references within the schema, like #/$defs/name", ref)
	}
	v := c.root
	for _, part := range strings.Split(at, "/")[1:] {
		if badTilde.MatchString(part) {
			return nil, "", problem(from, "$ref %.80q: a ~ in it stands before 0, for ~ itself, or 1, for /", ref)
		}
		key := strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		switch i, err := strconv.Atoi(key); {
		case v.kind == "object" && hasKey(&v, key):
			v = v.fields[key]
		case v.kind == "array" && err == nil && i >= 0 && i < len(v.items):
			v = v.items[i]
		default:
			return nil, "", problem(from, "$ref %.80q leads nowhere", ref)
		}
	}
	return &v, at, nil
}

func hasKey(v *value, key string) bool {
	_, ok := v.fields[key]
	return ok
}

// notes say nothing about values. Definitions are compiled where they are used.
var notes = []string{
	"title", "description", "default", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly",
	"$defs", "definitions",
}

// belongs says to which type a keyword belongs; "" for all.
var belongs = map[string]string{
	"type": "", "enum": "", "const": "", "anyOf": "", "$ref": "",
	"properties": "object", "required": "object", "additionalProperties": "object",
	"items": "array", "minItems": "array", "maxItems": "array",
	"minLength": "string", "maxLength": "string", "pattern": "string",
}

// value compiles a schema; at is where it stands.
func (c *compiler) value(v *value, at string, next int32) (int32, error) {
	switch {
	case c.full:
		return next, nil // grammar says so
	case v.kind == "boolean" && v.truth:
		return c.call(c.any, next), nil
	case v.kind == "boolean":
		return 0, problem(at, "false: no value satisfies it")
	case v.kind != "object":
		return 0, problem(at, "%s where a schema belongs", article(v.kind))
	}
	var said []string // keywords that say something
	for _, key := range v.keys {
		if slices.Contains(notes, key) {
			continue
		}
		if _, known := belongs[key]; !known {
			return 0, problem(at, "keyword %.80q is not supported", key)
		}
		said = append(said, key)
	}
	for _, only := range []string{"$ref", "anyOf"} {
		if hasKey(v, only) {
			if len(said) > 1 {
				return 0, problem(at, "%s together with %s is not supported", only, other(said, only))
			}
			if only == "$ref" {
				return c.reference(v.fields[only], at, next)
			}
			return c.anyOf(v.fields[only], at+"/anyOf", next)
		}
	}
	if len(said) == 0 {
		return c.call(c.any, next), nil
	}
	types, err := typesOf(v, said, at)
	if err != nil {
		return 0, err
	}
	if hasKey(v, "enum") || hasKey(v, "const") {
		return c.listed(v, said, types, at, next)
	}
	return c.typed(v, types, at, next)
}

func other(keys []string, than string) string {
	for _, k := range keys {
		if k != than {
			return k
		}
	}
	return than
}

func article(kind string) string {
	switch kind {
	case "null":
		return kind
	case "array", "object":
		return "an " + kind
	}
	return "a " + kind
}

func (c *compiler) reference(v value, at string, next int32) (int32, error) {
	if v.kind != "string" {
		return 0, problem(at+"/$ref", "%s where a string belongs", article(v.kind))
	}
	rule, known := c.refs[v.text]
	if !known {
		rule = c.rule()
		c.refs[v.text], c.places[rule] = rule, at
		c.pending = append(c.pending, v.text)
	}
	return c.call(rule, next), nil
}

func (c *compiler) anyOf(v value, at string, next int32) (int32, error) {
	if v.kind != "array" || len(v.items) == 0 || len(v.items) > maxAlternatives {
		return 0, problem(at, "want 1 to %d schemas, got %d", maxAlternatives, len(v.items))
	}
	var alts []int32
	for i := range v.items {
		alt, err := c.value(&v.items[i], fmt.Sprintf("%s/%d", at, i), next)
		if err != nil {
			return 0, err
		}
		alts = append(alts, alt)
	}
	return c.split(alts...), nil
}

// typesOf are the types that a schema names or, where it names none, that its
// keywords belong to; nil: any.
func typesOf(v *value, said []string, at string) ([]string, error) {
	var types []string
	switch t, ok := v.fields["type"]; {
	case ok && t.kind == "string":
		types = []string{t.text}
	case ok && t.kind == "array" && len(t.items) > 0:
		for i := range t.items {
			types = append(types, t.items[i].text)
		}
	case ok:
		return nil, problem(at+"/type", "want the name of a type, or several")
	default:
		for _, key := range said {
			if typ := belongs[key]; typ != "" && !slices.Contains(types, typ) {
				types = append(types, typ)
			}
		}
		if len(types) > 1 {
			return nil, problem(at, "type is missing: keywords of %s and of %s", types[0], types[1])
		}
		return types, nil
	}
	for _, typ := range types {
		switch typ {
		case "object", "array", "string", "number", "integer", "boolean", "null":
		default:
			return nil, problem(at+"/type", "type %.40q is none of JSON schema", typ)
		}
	}
	for _, key := range said {
		if typ := belongs[key]; typ != "" && !slices.Contains(types, typ) {
			return nil, problem(at, "%s does not belong to type %s", key, strings.Join(types, ", "))
		}
	}
	return types, nil
}

// listed compiles enum and const.
func (c *compiler) listed(v *value, said, types []string, at string, next int32) (int32, error) {
	keyword := "enum"
	if hasKey(v, "const") {
		keyword = "const"
	}
	for _, key := range said {
		if key != keyword && key != "type" {
			return 0, problem(at, "%s together with %s is not supported", keyword, key)
		}
	}
	list := []value{v.fields[keyword]}
	if keyword == "enum" {
		list = list[0].items
	}
	if len(list) == 0 || len(list) > maxAlternatives {
		return 0, problem(at+"/enum", "want 1 to %d values, got %d", maxAlternatives, len(list))
	}
	var alts []int32
	for i := range list {
		fits := func(typ string) bool { return list[i].is(typ) }
		if types != nil && !slices.ContainsFunc(types, fits) {
			continue
		}
		var text strings.Builder
		list[i].write(&text)
		alts = append(alts, c.text(text.String(), next))
	}
	if len(alts) == 0 {
		return 0, problem(at, "no value of %s has type %s", keyword, strings.Join(types, ", "))
	}
	return c.split(alts...), nil
}

// typed compiles a schema by its types.
func (c *compiler) typed(v *value, types []string, at string, next int32) (int32, error) {
	var alts []int32
	for _, typ := range types {
		var alt int32
		var err error
		switch typ {
		case "null":
			alt = c.text("null", next)
		case "boolean":
			alt = c.split(c.text("true", next), c.text("false", next))
		case "integer":
			alt = c.integer(next)
		case "number":
			alt = c.number(next)
		case "string":
			alt, err = c.stringOf(v, at, next)
		case "array":
			alt, err = c.arrayOf(v, at, next)
		case "object":
			alt, err = c.objectOf(v, at, next)
		}
		if err != nil {
			return 0, err
		}
		alts = append(alts, alt)
	}
	return c.split(alts...), nil
}
