// SPDX-License-Identifier: Apache-2.0

//go:build !purego

package kernels

// Windows come into the second cache windowFar of them before their turn and into
// the first windowNear before: into the first at once they would come at half the
// speed (Zen 4).
const (
	windowFar  = 8
	windowNear = 4
)

// windowSums is how many results wait for being added.
const windowSums = 512

// addWindows is AddProducts for windows of the layout that has a kernel for them, or
// false. A window is too short for a CPU's own prefetchers, which begin anew with
// each, and begins on a page of its own. So it goes by row groups, and within one by
// products: the next windows are known across the end of a product, and the entries of
// page tables for those of a row group lie together. To touch the pages of a row
// group together before any of its windows is fetched gains half with pages of 4 KiB
// and costs a tenth with large ones, which files come in.
func addWindows(x []float32, products []Product, row0, row1 int) bool {
	k := len(products)
	first := &products[0].Matrix
	nb, h := first.Cols/BlockLen, Q4x4.Rows()
	step := windowSums / k / h * h
	if !useAVX2 || nb == 0 || step == 0 {
		return false
	}
	for i := range products {
		if m := &products[i].Matrix; m.Layout != Q4x4 || m.Pitch == 0 || m.Cols != first.Cols {
			return false
		}
	}
	var sums [windowSums]float32
	for r := row0; r < row1; r += step {
		end := min(r+step, row1)
		for g := r / h; g < end/h; g++ {
			for i := range products {
				a := &products[i].Acts
				w := &products[i].Matrix.Data[g*products[i].Matrix.Pitch]
				near, far := windowAfter(products, g, i+windowNear, w), windowAfter(products, g, i+windowFar, w)
				y := &sums[i*step+g*h-r]
				if useVNNI {
					windowQ4x4VNNI(y, w, nb, &a.Q[0], &a.D[0], &a.bias[0], near, far)
				} else {
					windowQ4x4AVX2(y, w, nb, &a.Q[0], &a.D[0], &a.bias[0], near, far)
				}
			}
		}
		for i := range products {
			addScaled(x[r:end], sums[i*step:][:end-r], products[i].Weight)
		}
	}
	return true
}

// windowAfter is the window of product i in row group g, counted on into the row
// groups behind it; w behind the last.
func windowAfter(products []Product, g, i int, w *byte) *byte {
	g += i / len(products)
	m := &products[i%len(products)].Matrix
	if g*m.Pitch < len(m.Data) {
		return &m.Data[g*m.Pitch]
	}
	return w
}

//go:noescape
func windowQ4x4VNNI(dst *float32, w *byte, nb int, q *int8, d *float32, bias *int32, near, far *byte)

//go:noescape
func windowQ4x4AVX2(dst *float32, w *byte, nb int, q *int8, d *float32, bias *int32, near, far *byte)
