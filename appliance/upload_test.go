// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"windhover/appliance/web"
	"windhover/control"
	"windhover/engine"
	"windhover/internal/testmodel"
)

// What is received is there whole under its name, or not at all.
func TestReceive(t *testing.T) {
	dir := t.TempDir()
	ctx := context.Background()
	names := func() string {
		t.Helper()
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, e := range list {
			out = append(out, e.Name())
		}
		return strings.Join(out, " ")
	}
	if n, err := receive(ctx, dir, "m.vqf", 7, iotest.OneByteReader(strings.NewReader("weights"))); n != 7 || err != nil {
		t.Fatalf("got %d, %v", n, err)
	}
	if n, err := receive(ctx, dir, "m.vqf", -1, strings.NewReader("others")); n != 6 || err != nil {
		t.Fatalf("in place of another, length not announced: got %d, %v", n, err)
	}
	broken := errors.New("connection reset")
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	for name, tt := range map[string]struct {
		ctx  context.Context
		size int64
		r    io.Reader
		want error
	}{
		"cut off":          {ctx, 10, strings.NewReader("half"), control.BadRequest},
		"broken":           {ctx, 10, io.MultiReader(strings.NewReader("half"), iotest.ErrReader(broken)), broken},
		"canceled":         {canceled, 4, strings.NewReader("half"), context.Canceled},
		"larger than disk": {ctx, 1 << 60, strings.NewReader("half"), control.InsufficientStore},
	} {
		if _, err := receive(tt.ctx, dir, "m.vqf", tt.size, tt.r); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "m.vqf")); string(got) != "others" || err != nil || names() != "m.vqf" {
		t.Errorf("got %q, %v; the directory has %s", got, err, names())
	}
}

// What was received ends where it ends: a model that is shorter than its header says is
// refused with both lengths, announced or not, and the one that is there stays.
func TestReceiveRefusesATornModel(t *testing.T) {
	dir, weights := t.TempDir(), tinyModel(t, nil)
	if n, err := receive(context.Background(), dir, "m.vqf", -1, bytes.NewReader(weights)); n != int64(len(weights)) || err != nil {
		t.Fatalf("whole: got %d, %v", n, err)
	}
	for _, have := range []int{0, 3, 4, headLen - 1, headLen, len(weights) / 2, len(weights) - 1} {
		want := fmt.Sprintf("%d bytes, its header declares %d", have, len(weights))
		if have < headLen {
			want = fmt.Sprintf("%d bytes, the header of a model alone %d", have, headLen)
		}
		for _, size := range []int64{int64(have), -1} {
			_, err := receive(context.Background(), dir, "m.vqf", size, bytes.NewReader(weights[:have]))
			if !errors.Is(err, control.BadRequest) || !strings.Contains(err.Error(), want) {
				t.Errorf("%d of %d bytes, %d announced: got %v", have, len(weights), size, err)
			}
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 || list[0].Name() != "m.vqf" {
		t.Errorf("the directory has %v (%v)", list, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "m.vqf")); !bytes.Equal(got, weights) || err != nil {
		t.Errorf("the model that was there has %d bytes now (%v)", len(got), err)
	}
}

// While it comes it has a name that the scan passes over and a start removes.
func TestReceiveIsHidden(t *testing.T) {
	dir := t.TempDir()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := receive(context.Background(), dir, "m.vqf", -1, r)
		done <- err
	}()
	if _, err := w.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 || !strings.HasPrefix(list[0].Name(), ".") {
		t.Fatalf("the directory has %v (%v)", list, err)
	}
	if err := tidyTemporary(dir); err != nil {
		t.Fatal(err)
	}
	if list, err = os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("a start leaves %v (%v)", list, err)
	}
	if err := w.CloseWithError(io.ErrUnexpectedEOF); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("half a file was taken")
	}
}

// fills takes all room of a disk when it is first read, which another program might do.
type fills struct {
	io.Reader
	do func()
}

func (f *fills) Read(p []byte) (int, error) {
	if f.do != nil {
		f.do()
		f.do = nil
	}
	return f.Reader.Read(p)
}

