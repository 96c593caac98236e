// SPDX-License-Identifier: Apache-2.0

package vqf

import "strings"

// Add appends the line of a check that was made elsewhere, such as of a signature
// beside the file. With an error the line fails and says why, and so does the
// report; else it has status StatusOK or StatusNote and says detail.
func (r *VerifyReport) Add(name, status, detail string, err error) {
	if err != nil {
		r.Checks = append(r.Checks, Check{Name: name, Status: StatusFail, Detail: strings.TrimPrefix(err.Error(), "vqf: "+r.Path+": "), err: err})
		return
	}
	r.Checks = append(r.Checks, Check{Name: name, Status: status, Detail: detail})
}
