// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"windhover/control"
)

// flash is a small ext4 of its own, whose every write is counted: data, journal and
// what else the file system does. That is what wears an eMMC out.
type flash struct {
	dir  string
	stat string // of the block device
}

// newFlash mounts one; without the right to it the test is skipped.
func newFlash(t *testing.T) *flash {
	t.Helper()
	mkfs := need(t, "mkfs.ext4")
	dir := t.TempDir()
	image, mount := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	if err := os.Mkdir(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(image)
	if err == nil {
		err = f.Truncate(512 << 20)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	// Without what mkfs leaves for later, which would be counted.
	if out, err := exec.Command(mkfs, "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, mount).CombinedOutput(); err != nil {
		t.Skipf("no disk can be mounted here: %s", strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	var st unix.Stat_t
	if err := unix.Stat(mount, &st); err != nil {
		t.Fatal(err)
	}
	return &flash{mount, fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev))}
}

// written is how many bytes have been written so far, and in how many writes, what
// waits in the page cache included.
func (f *flash) written(t *testing.T) (bytes, writes int64) {
	t.Helper()
	d, err := os.Open(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(f.stat)
	if err != nil {
		t.Fatal(err)
	}
	field := strings.Fields(string(data))
	if writes, err = strconv.ParseInt(field[4], 10, 64); err != nil {
		t.Fatal(err)
	}
	sectors, err := strconv.ParseInt(field[6], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return sectors * 512, writes
}

// What a box writes to its storage: nothing while it is idle, once what the embedded
// broker stores a while after the last message is there (an index of each of its five
// streams, within two and a half minutes), and little for each answer. With WINDHOVER_SOAK
// the figures are those of docs/PERFORMANCE.md.
func TestWritesToStorage(t *testing.T) {
	m := storageMeter{requests: 200, settle: 2500 * time.Millisecond, idle: 3 * time.Second, steady: 2 * time.Second, every: 200 * time.Millisecond}
	if n := soaking(t, m.requests); n > m.requests {
		m = storageMeter{requests: min(n, 2000), settle: 3 * time.Minute, idle: 5 * time.Minute, steady: 5 * time.Minute, every: 10 * time.Second}
	}
	brokers := map[string]func(t *testing.T, c *Config){
		"embedded broker": func(*testing.T, *Config) {},
		"other broker":    func(t *testing.T, c *Config) { c.MQTT.URL = "mqtt://" + newMosquitto(t).addr },
	}
	for name, choose := range brokers {
		t.Run(name, func(t *testing.T) {
			m := m
			disk := newFlash(t)
			b := startBox(t, func(c *Config) { c.Paths.State = filepath.Join(disk.dir, "state"); choose(t, c) })
			if b.cfg.MQTT.URL != "" {
				m.settle = min(m.settle, 3*time.Second) // nobody stores anything later
			}
			m.run(t, disk, b)
		})
	}
}

// storageMeter says how long what is looked at.
type storageMeter struct {
	requests             int // in a row
	settle, idle, steady time.Duration
	every                time.Duration // a request, while it is steady
}

func (m storageMeter) run(t *testing.T, disk *flash, b *box) {
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	b.connected(t)
	c, err := control.DialClient(t.Context(), control.ClientConfig{
		Endpoint: control.Endpoint{URL: cmp.Or(b.cfg.MQTT.URL, "mqtt://"+b.cfg.MQTT.Embedded.Listen)}, Device: b.cfg.Device, Name: "you",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ask := func(n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 2*waitFor)
		defer cancel()
		for i := range n {
			if _, err := c.Send(ctx, request(fmt.Sprintf("%d hello", i), 48), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	bytes, writes := disk.written(t)
	since := func() (b, w int64) {
		b, w = bytes, writes
		bytes, writes = disk.written(t)
		return bytes - b, writes - w
	}
	day := func(n int64, d time.Duration) float64 { return float64(n) * float64(24*time.Hour) / float64(d) / 1e6 }

	ask(3)
	since()
	<-time.After(m.settle) // these times are what is measured over
	n, w := since()
	t.Logf("after the last answer, once: %d bytes in %d writes within %v", n, w, m.settle)
	<-time.After(m.idle)
	n, w = since()
	t.Logf("idle: %d bytes in %d writes in %v, %.2f MB a day", n, w, m.idle, day(n, m.idle))
	if n > 16<<10 {
		t.Errorf("an idle box wrote %d bytes in %v", n, m.idle)
	}
	ask(m.requests)
	n, w = since()
	t.Logf("load: %d answers of 48 tokens, %d bytes in %d writes, %.0f bytes an answer", m.requests, n, w, float64(n)/float64(m.requests))
	if n > int64(m.requests)*64<<10 {
		t.Errorf("%d bytes for %d answers", n, m.requests)
	}
	other := b.cfg.MQTT.URL != ""
	if other && n > 256<<10 {
		t.Errorf("answers are written to storage: %d bytes for %d", n, m.requests)
	}
	if !other {
		<-time.After(m.settle)
		since()
	}
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for end := time.Now().Add(m.steady); time.Now().Before(end); <-tick.C {
		ask(1)
	}
	n, w = since()
	t.Logf("an answer of 48 tokens every %v: %d bytes in %d writes in %v, %.2f MB a day", m.every, n, w, m.steady, day(n, m.steady))
	if other && n > 16<<10 {
		t.Errorf("answers are written to storage: %d bytes in %v", n, m.steady)
	}
}
