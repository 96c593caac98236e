// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"

	"windhover/control"
)

// ErrUnreachable is wrapped by errors of clients that found nobody at the other end.
var ErrUnreachable = errors.New("unreachable")

// LocalStatus asks the running appliance for its state through the local socket.
func LocalStatus(ctx context.Context, cfg Config) (StatusDoc, error) {
	var doc StatusDoc
	err := localGet(ctx, cfg, "/v1/status", &doc)
	return doc, err
}

// LocalJobs asks the running appliance for its job records.
func LocalJobs(ctx context.Context, cfg Config) ([]control.JobRecord, error) {
	var jobs []control.JobRecord
	err := localGet(ctx, cfg, "/v1/jobs", &jobs)
	return jobs, err
}

func localGet(ctx context.Context, cfg Config, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := localClient(cfg)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://windhover"+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return unreachable(cfg, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read to its end
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("socket %s: %s: %s", cfg.Paths.Socket, path, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// localClient speaks HTTP on the local socket.
func localClient(cfg Config) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialSocket(ctx, cfg.Paths.Socket)
	}}}
}

// unreachable says why nobody answers there.
func unreachable(cfg Config, err error) error {
	socket := cfg.Paths.Socket
	if errors.Is(err, fs.ErrPermission) {
		return control.Errorf(control.Forbidden, "socket %s: this user may not open it: use sudo, or join the group windhover", socket)
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) { // the rest names the socket once more
		err = op.Err
	}
	return fmt.Errorf("%w: no appliance answers on %s: start it (systemctl start windhover), or set WINDHOVER_PATHS_STATE to its state directory: %v", ErrUnreachable, socket, err)
}
