// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	urls "net/url"
	"strconv"
	"strings"
	"time"

	"windhover/control"
)

// NewClient makes a client that a Fetcher can use: TLS 1.2 or newer, proxies of the
// environment, no compression, no way from https to http. conf may be nil.
func NewClient(conf *tls.Config) *http.Client {
	if conf == nil {
		conf = new(tls.Config)
	}
	conf = conf.Clone()
	conf.MinVersion = max(conf.MinVersion, tls.VersionTLS12)
	dial := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dial.DialContext, TLSClientConfig: conf, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 30 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 1, DisableCompression: true,
		},
		CheckRedirect: checkRedirect,
	}
}

var errRedirect = errors.New("redirected")

func checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > 5:
		return fmt.Errorf("%w more than five times", errRedirect)
	case req.URL.Scheme != "https" && via[0].URL.Scheme == "https":
		return fmt.Errorf("%w from https to %s", errRedirect, req.URL.Scheme)
	}
	return nil
}

// requests are those of one download.
type requests struct {
	f    *Fetcher
	p    *part
	a    Artifact
	pace pace
	tags map[string]string // validator of each source, from its first answer
}

// stretch is the first run of missing blocks that may be asked for now: from first up
// to, without, end.
func (r *requests) stretch() (first, end int) {
	p := r.p
	for first < p.x.Count() && p.rec.has(first) {
		first++
	}
	left := int64(1<<63 - 1)
	if r.a.MaxBytes > 0 {
		left = r.a.MaxBytes - p.spent
	}
	for end = first; end < p.x.Count() && !p.rec.has(end); end++ {
		if left -= int64(p.x.Len(end)); left < 0 && end > first {
			break
		}
	}
	return first, end
}

// send asks one source for one stretch of blocks and takes what comes of it.
func (r *requests) send(ctx context.Context, url string) (err error) {
	first, end := r.stretch()
	if err := r.p.afford(int64(r.p.x.Len(first))); err != nil {
		return err
	}
	from, to := int64(first)*r.p.x.Block, min(int64(end)*r.p.x.Block, r.p.x.Size)
	h := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", from, to-1)}}
	if tag := r.tags[url]; tag != "" {
		h.Set("If-Range", tag)
	}
	return r.f.get(ctx, url, h, func(resp *http.Response, w *watch) error {
		n, err := r.judge(resp, url, from, to)
		if err != nil {
			return err
		}
		if tag := resp.Header.Get("ETag"); strings.HasPrefix(tag, `"`) { // a weak one says nothing about bytes
			r.tags[url] = tag
		}
		return r.take(ctx, url, w, first, n, resp.ContentLength < 0)
	})
}

// get sends a request, waits for the answer no longer than a source may be silent, and
// hands it on.
func (f *Fetcher) get(ctx context.Context, url string, h http.Header, take func(*http.Response, *watch) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watch{stall: f.stall(), minRate: f.minRate(), cancel: cancel}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return control.Errorf(control.DownloadFailed, "%s: %v", name(url), err)
	}
	req.Header = h
	req.Header.Set("User-Agent", "windhover")
	req.Header.Set("Accept-Encoding", "identity")
	silent := time.AfterFunc(w.stall, func() { cancel(w.slow()) })
	resp, err := f.Client.Do(req)
	silent.Stop()
	if err != nil {
		return said(ctx, url, err)
	}
	defer func() { _ = resp.Body.Close() }() // what matters has been read
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return control.Errorf(control.DownloadFailed, "%s: the server sends the file as %q: serve it as it is", name(url), enc)
	}
	w.r = resp.Body
	if err := take(resp, w); err != nil {
		return said(ctx, url, err)
	}
	return nil
}

