// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
)

// Door says who may come in by a TCP port.
type Door struct {
	TokenFile string   // holds the bearer token that is asked for; "": none is
	Hosts     []string // names of this machine besides localhost and addresses
}

// tokenShown is the key of a request's context that holds whether it came with the token.
type tokenShown struct{}

// ShowedToken says whether the request that ctx is of has shown the token of its port.
func ShowedToken(ctx context.Context) bool { return ctx.Value(tokenShown{}) != nil }

// Guard stands before next, with the door of the moment for each request. With a token file it asks for the bearer token in it,
// which is read at each request, so that a new one needs no restart; the page comes
// without one, empty, and asks the person for it. Without a token file the Host of a
// request has to be an address or a name of this machine: a page of another site
// whose name was pointed here (DNS rebinding) is refused. Without one, which is how
// probes of load balancers ask in HTTP/1.0, it is no page of any site.
func Guard(door func() Door, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, looks := door(), r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case d.TokenFile == "" && !d.knows(r.Host) && (r.Host != "" || r.ProtoAtLeast(1, 1)): // HTTP/1.0 has none, and no browser speaks it
			writeError(w, forbidden("host %.100q is no name of this box: use its address, localhost or its name, or add the name to http.hosts", r.Host))
		case d.TokenFile == "":
			next.ServeHTTP(w, r)
		case d.admits(r.Header.Get("Authorization")):
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tokenShown{}, true)))
		case looks && r.URL.Path == "/":
			locked(w)
		case looks && strings.HasPrefix(r.URL.Path, "/assets/"):
			assets().ServeHTTP(w, r)
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, unauthorized())
		}
	})
}

// admits compares digests, so that neither the content nor the length of the token
// shows in the time that it takes.
func (d Door) admits(authorization string) bool {
	want, err := os.ReadFile(d.TokenFile)
	token := strings.TrimSpace(string(want))
	scheme, got, _ := strings.Cut(authorization, " ")
	if err != nil || token == "" || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// knows says whether a Host header names this machine in a way that no other site can
// make point here.
func (d Door) knows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	if net.ParseIP(name) != nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	return name != "" && slices.ContainsFunc(d.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}
