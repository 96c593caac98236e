// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"windhover/control/ota"
)

// scriptPublish is "publish DIR": a web server for its files, by HTTPS. WEB is its URL,
// and ca.pem what it is checked against.
func scriptPublish(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: publish DIR")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	web := httptest.NewTLSServer(http.FileServer(http.Dir(dir)))
	ts.Defer(web.Close)
	ts.Setenv("WEB", web.URL)
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600))
}

// scriptRelease is "release FILE NAME VERSION NUMBER": FILE is to be a release record of
// what the last command, index --json, described.
func scriptRelease(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: release FILE NAME VERSION NUMBER")
	}
	var is struct {
		Size   int64
		SHA256 ota.Digest
		Index  struct {
			SHA256 ota.Digest
			Block  int64
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &is))
	n, err := strconv.ParseInt(args[3], 10, 64)
	ts.Check(err)
	m := ota.Model{Name: args[1], Version: args[2], Release: n, Size: is.Size, SHA256: is.SHA256, Index: ota.IndexRef{SHA256: is.Index.SHA256, Block: is.Index.Block}}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), ota.ReleaseOf(&m, time.Now()).Encode(), 0o600))
}
