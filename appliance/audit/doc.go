// SPDX-License-Identifier: Apache-2.0

// Package audit writes who asked what of an appliance into a file that shows whether
// somebody has changed it since, and reads such files. A line is a record, one JSON
// object; it names the SHA-256 of the line before it, so that no line can be changed,
// taken out or put in without all lines behind it changing too. docs/OPERATIONS.md
// ("Audit") has the format, and what it proves.
//
// Begin at [Log], which writes, and [Verify], which reads.
//
// A file is only ever appended to. When it is full it gets the number of its first
// record behind its name, and a new one begins, whose first line goes on with the chain;
// when its end is not what was written, as after a power cut, likewise: what cannot be
// read stays where it is, and the new file begins with a record that says so.
//
// It knows neither prompts nor answers: whoever writes a record gives digests.
package audit
