// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The daemon reads its files again at SIGHUP: it names each key, tells what is wrong with
// its place, is held up by no file, and goes on as it was.
func TestReloadBySignal_P250(t *testing.T) {
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	write := func(text string) {
		t.Helper()
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[http]\nlisten = \"\"\n")
	serve := startDaemon(t, []string{"WINDHOVER_DEVICE=box1", "WINDHOVER_PATHS_STATE=" + filepath.Join(dir, "state"), "WINDHOVER_PATHS_TRUST=" + dir,
		"WINDHOVER_MQTT_EMBEDDED_LISTEN=127.0.0.1:" + port, "WINDHOVER_MQTT_ULR=mqtts://me:s3cret@x"}, "--config", file, "--log-format", "text")
	serve.never = "s3cret"
	again := func() {
		t.Helper()
		if err := serve.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	serve.said(t, "variable=WINDHOVER_MQTT_ULR", "mqtt link up", "mqtt link up")
	again()
	serve.said(t, "configuration read: nothing changed")
	write("[http]\nlisten = \"\"\nhosts = [\"a\"]\n[engine]\nkv = \"int8\"\nshare_prefixes = [\"b\"]\n")
	again()
	serve.said(t, "keys=\"[http.hosts engine.share_prefixes]\"", `these keys need a restart" event=config_reloaded keys=[engine.kv]`)
	write("[engine]\nkv = \"f32\"\nfamily = 3\n[drop]\nrequire_signature = true\n")
	again()
	serve.said(t, file+":3:10: engine.family is of type integer, want a string", file+`:2:6: engine.kv \"f32\": use f16 or int8`)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	again()
	serve.said(t, file+": is not a regular file")
	write("[http]\nlisten = \"\"\nhosts = [\"a\"]\n[engine]\nshare_prefixes = [\"b\"]\n")
	again()
	serve.said(t, "configuration read: nothing changed")
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	serve.said(t, "windhover stopped")
	if err := serve.Wait(); err != nil {
		t.Error(err)
	}
}
