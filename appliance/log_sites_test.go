// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// logKeys are the names that values of records have, one for each thing. Those of a
// model in the geometry group are apart.
var logKeys = map[string]string{
	"address": "where something listens", "at": "what a part is doing", "before": "what was there until now", "big": "numbers of cores",
	"board": "", "bytes": "how many", "cache_bytes": "", "cause": "why something was tried, or ended", "client": "who asked", "code": "of docs/PROTOCOL.md",
	"context": "in tokens", "cpus": "how many", "device": "name of the box", "entry": "name in the drop directory",
	"error": "what went wrong", "event": "one of docs/PROTOCOL.md", "every": "a pause", "family": "", "finish": "why an answer ended",
	"flags": "", "for": "how long", "free": "bytes", "geometry": "a group", "have": "bytes of want", "id": "of a request", "incident": "of a panic",
	"kernels": "", "key": "of the configuration", "key_id": "of a public key", "keys": "of the configuration", "layout": "", "link": "control or data",
	"little": "numbers of cores", "lost": "records that are missing", "looked_for": "a path", "method": "of HTTP", "model": "its name", "job": "its id", "ms": "how long it took",
	"ahead": "requests before this one", "op": "of a request", "path": "a file, or of HTTP", "phase": "of an update", "queue_ms": "acceptance to start", "release": "of an update",
	"remote": "address of a peer", "residency": "", "residency_why": "", "restore_error": "", "restored_tokens": "", "rev": "of a document",
	"rolled_back": "", "seq": "of a record", "sequences": "", "serves": "version that goes on", "sha256": "", "signer": "its name",
	"stack": "of a panic", "state": "a directory", "status": "of HTTP, or of an update", "still_serving": "the version before does", "store": "where",
	"template_error": "", "text": "what a library says, or a prompt", "threads": "", "tokenizer": "", "tokens": "how many", "prompt_tokens": "",
	"cached_tokens": "", "topic": "of MQTT", "topology": "", "trust": "", "ttft_ms": "acceptance to first token", "type": "of a job",
	"untrusted_signature": "", "url": "", "variable": "of the environment", "version": "of a model, or of windhover",
	"want": "bytes", "what": "is decided",
}

// handlerKeys are put in by the handlers, and by no call.
var handlerKeys = []string{"of", "suppressed"}

// Every record has a message that is the same each time, without which nothing could
// bound how often it comes, and values under names that are the same everywhere.
func TestLogCallSites(t *testing.T) {
	used := map[string]bool{}
	messages := 0
	eachFile(t, []string{"."}, func(path string, set *token.FileSet, f *ast.File) {
		consts := constants(f)
		key := func(e ast.Expr) {
			name, ok := literal(e)
			if !ok {
				t.Errorf("%s: a key that is no literal", set.Position(e.Pos()))
				return
			}
			used[name] = true
			if _, known := logKeys[name]; !known {
				t.Errorf("%s: key %q is none of logKeys: is there a name for it?", set.Position(e.Pos()), name)
			}
		}
		message := func(e ast.Expr) {
			messages++
			if !constant(e, consts) {
				t.Errorf("%s: the message is not the same each time: put what changes into a value", set.Position(e.Pos()))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch of, is := name(sel.X), sel.Sel.Name; {
			case of == "slog" && (is == "String" || is == "Int" || is == "Int64" || is == "Uint64" || is == "Bool" || is == "Any" || is == "Duration"):
				if filepath.Base(path) != "log.go" {
					key(call.Args[0])
				}
			case of == "slog" && is == "Group":
				key(call.Args[0])
			case strings.EqualFold(of, "log") && (is == "Debug" || is == "Info" || is == "Warn" || is == "Error"):
				if filepath.Base(path) == "log.go" {
					return true // lineWriter, whose messages are those of its makers
				}
				message(call.Args[0])
				if call.Ellipsis.IsValid() || len(call.Args)%2 == 0 {
					t.Errorf("%s: not pairs of key and value", set.Position(call.Pos()))
				}
				for i := 1; i < len(call.Args); i += 2 {
					key(call.Args[i])
				}
			}
			return true
		})
	})
	if messages < 80 {
		t.Errorf("%d records are found: the test looks past them", messages)
	}
	for k := range logKeys {
		if !used[k] {
			t.Errorf("key %q is used nowhere", k)
		}
	}
	for _, k := range append([]string{"time", "level", "msg"}, handlerKeys...) {
		if used[k] {
			t.Errorf("%q belongs to the handlers", k)
		}
	}
}

// Nothing in the daemon prints beside its log, and no package but this one has one.
func TestNothingPrintsBesideTheLog(t *testing.T) {
	streams := map[string]bool{"log.go": true, "child.go": true} // what stderr is asked of, and a child's
	eachFile(t, []string{".", "../control", "../engine", "../vqf", "../kernels", "../systemd"}, func(path string, set *token.FileSet, f *ast.File) {
		for _, imp := range f.Imports {
			lib := strings.Trim(imp.Path.Value, `"`)
			own := strings.HasPrefix(path, "..")
			if lib == "log" && filepath.Base(path) != "http.go" || own && lib == "log/slog" {
				t.Errorf("%s imports %s", path, lib)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				if id, ok := x.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") && id.Obj == nil {
					t.Errorf("%s: %s", set.Position(x.Pos()), id.Name)
				}
			case *ast.SelectorExpr:
				of := name(x.X)
				if of == "fmt" && slices.Contains([]string{"Print", "Println", "Printf"}, x.Sel.Name) ||
					of == "os" && (x.Sel.Name == "Stderr" || x.Sel.Name == "Stdout") && !streams[filepath.Base(path)] {
					t.Errorf("%s: %s.%s", set.Position(x.Pos()), of, x.Sel.Name)
				}
			}
			return true
		})
	})
}

// The MQTT library has a log of its own, which is off while nobody sets it.
func TestLibrariesAreSilent(t *testing.T) {
	for name, l := range map[string]mqtt.Logger{"ERROR": mqtt.ERROR, "CRITICAL": mqtt.CRITICAL, "WARN": mqtt.WARN, "DEBUG": mqtt.DEBUG} {
		if _, off := l.(mqtt.NOOPLogger); !off {
			t.Errorf("%s of the MQTT library is a %T", name, l)
		}
	}
}

// eachFile parses the sources below dirs that are part of the program.
func eachFile(t *testing.T, dirs []string, do func(path string, set *token.FileSet, f *ast.File)) {
	t.Helper()
	n := 0
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "testdata" {
				return filepath.SkipDir
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, group := range f.Comments {
				for _, c := range group.List {
					if c.Pos() < f.Package && strings.HasPrefix(c.Text, "//go:build ignore") {
						return nil // a generator
					}
				}
			}
			n++
			do(path, set, f)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 {
		t.Fatal("no sources")
	}
}

// name is that of an identifier, or the last of a selector.
func name(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// constant says whether e is made of literals and constants of its file.
func constant(e ast.Expr, consts map[string]bool) bool {
	switch x := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return consts[x.Name] || x.Name == "credentialName"
	case *ast.BinaryExpr:
		return constant(x.X, consts) && constant(x.Y, consts)
	}
	return false
}

// constants are those that a file declares.
func constants(f *ast.File) map[string]bool {
	out := map[string]bool{}
	for _, d := range f.Decls {
		if gen, ok := d.(*ast.GenDecl); ok && gen.Tok == token.CONST {
			for _, s := range gen.Specs {
				for _, n := range s.(*ast.ValueSpec).Names {
					out[n.Name] = true
				}
			}
		}
	}
	return out
}
