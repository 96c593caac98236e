// SPDX-License-Identifier: Apache-2.0

// Package fetch downloads a file that a signed document names, over HTTPS, block by
// block. Each block is held against its signed digest before it is written, what is
// there survives a power cut, and blocks that some installed file has are not
// downloaded.
//
// It knows no document and no model: it is given an index of blocks, where the file is
// to be had, and limits. It starts no goroutine beside those of net/http, and uses
// the time of the machine, which tests replace by that of testing/synctest.
//
// Start with [Fetcher].
//
//	fetch.go             the way of a file, from nothing to whole
//	part.go record.go    what is there, on the disk and over a restart
//	reuse.go             blocks from other files
//	sources.go           which source next, and when to give up
//	request.go body.go   one request
//	pace.go              too slow, too fast, not now
package fetch
