// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
)

// slowStream is a log that takes a record for each value of take, or an error.
type slowStream struct {
	take chan error
	lines
}

func (s *slowStream) Write(p []byte) (int, error) {
	if err := <-s.take; err != nil {
		return 0, err
	}
	return s.lines.Write(p)
}

// Nobody waits longer than a second for a log that takes nothing, and the first record
// that it takes again says how many are lost.
func TestLogThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStream{take: make(chan error)}
		out, err := NewLogOutput(s, Log{Level: "info"})
		if err != nil {
			t.Fatal(err)
		}
		log := out.Logger()
		go func() { s.take <- nil }()
		log.Info("first")
		begun := time.Now()
		for range 5 {
			log.Info("while it stands still")
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("five records took %v", took)
		}
		s.take <- nil // it goes on with the one that it was given
		synctest.Wait()
		go func() { s.take <- nil; s.take <- nil }()
		log.Info("then")
		got := s.String()
		if n := strings.Count(got, "still"); n != 2 || !strings.Contains(got, "suppressed=4") || !strings.Contains(got, "msg=then") {
			t.Errorf("it has:\n%s", got)
		}
		go func() { s.take <- io.ErrShortWrite }()
		log.Info("on a full disk")
		go func() { s.take <- nil }()
		log.Info("last")
		if !strings.Contains(s.String(), "msg=last") {
			t.Errorf("it has:\n%s", s.String())
		}
	})
}

// Nor for a journal.
func TestJournalThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		u := &unstuck{patience: logPatience}
		send := u.sender(func(string, journal.Priority, map[string]string) error { <-let; return errors.New("gone") })
		begun := time.Now()
		for range 5 {
			if err := send("x", journal.PriInfo, nil); !errors.Is(err, errStuck) {
				t.Errorf("got %v", err)
			}
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("five records took %v", took)
		}
		close(let)
		synctest.Wait()
		if err := send("x", journal.PriInfo, nil); err == nil || errors.Is(err, errStuck) {
			t.Errorf("got %v", err)
		}
	})
}
