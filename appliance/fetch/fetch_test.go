// SPDX-License-Identifier: Apache-2.0

package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"windhover/control"
	"windhover/control/ota"
	"windhover/internal/testdisk"
)

func TestFetch(t *testing.T) {
	d, o := &testdisk.Disk{}, &origin{content: file, tag: `"1"`}
	f := newFetcher(d, o)
	var told []int64
	f.Progress = func(done, total int64) { told = append(told, done) }
	a := artifact(t, "cdn")
	res, err := f.Fetch(t.Context(), a)
	wantFile(t, d, res, err)
	if want := []string{"bytes=0-49251"}; !slices.Equal(o.requests, want) {
		t.Errorf("asked for %q, want %q", o.requests, want)
	}
	if res.Network != int64(len(file)) || res.Reused != 0 || !slices.IsSorted(told) || told[len(told)-1] != int64(len(file)) {
		t.Errorf("%d bytes over the network, %d reused, progress %v", res.Network, res.Reused, told)
	}
	// Again: nothing is asked for.
	o.requests = nil
	if res, err = f.Fetch(t.Context(), a); res.Network != 0 || len(o.requests) != 0 {
		t.Errorf("the second time: %d bytes, %q", res.Network, o.requests)
	}
	wantFile(t, d, res, err)
	if err := f.Stage(a.Index.SHA256, stored); err != nil {
		t.Fatal(err)
	}
	if got := d.Names(); !slices.Equal(got, []string{stored}) || !bytes.Equal(d.Get(stored), file) {
		t.Errorf("after Stage: %v", got)
	}
	// After a cut it may be asked for again, also when something has the name.
	if err := f.Stage(a.Index.SHA256, stored); err != nil {
		t.Errorf("staged twice: %v", err)
	}
	if res, err = f.Fetch(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := f.Stage(a.Index.SHA256, stored); err != nil || len(d.Names()) != 1 {
		t.Errorf("staged over itself: %v, %v", err, d.Names())
	}
	if err := f.Stage(a.Index.SHA256, "/state/store/none"); err == nil {
		t.Error("nothing was staged without an error")
	}
}

// What came before the context ended is not downloaded again, and blocks of installed
// files are never.
func TestResumeAndReuse_P160(t *testing.T) {
	d := &testdisk.Disk{}
	before := slices.Clone(file[:9*block+50]) // a shorter version, of which two blocks are others
	before[3*block]++
	before[5*block+7]++
	d.Put(old, before, 0o440)
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("the daemon stops")
	o := &origin{content: file}
	f := newFetcher(d, o)
	f.Progress = func(done, total int64) {
		if done > 9*block { // eight whole blocks are reused; the second one that comes ends it
			stop(why)
		}
	}
	a := artifact(t, "cdn")
	a.Installed = []string{"/state/store/none", old}
	res, err := f.Fetch(ctx, a)
	if !errors.Is(err, why) {
		t.Fatalf("stopped: %v", err)
	}
	if res.Reused != 7*block {
		t.Errorf("%d bytes reused, want %d", res.Reused, 7*block)
	}
	d.Restart(testdisk.Everything, 0) // a power cut after it ended in order costs nothing
	f.Progress = nil
	again, err := f.Fetch(t.Context(), a)
	wantFile(t, d, again, err)
	if sum, want := res.Network+again.Network, int64(len(file)-7*block); sum > want+block {
		t.Errorf("%d bytes over the network, want %d", sum, want)
	}
	if !bytes.Equal(d.Get(old), before) {
		t.Error("the installed file was changed")
	}
}

// What a source does, and the code that it gets when there is no other one. With
// another one the file comes.
func TestSources_P158(t *testing.T) {
	cut := func(n int, _ *http.Request, resp *http.Response) error {
		resp.Body = io.NopCloser(io.LimitReader(resp.Body, 1000))
		return nil
	}
	longer := append(slices.Clone(file), "more"...)
	changed := slices.Clone(file)
	changed[0]++
	for _, c := range []struct {
		name string
		o    origin
		want control.Code
	}{
		{"404", origin{answer: status(404)}, control.SourceGone},
		{"403", origin{answer: status(403)}, control.SourceGone},
		{"410", origin{answer: status(410)}, control.SourceGone},
		{"500", origin{answer: status(500)}, control.DownloadFailed},
		{"503 with a pause", origin{answer: status(503, "Retry-After", "120")}, control.DownloadFailed},
		{"408", origin{answer: status(408)}, control.DownloadFailed},
		{"429", origin{answer: status(429, "Retry-After", "Sun, 29 Nov 2026 12:00:00 GMT")}, control.DownloadFailed},
		{"204", origin{answer: status(204)}, control.DownloadFailed},
		{"no connection", origin{answer: func(int, *http.Request, *http.Response) error { return errors.New("connection refused") }}, control.DownloadFailed},
		{"truncated in the middle of a block", origin{content: file, answer: cut}, control.DownloadFailed},
		{"truncated file", origin{content: file[:len(file)-1]}, control.MixAndMatch},
		{"empty file", origin{}, control.MixAndMatch},
		{"endless by its length", origin{content: longer}, control.EndlessData},
		{"endless without a length", origin{content: longer, answer: func(_ int, _ *http.Request, resp *http.Response) error {
			resp.StatusCode, resp.ContentLength = http.StatusOK, -1
			resp.Header.Del("Content-Range")
			resp.Body = io.NopCloser(bytes.NewReader(longer))
			return nil
		}}, control.EndlessData},
		{"endless range", origin{content: file, answer: func(_ int, _ *http.Request, resp *http.Response) error {
			resp.ContentLength++
			return nil
		}}, control.EndlessData},
		{"endless range without a length", origin{content: file, answer: func(_ int, _ *http.Request, resp *http.Response) error {
			resp.ContentLength = -1
			resp.Body = io.NopCloser(io.MultiReader(resp.Body, bytes.NewReader(longer)))
			return nil
		}}, control.EndlessData},
		{"another file", origin{content: changed}, control.DigestMismatch},
		{"silent before the answer", origin{content: file, answer: func(_ int, req *http.Request, _ *http.Response) error {
			return wait(req.Context(), time.Hour)
		}}, control.SlowRetrieval},
		{"silent in the middle", origin{content: file, step: 100, read: func(ctx context.Context) error { return wait(ctx, time.Hour) }}, control.SlowRetrieval},
		{"a byte now and then", origin{content: file, step: 1, read: func(ctx context.Context) error { return wait(ctx, time.Second) }}, control.SlowRetrieval},
		{"another range", origin{content: file, answer: func(_ int, _ *http.Request, resp *http.Response) error {
			resp.Header.Set("Content-Range", "bytes 1-4096/49252")
			return nil
		}}, control.DownloadFailed},
		{"less than a block", origin{content: file, answer: func(_ int, _ *http.Request, resp *http.Response) error {
			resp.Header.Set("Content-Range", "bytes 0-99/49252")
			resp.ContentLength = 100
			return nil
		}}, control.DownloadFailed},
		{"compressed", origin{content: file, answer: func(_ int, _ *http.Request, resp *http.Response) error {
			resp.Header.Set("Content-Encoding", "gzip")
			return nil
		}}, control.DownloadFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &testdisk.Disk{}
				d.Put(old, []byte("serves"), 0o440)
				bad := c.o
				_, err := newFetcher(d, &bad).Fetch(t.Context(), artifact(t, "bad"))
				wantCode(t, err, c.want)
				if bad.served > int64(len(file)) {
					t.Errorf("%d bytes were read of it", bad.served)
				}
				if string(d.Get(old)) != "serves" {
					t.Error("what serves was touched")
				}
				bad, good := c.o, origin{content: file}
				res, err := newFetcher(d, hosts{"bad": &bad, "good": &good}).Fetch(t.Context(), artifact(t, "bad", "good"))
				wantFile(t, d, res, err)
			})
		})
	}
}

