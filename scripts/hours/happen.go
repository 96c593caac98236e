// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"
)

// A happening comes at one minute, and again after so many, or at these minutes alone.
type happening struct {
	name    string
	at      int
	every   int // 0: once
	do      func(*life, int) error
	counted bool // do has told of its ends itself
}

func (h happening) due(minute int) bool {
	return minute == h.at || h.every > 0 && minute > h.at && (minute-h.at)%h.every == 0
}

func (l *life) happen(h happening, minute int) {
	err := h.do(l, minute)
	if !h.counted || err != nil {
		l.tell(h.name, err)
	}
	if !h.counted && err == nil && (h.every == 0 || h.every >= 180) {
		fmt.Printf("ok      %s at %s\n", h.name, l.age())
	}
}

const day = 24 * time.Hour

// happenings are what is not a question of every other minute. The order is that within one.
var happenings = []happening{
	{"bad messages", 15, 120, (*life).badMessages, true},
	{"request with its time", 25, 60, (*life).timed, true},
	{"plain question", 30, 240, (*life).plain, true},
	{"reader that leaves", 35, 240, (*life).leaves, false},
	{"reload", 45, 180, (*life).reload, false},
	{"many at once", 50, 60, (*life).many, true},
	{"page and state", 55, 60, (*life).page, false},
	{"canceled request", 75, 180, (*life).canceled, true},
	{"deadline", 85, 300, (*life).deadline, true},
	{"model dropped anew", 90, 240, (*life).drop, false},
	{"verify", 100, 360, (*life).verify, false},
	{"conversion", 130, 720, (*life).convert, false},
	{"damaged file", 160, 720, (*life).damaged, false},
	{"broker restarted", 205, 540, (*life).restartBroker, true},
	{"broker killed", 475, 1080, (*life).killBroker, true},
	{"broker away", 1570, 1440, (*life).brokerAway, true},
	{"journal rotated", 1435, 1440, (*life).rotate, false},

	{"release 1 published", 3 * 60, 0, publish(1), false},
	{"release 1 serves", 3*60 + 20, 0, serves("1.1", current("1.1")...), false},

	{"clock an hour ahead", 8*60 + 5, 0, clock(time.Hour), true},
	{"clock right", 11*60 + 5, 0, clock(0), true},
	{"clock three days ahead", 15*60 + 5, 0, clock(3 * day), true},
	{"clock right", 18*60 + 5, 0, clock(0), true},
	{"clock two hours behind", 22*60 + 5, 0, clock(-2 * time.Hour), true},
	{"clock right", 25*60 + 5, 0, clock(0), true},
	{"clock 40 days ahead", 30*60 + 5, 0, clock(40 * day), true},
	{"release 2 published, expired by that clock", 31 * 60, 0, publish(2), false},
	{"release 2 refused", 31*60 + 20, 0, serves("1.1", `"rev":2`, `"status":"failed"`, `"code":"manifest_expired"`), false},
	{"clock right", 33*60 + 5, 0, clock(0), true},
	{"release 2 published again", 34 * 60, 0, publish(2), false},
	{"release 2 serves", 34*60 + 20, 0, serves("1.2", current("1.2")...), false},
	{"clock 400 days behind", 38*60 + 5, 0, clock(-400 * day), true},
	{"clock right", 40*60 + 5, 0, clock(0), true},
	{"clock in 1970", 45*60 + 5, 0, epoch, true},
	{"clock right", 47*60 + 5, 0, clock(0), true},
	{"clock half a minute ahead", 52*60 + 5, 0, clock(30 * time.Second), true},
	{"clock right", 54*60 + 5, 0, clock(0), true},
	{"release 3 published", 56 * 60, 0, publish(3), false},
	{"release 3 serves", 56*60 + 20, 0, serves("1.3", current("1.3")...), false},
	{"clock a day ahead", 60*60 + 5, 0, clock(day), true},
	{"clock right", 61*60 + 5, 0, clock(0), true},
}
