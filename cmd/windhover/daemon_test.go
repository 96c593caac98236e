// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// daemon is a windhover serve whose log is read line by line.
type daemon struct {
	*exec.Cmd
	lines *bufio.Scanner
	never string // is to stand in no line; "": all may
}

// startDaemon runs it with variables of its own beside those of the test.
func startDaemon(t *testing.T, variables []string, args ...string) *daemon {
	t.Helper()
	program, err := exec.LookPath("windhover")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{Cmd: exec.Command(program, append([]string{"serve"}, args...)...)}
	d.Env = append(os.Environ(), variables...)
	log, err := d.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Process.Kill() }) // it has ended, unless the test failed
	d.lines = bufio.NewScanner(log)
	return d
}

// said reads on until the log has had each of what, in that order.
func (d *daemon) said(t *testing.T, what ...string) {
	t.Helper()
	for _, w := range what {
		for found := false; !found; found = strings.Contains(d.lines.Text(), w) {
			if !d.lines.Scan() {
				t.Fatalf("serve never says %q", w)
			}
			if d.never != "" && strings.Contains(d.lines.Text(), d.never) {
				t.Errorf("%q is in the log: %s", d.never, d.lines.Text())
			}
		}
	}
}
