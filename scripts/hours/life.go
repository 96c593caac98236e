// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// life is what goes on beside the daemon, and what is known of it.
type life struct {
	inputs  string
	start   time.Time // with the monotonic clock
	began   time.Time // the same on the true clock
	off     time.Duration
	devices []*device
	works   *device // who may give commands
	server  *http.Server
	pid     string

	answered, refused, failed atomic.Int64
	mu                        sync.Mutex
	counts                    map[string]int    // by what was done
	texts                     map[string]string // what was answered, by model and question
	least                     *row              // of the looks in this hour
}

func newLife(inputs string) (*life, error) {
	l := &life{inputs: inputs, start: time.Now(), began: time.Now().Round(0), counts: map[string]int{}, texts: map[string]string{}}
	for _, name := range []string{"kiosk", "panel", "gate", "lamp"} {
		l.devices = append(l.devices, newDevice(name))
	}
	l.works = newDevice("works", "reported", "status", "model/+")
	l.server = serveReleases(inputs)
	pid, err := shown("MainPID")
	l.pid = pid
	return l, err
}

func (l *life) end() {
	_ = l.server.Close() // nothing is fetched any more
	for _, d := range append(l.devices, l.works) {
		d.mq.Disconnect(250)
	}
}

// until waits for a minute since the start.
func (l *life) until(minute int) {
	time.Sleep(time.Until(l.start.Add(time.Duration(minute) * time.Minute)))
}

// now is the true time, whatever the clock of the box says.
func (l *life) now() time.Time { return l.began.Add(time.Since(l.start)) }

// set makes the clock of the box differ from the true time.
func (l *life) set(off time.Duration) error {
	at := unix.NsecToTimespec(l.now().Add(off).UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &at); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	l.off = off
	return nil
}

// tell counts what happened, and says so where it should not have.
func (l *life) tell(what string, err error) {
	l.mu.Lock()
	l.counts[what]++
	l.mu.Unlock()
	if err != nil {
		l.failed.Add(1)
		fmt.Printf("FAILED  %s at %s, clock off by %v: %v\n", what, l.age(), l.off, err)
	}
}

func (l *life) age() string {
	m := int(time.Since(l.start).Minutes())
	return fmt.Sprintf("%d:%02d", m/60, m%60)
}

// kinds lists how often what was done.
func (l *life) kinds() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for _, k := range slices.Sorted(maps.Keys(l.counts)) {
		list = append(list, fmt.Sprintf("%s %d", k, l.counts[k]))
	}
	return strings.Join(list, ", ")
}

// answer wants a request to end in one of these ways.
func (l *life) answer(what string, r reply, err error, finish ...string) {
	switch {
	case err != nil:
	case r.T != "done":
		err = fmt.Errorf("%s: %s: %s", r.ID, r.Error.Code, r.Error.Message)
	case len(finish) > 0 && !slices.Contains(finish, r.Finish):
		err = fmt.Errorf("%s: it ends by %q, not %v", r.ID, r.Finish, finish)
	default:
		l.answered.Add(1)
	}
	l.tell(what, err)
}

// refusal wants a request, or a command, to be refused so.
func (l *life) refusal(what string, r reply, err error, code string) {
	switch {
	case err != nil:
	case r.Error.Code != code:
		err = fmt.Errorf("%s: %q %q instead of %s", r.ID, r.T+r.Status, r.Error.Code, code)
	default:
		l.refused.Add(1)
	}
	l.tell(what, err)
}

// same wants an answer to be the one that this question had before.
func (l *life) same(question, text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, ok := l.texts[question]
	if !ok {
		l.texts[question] = text
	} else if text != before {
		return fmt.Errorf("%s: %q, and before %q", question, text, before)
	}
	return nil
}

// within waits until something holds.
func within(limit time.Duration, what string, holds func() bool) error {
	for end := time.Now().Add(limit); !holds(); time.Sleep(time.Second) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", limit, what)
		}
	}
	return nil
}

// command runs a program, and tells what it said if it fails.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// shown is a property of the unit.
func shown(property string) (string, error) {
	out, err := exec.Command("systemctl", "show", "windhover", "-p", property, "--value").Output()
	return strings.TrimSpace(string(out)), err
}
