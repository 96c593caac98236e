// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The daemon reads its files again at SIGHUP: it names each key, tells what is wrong with
// its place, is held up by no file, and goes on as it was.
func TestReloadBySignal_P250(t *testing.T) {
	program, err := exec.LookPath("windhover")
	if err != nil {
		t.Fatal(err)
	}
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
	serve := exec.Command(program, "serve", "--config", file, "--log-format", "text")
	serve.Env = append(os.Environ(), "WINDHOVER_DEVICE=box1", "WINDHOVER_PATHS_STATE="+filepath.Join(dir, "state"), "WINDHOVER_PATHS_TRUST="+dir,
		"WINDHOVER_MQTT_EMBEDDED_LISTEN=127.0.0.1:"+port, "WINDHOVER_MQTT_ULR=mqtts://me:s3cret@x")
	log, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill() }) // it has ended, unless the test failed
	lines := bufio.NewScanner(log)
	said := func(what ...string) {
		t.Helper()
		for _, w := range what {
			for {
				if !lines.Scan() {
					t.Fatalf("serve never says %q", w)
				}
				if strings.Contains(lines.Text(), "s3cret") {
					t.Errorf("a secret in the log: %s", lines.Text())
				}
				if strings.Contains(lines.Text(), w) {
					break
				}
			}
		}
	}
	again := func() {
		t.Helper()
		if err := serve.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	said("variable=WINDHOVER_MQTT_ULR", "mqtt link up", "mqtt link up")
	again()
	said("configuration read: nothing changed")
	write("[http]\nlisten = \"\"\nhosts = [\"a\"]\n[engine]\nkv = \"int8\"\nshare_prefixes = [\"b\"]\n")
	again()
	said("keys=\"[http.hosts engine.share_prefixes]\"", `these keys need a restart" event=config_reloaded keys=[engine.kv]`)
	write("[engine]\nkv = \"f32\"\nfamily = 3\n[drop]\nrequire_signature = true\n")
	again()
	said(file+":3:10: engine.family is of type integer, want a string", file+`:2:6: engine.kv \"f32\": use f16 or int8`)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	again()
	said(file + ": is not a regular file")
	write("[http]\nlisten = \"\"\nhosts = [\"a\"]\n[engine]\nshare_prefixes = [\"b\"]\n")
	again()
	said("configuration read: nothing changed")
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said("windhover stopped")
	if err := serve.Wait(); err != nil {
		t.Error(err)
	}
}
