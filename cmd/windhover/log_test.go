// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"windhover/internal/testmodel"
)

// life is a daemon of this program, with all that it writes.
type life struct {
	*exec.Cmd
	dir, http, mqtt string

	mu  sync.Mutex // guards what follows
	out bytes.Buffer
}

func (l *life) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *life) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// await waits for a word in what the daemon writes.
func (l *life) await(t *testing.T, word string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(l.said(), word) {
		if time.Now().After(deadline) {
			t.Fatalf("serve never says %q:\n%s", word, l.said())
		}
		<-tick.C
	}
}

// startLife runs windhover serve with stdout and stderr in one place.
func startLife(t *testing.T, config string, args ...string) *life {
	t.Helper()
	program, err := exec.LookPath("windhover")
	if err != nil {
		t.Fatal(err)
	}
	l := &life{dir: t.TempDir()}
	for _, at := range []*string{&l.http, &l.mqtt} {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		*at = "127.0.0.1:" + port
	}
	file := filepath.Join(l.dir, "config.toml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Cmd = exec.Command(program, append([]string{"serve", "--config", file}, args...)...)
	l.Env = append(os.Environ(), "WINDHOVER_DEVICE=box1", "WINDHOVER_PATHS_STATE="+filepath.Join(l.dir, "state"), "WINDHOVER_HTTP_LISTEN="+l.http,
		"WINDHOVER_MQTT_EMBEDDED_LISTEN="+l.mqtt, "WINDHOVER_ENGINE_THREADS=1", "WINDHOVER_ENGINE_PIN=false")
	l.Stdout, l.Stderr = l, l
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Process.Kill() }) // it has ended, unless the test failed
	return l
}

// lines checks that each line that a daemon wrote is an object with time, level and
// msg, each once, and returns the levels by message.
func lines(t *testing.T, said string) map[string]string {
	t.Helper()
	levels := map[string]string{}
	for line := range strings.Lines(said) {
		var doc struct {
			Time  time.Time `json:"time"`
			Level string    `json:"level"`
			Msg   string    `json:"msg"`
		}
		if err := json.Unmarshal([]byte(line), &doc); err != nil || doc.Time.IsZero() || doc.Level == "" || doc.Msg == "" {
			t.Errorf("no record: %v: %q", err, line)
			continue
		}
		for _, key := range []string{`"time":`, `"level":`, `"msg":`} {
			if n := strings.Count(line, ","+key) + strings.Count(line, "{"+key); n != 1 {
				t.Errorf("%s stands %d times in %q", key, n, line)
			}
		}
		levels[doc.Msg] = doc.Level
	}
	return levels
}

