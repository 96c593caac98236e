// SPDX-License-Identifier: Apache-2.0

package update

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// What chronyd 4.3 answers to sequence 0x01020304: before it follows anything, and when
// it follows its own clock.
const (
	chronyWaits   = "0602000000210005000000000000000001020304000000000000000000000000000000000000000000000000000000000000000000000003000000000000000000000000000000000000000000000000000000000000000000000000048000000480000000000000"
	chronyFollows = "060200000021000500000000000000000102030400000000000000007f7f01010000000000000000000000000000000000000000000a0000000000006b0da7b305ca8977000000000000000000000000000000000000000000000000000000000000000000000000"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fakeChrony answers each request with what say makes of it.
func fakeChrony(t *testing.T, say func(req []byte) []byte) *chrony {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if rep := say(buf[:n]); rep != nil {
				_, _ = conn.WriteTo(rep, from) // who asked waits no longer than he has to
			}
		}
	}()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return &chrony{addr: conn.LocalAddr().String()}
}

// A clock is believed as soon as chronyd follows a source, and from then on; not by what
// is no answer to the question.
func TestChrony(t *testing.T) {
	waits, follows := unhex(t, chronyWaits), unhex(t, chronyFollows)
	answer := func(to string, change func(rep []byte) []byte) func([]byte) []byte {
		return func(req []byte) []byte {
			rep := unhex(t, to)
			copy(rep[16:20], req[8:12])
			return change(rep)
		}
	}
	as := func(rep []byte) []byte { return rep }
	set := func(at int, b byte) func([]byte) []byte {
		return func(rep []byte) []byte { rep[at] = b; return rep }
	}
	for _, c := range []struct {
		name string
		say  func(req []byte) []byte
		want bool
	}{
		{"follows", answer(chronyFollows, as), true},
		{"a leap second comes", answer(chronyFollows, set(55, 2)), true},
		{"waits", answer(chronyWaits, as), false},
		{"another leap", answer(chronyFollows, set(55, 4)), false},
		{"refuses", answer(chronyFollows, set(9, 2)), false},
		{"another version", answer(chronyFollows, set(0, 7)), false},
		{"a request", answer(chronyFollows, set(1, 1)), false},
		{"another command", answer(chronyFollows, set(5, 34)), false},
		{"another kind", answer(chronyFollows, set(7, 1)), false},
		{"cut", answer(chronyFollows, func(rep []byte) []byte { return rep[:55] }), false},
		{"to another question", func([]byte) []byte { return follows }, false},
		{"silent", func([]byte) []byte { return nil }, false},
		{"an echo", func(req []byte) []byte { return bytes.Clone(req) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			questions := make(chan []byte, 1)
			ch := fakeChrony(t, func(req []byte) []byte { questions <- bytes.Clone(req); return c.say(req) })
			if got := ch.hasSet(); got != c.want {
				t.Errorf("got %v", got)
			}
			// chronyd answers nothing that is longer than the question.
			asked := <-questions
			if len(asked) < len(waits) || asked[0] != 6 || asked[1] != 1 || asked[5] != 33 {
				t.Errorf("asked %x", asked)
			}
		})
	}
	var n atomic.Int32
	ch := fakeChrony(t, func(req []byte) []byte {
		return answer([]string{chronyWaits, chronyFollows, chronyWaits}[min(n.Add(1), 3)-1], as)(req)
	})
	if first, second, third := ch.hasSet(), ch.hasSet(), ch.hasSet(); first || !second || !third || n.Load() != 2 {
		t.Errorf("%v %v %v after %d questions", first, second, third, n.Load())
	}
	nobody := &chrony{addr: "127.0.0.1:1"}
	begun := time.Now()
	if nobody.hasSet() || time.Since(begun) > time.Minute {
		t.Error("nobody there, and it is believed, or waited for")
	}
}

// The real one says the same.
func TestChronyItself(t *testing.T) {
	path, err := exec.LookPath("chronyd")
	if err != nil {
		t.Skip("no chronyd: install chrony, whose directory /usr/sbin has to be in PATH")
	}
	for _, follows := range []bool{false, true} {
		l, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.LocalAddr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(addr)
		dir := t.TempDir()
		conf := fmt.Sprintf("port 0\ncmdport %s\nbindcmdaddress 127.0.0.1\nbindcmdaddress /\npidfile %s\n", port, filepath.Join(dir, "pid"))
		if follows {
			conf += "local stratum 10\n"
		}
		file := filepath.Join(dir, "chrony.conf")
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		cmd := exec.CommandContext(t.Context(), path, "-x", "-d", "-U", "-u", "root", "-f", file) // -x: it leaves the clock alone
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		up := false
		for end := time.Now().Add(20 * time.Second); !up && time.Now().Before(end); {
			c, err := net.Dial("udp", addr)
			if err != nil {
				t.Fatal(err)
			}
			req := make([]byte, chronySize)
			req[0], req[1], req[5] = chronyVersion, chronyRequest, chronyTracking
			_, _ = c.Write(req)
			_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			_, err = c.Read(make([]byte, chronySize))
			up = err == nil
			_ = c.Close()
		}
		ch := &chrony{addr: addr}
		got := ch.hasSet()
		_ = cmd.Process.Kill() // it has nothing to lose
		_ = cmd.Wait()
		if !up || got != follows {
			t.Errorf("answers %v, follows %v: want %v; it says:\n%s", up, got, follows, said.String())
		}
	}
}
