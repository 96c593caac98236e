// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"windhover/internal/testmodel"
)

// The first SIGTERM waits for the request in work, a second one for nothing.
func TestSecondSignal(t *testing.T) {
	program, err := exec.LookPath("windhover")
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	env := append(os.Environ(), "WINDHOVER_DEVICE=box1", "WINDHOVER_PATHS_STATE="+dir, "WINDHOVER_HTTP_LISTEN=", "WINDHOVER_MQTT_EMBEDDED_LISTEN=127.0.0.1:"+port)
	serve := exec.Command(program, "serve", "--config", "")
	serve.Env = env
	log, err := serve.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill() }) // it has ended, unless the test failed
	lines := bufio.NewScanner(log)
	said := func(what string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), what) {
				return
			}
		}
		t.Fatalf("serve never says %q", what)
	}
	said("mqtt link up")
	said("mqtt link up")
	// One that takes seconds for an answer.
	c := testmodel.Default()
	c.Random, c.Layers, c.Dim, c.FFN, c.Heads, c.KVHeads, c.HeadDim, c.MaxSeq = true, 8, 512, 1536, 8, 4, 64, 4096
	tmp := filepath.Join(dir, "drop", ".slow.part")
	if err := c.WriteFile(tmp); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, "drop", "slow.vqf")); err != nil {
		t.Fatal(err)
	}
	said("model ready")
	send := exec.Command(program, "send", "--raw", "--max-tokens", "4000", "--temperature", "0", "--client", "me", "hello")
	send.Env = env
	answer, err := send.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := send.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // nobody answers it any more
		_ = send.Process.Kill()
		_ = send.Wait()
	})
	if _, err := io.ReadFull(answer, make([]byte, 1)); err != nil {
		t.Fatalf("no answer begins: %v", err)
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said("draining")
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	err = serve.Wait()
	if !errors.As(err, &exit) {
		t.Fatalf("got %v", err)
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
		t.Errorf("got %v, want the end by the second signal", err)
	}
}
