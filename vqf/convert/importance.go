// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"windhover/kernels"
)

// Importance says what the inputs of a model's matrices are like, so that
// errors of weights can be weighed by what they do to the outputs. It comes
// from a text that the model read ([NewImportance]), or from a file of
// llama.cpp ([ReadImatrix]). One conversion may use it.
type Importance struct {
	From string // what it was made from, for the report

	parts map[string][]*inputs // by role, then by layer; nil where nothing is known
}

// inputs are those of one matrix.
type inputs struct {
	// columns are mean squares, or numbers in proportion to them. Where a
	// stack of experts has more of them than columns, each expert has its own.
	columns []float32
	moments *kernels.Moments // until prepare
	// feedback is set if there were products that could be factored.
	feedback *kernels.Feedback
	once     sync.Once // roles share inputs
}

// NewImportance makes an empty one; from is for the report.
func NewImportance(from string) *Importance {
	return &Importance{From: from, parts: map[string][]*inputs{}}
}

// AddMoments says what the matrices of some roles (docs/FORMAT.md section 5.1,
// without prefix) are fed with in a layer. It takes m over.
func (i *Importance) AddMoments(roles []string, layer int, m *kernels.Moments) {
	in := &inputs{columns: m.Square, moments: m}
	for _, r := range roles {
		i.put(r, layer, in)
	}
}

// put reports whether the place was free.
func (i *Importance) put(role string, layer int, in *inputs) bool {
	list := i.parts[role]
	for len(list) <= layer {
		list = append(list, nil)
	}
	i.parts[role] = list
	if list[layer] != nil {
		return false
	}
	list[layer] = in
	return true
}

// of returns the inputs of a matrix, nil when they are not known.
func (i *Importance) of(role string, layer int) *inputs {
	if i == nil || layer >= len(i.parts[role]) {
		return nil
	}
	return i.parts[role][layer]
}

// slabs is how many matrices under each other have columns of their own.
func (in *inputs) slabs(m *matrix) int { return len(in.columns) / m.cols }

// fourBitRoles are the text matrices, in file order.
var fourBitRoles = []string{"q", "k", "v", "o", "gate", "up", "down", "lm"}

// prepare holds the importance against the model and factors what has products.
// What is missing is noted.
func (i *Importance) prepare(ctx context.Context, m *model, threads int) (notes []string, err error) {
	known := 0
	var missing []string
	for _, r := range fourBitRoles {
		parts := m.parts[r]
		if n := len(i.parts[r]); n > len(parts) {
			return nil, i.foreign("it knows %q in %d layers, the model has %d", r, n, len(parts))
		}
		for l := range parts {
			in := i.of(r, l)
			if in == nil {
				missing = append(missing, partName(r, l, len(parts)))
				continue
			}
			x := &parts[l]
			if n := len(in.columns); n != x.cols && (n != x.cols*(x.rows/x.height) || x.beside() > 1) {
				return nil, i.foreign("it has %d columns for %s, the model has %d", n, partName(r, l, len(parts)), x.cols)
			}
			known++
		}
	}
	if known == 0 {
		return nil, i.foreign("it knows none of the model's matrices")
	}
	if len(missing) > 0 {
		notes = append(notes, fmt.Sprintf("%s says nothing of %s: their columns count alike", i.From, shorten(missing)))
	}
	return notes, i.factor(ctx, threads)
}

func (i *Importance) foreign(format string, args ...any) error {
	return faulty("%s is not of this model: %s", i.From, fmt.Sprintf(format, args...))
}

func partName(role string, layer, layers int) string {
	if layers == 1 && role == "lm" {
		return role
	}
	return fmt.Sprintf("%s in layer %d", role, layer)
}

// shorten lists a few of many.
func shorten(list []string) string {
	const most = 4
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// factor makes feedback of moments, on so many threads. Where that cannot be
// done the squares are left.
func (i *Importance) factor(ctx context.Context, threads int) error {
	work := make(chan *inputs)
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			for in := range work {
				in.once.Do(func() {
					if in.moments != nil && in.moments.Width > 0 {
						in.feedback, _ = in.moments.Feedback() // nil after an error
					}
					in.moments = nil
				})
			}
		})
	}
	for _, r := range fourBitRoles {
		for _, in := range i.parts[r] {
			if in != nil && ctx.Err() == nil {
				work <- in
			}
		}
	}
	close(work)
	wg.Wait()
	return ctx.Err()
}

// digest tells one importance from another, once it is prepared; "" for none.
func (i *Importance) digest() string {
	if i == nil {
		return ""
	}
	h := sha256.New()
	var b []byte
	floats := func(values []float32) {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(values)))
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	for _, r := range slices.Sorted(maps.Keys(i.parts)) {
		b = append(append(b[:0], r...), 0)
		for _, in := range i.parts[r] {
			if in == nil {
				floats(nil)
				continue
			}
			floats(in.columns)
			if in.feedback != nil {
				// Each is made of all the products.
				floats(in.feedback.Weight())
			}
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}
