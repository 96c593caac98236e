// SPDX-License-Identifier: Apache-2.0

package convert

import "time"

// SetCheckpoint lets a test have its journal more often than every few seconds.
func (o *Options) SetCheckpoint(every time.Duration) { o.checkpoint = every }

// ParseImatrix is what ReadImatrix does with an open file.
var ParseImatrix = parseImatrix

// Columns are what is known of the inputs of a matrix.
func (i *Importance) Columns(role string, layer int) []float32 {
	if in := i.of(role, layer); in != nil {
		return in.columns
	}
	return nil
}
