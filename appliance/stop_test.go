// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windhover/control"
	"windhover/engine"
	"windhover/internal/testmodel"
	"windhover/kernels"
)

// builtServer is a daemon before it runs, whose parts a test may still replace, and its
// local socket.
func builtServer(t *testing.T, log io.Writer) (*server, net.Listener) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Device, cfg.Paths.State = "box", t.TempDir()
	cfg.Paths.Trust, cfg.MQTT.Embedded.Listen, cfg.HTTP.Listen = filepath.Join(cfg.Paths.State, "trust.d"), freePort(t), ""
	if err := cfg.finish(); err != nil {
		t.Fatal(err)
	}
	if err := makeState(cfg.Paths); err != nil {
		t.Fatal(err)
	}
	topo, err := kernels.DetectTopology()
	if err != nil {
		t.Fatal(err)
	}
	socket, err := listenSocket(cfg.Paths.Socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{cfg: cfg, log: slog.New(slog.NewTextHandler(log, nil))}
	if err := s.build(topo); err != nil {
		t.Fatal(err)
	}
	return s, socket
}

// started runs a daemon; the returned function stops it and waits for its end.
func started(t *testing.T, s *server, socket net.Listener) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx, socket) }()
	return func() {
		t.Helper()
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(waitFor):
			t.Fatal("the appliance does not stop")
		}
	}
}

// faults are the records of a log that ask for somebody who looks.
func faults(log string) (list []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			list = append(list, line)
		}
	}
	return list
}

// A look that never ends does not keep the daemon from stopping.
func TestStopWithoutTheLook(t *testing.T) {
	var said lines
	s, socket := builtServer(t, &said)
	stuck, release, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.deployer.load = func(context.Context, string, installed) (servable, error) {
		defer close(left)
		close(stuck)
		<-release
		return nil, io.ErrUnexpectedEOF
	}
	writeBytes(t, filepath.Join(s.deployer.drop, "m.vqf"), tinyModel(t, nil))
	stop := started(t, s, socket)
	<-stuck
	stop()
	close(release)
	<-left
	if got := said.String(); !strings.Contains(got, "stopping without it") || !strings.Contains(got, "loading m") {
		t.Errorf("log:\n%s", got)
	}
}

