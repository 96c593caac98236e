// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"windhover/appliance/disk"
	"windhover/appliance/fetch"
	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

const (
	block    = 4096
	incoming = "/state/incoming"
	stored   = "/state/store/new"
	old      = "/state/store/old"
)

// file is what is downloaded: twelve blocks and a piece; blocks 2 and 7 are equal.
var file = func() []byte {
	b := make([]byte, 12*block+100)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	copy(b[7*block:8*block], b[2*block:3*block])
	return b
}()

func index(t testing.TB, content []byte) *ota.Index {
	t.Helper()
	x, err := ota.BuildIndex(context.Background(), bytes.NewReader(content), int64(len(content)), block, nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// origin is a web server without a network: it is asked and answers in the goroutine of
// whoever asks.
type origin struct {
	content  []byte
	tag      string
	requests []string // ranges asked for
	served   int64    // bytes that were read
	// answer changes an answer; nil: none
	answer func(n int, req *http.Request, resp *http.Response) error
	// read is called before bytes of an answer are read; an error ends it
	read func(ctx context.Context) error
	step int // bytes a read; 0: as many as asked for
}

func (o *origin) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	o.requests = append(o.requests, req.Header.Get("Range"))
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: req, ContentLength: int64(len(o.content))}
	body := o.content
	if o.tag != "" {
		resp.Header.Set("ETag", o.tag)
	}
	if r, ok := strings.CutPrefix(req.Header.Get("Range"), "bytes="); ok && (req.Header.Get("If-Range") == "" || req.Header.Get("If-Range") == o.tag) {
		a, b, _ := strings.Cut(r, "-")
		first, err1 := strconv.Atoi(a)
		last, err2 := strconv.Atoi(b)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if first >= len(body) {
			resp.StatusCode, body = http.StatusRequestedRangeNotSatisfiable, nil
		} else {
			last = min(last, len(body)-1)
			resp.StatusCode = http.StatusPartialContent
			resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, len(body)))
			body = body[first : last+1]
		}
		resp.ContentLength = int64(len(body))
	}
	resp.Body = io.NopCloser(&answer{o, bytes.NewReader(body), req.Context()})
	if o.answer != nil {
		if err := o.answer(len(o.requests), req, resp); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// answer is a body that counts what is read of it.
type answer struct {
	o   *origin
	r   io.Reader
	ctx context.Context
}

func (a *answer) Read(p []byte) (int, error) {
	if a.o.read != nil {
		if err := a.o.read(a.ctx); err != nil {
			return 0, err
		}
	}
	if a.o.step > 0 {
		p = p[:min(len(p), a.o.step)]
	}
	n, err := a.r.Read(p)
	a.o.served += int64(n)
	return n, err
}

// wait is what a slow source does.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// status makes every answer one without the file.
func status(code int, header ...string) func(int, *http.Request, *http.Response) error {
	return func(_ int, _ *http.Request, resp *http.Response) error {
		resp.StatusCode, resp.ContentLength, resp.Body = code, 0, http.NoBody
		for i := 0; i+1 < len(header); i += 2 {
			resp.Header.Set(header[i], header[i+1])
		}
		return nil
	}
}

// hosts are several web servers, by host name.
type hosts map[string]*origin

func (h hosts) RoundTrip(req *http.Request) (*http.Response, error) {
	o := h[req.URL.Host]
	if o == nil {
		return nil, errors.New("no such host")
	}
	return o.RoundTrip(req)
}

func newFetcher(d disk.FS, t http.RoundTripper) *fetch.Fetcher {
	return &fetch.Fetcher{Disk: d, Dir: incoming, Client: &http.Client{Transport: t}, Reserve: 1000, Checkpoint: 3 * block, Attempts: 4}
}

func artifact(t testing.TB, hosts ...string) fetch.Artifact {
	a := fetch.Artifact{Index: index(t, file)}
	for _, h := range hosts {
		a.URLs = append(a.URLs, "https://"+h+"/m.vqf?token=secret")
	}
	return a
}

func wantCode(t *testing.T, err error, code control.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("got %v, want %s", err, code.Name)
	}
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the error tells a secret: %v", err)
	}
}

// wantFile holds that the file is whole and nothing else is in the directory than what
// a download has.
func wantFile(t *testing.T, d *testdisk.Disk, res fetch.Result, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(d.Get(res.Path), file) {
		t.Fatal("the file is another one")
	}
	if m := d.Mode(res.Path); m != 0o440 {
		t.Errorf("mode %o", m)
	}
}
