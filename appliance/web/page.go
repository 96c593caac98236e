// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"windhover/control"
)

//go:embed assets/page.html assets/page.css assets/page.js
var files embed.FS

// shown is how many jobs and events the page has.
const shown = 8

// page is the page and, as "panel" in it, the part that changes by itself.
var pages = template.Must(template.New("page.html").Funcs(template.FuncMap{
	"bytes": byteCount, "span": span, "share": share, "tokS": tokS, "count": count, "several": several, "facts": facts,
	"clock": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}).ParseFS(files, "assets/page.html"))

// policy lets the page load its own script and style and ask its own box; nothing
// written into it runs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// screen is what the templates show.
type screen struct {
	Locked bool // no token yet: nothing of the box is shown
	View
	At       time.Time
	Serving  []control.Model // that answer, the default first
	Used     int64           // bytes of memory
	Wrong    []string        // what somebody has to do something about
	Jobs     []job           // newest first
	Events   []control.Occurrence
	MaxImage int // bytes
}

// job is a record and what a bar shows of it.
type job struct {
	control.JobRecord
	Open bool
	Pct  int // -1: not known
}

// Where is which box this is, as far as it is known.
func (s screen) Where() string {
	if s.Board == "" || s.Board == noBoard {
		return s.Device + " · version " + s.Version
	}
	return s.Device + " · " + s.Board + " · version " + s.Version
}

// noBoard is the name of a board that gives none.
const noBoard = "unknown"

func (h *handler) screen() screen {
	s := screen{View: h.box.View(), At: h.opt.Now(), MaxImage: maxBody / 4 * 3 * 9 / 10}
	for _, m := range s.Models {
		if m.State == ready {
			s.Serving = append(s.Serving, m)
		}
	}
	slices.SortStableFunc(s.Serving, func(a, b control.Model) int {
		return cmp.Compare(rank(a), rank(b))
	})
	s.Used = max(0, s.RAMBytes-s.Stats.MemAvailable)
	s.Wrong = wrong(&s.View)
	for _, r := range slices.Backward(s.View.Jobs) {
		if len(s.Jobs) == shown {
			break
		}
		j := job{JobRecord: r, Open: !r.Final(), Pct: -1}
		if r.Progress.Total > 0 {
			j.Pct = r.Progress.Pct
		}
		s.Jobs = append(s.Jobs, j)
	}
	s.Events = nil
	for _, e := range slices.Backward(s.View.Events) {
		if len(s.Events) == shown {
			break
		}
		s.Events = append(s.Events, e)
	}
	return s
}

// lowDisk is what the alert about a full disk (packaging/examples) fires below, too.
const lowDisk = 512 << 20

// wrong is what is not as it should be, and what to do about it.
func wrong(v *View) (list []string) {
	if !v.Connected {
		list = append(list, "No broker: "+v.MQTT+". Over MQTT nobody is answered.")
	}
	if v.Stats.Throttled {
		list = append(list, "The CPU is slowed down because of heat.")
	}
	if n := v.Stats.RestingCores; n > 0 {
		list = append(list, several(n, "core")+" at rest so that the machine does not shut down. Cool it.")
	}
	if v.Stats.DiskFree < lowDisk {
		list = append(list, byteCount(v.Stats.DiskFree)+" are free where models are stored. Remove models that nobody asks.")
	}
	for _, m := range v.Models {
		if m.Error != nil {
			list = append(list, "Model "+m.Name+" does not serve as it should: see below.")
		}
	}
	return list
}

func rank(m control.Model) int {
	if m.Default {
		return 0
	}
	return 1
}

func (h *handler) page(w http.ResponseWriter, _ *http.Request) { show(w, "page.html", h.screen()) }

// panel is the part of the page that the script asks for again and again.
func (h *handler) panel(w http.ResponseWriter, _ *http.Request) { show(w, "panel", h.screen()) }

// locked is the page for who has shown no token: it asks for one. It is served as if
// all were well, since a browser shows nothing of use with a 401 that it cannot answer.
func locked(w http.ResponseWriter) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	show(w, "page.html", screen{Locked: true, MaxImage: maxBody / 4 * 3 * 9 / 10})
}

func show(w http.ResponseWriter, name string, s screen) {
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, s); err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // a client that is gone misses nothing
}

// assets serves script and style, and not the template.
func assets() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := map[string]string{"/assets/page.css": "text/css; charset=utf-8", "/assets/page.js": "text/javascript; charset=utf-8"}[r.URL.Path]
		if kind == "" {
			http.NotFound(w, r)
			return
		}
		data, err := files.ReadFile(r.URL.Path[1:])
		if err != nil {
			writeError(w, err)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache") // a new version has new ones
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data)
	})
}

// facts is what is known of a model, in a line.
func facts(m control.Model) string {
	list := []string{m.Arch, m.Mode}
	if m.Bytes > 0 {
		list = append(list, byteCount(m.Bytes))
	}
	if m.Context > 0 {
		list = append(list, count(m.Context)+" tokens of context")
	}
	if list = append(list, m.Residency); m.Pictures != nil {
		list = append(list, "sees pictures")
	}
	if m.Trust != "" {
		list = append(list, "trust: "+m.Trust)
	}
	return strings.Join(slices.DeleteFunc(list, func(s string) bool { return s == "" }), " · ")
}

// byteCount is 1.2 GiB for 1288490188.
func byteCount(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	default:
		return fmt.Sprintf("%d KiB", n>>10)
	}
}

// span is "2 d 3 h" for a number of seconds.
func span(s int64) string {
	switch {
	case s >= 86400:
		return fmt.Sprintf("%d d %d h", s/86400, s%86400/3600)
	case s >= 3600:
		return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
	case s >= 60:
		return fmt.Sprintf("%d min", s/60)
	default:
		return fmt.Sprintf("%d s", s)
	}
}

// share is a part of a whole in percent, 0 where there is no whole.
func share(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return part * 100 / whole
}

// tokS is a speed, "–" where nothing was measured.
func tokS(v float64) string {
	if v <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", v)
}

// several is "1 answer", "2 answers".
func several(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// count is a number with narrow spaces between thousands, where no line ends.
func count(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}
