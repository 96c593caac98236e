// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"windhover/control/broker"
)

// testHouse is an embedded broker on a disk with the given room.
func testHouse(t *testing.T, free *int64) *house {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Device = "box"
	cfg.Paths.State = t.TempDir()
	cfg.MQTT.Embedded.Listen = freePort(t)
	h := newHouse(cfg, slog.New(slog.DiscardHandler))
	h.free = func() int64 { return *free }
	memory := filepath.Join(t.TempDir(), "memory")
	h.tmp = func() string {
		if err := os.Mkdir(memory, 0o700); err != nil {
			t.Error(err)
		}
		return memory
	}
	t.Cleanup(h.close)
	return h
}

func answers(url string) bool {
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "mqtt://"))
	return err == nil && c.Close() == nil
}

// The broker leaves a full disk, serves at the same place, and returns.
func TestBrokerLeavesAFullDisk_P134(t *testing.T) {
	free := int64(1 << 30)
	h := testHouse(t, &free)
	if !h.open(context.Background()) || h.where() != h.disk {
		t.Fatalf("on a disk with room the store is on %s", h.where())
	}
	url := h.url()
	free = 0
	h.hear("error", "Filestore [$MQTT_rmsgs] Critical write error: write x: no space left on device")
	select {
	case <-h.ill:
	default:
		t.Fatal("a failed write is not noticed")
	}
	var said strings.Builder
	h.log = slog.New(slog.NewTextHandler(&said, nil))
	h.again(context.Background())
	memory := h.mem
	if !strings.Contains(said.String(), `error="the disk has too little room`) {
		t.Errorf("the log does not say why: %s", said.String())
	}
	if h.where() != "memory" || h.url() != url || !answers(url) {
		t.Errorf("on a full disk: store on %s, at %s, before at %s", h.where(), h.url(), url)
	}
	free = 1 << 30
	h.again(context.Background())
	if h.where() != h.disk || h.url() != url || !answers(url) || exists(memory) {
		t.Errorf("with room again: store on %s, at %s; memory directory left: %v", h.where(), h.url(), exists(memory))
	}
}

// So it does where bytes are free and files are what is missing, and does not try to
// return before there is room for them.
func TestBrokerLeavesADiskWithoutInodes(t *testing.T) {
	free := int64(1 << 30)
	h := testHouse(t, &free)
	if err := os.MkdirAll(h.disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", h.disk, "tmpfs", 0, "size=64m,nr_inodes=500"); err != nil {
		t.Skip("a small disk cannot be mounted:", err)
	}
	t.Cleanup(func() {
		h.close()
		if err := unix.Unmount(h.disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if !h.open(context.Background()) || h.where() != h.disk {
		t.Fatalf("on a disk with room the store is on %s", h.where())
	}
	many := filepath.Join(h.disk, "many")
	err := os.Mkdir(many, 0o700)
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(many, fmt.Sprint(i)), nil, 0o600)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if takesFiles(h.disk) {
		t.Error("a disk without inodes takes files")
	}
	h.again(context.Background())
	if h.where() != "memory" || !answers(h.url()) {
		t.Errorf("without inodes the store is on %s", h.where())
	}
	if err := os.RemoveAll(many); err != nil {
		t.Fatal(err)
	}
	if !takesFiles(h.disk) {
		t.Error("with room again it takes none")
	}
	h.again(context.Background())
	if h.where() != h.disk || !answers(h.url()) {
		t.Errorf("with room again the store is on %s", h.where())
	}
	left, err := filepath.Glob(filepath.Join(h.disk, temporaryBegin+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestBrokerStartsOnAFullDisk(t *testing.T) {
	free := int64(0)
	h := testHouse(t, &free)
	if !h.open(context.Background()) || h.where() != "memory" || !answers(h.url()) {
		t.Errorf("store on %s", h.where())
	}
}

// Where there is no memory either it says so and tries again; the end of the daemon
// ends that.
func TestBrokerNowhereToGo(t *testing.T) {
	free := int64(0)
	h := testHouse(t, &free)
	h.tmp = func() string { return "" }
	if err := h.start(); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if h.open(ctx) {
		t.Error("open says that it runs")
	}
}

// A taken port is no reason to leave the disk.
func TestBrokerPortTaken_P57(t *testing.T) {
	free := int64(1 << 30)
	h := testHouse(t, &free)
	l, err := net.Listen("tcp", h.opt.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.start(); !errors.Is(err, broker.ErrPortTaken) || h.mem != "" {
		t.Errorf("got %v, memory %q", err, h.mem)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.start(); err != nil {
		t.Error(err)
	}
}

// A broker that complains all day does not fill the log.
func TestBrokerLines(t *testing.T) {
	var lines strings.Builder
	out, err := NewLogOutput(&lines, DefaultConfig().Log)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{log: out.Logger(), ill: make(chan struct{}, 1)}
	for i := range 1000 {
		h.hear("warn", fmt.Sprint("complaint ", i))
	}
	if got := strings.Count(lines.String(), "\n"); got != DefaultConfig().Log.Burst {
		t.Errorf("%d lines", got)
	}
	if len(h.ill) != 0 {
		t.Error("a complaint counts as a failed write")
	}
}

func TestMemoryDir(t *testing.T) {
	run := t.TempDir()
	t.Setenv("RUNTIME_DIRECTORY", run)
	dirs := memoryDirs("/var/lib/windhover")
	if len(dirs) == 0 {
		t.Skip("no file system in memory here")
	}
	a, b := memoryDir("/var/lib/one"), memoryDir("/var/lib/two")
	if a == "" || a == b {
		t.Errorf("got %q and %q", a, b)
	}
	write(t, filepath.Join(a, "left"), "x")
	dropMemoryDirs("/var/lib/one")
	if exists(a) || !exists(b) {
		t.Errorf("%q is left: %v; %q is gone: %v", a, exists(a), b, !exists(b))
	}
	dropMemoryDirs("/var/lib/two")
}
