// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"sync"
)

// logger is the server's logger: warnings and worse go to tell, and the first fatal
// one is kept, because the server reports a failed start nowhere else.
type logger struct {
	tell   func(level, text string)
	closes func() // called when the server says storeCloses; nil: nobody asks

	mu    sync.Mutex
	first string
}

func (l *logger) say(level, format string, v ...any) string {
	text := fmt.Sprintf(format, v...)
	if l.tell != nil {
		l.tell(level, text)
	}
	return text
}

func (l *logger) fatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// Fatalf is called where the server cannot go on; it must not end the process.
func (l *logger) Fatalf(format string, v ...any) {
	text := l.say("error", format, v...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == "" {
		l.first = text
	}
}

func (l *logger) Errorf(format string, v ...any) { l.say("error", format, v...) }
func (l *logger) Warnf(format string, v ...any)  { l.say("warn", format, v...) }

// Noticef is told what goes as planned, which is of interest at one point alone.
func (l *logger) Noticef(format string, _ ...any) {
	if format == storeCloses && l.closes != nil {
		l.closes()
	}
}

func (l *logger) Debugf(string, ...any) {}
func (l *logger) Tracef(string, ...any) {}
