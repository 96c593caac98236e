// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// However a file comes, it is never judged early and always served in the end: the
// rows of the table of tools that people use. $1 is the file, $2 its place in the
// drop directory, $3 a directory on the same file system, $4 one on another, $5 a URL.
var arrivals = []struct{ name, needs, script string }{
	{"cp", "cp", `cp "$1" "$2"`},
	{"cp -p", "cp", `cp -p "$1" "$2"`},
	{"cp over a temporary name", "cp", `cp "$1" "$2.part" && mv "$2.part" "$2"`},
	{"mv on one file system", "mv", `cp "$1" "$3/x" && mv "$3/x" "$2"`},
	{"mv across file systems", "mv", `cp "$1" "$4/windhover-test-x" && mv "$4/windhover-test-x" "$2"`},
	{"ln", "ln", `cp "$1" "$3/y" && ln "$3/y" "$2"`},
	{"install", "install", `install -m 644 "$1" "$2"`},
	{"dd", "dd", `dd if="$1" of="$2" bs=4k 2>/dev/null`},
	{"cat in pieces", "tail", `{ head -c 100000 "$1"; tail -c +100001 "$1"; } >"$2"`},
	{"rsync", "rsync", `rsync -t "$1" "$2"`},
	{"rsync --inplace", "rsync", `rsync -t --inplace "$1" "$2"`},
	{"curl -o", "curl", `curl -sS -o "$2" "$5"`},
	{"wget -O", "wget", `wget -q -O "$2" "$5"`},
	{"tar", "tar", `mkdir "$3/t" && cp "$1" "$3/t/$(basename "$2")" && tar -C "$3/t" -cf - . | tar -C "$(dirname "$2")" --no-overwrite-dir -xf - && rm -r "$3/t"`},
}

func TestArrivalByTool(t *testing.T) {
	b := startBox(t, nil)
	whole := tinyModel(t, nil)
	src := filepath.Join(t.TempDir(), "m.vqf")
	writeBytes(t, src, whole)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for at := 0; at < len(whole); at += 60_000 {
			if _, err := w.Write(whole[at:min(at+60_000, len(whole))]); err != nil {
				return // the client says so
			}
			http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(web.Close)
	same, other := b.cfg.Paths.imports(), "/dev/shm"
	for _, tt := range arrivals {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := exec.LookPath(tt.needs); err != nil {
				t.Skipf("no %s on this machine", tt.needs)
			}
			if strings.Contains(tt.script, "$4") && !exists(other) {
				t.Skip("no second file system")
			}
			name := strings.NewReplacer(" ", "-", "--", "").Replace(tt.name)
			place := filepath.Join(b.cfg.Paths.drop(), name+".vqf")
			if out, err := exec.Command("sh", "-c", tt.script, "sh", src, place, same, other, web.URL).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			b.ready(t, name)
			until(t, "the marker", func() bool { return exists(place + ".ready") })
			doc, _ := readMarker(t, place+".ready")
			if doc.Model != name || exists(place+".failed") {
				t.Errorf("marker %+v", doc)
			}
			if err := os.Remove(place); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A slow writer of any kind is never loaded early and always at the end.
func TestArrivals(t *testing.T) {
	b := startBox(t, nil)
	whole := tinyModel(t, nil)
	drop := b.cfg.Paths.drop()
	arrive := map[string]func(t *testing.T, path string){
		"in pieces": func(t *testing.T, path string) {
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			for at := 0; at < len(whole); at += 50_000 {
				if _, err := f.Write(whole[at:min(at+50_000, len(whole))]); err != nil {
					t.Fatal(err)
				}
				if exists(path + ".ready") {
					t.Fatal("loaded while it was being written")
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"full size first": func(t *testing.T, path string) { // as rsync --inplace and fallocate do
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(int64(len(whole))); err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(whole[:448], 0); err != nil {
				t.Fatal(err)
			}
			b := make(chan struct{})
			time.AfterFunc(time.Second, func() { close(b) }) // several looks of the scanner
			<-b
			if exists(path+".ready") || exists(path+".failed") {
				t.Fatal("judged while it was being written")
			}
			if _, err := f.WriteAt(whole[448:], 448); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"hard link": func(t *testing.T, path string) {
			src := filepath.Join(b.cfg.Paths.State, "elsewhere.vqf")
			writeBytes(t, src, whole)
			if err := os.Link(src, path); err != nil {
				t.Fatal(err)
			}
		},
		"rename": func(t *testing.T, path string) {
			src := filepath.Join(b.cfg.Paths.State, "moved.vqf")
			writeBytes(t, src, whole)
			if err := os.Rename(src, path); err != nil {
				t.Fatal(err)
			}
		},
	}
	n := 0
	for name, how := range arrive {
		n++
		path := filepath.Join(drop, fmt.Sprintf("m%d.vqf", n))
		t.Run(name, func(t *testing.T) {
			how(t, path)
			b.ready(t, strings.TrimSuffix(filepath.Base(path), ".vqf"))
		})
	}
	t.Run("directory replaced", func(t *testing.T) {
		if err := os.Rename(drop, drop+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(drop, 0o770); err != nil {
			t.Fatal(err)
		}
		writeBytes(t, filepath.Join(drop, "fresh.vqf"), whole)
		// The rescan finds what the lost watch does not tell of; asked for here
		// instead of waiting a minute.
		b.reload(t)
		b.ready(t, "fresh")
	})
}
