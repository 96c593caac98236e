// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"windhover/appliance/machine"
	"windhover/internal/testboard"
)

// bus is a machine one of whose files answers when it is told to, and that notes what
// is opened.
type bus struct {
	fstest.MapFS
	slow string
	wait chan struct{} // one for each answer of slow

	mu     sync.Mutex
	opened []string
}

func (b *bus) Open(name string) (fs.File, error) {
	b.mu.Lock()
	b.opened = append(b.opened, name)
	b.mu.Unlock()
	if name == b.slow {
		<-b.wait
	}
	return b.MapFS.Open(name)
}

// ReadFile and ReadDir of MapFS would go round Open.
func (b *bus) ReadDir(name string) ([]fs.DirEntry, error) {
	b.mu.Lock()
	b.opened = append(b.opened, name)
	b.mu.Unlock()
	return b.MapFS.ReadDir(name)
}

// count is how often files of this name were opened since the last count of any.
func (b *bus) count(name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, o := range b.opened {
		if o == name {
			n++
		}
	}
	return n
}

func (b *bus) forget() (opened []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	opened, b.opened = b.opened, nil
	return opened
}

const slowZone = "sys/class/thermal/thermal_zone1/temp" // bigcore0-thermal

func names(h machine.Heat) string {
	var list []string
	for _, z := range h.Zones {
		list = append(list, z.Name)
	}
	return strings.Join(list, " ")
}

// A place that does not answer holds up one look, for a second, and no other place. It
// is asked once, counts with what it said for half a minute, is then named as silent,
// and is back when it answers.
func TestSensorsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{MapFS: testboard.Open(t, "rk3588"), slow: slowZone, wait: make(chan struct{}, 1)}
		s := machine.NewSensors(b, []int{4})
		look := func(want time.Duration) machine.Heat {
			t.Helper()
			began := time.Now()
			h := s.Read(t.Context(), began)
			if took := time.Since(began); took != want {
				t.Errorf("a look took %v, want %v", took, want)
			}
			return h
		}
		b.wait <- struct{}{}
		all := names(look(0))
		if !strings.Contains(all, "bigcore0-thermal") || s.Governors() != "ondemand" {
			t.Fatalf("zones %s, governor %q", all, s.Governors())
		}
		for range 9 {
			time.Sleep(3 * time.Second)
			h := look(map[bool]time.Duration{true: time.Second}[b.count(slowZone) == 1])
			if names(h) != all || h.Silent != nil {
				t.Errorf("soon: zones %s, silent %v", names(h), h.Silent)
			}
		}
		time.Sleep(3 * time.Second)
		for range 50 { // the lists are read again meanwhile
			time.Sleep(3 * time.Second)
			h := look(0)
			if strings.Contains(names(h), "bigcore0-thermal") || len(h.Zones) != 6 || !reflect.DeepEqual(h.Silent, []string{"bigcore0-thermal"}) {
				t.Fatalf("after half a minute: zones %s, silent %v", names(h), h.Silent)
			}
		}
		if n := b.count(slowZone); n != 2 {
			t.Errorf("it was asked %d times, want 2", n)
		}
		testboard.Set(b.MapFS, slowZone, "91000")
		b.wait <- struct{}{}
		synctest.Wait()
		h := look(time.Second) // and it hangs again
		if top, _ := h.Hottest(); top.Name != "bigcore0-thermal" || top.Celsius != 91 || h.Silent != nil {
			t.Errorf("it has answered: hottest %+v, silent %v", top, h.Silent)
		}
		close(b.wait)
	})
}

// One that never answered is left out, and named by its directory.
func TestSensorsNeverHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus{MapFS: testboard.Open(t, "rk3588"), slow: slowZone, wait: make(chan struct{})}
		s := machine.NewSensors(b, nil)
		h := s.Read(t.Context(), time.Now())
		if len(h.Zones) != 6 || h.Silent != nil {
			t.Errorf("at first: %s, silent %v", names(h), h.Silent)
		}
		h = s.Read(t.Context(), time.Now().Add(31*time.Second))
		if len(h.Zones) != 6 || !reflect.DeepEqual(h.Silent, []string{"thermal_zone1"}) {
			t.Errorf("later: %s, silent %v", names(h), h.Silent)
		}
		close(b.wait)
	})
}

// A look opens a file for each thing that changes, and no other: what hardly ever does
// is read once in a minute.
func TestSensorsCost(t *testing.T) {
	for board, want := range map[string]int{"rk3588": 7 + 3, "x86": 16, "vm": 0} {
		b := &bus{MapFS: testboard.Open(t, board)}
		s := machine.NewSensors(b, []int{0})
		first := s.Read(t.Context(), time.Unix(0, 0))
		all := len(b.forget())
		for i := 1; i < 20; i++ {
			h := s.Read(t.Context(), time.Unix(int64(3*i), 0))
			if opened := b.forget(); len(opened) != want {
				slices.Sort(opened)
				t.Fatalf("%s: look %d opened %d files, want %d: %v", board, i, len(opened), want, opened)
			}
			if !reflect.DeepEqual(h, first) {
				t.Errorf("%s: look %d differs: %+v, want %+v", board, i, h, first)
			}
		}
		s.Read(t.Context(), time.Unix(60, 0))
		if n := len(b.forget()); n != all {
			t.Errorf("%s: look 20 opened %d files, want %d", board, n, all)
		}
	}
}

// BenchmarkLook is a look at a board whose files answer at once, and of one whose zones
// take a millisecond each, as on an I2C bus.
func BenchmarkLook(b *testing.B) {
	for name, each := range map[string]time.Duration{"at once": 0, "1 ms a zone": time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			root := testboard.Open(b, "rk3588")
			s := machine.NewSensors(lazy{root, each}, []int{4, 5, 6, 7})
			for b.Loop() {
				s.Read(b.Context(), time.Unix(0, 0))
			}
		})
	}
}

// lazy takes its time for each temperature.
type lazy struct {
	fstest.MapFS
	each time.Duration
}

func (l lazy) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, "/temp") {
		time.Sleep(l.each)
	}
	return l.MapFS.Open(name)
}
