// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"windhover/control"
	"windhover/control/fleet"
	"windhover/control/ota"
)

// fakeBoard is a broker without a network, whose devices answer at once.
type fakeBoard struct {
	crowd     *crowd
	answer    func(d *ota.Desired) string // what devices that are reached report; nil: nothing
	deny      bool                        // documents do not get through
	away      func() bool                 // the broker is; nil: never
	published []int64                     // revs
	news      map[string][]byte
}

func newFakeBoard(n int) *fakeBoard {
	b := &fakeBoard{crowd: newCrowd(n), news: map[string][]byte{}}
	b.report(fleet.State{})
	return b
}

func (b *fakeBoard) Connected() bool { return b.away == nil || !b.away() }

func (b *fakeBoard) Publish(topic string, payload []byte) {
	if b.deny {
		return
	}
	b.news[topic] = payload
	e, err := ota.ParseEnvelope(payload, ota.MaxDocument)
	if err != nil {
		panic(err)
	}
	d, err := ota.ParseDesired(e.Payload)
	if err != nil {
		panic(err)
	}
	b.published = append(b.published, d.Rev)
	if b.answer != nil {
		status := b.answer(d)
		s := fleet.State{Phase: fleet.Rolling, First: d.Rev, Rev: d.Rev, Salt: d.Rollout.Salt, Stages: []float64{max(d.Rollout.Percent, 1)}, Since: d.IssuedAt, Wanted: d}
		b.report(s, status)
	}
}

// report lets devices say what they have come to, or what they had before.
func (b *fakeBoard) report(s fleet.State, status ...string) {
	if len(status) > 0 {
		b.crowd.answer(s, always(status[0]))
	}
	for _, d := range b.crowd.devices {
		topics := control.Topics{Device: d.Name}
		st, err1 := jsonOf(d.Status)
		rep, err2 := jsonOf(d.Reported)
		if err := errors.Join(err1, err2); err != nil {
			panic(err)
		}
		b.news[topics.Status()], b.news[topics.Reported()] = st, rep
	}
}

func (b *fakeBoard) Take(on func(topic string, payload []byte)) {
	news := b.news
	b.news = map[string][]byte{}
	for topic, payload := range news {
		on(topic, payload)
	}
}

// controllerOf keeps every state that is saved.
func controllerOf(b *fakeBoard, saved *[]fleet.State) *fleet.Controller {
	return &fleet.Controller{Board: b, Roster: fleet.NewRoster(), Limits: fleet.DefaultLimits, Sign: sign, Save: func(s fleet.State) error {
		*saved = append(*saved, s)
		return nil
	}}
}

// A roll-out to the end; each state is stored before its document goes out.
func TestController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBoard(200)
		b.answer = func(*ota.Desired) string { return control.DesiredCurrent }
		var saved []fleet.State
		c := controllerOf(b, &saved)
		if err := fleet.Gather(t.Context(), b, c.Roster, time.Minute); err != nil {
			t.Fatal(err)
		}
		var views []fleet.View
		c.Show = func(v fleet.View) { views = append(views, v) }
		end, err := c.Run(t.Context(), begin(t))
		if err != nil || end.Phase != fleet.Done || !slices.Equal(b.published, []int64{42, 43, 44, 45}) {
			t.Fatalf("it ends %s after documents %v: %v", end.Phase, b.published, err)
		}
		if saved[0].Rev != 42 || saved[len(saved)-1].Phase != fleet.Done || len(views) == 0 || views[len(views)-1].Phase != fleet.Done {
			t.Errorf("stored %d states, shown %d times", len(saved), len(views))
		}
	})
}

// A state is on the disk before anybody can know of its document; if it cannot be
// stored, nothing goes out.
func TestControllerStoresFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBoard(200)
		b.answer = func(*ota.Desired) string { return control.DesiredCurrent }
		full := errors.New("the disk is full")
		c := &fleet.Controller{Board: b, Roster: fleet.NewRoster(), Limits: fleet.DefaultLimits, Sign: sign, Save: func(s fleet.State) error {
			if slices.Contains(b.published, s.Rev) && s.Passed.IsZero() && !s.Over() {
				t.Errorf("document %d went out before it was stored", s.Rev)
			}
			if s.Rev == 43 {
				return full
			}
			return nil
		}}
		if _, err := c.Run(t.Context(), begin(t)); !errors.Is(err, full) || !slices.Equal(b.published, []int64{42}) {
			t.Errorf("documents %v went out: %v", b.published, err)
		}
	})
}

