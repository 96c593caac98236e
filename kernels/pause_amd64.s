// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// func pause()
// A few polls' worth of waiting; short, so that the collector can stop the
// goroutine in between.
TEXT ·pause(SB), NOSPLIT, $0-0
	PAUSE
	PAUSE
	RET