// A disk that gets full during an upload: the client is told by code and status, nothing
// is left of the file, the model that serves goes on, and with room the upload goes
// through.
func TestUploadOnAFullDisk(t *testing.T) {
	disk := newFlash(t)
	b := startBox(t, func(c *Config) { c.Paths.State = filepath.Join(disk.dir, "state") })
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	b.connected(t) // the broker's store is there; what it does without room is another test's
	weights := tinyModel(t, func(c *testmodel.Config) { c.Seed = 77 })
	filler := filepath.Join(disk.dir, "filler")
	body := &fills{bytes.NewReader(weights), func() {
		f, err := os.Create(filler)
		if err != nil {
			t.Error(err)
			return
		}
		for size := int64(512 << 20); size >= 4096; size /= 2 { // whatever is free, and what gets free by rounding
			for off, err := f.Seek(0, io.SeekEnd); err == nil && unix.Fallocate(int(f.Fd()), 0, off, size) == nil; {
				off, err = f.Seek(0, io.SeekEnd)
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}}
	code, answer := b.ask(t, true, "PUT", "/v1/drop/big.vqf", body)
	if code != control.InsufficientStore.Status || !bytes.Contains(answer, []byte(control.InsufficientStore.Name)) {
		t.Errorf("got %d: %s", code, answer)
	}
	until(t, "nothing of it is left", func() bool { // m's marker is tried again and again, by another name at first
		list, err := os.ReadDir(b.cfg.Paths.drop())
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(list, func(e os.DirEntry) bool { return e.Name() != "m.vqf" && e.Name() != "m.vqf.ready" })
	})
	question := `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`
	if code, answer := b.ask(t, true, "POST", "/v1/chat/completions", strings.NewReader(question)); code != 200 {
		t.Errorf("the model that served: %d: %s", code, answer)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	until(t, "the room is there again", func() bool { return room(b.cfg.Paths.drop(), int64(len(weights))) == nil })
	if code, answer = b.ask(t, true, "PUT", "/v1/drop/big.vqf", bytes.NewReader(weights)); code != 201 {
		t.Errorf("with room: %d: %s", code, answer)
	}
	b.ready(t, "big")
}

func TestHour(t *testing.T) {
	result := func(tokens int, decode time.Duration) *engine.Result {
		return &engine.Result{
			Usage:  engine.Usage{Prompt: 10, Cached: 4, Completion: tokens},
			Timing: engine.Timing{Prefill: time.Second, PrefillTPS: 6, Decode: decode, DecodeTPS: float64(tokens) / decode.Seconds()},
		}
	}
	var h hour
	if got := h.sum(0); got != (web.Hour{}) {
		t.Errorf("of nothing: %+v", got)
	}
	h.add(30*time.Second, result(100, 10*time.Second))
	h.add(10*time.Minute, result(100, 5*time.Second))
	h.add(59*time.Minute, &engine.Result{Usage: engine.Usage{Prompt: 1}}) // nothing measured
	want := web.Hour{Requests: 3, Prompt: 21, Cached: 8, Completion: 200, PrefillTokS: 6, DecodeTokS: 13.3}
	if got := h.sum(59 * time.Minute); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := h.sum(65 * time.Minute); got.Requests != 2 || got.DecodeTokS != 20 {
		t.Errorf("the first is over an hour old: got %+v", got)
	}
	h.add(60*time.Minute, result(1, time.Second)) // takes the place of the first minute
	if got := h.sum(60 * time.Minute); got.Requests != 3 || got.Completion != 101 {
		t.Errorf("got %+v", got)
	}
	if got := h.sum(500 * time.Minute); got != (web.Hour{}) {
		t.Errorf("long after: %+v", got)
	}
}

func TestEventsKept(t *testing.T) {
	var e events
	for range keptEvents + 5 {
		e.add(control.Occurrence{Event: "old"})
	}
	e.add(control.Occurrence{Event: "new"})
	list := e.last()
	if len(list) != keptEvents || list[len(list)-1].Event != "new" || list[0].At.IsZero() {
		t.Errorf("%d events, the last %+v", len(list), list[len(list)-1])
	}
}
