// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"windhover/engine"
	"windhover/vqf"
)

// memory holds what the models in the drop directory need against what there is.
func (d *doctor) memory(context.Context) {
	mem := readMemory(d.root)
	limit, err := ParseSize(d.cfg.Engine.MemoryLimit)
	if err != nil {
		d.fail("memory", "write engine.memory_limit as 4GiB", "%s", oneLine(err))
		return
	}
	detail := fmt.Sprintf("%s in all, %s available", gib(mem.Total), gib(mem.Available))
	if mem.Limit > 0 {
		detail += fmt.Sprintf(", control group limit %s, %s of it used", gib(mem.Limit), gib(mem.Used))
	}
	if limit > 0 {
		detail += fmt.Sprintf(", engine.memory_limit %s", gib(limit))
	}
	var sum int64
	models := d.models()
	var small, large, broken []string
	// Without it nothing is told of encrypted models: that line is passphrase's.
	key, _ := (&passphrase{file: d.cfg.VQF.KeyFile, getenv: d.getenv}).key()
	for _, path := range models {
		name := strings.TrimSuffix(filepath.Base(path), ".vqf")
		need, err := engine.Estimate(path, engine.Options{Context: d.cfg.Engine.Context, Family: d.cfg.Engine.Family, Residency: d.cfg.Engine.Residency, MemoryLimit: d.room(), VQF: vqf.OpenOptions{Key: key}})
		switch {
		case errors.Is(err, engine.ErrMemory):
			large = append(large, fmt.Sprintf("%s needs %s", name, gib(need.Total())))
		case errors.Is(err, vqf.ErrKey):
		case err != nil && d.running != nil: // what the appliance makes of it is told beside
		case err != nil:
			broken = append(broken, oneLine(err))
		default:
			sum += need.Total()
			small = append(small, fmt.Sprintf("%s %s with a context of %d%s", name, gib(need.Total()), need.Context, residencyNote(need)))
		}
	}
	if len(models) > 0 {
		detail += fmt.Sprintf("; %d in the drop directory", len(models))
	}
	if len(small) > 0 {
		detail += ": " + strings.Join(small, ", ")
	}
	switch {
	case len(broken) > 0:
		d.fail("memory", "remove the file, or convert it again", "%s; cannot be loaded: %s", detail, strings.Join(broken, "; "))
	case len(large) > 0:
		d.fail("memory", "lower engine.context, convert with --mode q4, or use a smaller model", "%s; does not fit: %s", detail, strings.Join(large, ", "))
	case sum > d.room() && d.running == nil:
		d.warn("memory", "remove models that nobody asks: those dropped last may be refused", "%s; together %s", detail, gib(sum))
	default:
		d.ok("memory", "%s", detail)
	}
}

// residencyNote tells of a model that does not stay in memory whole.
func residencyNote(n engine.Need) string {
	switch {
	case n.Residency == engine.ResidencyFull:
		return ""
	case n.Experts > 0:
		return fmt.Sprintf(", %s with room for %s: %s", n.Residency, several(n.Experts, "expert"), n.Why())
	default:
		return fmt.Sprintf(", %s with %s kept: %s", n.Residency, several(n.Kept, "layer"), n.Why())
	}
}

// room is what models may take.
func (d *doctor) room() int64 {
	room := readMemory(d.root).budget()
	if d.running != nil {
		room += d.running.Stats.RSSBytes // it is taken by the appliance itself
	}
	if limit, err := ParseSize(d.cfg.Engine.MemoryLimit); err == nil && limit > 0 {
		room = min(room, limit)
	}
	return room
}

// models are the weight files in the drop directory, as far as this user may look.
func (d *doctor) models() []string {
	var list []string
	entries, err := os.ReadDir(d.cfg.Paths.drop())
	if err != nil {
		return nil // drop says so
	}
	for _, e := range entries {
		name := e.Name()
		switch path := filepath.Join(d.cfg.Paths.drop(), name); {
		case strings.HasPrefix(name, "."), e.Type()&fs.ModeSymlink != 0, !validModelName(strings.TrimSuffix(name, ".vqf")):
		case e.IsDir():
			for _, weights := range weightNames {
				if exists(filepath.Join(path, weights)) {
					list = append(list, filepath.Join(path, weights))
					break
				}
			}
		case strings.HasSuffix(name, ".vqf"):
			list = append(list, path)
		}
	}
	return list
}

func gib(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
