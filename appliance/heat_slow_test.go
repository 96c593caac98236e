// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"windhover/control"
	"windhover/internal/testboard"
	"windhover/kernels"
)

// A sensor that never answers, a pipe that nobody writes to, holds up neither the watch,
// nor the numbers, nor the end of either; the other sensors are heard.
func TestHeatOfASensorThatHangs(t *testing.T) {
	board := testboard.Open(t, "rk3588")
	dir := t.TempDir()
	if err := os.CopyFS(dir, board); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "sys/class/thermal/thermal_zone1/temp")
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	topo, err := kernels.ReadTopology(os.DirFS(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newHeat(os.DirFS(dir), topo, 0, newRegistry(func() {}), func(control.Occurrence) {}, slog.New(slog.DiscardHandler))
	numbers := func() (n control.Stats) {
		h.stats(&n, time.Now())
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.watch(ctx)
	}()
	if n := numbers(); n.RestingCores != 0 {
		t.Errorf("while the first look hangs: %+v", n)
	}
	until(t, "the other sensors are heard", func() bool { n := numbers(); return n.TempC == 48.1 && n.Governor == "ondemand" })
	if h.pace() != 0 || h.refuses() != nil {
		t.Error("a sensor that does not answer slows the box down")
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(waitFor):
		t.Fatal("the watch does not end")
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // what reads it may go
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// A sensor that falls silent is told of once, and again when it has been heard between.
func TestHeatTellsOfSilence(t *testing.T) {
	s := newStove(t)
	for _, silent := range [][]string{nil, {"gpu-thermal"}, {"gpu-thermal"}, nil, {"gpu-thermal", "npu-thermal"}} {
		h := s.sensors.Read(t.Context(), s.clock)
		h.Silent = silent
		_, events := s.take(s.clock, h)
		s.told = append(s.told, events...)
	}
	const does = "-thermal does not answer: how hot it is there is not known"
	if want := []string{"gpu" + does, "gpu" + does, "npu" + does}; len(s.told) != 3 || s.told[0] != want[0] || s.told[1] != want[1] || s.told[2] != want[2] {
		t.Errorf("told %q, want %q", s.told, want)
	}
}
