// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// need skips a test of a tool that is not there, or fails it where all have to be.
func need(t *testing.T, tool string) string {
	t.Helper()
	for _, path := range []string{tool, "/usr/sbin/" + tool} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	if os.Getenv("WINDHOVER_REQUIRE_TOOLS") == "1" {
		t.Fatalf("no %s on this machine, and WINDHOVER_REQUIRE_TOOLS=1", tool)
	}
	t.Skipf("no %s on this machine", tool)
	return ""
}

// webServer serves what data returns, in pieces, and returns its URL.
func webServer(t *testing.T, data func() []byte) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		whole := data()
		for at := 0; at < len(whole); at += 60_000 {
			if _, err := w.Write(whole[at:min(at+60_000, len(whole))]); err != nil {
				return // the client says so
			}
			http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// sshServer runs an sshd with keys of its own and returns the configuration of a
// client that knows it as the host "box"; "" where there is no sshd.
func sshServer(t *testing.T) string {
	t.Helper()
	sshd := "/usr/sbin/sshd" // it wants to be called by its whole path
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil || !exists(sshd) {
		return ""
	}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // where it confines itself
			t.Fatal(err)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, key := range []string{"host", "client"} {
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", at(key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	addr := freePort(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	write(t, at("sshd_config"), fmt.Sprintf("ListenAddress 127.0.0.1\nPort %s\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nSubsystem sftp internal-sftp\nLogLevel ERROR\n", port, at("host"), at("client.pub")))
	write(t, at("ssh_config"), fmt.Sprintf("Host box\n HostName 127.0.0.1\n Port %s\n User %s\n IdentityFile %s\n IdentitiesOnly yes\n StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n BatchMode yes\n", port, me.Username, at("client")))
	cmd := exec.Command(sshd, "-D", "-e", "-f", at("sshd_config"))
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it does not end by itself
		_ = cmd.Wait()
		if t.Failed() {
			t.Log("sshd said:", said.String())
		}
	})
	until(t, "sshd listens", func() bool {
		c, err := net.Dial("tcp", addr)
		return err == nil && c.Close() == nil
	})
	return at("ssh_config")
}
