// SPDX-License-Identifier: Apache-2.0

package engine

import "strings"

// stopper looks for stop strings in text that arrives in pieces. Text that may
// be the beginning of a stop string is held back until that is decided.
type stopper struct {
	stops []string
	held  string // not yet shown: a proper prefix of some stop string
	done  bool   // a stop string was found; nothing is shown any more
}

// push takes the next piece and returns what may be shown. Once it has found a
// stop string (the earliest; of two at the same place it does not matter which,
// both cut there) it reports true and returns the text before it.
func (s *stopper) push(piece string) (show string, found bool) {
	if s.done {
		return "", true
	}
	if len(s.stops) == 0 {
		return piece, false
	}
	text := s.held + piece
	at := -1
	for _, stop := range s.stops {
		if i := strings.Index(text, stop); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at >= 0 {
		s.held, s.done = "", true
		return text[:at], true
	}
	keep := 0
	for _, stop := range s.stops {
		keep = max(keep, overlap(text, stop))
	}
	s.held = text[len(text)-keep:]
	return text[:len(text)-keep], false
}

// flush returns what was held back when no more text comes.
func (s *stopper) flush() string {
	held := s.held
	s.held = ""
	return held
}

// overlap returns the length of the longest proper prefix of stop that text
// ends with.
func overlap(text, stop string) int {
	for n := min(len(stop)-1, len(text)); n > 0; n-- {
		if text[len(text)-n:] == stop[:n] {
			return n
		}
	}
	return 0
}