// What was cut off anywhere goes on from the state that was stored, and ends as if
// nothing had happened.
func TestControllerGoesOn_P195(t *testing.T) {
	for _, answer := range []string{control.DesiredCurrent, control.DesiredFailed} {
		synctest.Test(t, func(t *testing.T) {
			b := newFakeBoard(200)
			b.answer = func(d *ota.Desired) string {
				if d.Models[0].Version == "1.14.0" {
					return answer
				}
				return control.DesiredCurrent
			}
			s, lives := begin(t), 0
			for !s.Over() && lives < 100 {
				lives++
				var saved []fleet.State
				c := controllerOf(b, &saved)
				ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
				b.report(fleet.State{})
				_, err := c.Run(ctx, s)
				cancel()
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				again, err := fleet.ParseState(saved[len(saved)-1].Encode())
				if err != nil {
					t.Fatal(err)
				}
				s = again
			}
			want := map[string]fleet.Phase{control.DesiredCurrent: fleet.Done, control.DesiredFailed: fleet.Aborted}[answer]
			if s.Phase != want {
				t.Errorf("%s: it ends %s after %d lives: %s", answer, s.Phase, lives, s.Reason)
			}
		})
	}
}

func TestControllerGivesUp(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakeBoard, *fleet.Controller)
		want   error
	}{
		"the broker lets nothing through": {func(b *fakeBoard, _ *fleet.Controller) { b.deny = true }, fleet.ErrRefused},
		"nobody answers":                  {func(_ *fakeBoard, c *fleet.Controller) { c.Patience = time.Hour }, fleet.ErrSlow},
		"somebody else publishes": {func(b *fakeBoard, _ *fleet.Controller) {
			b.deny = true // theirs is retained
			b.news[fleet.Topic(canary)] = sign(document(50, 15))
		}, fleet.ErrOther},
		"somebody else publishes the same number": {func(b *fakeBoard, c *fleet.Controller) {
			b.answer = func(*ota.Desired) string { return control.DesiredRunning }
			shown := 0
			c.Show = func(fleet.View) {
				if shown++; shown == 2 { // ours has come back
					b.news[fleet.Topic(canary)] = sign(document(42, 15))
				}
			}
		}, fleet.ErrOther},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFakeBoard(10)
				var saved []fleet.State
				ctl := controllerOf(b, &saved)
				c.change(b, ctl)
				ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
				defer cancel()
				s := begin(t)
				s.Stages = []float64{100}
				if _, err := ctl.Run(ctx, s); !errors.Is(err, c.want) {
					t.Errorf("it ends with %v, want %v", err, c.want)
				}
			})
		})
	}
}

// A broker that goes away while a document is on its way ends nothing: the document
// has its time to come back once the broker has.
func TestControllerOutlastsTheBroker_P193(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBoard(10)
		began, shown := time.Now(), 0
		b.deny = true // with the connection
		b.away = func() bool { return time.Since(began) < time.Hour }
		var saved []fleet.State
		c := controllerOf(b, &saved)
		c.Show = func(v fleet.View) {
			if v.Away {
				shown++
			}
			if b.Connected() { // which sends again what is to be retained
				b.deny, b.answer = false, func(*ota.Desired) string { return control.DesiredCurrent }
				b.Publish(fleet.Topic(canary), sign(saved[0].Document()))
			}
		}
		s := begin(t)
		s.Stages = []float64{100}
		if end, err := c.Run(t.Context(), s); err != nil || end.Phase != fleet.Done || shown == 0 {
			t.Errorf("it ends %s after the broker was shown to be away %d times: %v", end.Phase, shown, err)
		}
	})
}
