// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"windhover/control"
)

// followEvery is how often the record of a job is asked for.
const followEvery = 200 * time.Millisecond

// LocalJob gives a command to the running appliance through the local socket and
// follows its record to the end. on, which may be nil, is told each record. The error
// of a job that did not succeed is its *control.Error, beside its record.
func LocalJob(ctx context.Context, cfg Config, j JobRequest, on func(*control.JobRecord)) (*control.JobRecord, error) {
	rec, err := postJob(ctx, cfg, j)
	if err != nil {
		return nil, err
	}
	look := time.NewTicker(followEvery)
	defer look.Stop()
	for version := 0; ; {
		if rec.Version != version && on != nil {
			on(rec)
		}
		version = rec.Version
		if rec.Final() {
			if rec.Error != nil {
				return rec, rec.Error
			}
			return rec, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return rec, ctx.Err()
		}
		jobs, err := LocalJobs(ctx, cfg)
		if err != nil {
			return rec, err
		}
		found := false
		for i := range jobs {
			if jobs[i].ID == rec.ID && jobs[i].Client == rec.Client {
				rec, found = &jobs[i], true
			}
		}
		if !found {
			return rec, errNoRecord
		}
	}
}

func postJob(ctx context.Context, cfg Config, j JobRequest) (*control.JobRecord, error) {
	body, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client := localClient(cfg)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://windhover/v1/jobs", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, unreachable(cfg, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read to its end
	if resp.StatusCode != http.StatusOK {
		var refused jobError
		if err := json.NewDecoder(resp.Body).Decode(&refused); err != nil || refused.Error == nil {
			return nil, control.Errorf(control.Internal, "socket %s: %s", cfg.Paths.Socket, resp.Status)
		}
		return nil, refused.Error
	}
	rec := new(control.JobRecord)
	return rec, json.NewDecoder(resp.Body).Decode(rec)
}
