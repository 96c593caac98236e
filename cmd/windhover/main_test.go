// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"windhover/internal/testcut"
	"windhover/internal/testmodel"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/*.txt")

// TestMain lets scripts run this program as "windhover", and tests trace it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"windhover": main, tracedCommand: traced})
}

// tracedCommand is a program that becomes another one, which is traced.
const tracedCommand = "windhover-traced"

func traced() {
	fmt.Fprintln(os.Stderr, testcut.Exec(os.Args[1:]))
	os.Exit(exitFailed)
}

// TestScripts runs testdata/*.txt; "go test -run Scripts/info -update" rewrites
// what they expect.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", UpdateScripts: *update, RequireExplicitExec: true, Setup: setupScript,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": scriptExits, "await": scriptAwait, "json": scriptJSON, "patch": scriptPatch, "publish": scriptPublish, "release": scriptRelease,
		},
	})
}

// setupScript puts models into the working directory of a script.
func setupScript(env *testscript.Env) error {
	tiny, bare, dual := testmodel.Default(), testmodel.Default(), testmodel.Default()
	bare.Bare, dual.Mode, dual.Fields = true, "dual", 45
	vl := testmodel.Default()
	vl.Vision, vl.MaxSeq = true, 512
	embeds, beside := testmodel.Default(), testmodel.Default()
	embeds.Random, embeds.Embeds = true, true
	beside.Random, beside.Bare = true, true
	for name, c := range map[string]testmodel.Config{"tiny.vqf": tiny, "bare/bare.vqf": bare, "dual.vqf": dual, "vl.vqf": vl, "embeds.vqf": embeds, "beside/model.vqf": beside, "caller.vqf": testmodel.Caller("lamp", `{"on": "perhaps"}`)} {
		path := filepath.Join(env.WorkDir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := c.WriteFile(path); err != nil {
			return err
		}
	}
	if err := writePooling(filepath.Join(env.WorkDir, "beside")); err != nil {
		return err
	}
	if err := writePictures(env.WorkDir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(env.WorkDir, "tokenizer.json"), testmodel.TokenizerJSON(), 0o600); err != nil {
		return err
	}
	gguf, err := filepath.Abs(filepath.Join("..", "..", "vqf", "gguf", "testdata"))
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	env.Setenv("GGUF", gguf)
	env.Setenv("PORT", port)
	env.Setenv("WINDHOVER_DEVICE", "box1")
	env.Setenv("WINDHOVER_PATHS_STATE", filepath.Join(env.WorkDir, "state"))
	env.Setenv("WINDHOVER_MQTT_EMBEDDED_LISTEN", "127.0.0.1:"+port)
	env.Setenv("WINDHOVER_HTTP_LISTEN", "")
	// A path of a socket has at most 108 bytes.
	socket, err := os.MkdirTemp("", "wh")
	if err != nil {
		return err
	}
	env.Defer(func() { _ = os.RemoveAll(socket) })
	env.Setenv("WINDHOVER_PATHS_SOCKET", filepath.Join(socket, "s"))
	return nil
}

// writePooling makes a directory with bare weights one of a model of embeddings.
func writePooling(dir string) error {
	for name, data := range map[string][]byte{
		"tokenizer.json":        testmodel.EmbeddingTokenizerJSON(),
		"modules.json":          []byte(`[{"path":"","type":"sentence_transformers.models.Transformer"},{"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}]`),
		"1_Pooling/config.json": []byte(`{"pooling_mode_lasttoken":true}`),
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// freePort is a port that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// scriptExits is "exits CODE COMMAND…": the command ends with this exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("exits: %v", err)
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("exits: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
	if errText := ts.ReadFile("stderr"); want == 2 && strings.Count(errText, "\n") != 1 {
		ts.Fatalf("the error is not one line: %s", errText)
	}
}

// scriptAwait is "await FILE…": one of the files appears within a minute.
func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: await FILE…")
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		for _, name := range args {
			if _, err := os.Stat(ts.MkAbs(name)); err == nil {
				return
			}
		}
	}
	ts.Fatalf("none of %v appeared", args)
}

// scriptJSON is "json FILE PATH WANT…": FILE is one JSON object, and what PATH
// (a.b.0.c) leads to reads as WANT; "*" is anything that is there.
func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args)%2 != 1 {
		ts.Fatalf("usage: json FILE PATH WANT…")
	}
	var doc any
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	if dec.More() {
		ts.Fatalf("%s: more than one JSON value", args[0])
	}
	for i := 1; i < len(args); i += 2 {
		got, err := lookUp(doc, args[i])
		if err != nil {
			ts.Fatalf("%s: %v", args[0], err)
		}
		if args[i+1] != "*" && got != args[i+1] {
			ts.Fatalf("%s: %s is %s, want %s", args[0], args[i], got, args[i+1])
		}
	}
}

func lookUp(doc any, path string) (string, error) {
	for _, key := range strings.Split(path, ".") {
		switch v := doc.(type) {
		case map[string]any:
			next, ok := v[key]
			if !ok {
				return "", fmt.Errorf("%s: there is no %q", path, key)
			}
			doc = next
		case []any:
			if key == "len" {
				doc = len(v)
				continue
			}
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) {
				return "", fmt.Errorf("%s: there is no element %q of %d", path, key, len(v))
			}
			doc = v[i]
		default:
			return "", fmt.Errorf("%s: %q of %v", path, key, doc)
		}
	}
	if s, ok := doc.(string); ok {
		return s, nil
	}
	b, err := json.Marshal(doc)
	return string(b), err
}

// scriptPatch is "patch FILE OFFSET BYTE": a negative offset counts from the end.
func scriptPatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: patch FILE OFFSET BYTE")
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	offset, err := strconv.Atoi(args[1])
	ts.Check(err)
	value, err := strconv.ParseUint(args[2], 0, 8)
	ts.Check(err)
	if offset < 0 {
		offset += len(data)
	}
	data[offset] = byte(value)
	ts.Check(os.WriteFile(path, data, 0o600))
}
