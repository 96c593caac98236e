// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// However a file comes, it is never judged early and always served in the end: the
// rows of the table of tools that people use. $1 is the file, $2 its place in the
// drop directory, $3 a directory on the same file system, $4 one on another, $5 a URL,
// $6 how to reach the host "box" over ssh.
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
	{"rsync -a --partial", "rsync", `rsync -a --partial "$1" "$2"`},
	{"rsync --append", "rsync", `head -c 90000 "$1" >"$2" && rsync --append "$1" "$2"`},
	{"rsync over ssh", "sshd", `rsync -t -e "ssh -F $6" "$1" box:"$2"`},
	{"scp", "sshd", `scp -q -F "$6" "$1" box:"$2"`},
	{"scp -O", "sshd", `scp -O -q -F "$6" "$1" box:"$2"`},
	{"scp and mv", "sshd", `scp -q -F "$6" "$1" box:"$(dirname "$2")/.m" && ssh -F "$6" box mv "$(dirname "$2")/.m" "$2"`},
	{"sftp put", "sshd", `printf 'put %s %s\n' "$1" "$2" | sftp -q -F "$6" -b - box >/dev/null`},
	{"curl --limit-rate", "curl", `curl -sS --limit-rate 400k -o "$2" "$5"`},
	{"dd and fsync", "dd", `dd if="$1" of="$2" bs=64k conv=fsync 2>/dev/null`},
	{"cp -l", "cp", `cp "$1" "$3/l" && cp -l "$3/l" "$2"`},
	{"ln of a file that is being written", "ln", `head -c 90000 "$1" >"$3/w" && exec 3>>"$3/w" && ln "$3/w" "$2" && sleep 1 && tail -c +90001 "$1" >&3 && sleep 1 && test ! -e "$2.ready" && test ! -e "$2.failed"`},
	{"a slow writer", "tail", `{ head -c 90000 "$1"; sleep 1; test ! -e "$2.ready" && test ! -e "$2.failed" && tail -c +90001 "$1"; } >"$2"`},
	{"a writer that waits at the end", "cat", `{ cat "$1"; sleep 1; test ! -e "$2.ready" && test ! -e "$2.failed"; } >"$2"`},
	{"curl -o", "curl", `curl -sS -o "$2" "$5"`},
	{"wget -O", "wget", `wget -q -O "$2" "$5"`},
	{"tar", "tar", `mkdir "$3/t" && cp "$1" "$3/t/$(basename "$2")" && tar -C "$3/t" -cf - . | tar -C "$(dirname "$2")" --no-overwrite-dir -xf - && rm -r "$3/t"`},
}

func TestArrivalByTool(t *testing.T) {
	b := startBox(t, nil)
	whole := tinyModel(t, nil)
	src := filepath.Join(t.TempDir(), "m.vqf")
	writeBytes(t, src, whole)
	web := webServer(t, func() []byte { return whole })
	ssh := sshServer(t)
	same, other := b.cfg.Paths.imports(), "/dev/shm"
	for _, tt := range arrivals {
		t.Run(tt.name, func(t *testing.T) {
			need(t, tt.needs)
			if strings.Contains(tt.script, "$4") && !exists(other) {
				t.Skip("no second file system")
			}
			name := strings.NewReplacer(" ", "-", "--", "").Replace(tt.name)
			place := filepath.Join(b.cfg.Paths.drop(), name+".vqf")
			if out, err := exec.Command("sh", "-c", tt.script, "sh", src, place, same, other, web, ssh).CombinedOutput(); err != nil {
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
	t.Run("directory replaced", func(t *testing.T) { // its parent tells
		if err := os.Rename(drop, drop+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(drop, 0o770); err != nil {
			t.Fatal(err)
		}
		writeBytes(t, filepath.Join(drop, "fresh.vqf"), whole)
		b.ready(t, "fresh")
		until(t, "m1 is gone with the directory", func() bool { return modelDigest(t, b, "m1") == "" })
	})
}