// A box that is stopped in the middle of its work, with a model, a job and somebody who
// listens at its broker, logs nothing that asks for a person.
func TestStopIsNoFault(t *testing.T) {
	var said lines
	s, socket := builtServer(t, &said)
	began := make(chan struct{})
	s.backend.duties["wait"] = func(ctx context.Context) (any, error) {
		close(began)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	writeBytes(t, filepath.Join(s.deployer.drop, "m.vqf"), tinyModel(t, nil))
	stop := started(t, s, socket)
	b := &box{cfg: s.cfg}
	b.ready(t, "m")
	if _, err := b.client(t, "you").Send(t.Context(), request("hello", 4), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.control.SubmitJob("ops", "wait", "j", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	<-began
	stop()
	if list := faults(said.String()); len(list) > 0 {
		t.Errorf("a stop is told as\n%s", strings.Join(list, ""))
	}
	if !strings.Contains(said.String(), "job ended before its end") {
		t.Errorf("what becomes of the job is not told:\n%s", said.String())
	}
}

// The embedded broker may come up when the stop has begun.
func TestStopWhileConnecting(t *testing.T) {
	var said lines
	s, socket := builtServer(t, &said)
	if err := socket.Close(); err != nil {
		t.Fatal(err)
	}
	ep := control.Endpoint{URL: "mqtt://" + s.cfg.MQTT.Embedded.Listen, AllowPlaintext: true}
	s.stopping.Store(true)
	if err := s.control.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.link(ep, ep)
	if list := faults(said.String()); len(list) > 0 {
		t.Errorf("a stop is told as\n%s", strings.Join(list, ""))
	}
	s.stopping.Store(false)
	if s.link(ep, ep); !strings.Contains(said.String(), "no MQTT") {
		t.Error("what keeps a box without MQTT while it runs is not told")
	}
}

// A broker that could be tried again is not, once the daemon stops.
func TestStopStartsNoBroker(t *testing.T) {
	var said lines
	free := int64(1 << 30)
	h := testHouse(t, &free)
	h.log = slog.New(slog.NewTextHandler(&said, nil))
	h.hear("error", "write error")
	told := said.String()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for range 16 { // whichever of both it sees first
		h.keep(ctx)
		select {
		case h.ill <- struct{}{}:
		default:
		}
	}
	if h.open(ctx) || h.b != nil || said.String() != told {
		t.Errorf("after the end it runs: %v; log:\n%s", h.b != nil, said.String())
	}
}

// A job that somebody or a stop ends has not failed, whatever error it returns; one that
// was wrong as it came is no fault of the box.
func TestStopEndsJobs(t *testing.T) {
	drained, luck := errors.New("control: the device is shutting down"), errors.New("no luck")
	for _, tt := range []struct {
		cause, err error
		want       string
	}{
		{nil, luck, "level=ERROR msg=\"job failed\" job=j type=wait code=internal error=\"no luck\""},
		{nil, control.Errorf(control.BadRequest, "wait: how long?"), "level=WARN msg=\"job failed\" job=j type=wait code=bad_request error=\"wait: how long?\""},
		{drained, luck, "level=INFO msg=\"job ended before its end\" job=j type=wait cause=\"the device is shutting down\" error=\"no luck\""},
	} {
		var said lines
		ctx, end := context.WithCancelCause(t.Context())
		b := &backend{log: slog.New(slog.NewTextHandler(&said, nil)), duties: map[string]duty{
			"wait": func(context.Context) (any, error) {
				if tt.cause != nil {
					end(tt.cause)
				}
				return nil, tt.err
			}}}
		if _, err := b.RunJob(ctx, control.Job{ID: "j", Type: "wait"}, nil); err == nil || !strings.Contains(said.String(), tt.want) {
			t.Errorf("%v: %v, log:\n%s", tt.cause, err, said.String())
		}
		end(nil)
	}
}

// A version that was unloaded to make room does not come back while the daemon stops.
func TestStopWhileSwapping(t *testing.T) {
	for _, stopping := range []bool{false, true} {
		t.Run(fmt.Sprintf("stopping=%v", stopping), func(t *testing.T) {
			var said lines
			r := newRig(t, t.TempDir())
			r.put(t, "m.vqf", tinyModel(t, nil))
			r.scan(t.Context())
			expect(t, r, "m ready*")
			r.log = slog.New(slog.NewTextHandler(&said, nil))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			tries := 0
			r.load = func(ctx context.Context, _ string, in installed) (servable, error) {
				if tries++; tries == 1 {
					return nil, &engine.MemoryError{Need: engine.Need{Weights: 2}, Limit: 1}
				}
				if stopping {
					stop()
					return nil, ctx.Err()
				}
				return nil, errors.New("no luck")
			}
			r.put(t, "m.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 9 }))
			r.scan(ctx)
			if list := faults(said.String()); tries < 3 || stopping && len(list) > 0 || !stopping && !strings.Contains(strings.Join(list, ""), "cannot be loaded again") {
				t.Errorf("%d tries, log:\n%s", tries, said.String())
			}
		})
	}
}

// Somebody writes to the file of a model that was closed a moment ago: there is nothing
// that would have to move to a copy.
func TestStopWhileWrittenOver(t *testing.T) {
	var said lines
	r := newRig(t, t.TempDir())
	r.put(t, "m.vqf", tinyModel(t, nil))
	r.scan(t.Context())
	r.log = slog.New(slog.NewTextHandler(&said, nil))
	v := r.reg.all()[0]
	if v.guard == nil {
		t.Skip("this file system has no leases")
	}
	if err := v.servable.Close(); err != nil {
		t.Fatal(err)
	}
	r.unshare(v)
	if list := faults(said.String()); len(list) > 0 {
		t.Errorf("it is told as\n%s", strings.Join(list, ""))
	}
	left, err := filepath.Glob(filepath.Join(r.store.dir, adopting+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(r.store.weights(v.Key)); err != nil {
		t.Error(err)
	}
}
