// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"

	"windhover/control"
)

// take reads n bytes of blocks from first on, each of which is held against its digest
// before it is written. A part of a block at the end is left; the next request asks
// for it. open says that the answer did not tell how long it is.
func (r *requests) take(ctx context.Context, url string, body io.Reader, first int, n int64, open bool) error {
	p := r.p
	buf := make([]byte, p.x.Block)
	came := false
	for i := first; i < p.x.Count() && n >= int64(p.x.Len(i)); i++ {
		if r.f.closed(r.a) {
			return errPause
		}
		b := buf[:p.x.Len(i)]
		if err := p.afford(int64(len(b))); err != nil {
			return err
		}
		if err := r.read(ctx, body, b); err != nil {
			return err
		}
		if sum := sha256.Sum256(b); sum != p.x.Hash(i) {
			return control.Errorf(control.DigestMismatch, "%s: block %d is not the one that was signed", name(url), i)
		}
		if _, err := p.put(p.x.Hash(i), b); err != nil {
			return fatal{err}
		}
		if err := p.settle(r.ahead()); err != nil {
			return fatal{err}
		}
		n -= int64(len(b))
		came = true
	}
	if !came {
		return control.Errorf(control.DownloadFailed, "%s: the server answers with less than one block", name(url))
	}
	if n > 0 || !open {
		return nil
	}
	if extra, _ := io.ReadFull(body, buf[:1]); extra > 0 {
		return control.Errorf(control.EndlessData, "%s goes on after the last byte that was asked for", name(url))
	}
	return nil
}

// ahead is what a checkpoint puts down as spent beside what is.
func (r *requests) ahead() int64 {
	if r.a.MaxBytes == 0 {
		return 0
	}
	return min(r.f.checkpoint(), r.a.MaxBytes-r.p.spent)
}

// read fills b, no faster than it may, and counts what comes.
func (r *requests) read(ctx context.Context, body io.Reader, b []byte) error {
	for got := 0; got < len(b); {
		n, err := body.Read(b[got:min(len(b), got+r.pace.chunk())])
		got += n
		r.p.network += int64(n)
		r.p.spent += int64(n)
		if err != nil && got < len(b) {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return transient{err: fmt.Errorf("cut off after %d bytes of a block: %w", got, err)}
		}
		if err := r.pace.took(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// Document downloads a small file, such as a block index, whose digest its caller
// checks. It has at most limit bytes.
func (f *Fetcher) Document(ctx context.Context, urls []string, limit int64) ([]byte, error) {
	s := &sources{f: f, urls: urls}
	if len(urls) == 0 {
		return nil, control.Errorf(control.SourceGone, "the document has no source")
	}
	var data []byte
	for data == nil {
		err := s.ask(ctx, func(ctx context.Context, url string) (bool, error) {
			return false, f.get(ctx, url, http.Header{}, func(resp *http.Response, w *watch) error {
				if resp.StatusCode != http.StatusOK {
					return refusedBy(resp, url, limit)
				}
				if resp.ContentLength > limit {
					return wrongSize(url, resp.ContentLength, limit)
				}
				var b bytes.Buffer
				n, err := io.Copy(&b, io.LimitReader(w, limit+1))
				switch {
				case err != nil:
					return transient{err: fmt.Errorf("%s: %w", name(url), err)}
				case n > limit:
					return wrongSize(url, n, limit)
				}
				data = append([]byte{}, b.Bytes()...)
				return nil
			})
		})
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}
