// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// difference is what compare prints with --json.
type difference struct {
	A       string             `json:"a"`
	B       string             `json:"b"`
	Format  string             `json:"format"`
	Equal   bool               `json:"equal"`
	Fields  []fieldDifference  `json:"fields"`  // of the headers; only those that differ
	Tensors []tensorDifference `json:"tensors"` // all, in the order of A, then those only in B
	Count   map[string]int     `json:"count"`   // tensors by state
	Bytes   int64              `json:"bytes"`   // compared in each file
	Seconds float64            `json:"seconds"`
}

type fieldDifference struct {
	Name string `json:"name"`
	A    string `json:"a"` // "": not there
	B    string `json:"b"`
}

// States of a tensor.
const (
	stateEqual   = "equal"
	stateDiffers = "differs"    // bytes
	stateKind    = "other_type" // type or shape: the bytes say nothing then
	stateOnlyA   = "only_a"
	stateOnlyB   = "only_b"
)

type tensorDifference struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Bytes     int64  `json:"bytes"`
	Differing int64  `json:"differing,omitempty"` // bytes that are not the same
	First     *int64 `json:"first,omitempty"`     // offset in the tensor of the first of them
	A         string `json:"kind_a,omitempty"`    // type and shape where they are not the same
	B         string `json:"kind_b,omitempty"`
}

// print writes the difference for people.
func (d *difference) print(cmd *cobra.Command) error {
	if len(d.Fields) > 0 {
		rows := [][]string{{"FIELD", "A", "B"}}
		for _, f := range d.Fields {
			rows = append(rows, []string{f.Name, fieldText(f.A), fieldText(f.B)})
		}
		if err := table(cmd, rows); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	rows := [][]string{{"TENSOR", "BYTES", "STATE"}}
	for _, t := range d.Tensors {
		state := t.State
		switch state {
		case stateDiffers:
			state = fmt.Sprintf("%s %s (%.3g %%), first at %d", several(int(t.Differing), "byte"), agree(int(t.Differing), "differ"), 100*float64(t.Differing)/float64(t.Bytes), *t.First)
		case stateOnlyA:
			state = "only in A"
		case stateOnlyB:
			state = "only in B"
		case stateKind:
			state = t.A + " in A, " + t.B + " in B"
		}
		rows = append(rows, []string{t.Name, fmt.Sprint(t.Bytes), state})
	}
	if err := table(cmd, rows); err != nil {
		return err
	}
	verdict := "equal"
	if !d.Equal {
		verdict = "different"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s equal, %d %s, %d of another type or shape, %d only in A, %d only in B; %s %s; %.2f seconds\n",
		verdict, several(d.Count[stateEqual], "tensor"), d.Count[stateDiffers], agree(d.Count[stateDiffers], "differ"), d.Count[stateKind], d.Count[stateOnlyA], d.Count[stateOnlyB],
		several(len(d.Fields), "field"), agree(len(d.Fields), "differ"), d.Seconds)
	return err
}

// fieldText is a value as it fits in a line; what is cut is told apart by a sum.
func fieldText(s string) string {
	short := metaText(s)
	switch {
	case s == "":
		return "-"
	case strings.HasSuffix(short, "…") || strings.HasSuffix(short, "…\""):
		sum := sha256.Sum256([]byte(s))
		return fmt.Sprintf("%s (%d bytes, sum %x)", short, len(s), sum[:4])
	}
	return short
}

// compareFiles compares two files of one format.
func compareFiles(ctx context.Context, a, b *comparedFile, progress func(done, total int64)) (*difference, error) {
	d := &difference{Format: a.format, Fields: a.fields.differences(b.fields), Count: map[string]int{}}
	inB := map[string]*comparedTensor{}
	for i := range b.tensors {
		inB[b.tensors[i].name] = &b.tensors[i]
	}
	var total int64
	inA := map[string]bool{}
	for _, t := range a.tensors {
		inA[t.name] = true
		if o := inB[t.name]; o != nil && o.kind == t.kind && o.bytes == t.bytes {
			total += t.bytes
		}
	}
	c := &byteComparer{ctx: ctx, progress: func(n int64) { d.Bytes += n; progress(d.Bytes, total) }}
	for _, t := range a.tensors {
		r := tensorDifference{Name: t.name, State: stateEqual, Bytes: t.bytes}
		switch o := inB[t.name]; {
		case o == nil:
			r.State = stateOnlyA
		case o.kind != t.kind || o.bytes != t.bytes:
			r.State, r.A, r.B = stateKind, t.kind, o.kind
		default:
			first, differing, err := c.compare(t.read, o.read, t.bytes)
			if err != nil {
				return nil, err
			}
			if differing > 0 {
				r.State, r.Differing, r.First = stateDiffers, differing, &first
			}
		}
		d.add(r)
	}
	for _, t := range b.tensors {
		if !inA[t.name] {
			d.add(tensorDifference{Name: t.name, State: stateOnlyB, Bytes: t.bytes})
		}
	}
	d.Equal = len(d.Fields) == 0 && d.Count[stateEqual] == len(d.Tensors)
	return d, nil
}

func (d *difference) add(t tensorDifference) {
	d.Tensors = append(d.Tensors, t)
	d.Count[t.State]++
}
