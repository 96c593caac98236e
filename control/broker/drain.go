// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// storeCloses is what the server says, in the goroutine that shuts down, when every
// client is gone, none is let in any more, and the store is closed next. It is the
// only word of that moment: a server that says it otherwise fails TestCloseDrains.
const storeCloses = "Initiating JetStream Shutdown..."

// What a store that hangs can hold up: how long nothing moves, and in all. A hundred
// subscriptions are deleted in a fraction of a second, or in many on a busy SD card.
const (
	drainStall   = 5 * time.Second
	drainTimeout = 20 * time.Second
)

// drain waits until the server has done what the last clients left behind.
//
// A clean session ends by requests to delete its subscriptions' consumers, and the
// server waits for none of them. One that is carried out while the store closes finds
// a stream whose consumers are struck off already, takes it for a stream that nobody
// reads, and purges it: with it go the QoS 1 messages that wait for the persistent
// sessions (server/mqtt.go mqttSession.clear, server/stream.go stream.stop,
// server/consumer.go cleanupNoInterestMessages of v2.15.3).
//
// A request passes two queues. The first is empty only when all of it is in the
// second, and the second is counted until it is carried out, so looking at them in
// this order misses nothing.
func drain(srv *server.Server) bool {
	begin := time.Now()
	moved, before := begin, ^uint64(0)
	for {
		left, sending := requests(srv)
		if left == 0 && !sending {
			return true
		}
		now := time.Now()
		if left != before {
			moved, before = now, left
		}
		if now.Sub(moved) > drainStall || now.Sub(begin) > drainTimeout {
			return false
		}
		time.Sleep(time.Millisecond) // there is no event to wait for
	}
}

// requests are those that are not carried out, and whether there are more to come.
func requests(srv *server.Server) (left uint64, sending bool) {
	for name, q := range *srv.Ipqueuesz(&server.IpqueueszOptions{Filter: " MQTT "}) {
		if strings.HasSuffix(name, "send") && (q.Pending != 0 || q.InProgress != 0) {
			sending = true
		}
	}
	js, err := srv.Jsz(nil)
	if err != nil || js.Disabled {
		return 0, false // without a store there is nothing to keep
	}
	return js.API.Inflight, sending
}

// retained is the stream of the retained messages.
const retained = "$MQTT_rmsgs"

// restored says that the server knows its retained messages again. It reads them from
// the store after it has answered the first client, and who subscribes before they are
// read is not sent those that are not (server/mqtt.go mqttCreateAccountSessionManager).
//
// What the stream has not given out yet is pending, and what it gave out is in one of
// its queues until it is entered.
func restored(srv *server.Server) bool {
	js, err := srv.Jsz(&server.JSzOptions{Accounts: true, Streams: true, Consumer: true})
	if err != nil || js.Disabled {
		return true // nothing was kept
	}
	for _, a := range js.AccountDetails {
		for _, s := range a.Streams {
			for _, c := range s.Consumer {
				// One of an earlier run may stay for minutes, reading nothing.
				if s.Name == retained && c.PushBound && c.NumPending > 0 {
					return false
				}
			}
		}
	}
	return len(*srv.Ipqueuesz(&server.IpqueueszOptions{Filter: retained})) == 0 // those that hold something
}
