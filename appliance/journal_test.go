// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
)

// sent is what a journal was told.
type sent struct {
	message string
	p       journal.Priority
	fields  map[string]string
}

func journalOf(w io.Writer, err error) (*slog.Logger, *[]sent) {
	var list []sent
	return slog.New(newJournalHandler(w, slog.LevelDebug, func(m string, p journal.Priority, f map[string]string) error {
		list = append(list, sent{m, p, f})
		return err
	})), &list
}

func TestJournal_P200(t *testing.T) {
	var rest bytes.Buffer
	log, list := journalOf(&rest, nil)
	log.Info("plain")
	log.With("device", "box").WithGroup("g").With("a", 1).Warn("odd", "n", 2, slog.Group("in", "ner", true))
	log.Error("model refused", "event", "model_failed", "model", "x", "code", "bad_request", "id", "r-1", "sha256", "ab", "for", 1500*time.Millisecond, "error", errors.New("two\nlines"))
	log.Info("strange", "schlüssel=_ö", 1, "", 2)
	log.Info("no event of ours", "event", "sneeze")
	want := []sent{
		{"plain", journal.PriInfo, map[string]string{}},
		{"odd device=box g.a=1 g.n=2 g.in.ner=true", journal.PriWarning,
			map[string]string{"WINDHOVER_DEVICE": "box", "WINDHOVER_G_A": "1", "WINDHOVER_G_N": "2", "WINDHOVER_G_IN_NER": "true"}},
		{`model refused event=model_failed model=x code=bad_request id=r-1 sha256=ab for=1.5s error="two\nlines"`, journal.PriErr,
			map[string]string{"WINDHOVER_EVENT": "model_failed", "MESSAGE_ID": messageIDs["model_failed"], "WINDHOVER_MODEL": "x", "WINDHOVER_CODE": "bad_request",
				"WINDHOVER_REQ": "r-1", "WINDHOVER_DIGEST": "ab", "WINDHOVER_FOR": "1.5s", "WINDHOVER_ERROR": "two\nlines"}},
		{`strange "schlüssel=_ö"=1 ""=2`, journal.PriInfo, map[string]string{"WINDHOVER_SCHL_SSEL___": "1", "WINDHOVER_": "2"}},
		{"no event of ours event=sneeze", journal.PriInfo, map[string]string{"WINDHOVER_EVENT": "sneeze"}},
	}
	for i, w := range want {
		g := (*list)[i]
		if g.message != w.message || g.p != w.p || !maps.Equal(g.fields, w.fields) {
			t.Errorf("got  %q %d %q\nwant %q %d %q", g.message, g.p, g.fields, w.message, w.p, w.fields)
		}
	}
	if rest.Len() > 0 {
		t.Errorf("written beside the journal: %q", rest.String())
	}
	if n := fieldName("WINDHOVER_" + strings.Repeat("x", 99)); len(n) != 64 {
		t.Errorf("a name of %d bytes", len(n))
	}
}

// What the journal does not take goes to the stream, with the priority that it reads.
func TestJournalGone(t *testing.T) {
	var out bytes.Buffer
	log, _ := journalOf(&out, errors.New("no such socket"))
	log.Info("fine", "n", 1)
	log.Warn("odd")
	log.Error("broken", "error", "two\nlines")
	log = log.With("a", 1) // and handlers made of it share the output
	log.Info("again")
	want := "<6>fine n=1\n<4>odd\n<3>broken error=\"two\\nlines\"\n<6>again a=1\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Every event that the protocol names has an id, no two the same, and the man page
// lists them.
func TestMessageIDs_P200(t *testing.T) {
	page := readText(t, "../docs/PROTOCOL.md")
	line := regexp.MustCompile("(?m)^`event.event` is (.*)\\.").FindStringSubmatch(page)
	if line == nil {
		t.Fatal("docs/PROTOCOL.md does not list events")
	}
	var named []string
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(line[1], -1) {
		named = append(named, m[1])
	}
	slices.Sort(named)
	if got := slices.Sorted(maps.Keys(messageIDs)); !slices.Equal(got, named) {
		t.Errorf("ids of %q, events %q", got, named)
	}
	man := readText(t, "../packaging/man/windhover.8")
	used := map[string]string{}
	for event, id := range messageIDs {
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) || used[id] != "" {
			t.Errorf("%s: id %q is malformed or that of %q too", event, id, used[id])
		}
		used[id] = event
		if !strings.Contains(man, fmt.Sprintf("%s Ta %s", event, id)) {
			t.Errorf("windhover.8 does not say that %s is %s", event, id)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
