// SPDX-License-Identifier: Apache-2.0

package web

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// lingerTime is how long what a refused client still sends is read.
const lingerTime = 2 * time.Second

// Linger stands before next and reads, for a while, what a client still sends when it
// has been answered. Closed at once, the connection would be reset, and many clients
// then tell of a broken pipe and not of the answer (RFC 9112, 9.6). The server of
// net/http does so itself but for clients that asked for "Connection: close".
func Linger(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !r.Close || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		body := &watchedBody{ReadCloser: r.Body, asked: r.Header.Get("Expect") == ""}
		inner := *r // the server looks at the body of its own
		inner.Body = body
		next.ServeHTTP(w, &inner)
		if body.ended || !body.asked {
			return
		}
		rc := http.NewResponseController(w)
		if rc.Flush() != nil || rc.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // until the client has done, or the time is over
	})
}

// watchedBody knows whether a body came to its end, and whether it was asked for: one
// with "Expect: 100-continue" comes when it is read first.
type watchedBody struct {
	io.ReadCloser
	ended, asked bool
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	b.asked = true
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}
