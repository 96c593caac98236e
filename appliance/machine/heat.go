// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
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
}

const (
	thermalDir = "sys/class/thermal"
	hwmonDir   = "sys/class/hwmon"
	cpuDir     = "sys/devices/system/cpu"
)

// ReadHeat reads the zones of sys/class/thermal and, of sys/class/hwmon, the sensors
// that are in CPUs of x86, where most have no zone. Those that give no temperature,
// or one that cannot be, are left out.
func ReadHeat(root fs.FS) Heat {
	var h Heat
	for _, name := range entries(root, thermalDir, "thermal_zone") {
		dir := path.Join(thermalDir, name)
		if z := (Zone{Name: line(root, dir, "type")}); z.read(root, dir, "temp") {
			z.Trips = trips(root, dir)
			h.Zones = append(h.Zones, z)
		}
	}
	for _, name := range entries(root, hwmonDir, "hwmon") {
		dir := path.Join(hwmonDir, name)
		z := Zone{Name: line(root, dir, "name")}
		if (z.Name == "coretemp" || z.Name == "k10temp") && z.read(root, dir, "temp1_input") {
			// It is called critical there, and is where the CPU slows itself down.
			if c, ok := celsius(root, dir, "temp1_crit"); ok {
				z.Trips = []Trip{{Passive, c}}
			}
			h.Zones = append(h.Zones, z)
		}
	}
	for _, name := range entries(root, thermalDir, "cooling_device") {
		dir := path.Join(thermalDir, name)
		kind := line(root, dir, "type")
		if !strings.Contains(strings.ToLower(kind), "cpufreq") && kind != "Processor" {
			continue
		}
		if n, ok := number(root, dir, "cur_state"); ok && n > 0 {
			h.Slowed = append(h.Slowed, fmt.Sprintf("%s %d of %s", kind, n, line(root, dir, "max_state")))
		}
	}
	for _, name := range entries(root, cpuDir, "cpu") {
		n, _ := number(root, cpuDir, name, "thermal_throttle/package_throttle_count")
		h.Throttles += n
	}
	return h
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
