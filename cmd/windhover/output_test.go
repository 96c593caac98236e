// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"windhover/appliance"
	"windhover/control"
	"windhover/engine"
	"windhover/vqf"
	"windhover/vqf/convert"
)

// Of one thing the program speaks as of one.
func TestCounts(t *testing.T) {
	for got, want := range map[string]string{
		several(1, "block"): "1 block", several(0, "block"): "0 blocks", several(12, "block"): "12 blocks",
		agree(1, "differ"): "differs", agree(2, "differ"): "differ", agree(0, "differ"): "differ",
		heatLine(control.Stats{TempC: 91, RestingCores: 1}): "91 °C, 1 core at rest", heatLine(control.Stats{TempC: 91, RestingCores: 2}): "91 °C, 2 cores at rest",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		exit int
		name string
	}{
		{usageError{nil, errors.New("x")}, exitUsage, "usage"},
		{errors.New(`unknown command "x" for "windhover"`), exitUsage, "usage"},
		{fmt.Errorf("a: %w", convert.ErrOption), exitUsage, "usage"},
		{fmt.Errorf("a: %w", engine.ErrRequest), exitUsage, "usage"},
		{fmt.Errorf("a: %w", appliance.ErrUnreachable), exitUnreachable, "unreachable"},
		{control.Errorf(control.Forbidden, "x"), exitDenied, "forbidden"},
		{shownError{control.Errorf(control.Forbidden, "x")}, exitDenied, "forbidden"},
		{control.Errorf(control.QueueFull, "x"), exitFailed, "queue_full"},
		{fmt.Errorf("a: %w", convert.ErrUnsupported), exitFailed, "unsupported"},
		{fmt.Errorf("a: %w", engine.ErrUnsupported), exitFailed, "incompatible"}, // of a file
		{fmt.Errorf("a: %w", convert.ErrSource), exitFailed, "format_invalid"},
		{fmt.Errorf("a: %w", vqf.ErrFormat), exitFailed, "format_invalid"},
		{fmt.Errorf("a: %w", vqf.ErrChecksum), exitFailed, "digest_mismatch"},
		{&engine.ContextError{Prompt: 1, MaxTokens: 2, Context: 1}, exitFailed, "context_overflow"},
		{fmt.Errorf("a: %w", engine.ErrNoTokenizer), exitFailed, "tokenizer_missing"},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, exitFailed, "not_found"},
		{errors.New("x"), exitFailed, "failed"},
	} {
		if exit, name := classify(c.err); exit != c.exit || name != c.name {
			t.Errorf("%v: exit code %d, %q, want %d, %q", c.err, exit, name, c.exit, c.name)
		}
	}
}

// clock is a time that a test moves.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func TestPlainProgress(t *testing.T) {
	var out bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	update := plainProgress(&out, "converting", inBytes, c.now)
	for _, step := range []struct {
		seconds     int
		done, total int64
	}{{0, 0, 100e6}, {2, 10e6, 100e6}, {3, 25e6, 100e6}, {1, 30e6, 100e6}, {6, 60e6, 100e6}, {9, 5, 0}} {
		c.t = c.t.Add(time.Duration(step.seconds) * time.Second)
		update(step.done, step.total)
	}
	want := "converting: 25 %, 5 MB/s, 15s left\nconverting: 60 %, 5 MB/s, 8s left\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The rate is that of the last half minute; work that stands still has no end.
func TestPlainProgressRate(t *testing.T) {
	var out bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	update := plainProgress(&out, "verifying", inBytes, c.now)
	for i := range 8 { // one megabyte a second, then a hundred
		c.t = c.t.Add(10 * time.Second)
		update(int64(i+1)*10e6+max(0, int64(i-3))*990e6, 10000e6)
	}
	c.t = c.t.Add(time.Minute)
	update(4040e6, 10000e6)
	c.t = c.t.Add(time.Minute)
	update(4040e6, 10000e6)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range map[int]string{0: "verifying: 0 %, 1 MB/s, 2h46m30s left", 7: "verifying: 40 %, 100 MB/s, 1m0s left", 9: "verifying: 40 %, 0 MB/s, ? left"} {
		if len(lines) != 10 || lines[i] != want {
			t.Errorf("line %d of %d: got %q, want %q", i, len(lines), lines[i], want)
		}
	}
}

func TestPlainProgressTokens(t *testing.T) {
	var out bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	update := plainProgress(&out, "calibrating", inTokens, c.now)
	c.t = c.t.Add(10 * time.Second)
	update(5120, 15244)
	if got, want := out.String(), "calibrating: 33 %, 512 tokens/s, 20s left\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMachineProgress(t *testing.T) {
	var out bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	update := machineProgress(&out, c.now)
	for _, step := range []struct{ ms, done int64 }{{0, 1}, {50, 2}, {60, 3}, {10, 9}} {
		c.t = c.t.Add(time.Duration(step.ms) * time.Millisecond)
		update(step.done, 9)
	}
	if got, want := out.String(), "1 9\n3 9\n9 9\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClientName(t *testing.T) {
	for _, c := range []struct{ in, want string }{{"app1", "app1"}, {"DOMAIN\\me", "DOMAIN-me"}, {"a b", "a-b"}} {
		if got := clientName(c.in); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
}

func TestStatusLine(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	s := newStatusLine(&out, func() time.Time { return now })
	s.clear() // nothing was drawn
	s.show("reading memory")
	now = now.Add(50 * time.Millisecond)
	s.show("too soon")
	now = now.Add(60 * time.Millisecond)
	s.show("next")
	s.clear()
	s.clear()
	if got, want := out.String(), "\r\x1b[Kreading memory …\r\x1b[Knext …\r\x1b[K"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