// said is a failure of a request as its source's: what has a code has been judged,
// anything else is of the network.
func said(ctx context.Context, url string, err error) error {
	var slow transient
	if cause := context.Cause(ctx); cause != nil && errors.As(cause, &slow) {
		return slow
	}
	var coded *control.Error
	var again transient
	var end fatal
	if errors.Is(err, errPause) || errors.As(err, &coded) || errors.As(err, &again) || errors.As(err, &end) {
		return err
	}
	var wrapped *urls.Error // with all of the URL in it
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if errors.Is(err, errRedirect) {
		return control.Errorf(control.DownloadFailed, "%s: %v", name(url), err)
	}
	return transient{err: fmt.Errorf("%s: %w", name(url), err)}
}

// judge says from the head of an answer how many of the bytes asked for come, from the
// first one on.
func (r *requests) judge(resp *http.Response, url string, from, to int64) (n int64, err error) {
	size := r.p.x.Size
	switch resp.StatusCode {
	case http.StatusPartialContent:
		first, last, total, ok := parseContentRange(resp.Header.Get("Content-Range"))
		switch {
		case !ok || first != from || last < first || last >= to || total >= 0 && last >= total:
			return 0, control.Errorf(control.DownloadFailed, "%s: the server answers %q when asked for bytes %d to %d", name(url), resp.Header.Get("Content-Range"), from, to-1)
		case total >= 0 && total != size:
			return 0, wrongSize(url, total, size)
		case resp.ContentLength > last-first+1:
			return 0, wrongSize(url, from+resp.ContentLength, last+1)
		}
		return last - first + 1, nil
	case http.StatusOK:
		switch {
		case resp.Request != nil && resp.Request.Header.Get("If-Range") != "":
			delete(r.tags, url)
			return 0, transient{err: fmt.Errorf("%s: the file was replaced in between", name(url))}
		case resp.ContentLength >= 0 && resp.ContentLength != size:
			return 0, wrongSize(url, resp.ContentLength, size)
		case from != 0 || to != size:
			return 0, control.Errorf(control.DownloadFailed, "%s: the server cannot go on in the middle of a file: use one that serves ranges", name(url))
		}
		return size, nil
	}
	return 0, refusedBy(resp, url, size)
}

// wrongSize is the error of a file that is longer or shorter than it was signed.
func wrongSize(url string, is, want int64) error {
	if is > want {
		return control.Errorf(control.EndlessData, "%s has %d bytes, %d are signed", name(url), is, want)
	}
	return control.Errorf(control.MixAndMatch, "%s has %d bytes, %d are signed: it is another file", name(url), is, want)
}

// refusedBy is the error of an answer without the file.
func refusedBy(resp *http.Response, url string, size int64) error {
	status := resp.StatusCode
	switch {
	case status == http.StatusRequestedRangeNotSatisfiable:
		return control.Errorf(control.MixAndMatch, "%s is shorter than the %d bytes that are signed: it is another file", name(url), size)
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		return transient{fmt.Errorf("%s: the server answers %d", name(url), status), retryAfter(resp.Header.Get("Retry-After"))}
	case status >= 400:
		return control.Errorf(control.SourceGone, "%s: the server answers %d", name(url), status)
	}
	return control.Errorf(control.DownloadFailed, "%s: the server answers %d, which is no file", name(url), status)
}

// retryAfter reads seconds; a date needs a clock that this device may not have.
func retryAfter(s string) time.Duration {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}

// parseContentRange reads "bytes 0-99/1000"; a total of "*" is -1.
func parseContentRange(s string) (first, last, total int64, ok bool) {
	rest, ok := strings.CutPrefix(s, "bytes ")
	span, all, ok2 := strings.Cut(rest, "/")
	a, b, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, 0, false
	}
	first, err1 := strconv.ParseInt(a, 10, 64)
	last, err2 := strconv.ParseInt(b, 10, 64)
	total = -1
	var err3 error
	if all != "*" {
		total, err3 = strconv.ParseInt(all, 10, 64)
	}
	if err1 != nil || err2 != nil || err3 != nil || first < 0 || last < 0 || all != "*" && total < 0 {
		return 0, 0, 0, false
	}
	return first, last, total, true
}
