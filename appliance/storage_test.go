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

// What a box writes to its storage: next to nothing while it is idle, and little for
// each answer. With WINDHOVER_SOAK the figures are those of docs/PERFORMANCE.md.
func TestWritesToStorage(t *testing.T) {
	requests, idle := 200, 3*time.Second
	if n := soaking(t, requests); n > requests {
		requests, idle = min(n, 2000), 5*time.Minute // the broker syncs every two
	}
	brokers := map[string]func(t *testing.T, c *Config){
		"embedded broker": func(*testing.T, *Config) {},
		"other broker":    func(t *testing.T, c *Config) { c.MQTT.URL = "mqtt://" + newMosquitto(t).addr },
	}
	for name, choose := range brokers {
		t.Run(name, func(t *testing.T) {
			disk := newFlash(t)
			b := startBox(t, func(c *Config) { c.Paths.State = filepath.Join(disk.dir, "state"); choose(t, c) })
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
			ask(3)
			<-time.After(2500 * time.Millisecond) // what is stored a moment later: the list of retained topics
			bytes, writes := disk.written(t)
			<-time.After(idle) // this is what is measured
			bytesIdle, writesIdle := disk.written(t)
			ask(requests)
			bytesLoad, writesLoad := disk.written(t)
			bytesIdle, bytesLoad = bytesIdle-bytes, bytesLoad-bytesIdle
			writesIdle, writesLoad = writesIdle-writes, writesLoad-writesIdle
			days := float64(24*time.Hour) / float64(idle)
			t.Logf("idle: %d bytes in %d writes in %v, %.2f MB a day", bytesIdle, writesIdle, idle, float64(bytesIdle)*days/1e6)
			t.Logf("load: %d answers of 48 tokens, %d bytes in %d writes, %.0f bytes an answer", requests, bytesLoad, writesLoad, float64(bytesLoad)/float64(requests))
			if bytesIdle > 256<<10 {
				t.Errorf("an idle box wrote %d bytes in %v", bytesIdle, idle)
			}
			if name == "other broker" && bytesLoad > 256<<10 {
				t.Errorf("answers are written to storage: %d bytes for %d", bytesLoad, requests)
			}
			if bytesLoad > int64(requests)*64<<10 {
				t.Errorf("%d bytes for %d answers", bytesLoad, requests)
			}
		})
	}
}