// A file that is replaced while it is downloaded: the rest of the old one cannot be
// had, and bytes of the new one are not taken for it.
func TestChangedInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, o := &testdisk.Disk{}, &origin{content: file, tag: `"1"`}
		changed := slices.Clone(file)
		changed[10*block]++
		o.answer = func(n int, _ *http.Request, resp *http.Response) error {
			if n == 1 {
				resp.Body = io.NopCloser(io.LimitReader(resp.Body, 4*block))
				o.content, o.tag = changed, `"2"`
			}
			return nil
		}
		f := newFetcher(d, o)
		_, err := f.Fetch(t.Context(), artifact(t, "cdn"))
		wantCode(t, err, control.DigestMismatch)
		// It was only copied anew: another validator, the same bytes.
		o.content, o.requests, o.tag = file, nil, `"3"`
		o.answer = func(n int, _ *http.Request, resp *http.Response) error {
			if n == 1 {
				resp.Body = io.NopCloser(io.LimitReader(resp.Body, block))
				o.tag = `"4"`
			}
			return nil
		}
		res, err := f.Fetch(t.Context(), artifact(t, "cdn"))
		wantFile(t, d, res, err)
	})
}

// A server without ranges can serve a whole file, and nobody's bytes are used up by
// beginning it again and again.
func TestNoRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{content: file}
		o.answer = func(n int, req *http.Request, resp *http.Response) error {
			resp.StatusCode, resp.ContentLength = http.StatusOK, int64(len(file))
			resp.Body = io.NopCloser(&answer{o, bytes.NewReader(file), req.Context()})
			return nil
		}
		d := &testdisk.Disk{}
		res, err := newFetcher(d, o).Fetch(t.Context(), artifact(t, "cdn"))
		wantFile(t, d, res, err)
		// With one block there it would have to begin again.
		d = &testdisk.Disk{}
		d.Put(old, file[:block], 0o440)
		o.served = 0
		a := artifact(t, "cdn")
		a.Installed = []string{old}
		_, err = newFetcher(d, o).Fetch(t.Context(), a)
		wantCode(t, err, control.DownloadFailed)
		if o.served > 0 {
			t.Errorf("%d bytes were read", o.served)
		}
	})
}

