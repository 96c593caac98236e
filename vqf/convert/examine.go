// SPDX-License-Identifier: Apache-2.0

package convert

import "fmt"

// Examine is Run before it begins: it opens src, holds its tensors against its
// configuration, and reports what would be made of it, without what only the
// work shows. Errors are those of Run.
func Examine(src string, opt Options) (r *Report, err error) {
	set, err := opt.resolve()
	if err != nil {
		return nil, err
	}
	s, err := open(src, set)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := s.closer.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("convert: %w", cerr)
		}
	}()
	m, err := s.bind()
	if err != nil {
		return nil, err
	}
	r = &Report{Auto: set.mode == ""}
	spec, notes := m.spec(set, r)
	plan, embedded, err := m.plan(set, &spec)
	if err != nil {
		return nil, err
	}
	r.head(m, spec, plan, embedded)
	r.Quantiser = set.quantiser(spec.Mode)
	r.Notes = append(r.Notes, notes...)
	return r, nil
}

// FourBit is whether the file has weights of four bits, which can be optimised.
func (r *Report) FourBit() bool { return fourBit(r.Mode) }
