// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"windhover/control"
	"windhover/internal/testmodel"
)

const killedEnv = "WINDHOVER_TEST_KILLED"

// The daemon dies at any moment of a life full of updates, good and bad, in any way
// they come. Whenever it starts again, an old or a new version serves, and nothing
// half done is left.
func TestKilledAtAnyMoment(t *testing.T) {
	if state := os.Getenv(killedEnv); state != "" {
		r := newRig(t, state)
		r.now = time.Now
		watchDrop(context.Background(), r.drop, r.log, r.woken, r.scan)
		return
	}
	state := t.TempDir()
	p := Paths{State: state}
	if err := makeState(p); err != nil {
		t.Fatal(err)
	}
	versions := [][]byte{tinyModel(t, nil), tinyModel(t, func(c *testmodel.Config) { c.Seed = 2 }), tinyModel(t, func(c *testmodel.Config) { c.Seed = 3 })}
	var digests []string
	r := newRig(t, t.TempDir())
	for i, v := range versions {
		r.put(t, "m.vqf", v)
		r.scan(context.Background())
		if digests = append(digests, r.reg.list()[0].SHA256); r.reg.list()[0].Error != nil {
			t.Fatalf("version %d: %v", i, r.reg.list()[0].Error)
		}
	}
	noise := slices.Clone(versions[0])
	noise[len(noise)/2] ^= 1
	rnd := rand.New(rand.NewPCG(1, 2))
	drop := filepath.Join(p.drop(), "m.vqf")
	arrive := func(data []byte) {
		t.Helper()
		tmp := filepath.Join(p.drop(), ".m.part")
		writeBytes(t, tmp, data)
		if err := os.Rename(tmp, drop); err != nil {
			t.Fatal(err)
		}
	}
	arrive(versions[0])
	served := false
	for round := range 24 {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestKilledAtAnyMoment$")
		cmd.Env = append(os.Environ(), killedEnv+"="+state)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !served {
			until(t, "the first version serves", func() bool { return exists(drop + ".ready") })
			served = true
		}
		for range rnd.IntN(4) {
			<-time.After(time.Duration(rnd.IntN(40)) * time.Millisecond)
			switch rnd.IntN(5) {
			case 0:
				arrive(noise)
			case 1:
				arrive(versions[0][:rnd.IntN(len(versions[0]))])
			case 2:
				if err := remove(drop + ".failed"); err != nil {
					t.Fatal(err)
				}
			default:
				arrive(versions[rnd.IntN(len(versions))])
			}
		}
		<-time.After(time.Duration(rnd.IntN(60)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it says that it was killed

		again := newRig(t, state)
		again.scan(context.Background())
		again.scan(context.Background())
		docs := again.reg.list()
		if len(docs) != 1 || docs[0].State != stateReady || !slices.Contains(digests, docs[0].SHA256) {
			t.Fatalf("round %d: after the restart: %+v", round, docs)
		}
		for _, dir := range []string{p.drop(), p.state(), p.store()} {
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if n := e.Name(); strings.HasPrefix(n, temporaryBegin) || strings.HasPrefix(n, adopting) {
					t.Errorf("round %d: left in %s: %s", round, dir, n)
				}
			}
			if dir == p.store() && len(entries) != 1 {
				t.Errorf("round %d: %d entries in the store", round, len(entries))
			}
		}
		again.close(context.Background())
	}
}

// On a full disk the model that serves goes on, over MQTT too; what cannot be done
// is refused by its code; and all is well when there is room again.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=48m"); err != nil {
		t.Skip("a small disk cannot be mounted:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b := startBox(t, func(c *Config) { c.Paths.State = filepath.Join(disk, "state") })
	b.drop(t, "m.vqf", tinyModel(t, nil))
	b.ready(t, "m")
	ask := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), waitFor)
		defer cancel()
		c, err := control.DialClient(ctx, control.ClientConfig{Endpoint: control.Endpoint{URL: "mqtt://" + b.cfg.MQTT.Embedded.Listen}, Device: b.cfg.Device, Name: "you"})
		if err != nil {
			return err
		}
		defer c.Close()
		r := request("hello", 4)
		r.Model = "m"
		_, err = c.Send(ctx, r, nil)
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	fill := filepath.Join(disk, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for chunk := 64 << 10; chunk > 0; chunk /= 16 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, chunk))
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "an answer on a full disk", func() bool { return ask() == nil })
	// There is room for its name, but none for its marker or the book.
	if err := os.Link(filepath.Join(b.cfg.Paths.drop(), "m.vqf"), filepath.Join(b.cfg.Paths.drop(), "twin.vqf")); err != nil {
		t.Fatal(err)
	}
	b.ready(t, "twin")
	ctx, cancel := context.WithTimeout(context.Background(), waitFor)
	defer cancel()
	_, err = b.client(t, "jobs").Command(ctx, "verify", "j1", []byte(`{"model":"m"}`), nil)
	if !errors.Is(err, control.InsufficientStore) {
		t.Errorf("a job on a full disk: got %v", err)
	}
	// A restart starts.
	b.restart(t)
	b.ready(t, "m")
	until(t, "an answer after a restart on a full disk", func() bool { return ask() == nil })
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	b.drop(t, "n.vqf", tinyModel(t, func(c *testmodel.Config) { c.Seed = 9 }))
	b.ready(t, "n")
	// The broker may just be moving back.
	until(t, "an answer with room again", func() bool { return ask() == nil })
	until(t, "the marker", func() bool { return exists(filepath.Join(b.cfg.Paths.drop(), "n.vqf.ready")) })
}