// The disk gives back other bytes than were written: the block is fetched again.
func TestDamagedPart_P157(t *testing.T) {
	d, o := &testdisk.Disk{}, &origin{content: file}
	f := newFetcher(d, o)
	a := artifact(t, "cdn")
	res, err := f.Fetch(t.Context(), a)
	wantFile(t, d, res, err)
	damaged := d.Get(res.Path)
	damaged[4*block]++
	d.Put(res.Path, damaged, 0o440)
	res, err = f.Fetch(t.Context(), a)
	wantFile(t, d, res, err)
	if res.Network != block {
		t.Errorf("%d bytes were fetched again", res.Network)
	}
	// Its record is lost: what is there tells.
	for _, record := range [][]byte{nil, []byte("{"), []byte(`{"v":1,"size":1}`)} {
		path := res.Path[:len(res.Path)-len(".part")] + ".json"
		if record == nil {
			if err := d.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			d.Put(path, record, 0o600)
		}
		if res, err = f.Fetch(t.Context(), a); res.Network != 0 {
			t.Errorf("record %q: %d bytes were fetched again", record, res.Network)
		}
		wantFile(t, d, res, err)
	}
}

// An index whose blocks do not make up its whole.
func TestIndexOfNothing(t *testing.T) {
	d, o := &testdisk.Disk{}, &origin{content: file}
	a := artifact(t, "cdn")
	a.Index.SHA256[0]++
	_, err := newFetcher(d, o).Fetch(t.Context(), a)
	wantCode(t, err, control.MixAndMatch)
	if len(d.Names()) != 0 {
		t.Errorf("it left %v", d.Names())
	}
}

