// SPDX-License-Identifier: Apache-2.0

// Package jinja renders the templates that come with language models: Jinja
// as transformers sets it up (sandboxed, no autoescaping, trim_blocks,
// lstrip_blocks, no trailing line end), checked against what Jinja itself
// makes of some hundreds of small templates.
//
// Start with [Parse], fill a [Dict] with the variables and call
// [Template.Render] with the limits of [LimitsFor].
//
// It is no general Jinja. It has expressions, if, for, break, continue, set,
// macro, with, filter, raw and generation, and the filters, tests, functions
// and methods that chat templates have a use for. It refuses by name, when a template is
// parsed, what it lacks: whatever reads files or other templates (include,
// import, extends, block), call blocks, recursive loops, * and ** in calls,
// and filters and tests it does not know. Methods that would change a value
// are not there, as in the sandbox.
//
// A template comes with a model file, so it is taken as hostile: one that
// loops for ever, calls itself or doubles a string ends as an [Error]. What
// bounds it:
//
//   - a template has at most 256 KiB, nested at most 100 deep
//   - a rendering may spend the steps and bytes of its [Limits]; time and
//     memory follow them
//   - evaluation goes at most 1000 levels deep, and printing or comparing
//     100 levels into a value; JSON is read 64 levels deep
//   - whole numbers are computed in 64 bits; larger ones of the input are
//     passed on and printed
//
// The interpreter is our own for those bounds. In the libraries looked at,
// gonja and ardanlabs/jinja, nothing limits a template: in gonja,
// {{ 'a' * 100000000000 }} and a macro that calls itself end the whole
// process, and a missing field of a message passes for an empty text where
// the reference refuses.
package jinja
