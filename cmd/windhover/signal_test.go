// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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
	env := []string{"WINDHOVER_DEVICE=box1", "WINDHOVER_PATHS_STATE=" + dir, "WINDHOVER_HTTP_LISTEN=", "WINDHOVER_MQTT_EMBEDDED_LISTEN=127.0.0.1:" + port}
	serve := startDaemon(t, env, "--config", "")
	serve.said(t, "mqtt link up", "mqtt link up")
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
	serve.said(t, "model ready")
	send := exec.Command(program, "send", "--raw", "--max-tokens", "4000", "--temperature", "0", "--client", "me", "hello")
	send.Env = append(os.Environ(), env...)
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
	serve.said(t, "draining")
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

// Where the first signal is not heard, at a pipe that nobody writes to, the second
// one ends the program.
func TestSecondSignalWhileBlocked(t *testing.T) {
	program, err := exec.LookPath("windhover")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pipe, model := filepath.Join(dir, "pipe"), filepath.Join(dir, "m.vqf")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := testmodel.Default().WriteFile(model); err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := exec.Command(program, "tokenize", model, "--jsonl", pipe)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		signals, writer := 0, -1
		tick, late := time.NewTicker(50*time.Millisecond), time.After(time.Minute)
		for err = nil; err == nil; {
			select {
			case <-tick.C:
				if writer < 0 { // it can be opened once there is a reader, who then waits for what never comes
					writer, _ = syscall.Open(pipe, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
					continue
				}
				signals++
				_ = cmd.Process.Signal(s) // it may have ended by now
			case err = <-ended:
			case <-late:
				_ = cmd.Process.Kill() // the failure is reported anyway
				t.Fatalf("%v: still there after %d signals", s, signals)
			}
		}
		tick.Stop()
		_ = syscall.Close(writer) // nothing was written
		if signals < 2 {
			t.Errorf("%v: the end after %d signals: the first one is for the program to hear", s, signals)
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("%v: got %v", s, err)
		}
		if ws, ok := exit.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != s {
			t.Errorf("%v: got %v, want the end by the signal", s, err)
		}
	}
}
