// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"windhover/appliance"
	"windhover/engine"
)

// infoMemory is how a model would be held on this machine now. Sizes are bytes and
// count weights, cache and scratch of the context.
type infoMemory struct {
	Residency string `json:"residency"` // "": it does not fit
	Why       string `json:"why"`
	Context   int    `json:"context"`
	Takes     int64  `json:"takes"`
	Limit     int64  `json:"limit"` // 0: nobody says
	Least     int64  `json:"least"` // what it could do with, with a short context, in the residency below
	LeastBy   string `json:"least_residency"`
}

// addMemory tells how the model would be held.
func (d *infoDoc) addMemory() error {
	if d.Format != "vqf" {
		return fmt.Errorf("%s: --memory is about VQF files: convert it first", d.path)
	}
	var lack *engine.MemoryError
	opt := engine.Options{MemoryLimit: 1}
	if _, _, err := appliance.EstimateModel(d.path, opt); !errors.As(err, &lack) {
		return err
	}
	m := &infoMemory{Least: lack.Need.Total(), LeastBy: lack.Need.Residency}
	opt.MemoryLimit = 0
	n, limit, err := appliance.EstimateModel(d.path, opt)
	m.Limit = limit
	switch {
	case errors.Is(err, engine.ErrMemory):
		m.Why = err.Error()
	case err != nil:
		return err
	default:
		m.Residency, m.Why, m.Context, m.Takes = n.Residency, n.Why(), n.Context, n.Total()
	}
	d.Memory = m
	return nil
}

func (m *infoMemory) String() string {
	here := fmt.Sprintf("does not fit: %s", m.Why)
	if m.Residency != "" {
		here = fmt.Sprintf("%s, %s: %s of %s with a context of %d", m.Residency, m.Why, mib(m.Takes), mib(m.Limit), m.Context)
	}
	return fmt.Sprintf("here %s; at least %s, %s", here, mib(m.Least), m.LeastBy)
}
