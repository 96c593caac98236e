// SPDX-License-Identifier: Apache-2.0

package vqf

// directory adds the lines about flags, architecture and entries, each checked
// on its own so that the report shows all that is wrong. ok says whether the
// file is sound enough to read its data.
func (r *VerifyReport) directory(p *parsed) (ok bool, err error) {
	h := &p.header
	bad, err := split(p.readDirectory())
	if err != nil {
		return false, err
	}
	if bad != nil {
		r.result("names", bad, "")
		return false, nil
	}
	ts := p.tensors
	r.result("names", checkNames(ts), "%d, printable, none twice", len(ts))
	r.result("flags", checkFlags(h, ts), "0x%03x %s", uint32(h.Flags), h.Flags)
	r.result("offsets aligned", eachTensor(ts, func(i int, t *Tensor) error { return t.aligned(i) }), "each a multiple of %d", Align)
	r.result("first offset", firstOffset(h, ts), "equal to data_offset %d", h.DataOffset)
	r.result("offsets chained", chained(ts), "increasing, each the rounded end before")
	r.result("last end", lastEnd(h, ts), "rounded up equal to file_len %d", h.FileLen)
	bounds := checkBounds(h, ts)
	if bounds == nil {
		bounds = checkOverlap(ts)
	}
	r.result("bounds", bounds, "within the data area, none inside another")
	r.result("bytes by formula", eachTensor(ts, func(i int, t *Tensor) error { return t.formula(i) }), "rows * cols in the type's size")
	whole := checkDirectory(h, ts)
	r.result("bytes by arch", whole, "the sizes the architecture gives, none missing")
	return bounds == nil && whole == nil, nil
}

// eachTensor returns the first entry's error.
func eachTensor(ts []Tensor, check func(i int, t *Tensor) error) error {
	for i := range ts {
		if err := check(i, &ts[i]); err != nil {
			return err
		}
	}
	return nil
}

// firstOffset, chained and lastEnd are the chain of docs/FORMAT.md section 3.2:
// what every writer makes and no reader needs.
func firstOffset(h *Header, ts []Tensor) error {
	if ts[0].Offset != h.DataOffset {
		return ts[0].bad(0, "offset", entryOffset, "is %d, want data_offset %d", ts[0].Offset, h.DataOffset)
	}
	return nil
}

func chained(ts []Tensor) error {
	for i := 1; i < len(ts); i++ {
		end := roundUp(satAdd(ts[i-1].Offset, ts[i-1].Bytes), Align)
		if ts[i].Offset != end {
			return ts[i].bad(i, "offset", entryOffset, "is %d, want %d, the rounded end of %q", ts[i].Offset, end, ts[i-1].Name)
		}
	}
	return nil
}

func lastEnd(h *Header, ts []Tensor) error {
	i := len(ts) - 1
	t := &ts[i]
	if end := roundUp(satAdd(t.Offset, t.Bytes), Align); end != h.FileLen {
		return t.bad(i, "bytes", entryBytes, "end at %d rounded up, want file_len %d", end, h.FileLen)
	}
	return nil
}

// dirtyPadding returns an error about the first padding byte that is not zero;
// err is a read that failed.
func (p *parsed) dirtyPadding() (dirty, err error) {
	for i := range p.tensors {
		t := &p.tensors[i]
		end := t.Offset + t.Bytes // within the file: the directory was checked
		pad := make([]byte, min(roundUp(end, Align), p.header.FileLen)-end)
		if err := readFull(p.plain, pad, int64(end)); err != nil {
			return nil, err
		}
		if j := nonZero(pad); j >= 0 {
			return badField("padding", int64(end)+int64(j), "after tensor %q is not zero", t.Name), nil
		}
	}
	return nil, nil
}

// satAdd adds, staying at the largest value instead of wrapping.
func satAdd(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}
