// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// scanner reads a file and holds each line against the one before it, in the memory of
// a line.
type scanner struct {
	r     *bufio.Reader
	whole bool   // each line is read to its end, and not by its hash in the next one alone
	known bool   // last is the line before the next one; else any may come
	last  Place  // of the last good line
	first uint64 // number of the first line of the file; 0: none was read
	at    int64  // where the good lines end
	lines int    // how many these are
	begun int64  // where the last of them begins
	prior Place  // the line before that
}

// newScanner reads a file that goes on behind a place; known: there is such a place.
func newScanner(r io.Reader, after Place, known bool) *scanner {
	return &scanner{r: bufio.NewReaderSize(r, maxLine), last: after, known: known}
}

// fault is where a file does not go on as it should.
type fault struct {
	reason string
	open   bool // the file ends in the middle of a line
}

func (f *fault) Error() string { return f.reason }

// next returns the next line without its end, valid until the next call: io.EOF at the
// end of the file, a *fault where the chain breaks, a laterError.
func (s *scanner) next() ([]byte, head, error) {
	raw, err := s.r.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(raw) == 0:
		return nil, head{}, io.EOF
	case errors.Is(err, io.EOF):
		return nil, head{}, &fault{fmt.Sprintf("the line does not end: %d bytes", len(raw)), true}
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, head{}, &fault{fmt.Sprintf("the line has more than %d bytes", maxLine), false}
	case err != nil:
		return nil, head{}, err
	}
	p := raw[:len(raw)-1]
	h, err := parseHead(p)
	if err == nil && s.whole {
		err = h.whole(p)
	}
	var later laterError
	switch {
	case errors.As(err, &later):
		return nil, h, later
	case err != nil:
		return nil, h, &fault{"the line " + err.Error(), false}
	case s.known && h.seq != s.last.Seq+1:
		return nil, h, &fault{fmt.Sprintf("record %d follows on record %d", h.seq, s.last.Seq), false}
	case (s.known || h.seq == 1) && h.prev != s.last.Hash:
		return nil, h, &fault{fmt.Sprintf("record %d does not follow on what stands before it: its prev is %s, and that has %s", h.seq, h.prev, s.last.Hash), false}
	}
	s.prior, s.begun = s.last, s.at
	s.last, s.known = Place{h.seq, sha256.Sum256(p)}, true
	if s.lines == 0 {
		s.first = h.seq
	}
	s.at += int64(len(raw))
	s.lines++
	return p, h, nil
}

// rest is the digest of what of a file lies behind an offset, and how long it is.
func rest(r io.ReaderAt, offset, size int64) (Hash, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(r, offset, size-offset))
	return Hash(h.Sum(nil)), n, err
}

// firstSeq is the number of the first record of a file, as it says; 0 if it says none.
func firstSeq(r io.ReaderAt, size int64) uint64 {
	p := make([]byte, min(size, 256))
	if _, err := r.ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0
	}
	after, ok := bytes.CutPrefix(p, []byte(`{"v":`))
	_, after, found := bytes.Cut(after, []byte(`,"seq":`))
	if !ok || !found {
		return 0
	}
	var n uint64
	for _, c := range after {
		if c < '0' || c > '9' || n > 1<<58 {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}
