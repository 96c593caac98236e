// SPDX-License-Identifier: Apache-2.0

package engine

// pieces counts what workers do of one reading: how many pieces it has, how many
// were taken and how many are done. After an error no more are to be taken.
type pieces struct {
	all, taken, done int
	err              error // the first
}

// left tells whether there is a piece to take.
func (p *pieces) left() bool { return p.taken < p.all }

// take gives the next piece.
func (p *pieces) take() int {
	p.taken++
	return p.taken - 1
}

// ended counts a piece that was taken, and tells whether it was the last.
func (p *pieces) ended(err error) bool {
	p.done++
	if err != nil && p.err == nil {
		p.err = err
	}
	if p.err != nil {
		p.all = p.taken
	}
	return p.done == p.all
}
