// SPDX-License-Identifier: Apache-2.0

package convert

// Importance says how much the inputs of a model's matrices matter: for each
// role and layer the mean square of what each column is multiplied with.
type Importance struct {
	columns map[string][][]float32 // by role and layer; nil where it is not known
}

// weights are those of the columns of a matrix, nil when all are alike.
func (i *Importance) weights(role string, layer int) []float32 {
	if i == nil || layer >= len(i.columns[role]) {
		return nil
	}
	return i.columns[role][layer]
}
