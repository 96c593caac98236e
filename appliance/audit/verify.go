// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// File is one to be verified. Its bytes must not become fewer meanwhile.
type File struct {
	Name string
	io.ReaderAt
	Size int64
}

// maxNotes bounds how many gaps, and how many repairs, a report names; it counts all.
const maxNotes = 100

// Report is what Verify found. Files are in the order of the chain.
type Report struct {
	OK      bool      `json:"ok"`
	Files   []string  `json:"files"`
	Records uint64    `json:"records"`
	First   uint64    `json:"first_seq"` // above 1: older files are not here
	Last    Place     `json:"last"`
	From    time.Time `json:"from,omitzero"` // the times of these records
	To      time.Time `json:"to,omitzero"`

	Gaps    int    `json:"gaps"`
	Lost    uint64 `json:"lost"` // records of all gaps
	Repairs int    `json:"repairs"`
	Starts  int    `json:"starts"`
	Unclean int    `json:"unclean"`    // starts that no stop stands before
	Back    int    `json:"clock_back"` // records that are earlier than the one before
	Notes   []Note `json:"notes,omitempty"`

	Unfinished int64     `json:"unfinished_bytes,omitempty"` // behind the last line: one that is being written, or was cut off
	Expected   []Anchor  `json:"expected,omitempty"`
	Broken     *Breakage `json:"broken,omitempty"`
}

// Note is a gap or a repair.
type Note struct {
	Seq    uint64 `json:"seq"`
	Kind   string `json:"kind"`
	Lost   uint64 `json:"lost,omitempty"`
	Since  string `json:"since,omitempty"`
	Until  string `json:"until,omitempty"`
	File   string `json:"file,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Anchor is a place that was told of elsewhere, and whether the chain has it.
type Anchor struct {
	Place
	Found bool   `json:"found"`
	Said  string `json:"said,omitempty"` // where it was not found
}

// Breakage is the first line that does not belong where it stands.
type Breakage struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

func (b Breakage) Error() string { return fmt.Sprintf("%s:%d: %s", b.File, b.Line, b.Reason) }

// verifier goes through files in the memory of a line.
type verifier struct {
	Report
	place   Place
	known   bool
	stopped bool
	open    *unread // the end of the file before, which a repair has to name
}

// unread is what a file holds behind its good lines.
type unread struct {
	Breakage
	offset, bytes int64
	sum           string
	half          bool // it ends in the middle of its first line
}

// Verify reads the files of a chain, in whichever order they are given, and says whether
// each line goes on where the one before it ends, and whether the places that were
// expected are in it. The error is that of reading; what is wrong with the chain stands
// in the report.
func Verify(ctx context.Context, files []File, expect []Place) (*Report, error) {
	v := &verifier{stopped: true}
	for _, p := range expect {
		v.Expected = append(v.Expected, Anchor{Place: p})
	}
	first := map[string]uint64{}
	for _, f := range files {
		first[f.Name] = firstSeq(f, f.Size)
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(first[a.Name], first[b.Name]) })
	for _, f := range files {
		v.Files = append(v.Files, f.Name)
		if err := v.file(ctx, f); err != nil {
			return nil, err
		}
		if v.Broken != nil {
			break
		}
	}
	v.end()
	return &v.Report, nil
}

// file goes through one, until something in it is wrong.
func (v *verifier) file(ctx context.Context, f File) error {
	s := newScanner(io.NewSectionReader(f, 0, f.Size), v.place, v.known)
	s.whole = true
	for {
		if s.lines%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p, h, err := s.next()
		var bad *fault
		var later laterError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &later):
			v.Broken = &Breakage{f.Name, s.lines + 1, "the line " + later.Error()}
			return nil
		case errors.As(err, &bad):
			if s.lines == 0 && firstSeq(f, f.Size) == 0 {
				bad.reason = "it is no audit file, or its beginning is gone: " + bad.reason
			}
			sum, n, err := rest(f, s.at, f.Size)
			if v.open != nil { // two ends in a row: nobody has said so of the first
				v.Broken = &v.open.Breakage
				return err
			}
			v.open = &unread{Breakage{f.Name, s.lines + 1, bad.reason}, s.at, n, sum.String(), bad.open}
			return err
		case err != nil:
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		v.record(f.Name, s, p, h)
		if v.Broken != nil {
			return nil
		}
	}
}

// record takes a line that follows on the one before.
func (v *verifier) record(name string, s *scanner, p []byte, h head) {
	r, err := parse(p)
	if err != nil {
		v.Broken = &Breakage{name, s.lines, err.Error()}
		return
	}
	if u := v.open; u != nil {
		if h.kind != KindRepair || r.Offset != u.offset || r.Bytes != u.bytes || r.FileSHA256 != u.sum {
			v.Broken = &u.Breakage
			return
		}
		v.open = nil
	}
	if v.Records == 0 {
		v.First, v.From = h.seq, h.time
		v.stopped = h.kind == KindStart // else it ran; what stood before a start is not known
	} else if h.time.Before(v.To) {
		v.Back++
	}
	v.Records, v.To, v.place, v.Last, v.known = v.Records+1, h.time, s.last, s.last, true
	for i := range v.Expected {
		if a := &v.Expected[i]; a.Place == s.last {
			a.Found = true
		} else if a.Seq == h.seq {
			a.Said = "another record has this number: its hash is " + s.last.Hash.String()
		}
	}
	switch h.kind {
	case KindStart:
		v.Starts++
		if !v.stopped {
			v.Unclean++
		}
		v.stopped = false
	case KindStop:
		v.stopped = true
	case KindGap:
		v.Gaps, v.Lost = v.Gaps+1, v.Lost+r.Lost
		v.note(Note{Seq: h.seq, Kind: h.kind, Lost: r.Lost, Since: r.Since, Until: r.Until, Reason: r.Reason}, v.Gaps)
	case KindRepair:
		v.Repairs++
		v.note(Note{Seq: h.seq, Kind: h.kind, File: r.File, Offset: r.Offset, Bytes: r.Bytes, Reason: r.Reason}, v.Repairs)
	}
}

func (v *verifier) note(n Note, count int) {
	if count <= maxNotes {
		v.Notes = append(v.Notes, n)
	}
}

// end judges what is behind the last file, and the places that were not found.
func (v *verifier) end() {
	switch u := v.open; {
	case v.Broken != nil || u == nil:
	case u.half && v.Records > 0:
		v.Unfinished = u.bytes
	default:
		v.Broken = &u.Breakage
	}
	if v.Broken == nil && v.Records == 0 {
		v.Broken = &Breakage{"", 0, "there is no record in these files"}
		if len(v.Files) > 0 {
			v.Broken.File, v.Broken.Line = v.Files[0], 1
		}
	}
	v.OK = v.Broken == nil
	for i := range v.Expected {
		a := &v.Expected[i]
		switch {
		case a.Found:
			continue
		case a.Said != "":
		case v.Broken != nil:
			a.Said = "the chain breaks before it"
		case a.Seq < v.First:
			a.Said = fmt.Sprintf("the files begin with record %d", v.First)
		default:
			a.Said = fmt.Sprintf("the chain ends with record %d: what was behind it is gone", v.Last.Seq)
		}
		v.OK = false
	}
}

// Err is what is wrong, nil for nothing.
func (r *Report) Err() error {
	var errs []error
	if r.Broken != nil {
		errs = append(errs, *r.Broken)
	}
	for _, a := range r.Expected {
		if !a.Found {
			errs = append(errs, fmt.Errorf("record %d, which was expected: %s", a.Seq, a.Said))
		}
	}
	return errors.Join(errs...)
}
