// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// TestPlainMosquittoTools asks with what every Debian has: no JSON, no library.
func TestPlainMosquittoTools(t *testing.T) {
	sub, pub := tool(t, "mosquitto_sub"), tool(t, "mosquitto_pub")
	eachBroker(t, func(t *testing.T, b testBroker) {
		ep := quick(b.url())
		newDevice(t, &fake{}, ep, nil)
		newCaller(t, ep, "you")
		_, port, err := net.SplitHostPort(strings.TrimPrefix(b.url(), "mqtt://"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		// The retained mark shows that the subscription stands. Then come accepted,
		// progress, at least one delta, done.
		listen(t, ep).publish("test/mark", true, "subscribed")
		read := exec.CommandContext(ctx, sub, "-p", port, "-q", "1", "-t", "windhover/v1/edge1/res/me/#", "-t", "test/mark", "-C", "5")
		var out syncBuffer
		read.Stdout = &out
		if err := read.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "mosquitto_sub to be subscribed", func() bool { return strings.Contains(out.String(), "subscribed") })
		if text, err := exec.CommandContext(ctx, pub, "-p", port, "-t", "windhover/v1/edge1/req/me/prompt", "-m", "hi there").CombinedOutput(); err != nil {
			t.Fatalf("mosquitto_pub: %v %s", err, text)
		}
		if err := read.Wait(); err != nil {
			t.Fatalf("mosquitto_sub: %v\n%s", err, out.String())
		}
		for _, want := range []string{`"t":"accepted"`, `"t":"delta"`, `"t":"done"`, `"text":"hi there"`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %s in\n%s", want, out.String())
			}
		}
	})
}

// TestHugePublish_P25 sends 100 MiB to a request topic: refused by its size, the memory of
// the device hardly grows, and the connection stays.
func TestHugePublish_P25(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: moves 100 MiB through a broker")
	}
	m := newMosquitto(t, "allow_anonymous true")
	ep := quick(m.url())
	s := newDevice(t, &fake{}, ep, nil)
	newCaller(t, ep, "you")
	l := listen(t, ep, "windhover/v1/edge1/res/me/#")
	file := filepath.Join(t.TempDir(), "huge")
	chunk := []byte(`{"id":"huge","x":"` + strings.Repeat("y", 1<<20))
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 100 {
		if _, err := f.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	debug.FreeOSMemory()
	before := rss(t)
	if text, err := exec.Command(tool(t, "mosquitto_pub"), "-p", strconv.Itoa(m.port), "-q", "1",
		"-t", "windhover/v1/edge1/req/me/generate", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_pub: %v %s", err, text)
	}
	var ms []mqtt.Message
	eventually(t, "an answer", func() bool {
		ms = l.on("windhover/v1/edge1/res/me/huge")
		return len(ms) > 0
	})
	grown := peakRSS(t) - before
	if r, err := DecodeReply(ms[0].Payload()); err != nil || r.Err == nil || r.Err.Code != PayloadTooLarge {
		t.Errorf("answer %s", ms[0].Payload())
	}
	if c := s.Counters(); c.Reconnects["data"] != 0 {
		t.Error("the connection was lost")
	}
	t.Logf("peak resident memory grew by %d KiB", grown>>10)
	if !raceEnabled && grown > 1<<20 {
		t.Errorf("peak resident memory grew by %d KiB, want less than 1 MiB", grown>>10)
	}
}

// rss returns the resident size now and begins to look for the peak.
func rss(t *testing.T) int64 {
	t.Helper()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("cannot reset the peak of resident memory")
	}
	return procStatus(t, "VmRSS:")
}

// peakRSS returns the highest resident size since rss was called.
func peakRSS(t *testing.T) int64 { t.Helper(); return procStatus(t, "VmHWM:") }

func procStatus(t *testing.T, field string) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("needs /proc")
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatalf("/proc/self/status has no %s", field)
	return 0
}

// TestTLSAndWebSockets_P51 connects over mqtts with a client certificate, and over ws.
func TestTLSAndWebSockets_P51(t *testing.T) {
	dir := t.TempDir()
	certificates(t, dir)
	port, ws := freePort(t), freePort(t)
	newMosquitto(t, "per_listener_settings true",
		fmt.Sprintf("listener %d 127.0.0.1", port), "allow_anonymous true",
		"cafile "+dir+"/ca.pem", "certfile "+dir+"/cert.pem", "keyfile "+dir+"/key.pem", "require_certificate true", "use_identity_as_username true",
		fmt.Sprintf("listener %d 127.0.0.1", ws), "protocol websockets", "allow_anonymous true")
	for name, ep := range map[string]Endpoint{
		"mqtts": {URL: fmt.Sprintf("mqtts://127.0.0.1:%d", port), CAFile: dir + "/ca.pem", CertFile: dir + "/cert.pem", KeyFile: dir + "/key.pem"},
		"ws":    {URL: fmt.Sprintf("ws://127.0.0.1:%d", ws)},
	} {
		t.Run(name, func(t *testing.T) {
			ep.RetryMin, ep.RetryMax, ep.WriteTimeout = 10*time.Millisecond, 100*time.Millisecond, 2*time.Second
			newDevice(t, &fake{}, ep, nil)
			c := newCaller(t, ep, "me")
			r := NewRequest(OpGenerate)
			r.Prompt = strings.Repeat("word ", 2000)
			if a, err := c.Send(t.Context(), r, nil); err != nil || a.Text != r.Prompt {
				t.Errorf("%v", err)
			}
		})
	}
	for name, c := range map[string]struct {
		ep   Endpoint
		want string
	}{
		"no client certificate": {Endpoint{URL: fmt.Sprintf("mqtts://127.0.0.1:%d", port), CAFile: dir + "/ca.pem"}, ""},
		"unknown authority":     {Endpoint{URL: fmt.Sprintf("mqtts://127.0.0.1:%d", port)}, "certificate"},
		"other name":            {Endpoint{URL: fmt.Sprintf("mqtts://localhost:%d", port), CAFile: dir + "/ca.pem"}, "localhost"},
		"missing file":          {Endpoint{URL: fmt.Sprintf("mqtts://127.0.0.1:%d", port), CAFile: dir + "/none"}, "mqtt.ca_file"},
		"empty file":            {Endpoint{URL: fmt.Sprintf("mqtts://127.0.0.1:%d", port), CAFile: os.DevNull}, "mqtt.ca_file"},
		"plain to tls":          {Endpoint{URL: fmt.Sprintf("mqtt://127.0.0.1:%d", port)}, ""},
	} {
		if cl, err := DialClient(t.Context(), ClientConfig{Endpoint: c.ep, Device: "edge1"}); err == nil {
			cl.Close()
			t.Errorf("%s: connected", name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// certificates writes a self-signed one for 127.0.0.1 that is its own authority.
func certificates(t *testing.T, dir string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "edge1"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	kder, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, b := range map[string][]byte{"ca.pem": cert, "cert.pem": cert,
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kder})} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
