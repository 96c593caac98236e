// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Who is refused while sending reads why, also with "Connection: close", by HTTP/1.0
// and in chunks; and nobody is asked to send what is not wanted.
func TestRefusedWhileSending(t *testing.T) {
	read := 0 // of the body, before the refusal
	srv := httptest.NewServer(Linger(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.CopyN(io.Discard, r.Body, int64(read)); err != nil {
			t.Error(err)
		}
		http.Error(w, "no room", http.StatusInsufficientStorage)
	})))
	defer srv.Close()
	const size = 16 << 20 // more than lies in the buffers of a connection
	mass := make([]byte, size)
	chunks := fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", size, mass)
	for _, c := range []struct {
		name, head string
		body       []byte
	}{
		{"close", fmt.Sprintf("PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", size), mass},
		{"chunked", "PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n", chunks},
		{"old", fmt.Sprintf("PUT / HTTP/1.0\r\nContent-Length: %d\r\n\r\n", size), mass},
		{"kept", fmt.Sprintf("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 1<<18), mass[:1<<18]},
	} {
		for _, read = range []int{0, 1 << 17} {
			conn, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			// A plain client: it reads when it has sent.
			if _, err := conn.Write(append([]byte(c.head), c.body...)); err != nil {
				t.Errorf("%s, %d read: sending: %v", c.name, read, err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != http.StatusInsufficientStorage {
				t.Errorf("%s, %d read: answer %v, %v", c.name, read, resp, err)
			} else if text, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(text, []byte("no room")) {
				t.Errorf("%s, %d read: %q, %v", c.name, read, text, err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}

	read = 0
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "PUT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", size); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 507 ")) || bytes.Contains(answer, []byte("100 Continue")) {
		t.Errorf("waiting to be asked: %q, %v", answer, err)
	}
}
