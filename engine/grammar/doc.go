// SPDX-License-Identifier: Apache-2.0

// Package grammar holds the answers of a model to a form: it compiles a JSON schema
// to an automaton over bytes and says for each state of it which tokens of a
// vocabulary may come next. It knows no model and no logits.
//
// Start with [Compile] or [Call], join the result with a [Vocabulary] in a
// [Machine], and take a [Matcher] for each answer.
//
// # What is taken of JSON schema
//
// type (one or several), properties, required, additionalProperties, enum, const,
// items, minItems, maxItems, minLength, maxLength, pattern, anyOf, $ref and $defs
// (or definitions), true and the empty schema. title, description, default,
// examples, $schema, $id, $comment, deprecated, readOnly and writeOnly say nothing
// about a value and are passed over. Everything else is refused by name and place,
// as it would be promised and not kept.
//
// Every answer is valid; not every valid value can be an answer. Properties come in
// the order of the schema, those that are not required may be left out. An object
// with properties has others only where additionalProperties says so. White space
// is a space, or a line end and up to 24 spaces, where JSON is usually written
// with some. An integer has at most 15 digits, a number 15, 15 behind the point
// and 2 of an exponent. Strings hold no escaped surrogates. A pattern describes the
// whole string (^…$), see pattern.go.
//
// # The automaton
//
// A program is a graph of nodes that take a byte, with subroutines: rules, which
// $ref calls, and the bodies of loops, which count. A configuration is a node and
// the stack of what it returns to, a state the set of configurations that the bytes
// so far allow. States are made as they are met and kept, so that in the end it is a
// table that is walked. A stack has at most 128 frames; one that could not be
// emptied within that is never entered, so that there is always a way to the end.
package grammar
