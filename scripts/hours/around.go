// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const drops = "/var/lib/windhover/drop/"

func (l *life) reload(int) error { return command("systemctl", "reload", "windhover") }

// page looks at what people and monitors look at.
func (l *life) page(n int) error {
	for _, path := range []string{"/", "/healthz", "/readyz", "/v1/models"} {
		if _, err := get(path); err != nil {
			return err
		}
	}
	if n%360 > 60 {
		return nil
	}
	return command("windhover", "status")
}

func (l *life) rotate(int) error { return command("journalctl", "--rotate") }

// copyTo drops a file as cp does.
func copyTo(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// drop puts the other one of two versions in the place of the model, and waits until
// it serves.
func (l *life) drop(n int) error {
	file := [...]string{"tiny-q4.vqf", "tiny.vqf"}[n/240%2]
	before := l.works.document("model/tiny")
	if err := copyTo(filepath.Join(l.inputs, file), drops+"tiny.vqf"); err != nil {
		return err
	}
	return within(5*time.Minute, "the new version serves", func() bool {
		doc := l.works.document("model/tiny")
		return digest(doc) != digest(before) && strings.Contains(doc, `"state":"ready"`)
	})
}

// digest is the one in a model's document.
func digest(document string) string {
	_, rest, _ := strings.Cut(document, `"sha256":"`)
	sum, _, _ := strings.Cut(rest, `"`)
	return sum
}

func (l *life) verify(n int) error {
	r, err := l.works.job("verify", fmt.Sprintf("verify%d", n), map[string]any{"model": "tiny"})
	return succeeded(r, err)
}

func succeeded(r reply, err error) error {
	if err == nil && r.Status != "succeeded" {
		err = fmt.Errorf("%s%s: %s: %s", r.Status, r.T, r.Error.Code, r.Error.Message)
	}
	return err
}

// convert makes a model of a checkpoint, waits until it serves, and removes it.
func (l *life) convert(n int) error {
	r, err := l.works.job("convert", fmt.Sprintf("convert%d", n), map[string]any{"source": "again"})
	if err := succeeded(r, err); err != nil {
		return err
	}
	if err := within(5*time.Minute, "what was converted serves", exists(drops+"again.vqf.ready")); err != nil {
		return err
	}
	r, err = l.works.job("model_remove", fmt.Sprintf("remove%d", n), map[string]any{"model": "again"})
	return succeeded(r, err)
}

func exists(file string) func() bool {
	return func() bool { _, err := os.Stat(file); return err == nil }
}

// damaged drops a file with one bit turned over.
func (l *life) damaged(int) error {
	data, err := os.ReadFile(filepath.Join(l.inputs, "tiny.vqf"))
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 1
	file := drops + "damaged.vqf"
	if err := os.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	if err := within(5*time.Minute, "the damaged file is refused", exists(file+".failed")); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	if err := os.Remove(file + ".failed"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// whileAsking does something to the broker after a request was accepted, which has to
// be answered as if nothing had been.
func (l *life) whileAsking(what string, n int, do func() error) error {
	var wg sync.WaitGroup
	done := errors.New("nobody heard that the request was accepted")
	id := fmt.Sprintf("ask%d", n)
	r, err := l.devices[n%len(l.devices)].ask("generate", id, question(id, "once upon a time", 40), func() {
		wg.Go(func() { done = do() })
	})
	wg.Wait()
	l.answer(what, r, errors.Join(err, done, l.same(r.Model.SHA256+"once", r.Text)), "stop", "length")
	fmt.Printf("info    %s at %s\n", what, l.age())
	return nil
}

func (l *life) restartBroker(n int) error {
	return l.whileAsking("broker restarted", n, func() error { return command("systemctl", "restart", "mosquitto") })
}

func (l *life) killBroker(n int) error {
	return l.whileAsking("broker killed", n, func() error { return command("systemctl", "kill", "-s", "KILL", "mosquitto") })
}

func (l *life) brokerAway(n int) error {
	return l.whileAsking("broker away", n, func() error {
		err := command("systemctl", "stop", "mosquitto")
		time.Sleep(4 * time.Minute)
		return errors.Join(err, command("systemctl", "start", "mosquitto"))
	})
}

// clock sets the clock of the box while a request is in work, which has to be
// answered as if nothing had been, though it has a deadline.
func clock(off time.Duration) func(*life, int) error {
	return func(l *life, n int) error { return l.step(n, off) }
}

func epoch(l *life, n int) error {
	return l.step(n, time.Date(1970, 1, 8, 0, 0, 0, 0, time.UTC).Sub(l.now()))
}

func (l *life) step(n int, off time.Duration) error {
	set := errors.New("nobody heard that the request was accepted")
	id := fmt.Sprintf("step%d", n)
	q := question(id, "once upon a time", 40)
	q["deadline_ms"] = int(5 * time.Minute / time.Millisecond)
	r, err := l.devices[n%len(l.devices)].ask("generate", id, q, func() { set = l.set(off) })
	l.answer("clock set", r, errors.Join(err, set, l.same(r.Model.SHA256+"once", r.Text)), "stop", "length")
	fmt.Printf("info    the clock is off by %v at %s\n", off.Round(time.Second), l.age())
	return nil
}

// publish makes a signed document what the box is to run.
func publish(release int) func(*life, int) error {
	return func(l *life, _ int) error {
		data, err := os.ReadFile(filepath.Join(l.inputs, fmt.Sprintf("shop-%d.dsse", release)))
		if err != nil {
			return err
		}
		return l.works.publish("desired", true, data)
	}
}

// serves wants the box to answer with a version, and to report that of the document.
func serves(version string, says ...string) func(*life, int) error {
	return func(l *life, n int) error {
		id := fmt.Sprintf("shop%d", n)
		r, err := l.devices[0].ask("generate", id, map[string]any{"id": id, "model": "shop", "prompt": "hello", "max_tokens": 4}, nil)
		if err == nil && r.Model.Version != version {
			err = fmt.Errorf("version %q answers instead of %s", r.Model.Version, version)
		}
		l.answer("what a release serves", r, err)
		return reported(l.works.document("reported"), says...)
	}
}

// reported wants these parts in what a box reports.
func reported(document string, says ...string) error {
	for _, s := range says {
		if !strings.Contains(document, s) {
			return fmt.Errorf("%s is not in %s", s, document)
		}
	}
	return nil
}

// current is what a box reports that serves a version as it was told to.
func current(version string) []string {
	return []string{`"status":"current"`, `"serves":"` + version + `"`}
}
