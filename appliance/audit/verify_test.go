// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"windhover/appliance/audit"
	"windhover/internal/testdisk"
)

func goexit() { runtime.Goexit() }

func file(name string, data []byte) audit.File {
	return audit.File{Name: name, ReaderAt: bytes.NewReader(data), Size: int64(len(data))}
}

// chainOf is a chain of so many requests between start and stop, and its last place.
func chainOf(t testing.TB, n int) ([]byte, audit.Place) {
	t.Helper()
	d := new(testdisk.Disk)
	l := begin(d)
	for i := range n {
		l.Append(request(i))
	}
	if err := l.Close(t.Context(), audit.Record{Kind: audit.KindStop}); err != nil {
		t.Fatal(err)
	}
	return d.Get(path), l.State().Synced
}

// Verify names the first line that was tampered with, and a cut tail if somebody has kept
// the end.
func TestTampering(t *testing.T) {
	text, last := chainOf(t, 6)
	lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	join := func(lines ...[]byte) []byte { return bytes.Join(lines, nil) }
	swapped := join(lines[0], lines[2], lines[1], join(lines[3:]...), []byte("\n"))
	for _, tt := range []struct {
		name   string
		text   []byte
		expect []audit.Place
		line   int // 0: the chain holds
		says   string
	}{
		{"nothing", text, []audit.Place{last}, 0, ""},
		{"a changed name", bytes.Replace(text, []byte(`"id":"r1"`), []byte(`"id":"r7"`), 1), nil, 4, "does not follow"},
		{"a removed line", join(lines[0], join(lines[2:]...), []byte("\n")), nil, 2, "record 3 follows on record 1"},
		{"a doubled line", join(lines[0], lines[0], join(lines[1:]...)), nil, 2, "record 1 follows on record 1"},
		{"two lines swapped", swapped, nil, 2, "record 3 follows on record 1"},
		{"no beginning", join(lines[2:]...), nil, 0, ""},
		{"a cut tail, and nobody knows", join(lines[:5]...), nil, 0, ""},
		{"a cut tail", join(lines[:5]...), []audit.Place{last}, 0, "ends with record 5"},
		{"another end", bytes.Replace(text, []byte(`"kind":"stop"`), []byte(`"kind":"sTop"`), 1), []audit.Place{last}, 0, "another record"},
		{"an expected record before the files", join(lines[2:]...), []audit.Place{{Seq: 1}}, 0, "begin with record 3"},
		{"half a line", text[:len(text)-9], nil, 0, ""},
		{"half a line, and the whole one is known", text[:len(text)-9], []audit.Place{last}, 0, "ends with record 7"},
		{"zeros", append(bytes.Clone(text), 0, 0, '\n'), nil, 9, "does not go on"},
		{"a line without end", append(bytes.Clone(text), bytes.Repeat([]byte("x"), 1<<20)...), nil, 9, "more than"},
		{"nothing at all", nil, nil, 1, "no record"},
		{"another kind of file", []byte("drop table\n"), nil, 1, "does not go on"},
		{"a wrong beginning", bytes.Replace(lines[0], []byte(`"prev":"00`), []byte(`"prev":"10`), 1), nil, 1, "does not follow"},
		{"numbers with a sign", bytes.Replace(lines[0], []byte(`"seq":1`), []byte(`"seq":+1`), 1), nil, 1, "seq"},
		{"a field twice", bytes.Replace(lines[0], []byte(`"kind":"start"`), []byte(`"kind":"start","seq":7`), 1), nil, 1, "not written as"},
		{"a field of others", bytes.Replace(lines[0], []byte(`"kind":"start"`), []byte(`"kind":"start","prompt":"x"`), 1), nil, 1, "unknown field"},
		{"capitals", bytes.Replace(text, []byte(`"prev":"`+fmt.Sprintf("%x", sha256.Sum256(lines[0][:len(lines[0])-1]))), []byte(`"prev":"`+fmt.Sprintf("%X", sha256.Sum256(lines[0][:len(lines[0])-1]))), 1), nil, 2, "prev"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := verify(t, []audit.File{file("f", tt.text)}, tt.expect...)
			if r.OK != (tt.line == 0 && tt.says == "") || (r.Err() == nil) != r.OK {
				t.Fatalf("ok %v, %v", r.OK, r.Err())
			}
			if tt.line > 0 && (r.Broken == nil || r.Broken.Line != tt.line || r.Broken.File != "f") {
				t.Errorf("broken at %+v, want line %d", r.Broken, tt.line)
			}
			if !r.OK && !strings.Contains(r.Err().Error(), tt.says) {
				t.Errorf("%v, want it to say %q", r.Err(), tt.says)
			}
		})
	}
	// An end without a start, and a start without an end.
	if r := verify(t, []audit.File{file("f", join(lines[2:]...))}); r.First != 3 || r.Unclean != 0 {
		t.Errorf("%+v", r)
	}
	d := new(testdisk.Disk)
	d.Put(path, join(lines[:7]...), 0o640)
	write(t, d, 1)
	if r := hold(t, d); r.Unclean != 1 || r.Starts != 2 {
		t.Errorf("%+v", r)
	}
}

func TestParsePlace(t *testing.T) {
	_, last := chainOf(t, 1)
	if got, err := audit.ParsePlace(last.String()); err != nil || got != last {
		t.Errorf("%v, %v", got, err)
	}
	sum := strings.Repeat("a", 64)
	for _, bad := range []string{"", "1", "1:", "0:" + sum, "-1:" + sum, "1:" + sum[1:], "1:" + sum + "0", "1:" + strings.Repeat("g", 64), "18446744073709551615:" + sum} {
		if p, err := audit.ParsePlace(bad); err == nil {
			t.Errorf("%q is %v", bad, p)
		}
	}
}

// Whatever a file holds, it is read to an end; what is good is good by the description.
func FuzzVerify(f *testing.F) {
	text, last := chainOf(f, 3)
	f.Add(text, uint64(0), byte(0))
	f.Add(text, last.Seq, byte(1))
	f.Add([]byte("{\"v\":1,\"seq\":1\n\n"), uint64(1), byte(9))
	f.Fuzz(func(t *testing.T, data []byte, at uint64, change byte) {
		r := verify(t, []audit.File{file("f", data)})
		if r.OK && r.First == 1 {
			if lines := chained(t, data[:int64(len(data))-r.Unfinished]); len(lines) != int(r.Records) {
				t.Errorf("%d records, %d lines", r.Records, len(lines))
			}
		}
		// No byte of a chain can be another one where its end is known.
		changed := bytes.Clone(text)
		if changed[at%uint64(len(text))] ^= change; change == 0 {
			return
		}
		if r := verify(t, []audit.File{file("f", changed)}, last); r.OK {
			t.Errorf("byte %d may be changed by %#x", at%uint64(len(text)), change)
		}
	})
}
