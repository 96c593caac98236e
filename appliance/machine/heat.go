// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"
)

// Kinds of trip points, as the kernel spells them.
const (
	Critical = "critical" // the system shuts down
	Hot      = "hot"      // the last warning before that
	Passive  = "passive"  // the CPU slows down
)

// Trip is a temperature at which something happens.
type Trip struct {
	Kind    string // Critical, Hot, Passive, or another of the kernel's
	Celsius float64
}

// Zone is a place whose temperature is measured.
type Zone struct {
	Name    string // such as soc-thermal
	Celsius float64
	Trips   []Trip
}

// Heat is how hot the machine is and what the kernel does about it.
type Heat struct {
	Zones []Zone
	// Slowed names what slows the CPU because of heat now, with how far of how far.
	Slowed []string
	// Throttles is how often CPUs have slowed themselves since the start of the
	// system, as far as they count; that it grows is what says that they do.
	Throttles int64
	// Silent names the places that have not answered for long: what they said is left
	// out.
	Silent []string
}

const (
	thermalDir = "sys/class/thermal"
	hwmonDir   = "sys/class/hwmon"
	cpuDir     = "sys/devices/system/cpu"
)

// ReadHeat looks once; see [Sensors.Read].
func ReadHeat(root fs.FS) Heat {
	return NewSensors(root, nil).Read(context.Background(), time.Now())
}

// readZone reads a zone of sys/class/thermal. What is known of it, its name and trip
// points, is read again if anew.
func readZone(root fs.FS, dir string, known *Zone, anew bool) (z Zone, ok bool) {
	if anew {
		*known = Zone{Name: line(root, dir, "type"), Trips: trips(root, dir)}
	}
	z = *known
	return z, z.read(root, dir, "temp")
}

// readChip reads a sensor of sys/class/hwmon, if it is in a CPU of x86, where most have
// no zone.
func readChip(root fs.FS, dir string, known *Zone, anew bool) (z Zone, ok bool) {
	if anew {
		*known = Zone{Name: line(root, dir, "name")}
		// It is called critical there, and is where the CPU slows itself down.
		if c, ok := celsius(root, dir, "temp1_crit"); ok && known.inCPU() {
			known.Trips = []Trip{{Passive, c}}
		}
	}
	z = *known
	return z, z.inCPU() && z.read(root, dir, "temp1_input")
}

func (z *Zone) inCPU() bool { return z.Name == "coretemp" || z.Name == "k10temp" }

// readCooling says how far a cooling device of sys/class/thermal slows the CPU, "" for
// one that does not, or cools otherwise.
func readCooling(root fs.FS, dir string, kind *string, anew bool) string {
	if anew {
		*kind = line(root, dir, "type")
	}
	if !strings.Contains(strings.ToLower(*kind), "cpufreq") && *kind != "Processor" {
		return ""
	}
	if n, ok := number(root, dir, "cur_state"); ok && n > 0 {
		return fmt.Sprintf("%s %d of %s", *kind, n, line(root, dir, "max_state"))
	}
	return ""
}

// readThrottles adds up how often CPUs have slowed themselves. Those that count are
// looked for if anew.
func readThrottles(root fs.FS, counts *[]string, anew bool) int64 {
	if anew {
		*counts = nil
		for _, name := range entries(root, cpuDir, "cpu") {
			file := path.Join(cpuDir, name, "thermal_throttle/package_throttle_count")
			if _, ok := number(root, file); ok {
				*counts = append(*counts, file)
			}
		}
	}
	var sum int64
	for _, file := range *counts {
		n, _ := number(root, file)
		sum += n
	}
	return sum
}

func (z *Zone) read(root fs.FS, dir, file string) (ok bool) {
	z.Celsius, ok = celsius(root, dir, file)
	return ok
}

// celsius reads thousandths of a degree. Sensors that are off give 0, or numbers far
// from any temperature.
func celsius(root fs.FS, dir, file string) (float64, bool) {
	n, ok := number(root, dir, file)
	c := float64(n) / 1000
	return c, ok && c != 0 && c > -60 && c < 200
}

// trips of a zone; those that are not set are below or far above any temperature.
func trips(root fs.FS, dir string) []Trip {
	var list []Trip
	for _, name := range entries(root, dir, "trip_point_") {
		stem, isKind := strings.CutSuffix(name, "_type")
		if !isKind {
			continue
		}
		if c, ok := celsius(root, dir, stem+"_temp"); ok && c > 0 {
			list = append(list, Trip{line(root, dir, name), c})
		}
	}
	return list
}

// Hottest is the zone with the highest temperature; false where none tells.
func (h Heat) Hottest() (Zone, bool) {
	if len(h.Zones) == 0 {
		return Zone{}, false
	}
	top := h.Zones[0]
	for _, z := range h.Zones[1:] {
		if z.Celsius > top.Celsius {
			top = z
		}
	}
	return top, true
}

// least is the lowest trip point of the kinds; 0 if there is none.
func (z Zone) least(kinds ...string) float64 {
	low := 0.0
	for _, t := range z.Trips {
		for _, k := range kinds {
			if t.Kind == k && (low == 0 || t.Celsius < low) {
				low = t.Celsius
			}
		}
	}
	return low
}

// Room is how many degrees the zone that is nearest to it is below where the system
// shuts down, or is about to; false where no zone has such a point.
func (h Heat) Room() (nearest Zone, degrees float64, ok bool) { return h.below(Critical, Hot) }

// Margin is how many degrees the zone that is nearest to it is below where the CPU
// begins to slow down, less than none where it has begun; false where no zone has such
// a point.
func (h Heat) Margin() (nearest Zone, degrees float64, ok bool) { return h.below(Passive) }

// below finds the zone that is nearest to a trip point of its own of one of the kinds.
//
// The zones of a device tree (they end in -thermal) are places on one chip, of which
// some kernels give one alone its trip points: those without are held against the
// lowest of the others.
func (h Heat) below(kinds ...string) (nearest Zone, degrees float64, ok bool) {
	chip := 0.0
	for _, z := range h.Zones {
		if end := z.least(kinds...); end > 0 && z.onChip() && (chip == 0 || end < chip) {
			chip = end
		}
	}
	for _, z := range h.Zones {
		end := z.least(kinds...)
		if end == 0 && z.onChip() {
			end = chip
		}
		if end == 0 {
			continue
		}
		if room := end - z.Celsius; !ok || room < degrees {
			nearest, degrees, ok = z, room, true
		}
	}
	return nearest, degrees, ok
}

func (z Zone) onChip() bool { return strings.HasSuffix(z.Name, "-thermal") }