// A whole life of a daemon, with broken callers, a reload and a stop, is JSON.
func TestLogOfALifeIsJSON(t *testing.T) {
	l := startLife(t, "[log]\nlevel = \"warn\"\n", "--log-format", "json", "--log-level", "info")
	l.await(t, "windhover starts")
	l.await(t, `"link":"data"`)
	// Callers that speak no HTTP and no MQTT: net/http and the broker complain of some.
	for _, at := range []string{l.http, l.mqtt} {
		for _, text := range []string{"\x16\x03\x01\x02\x00\x01", "GET / HTTP/1.1\r\nHost: \x1b[2J\r\n\r\n", "\x10\x0c\x00\x04MQTT\x09\x02\x00\x3c\x00\x00", "\x00\xff\xff\xff\xff\n"} {
			c, err := net.Dial("tcp", at)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprint(c, text); err != nil {
				t.Log(err) // it was quick to close
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := http.Get("http://" + l.http + "/v1/%1b%5b2J%0ax?q=%00"); err != nil {
		t.Error(err)
	}
	m := testmodel.Default()
	tmp := filepath.Join(l.dir, "state", "drop", ".m.part")
	if err := m.WriteFile(tmp); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(l.dir, "state", "drop", "m.vqf")); err != nil {
		t.Fatal(err)
	}
	// A name in the drop directory is anybody's choice.
	if err := os.WriteFile(filepath.Join(l.dir, "state", "drop", "evil\n\x1b[31m\xff\u202e.vqf"), []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.await(t, "model ready")
	l.await(t, "model refused")
	// The level comes from the flag, and what the file says of the rest counts at once.
	if err := os.WriteFile(filepath.Join(l.dir, "config.toml"), []byte("[log]\nlevel = \"warn\"\nburst = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	l.await(t, "log.burst")
	if err := l.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(); err != nil {
		t.Error(err)
	}
	levels := lines(t, l.said())
	for msg, want := range map[string]string{"windhover starts": "INFO", "model ready": "INFO", "model refused": "ERROR", "windhover stopped": "INFO"} {
		if levels[msg] != want {
			t.Errorf("%q is %q, want %q", msg, levels[msg], want)
		}
	}
	if said := l.said(); strings.ContainsAny(said, "\x1b\u202e") || !utf8.ValidString(said) {
		t.Errorf("a name reaches the terminal: %q", said)
	}
}

// A level that the file has is taken over with SIGHUP, both ways.
func TestLogLevelByReload(t *testing.T) {
	l := startLife(t, "[log]\nformat = \"json\"\nlevel = \"error\"\n")
	set := func(level string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(l.dir, "config.toml"), []byte("[log]\nformat = \"json\"\nlevel = \""+level+"\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	up := func() {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
			if resp, err := http.Get("http://" + l.http + "/healthz"); err == nil {
				_ = resp.Body.Close() // nothing is read
				return
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	up()
	if got := l.said(); got != "" {
		t.Errorf("at error a good start says %q", got)
	}
	set("debug")
	l.await(t, "log.level")
	up()
	l.await(t, "http request")
	if err := l.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(); err != nil {
		t.Error(err)
	}
	if levels := lines(t, l.said()); levels["http request"] != "DEBUG" {
		t.Errorf("levels %q", levels)
	}
}

// A start that fails says why in the format that was asked for, wherever that was.
func TestLogOfAFailedStart(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		args   []string
		want   string
		people bool
	}{
		"flag":      {"", []string{"--log-format", "json", "--log-level", "loud"}, "loud", false},
		"unknown":   {"", []string{"--log-format", "json", "--loud"}, "unknown flag", false},
		"file":      {"[log]\nformat = \"json\"\n[http]\nlisten = 7\n", nil, "http.listen", false},
		"nonsense":  {"[log]\nformat = \"json\"\nlevel = \"loud\"\n", nil, "log.level", false},
		"text":      {"[log]\nlevel = \"loud\"\n", nil, "windhover: ", true},
		"no format": {"", []string{"--log-format", "xml"}, "windhover: ", true},
		"argument":  {"[log]\nformat = \"json\"\n", []string{"more"}, "argument", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLife(t, c.config, c.args...)
			var exit *exec.ExitError
			if err := l.Wait(); !errors.As(err, &exit) {
				t.Fatalf("it starts: %v", err)
			}
			said := l.said()
			if strings.Count(said, "\n") != 1 || !strings.Contains(said, c.want) {
				t.Errorf("said %q", said)
			}
			if c.people {
				return
			}
			if levels := lines(t, said); levels["windhover cannot go on"] != "ERROR" {
				t.Errorf("levels %q", levels)
			}
		})
	}
}

// Where standard error is the journal's stream and the journal takes nothing else, each
// record is one line with its priority in front.
func TestLogToTheJournalsStream(t *testing.T) {
	if _, err := os.Stat("/run/systemd/journal/socket"); err == nil {
		t.Skip("this machine has a journal, which takes the records: scripts/boot-test looks at them there")
	}
	program, err := exec.LookPath("windhover")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }() // it is read by its name
	info, err := stream.Stat()
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	cmd := exec.Command(program, "serve", "--config", "", "--log-level", "loud")
	cmd.Stderr = stream
	cmd.Env = append(os.Environ(), fmt.Sprintf("JOURNAL_STREAM=%d:%d", st.Dev, st.Ino), "WINDHOVER_PATHS_STATE="+t.TempDir())
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		t.Fatalf("it starts: %v", err)
	}
	said, err := os.ReadFile(stream.Name())
	if err != nil {
		t.Fatal(err)
	}
	if got := string(said); !strings.HasPrefix(got, "<3>windhover cannot go on error=") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}
