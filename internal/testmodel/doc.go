// SPDX-License-Identifier: Apache-2.0

// Package testmodel makes small models for tests, by code: no file is read and
// the same configuration gives the same bytes everywhere. [Write] makes the
// usual one, which speaks bytes and has a script to recite (script.go), so that
// a test can know the answer; [Build] writes weights of the caller's.
//
// For tests only. It is no converter: it holds a whole tensor in memory and
// checks nothing about the model.
package testmodel
