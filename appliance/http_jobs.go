// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"windhover/control"
)

// JobRequest is what POST /v1/jobs on the local socket takes: a command, as it would
// come over MQTT. Who can open the socket may give any.
type JobRequest struct {
	Type   string          `json:"type"`
	Client string          `json:"client"`
	ID     string          `json:"id"`
	Params json.RawMessage `json:"params"`
}

// maxJobRequest bounds it in bytes.
const maxJobRequest = 128 << 10

// jobError is the answer to one that has no record.
type jobError struct {
	Error *control.Error `json:"error"`
}

// submitJobs answers POST /v1/jobs with the record of the job.
func submitJobs(submit func(client, typ, id string, params []byte) (control.JobRecord, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var j JobRequest
		data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJobRequest))
		if err == nil {
			err = json.Unmarshal(data, &j)
		}
		if err != nil {
			refuseJob(w, control.Errorf(control.BadRequest, "the command is not what it should be: %v", err))
			return
		}
		if len(j.Params) == 0 {
			j.Params = json.RawMessage("{}")
		}
		rec, err := submit(j.Client, j.Type, j.ID, j.Params)
		if err != nil {
			refuseJob(w, coded(err, control.Internal))
			return
		}
		respondJSON(w, rec)
	}
}

func refuseJob(w http.ResponseWriter, e *control.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code.Status)
	_ = json.NewEncoder(w).Encode(jobError{e}) // whoever is gone cannot be told
}

// errNoRecord says that a job went while it was followed.
var errNoRecord = errors.New("the appliance no longer knows the job")