// A record of a later program stays as it is.
func TestLaterRecord(t *testing.T) {
	d, o := &testdisk.Disk{}, &origin{content: file}
	a := artifact(t, "cdn")
	path, later := incoming+"/"+a.Index.SHA256.String()+".json", []byte(`{"v":2,"pieces":[]}`)
	d.Put(path, later, 0o600)
	_, err := newFetcher(d, o).Fetch(t.Context(), a)
	wantCode(t, err, control.Incompatible)
	if !bytes.Equal(d.Get(path), later) || len(d.Names()) != 1 {
		t.Errorf("%s, %v", d.Get(path), d.Names())
	}
}

// No room: nothing is begun. What was taken before counts.
func TestRoom(t *testing.T) {
	d, o := &testdisk.Disk{Capacity: int64(len(file)) + 500}, &origin{content: file}
	_, err := newFetcher(d, o).Fetch(t.Context(), artifact(t, "cdn"))
	wantCode(t, err, control.InsufficientStore)
	var e *control.Error
	if !errors.As(err, &e) || e.Needed != int64(len(file))+1000 || e.Available != int64(len(file))+500 {
		t.Errorf("needed and available: %+v", e)
	}
	if !strings.Contains(e.Message, "that stay free") { // a person sees how little the file itself is
		t.Errorf("said: %s", e.Message)
	}
	if len(o.requests) != 0 {
		t.Error("something was downloaded")
	}
}

func TestTidy(t *testing.T) {
	d := &testdisk.Disk{}
	a := artifact(t, "cdn")
	keep := a.Index.SHA256.String()
	for _, n := range []string{keep + ".part", keep + ".json", "other.part", "other.json", ".windhover-x.tmp", keep} {
		d.Put(incoming+"/"+n, nil, 0o600)
	}
	if err := newFetcher(d, nil).Tidy(func(sum string) bool { return sum == keep }); err != nil {
		t.Fatal(err)
	}
	if got := d.Names(); !slices.Equal(got, []string{incoming + "/" + keep + ".json", incoming + "/" + keep + ".part"}) {
		t.Errorf("left: %v", got)
	}
}

func TestDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		get := func(o *origin, limit int64) ([]byte, error) {
			return newFetcher(&testdisk.Disk{}, o).Document(t.Context(), []string{"https://cdn/index"}, limit)
		}
		if data, err := get(&origin{content: file}, int64(len(file))); err != nil || !bytes.Equal(data, file) {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		if data, err := get(&origin{}, 10); err != nil || data == nil {
			t.Errorf("an empty one: %v, %v", data, err)
		}
		_, err := get(&origin{content: file}, 100)
		wantCode(t, err, control.EndlessData)
		_, err = get(&origin{content: file, answer: func(_ int, _ *http.Request, resp *http.Response) error { resp.ContentLength = -1; return nil }}, 100)
		wantCode(t, err, control.EndlessData)
		_, err = get(&origin{answer: status(404)}, 100)
		wantCode(t, err, control.SourceGone)
		_, err = get(&origin{answer: status(502)}, 100)
		wantCode(t, err, control.DownloadFailed)
		_, err = get(&origin{content: file, step: 1, read: func(ctx context.Context) error { return wait(ctx, time.Second) }}, 1<<20)
		wantCode(t, err, control.SlowRetrieval)
		if _, err = newFetcher(&testdisk.Disk{}, nil).Document(t.Context(), nil, 1); !errors.Is(err, control.SourceGone) {
			t.Errorf("no source: %v", err)
		}
	})
}

// sumOf is the digest of the file of these tests.
func sumOf(t testing.TB) ota.Digest { return index(t, file).SHA256 }
