// SPDX-License-Identifier: Apache-2.0

// Package control is the MQTT side of the appliance: topics, messages, admission
// of requests, reply streams, job records, the two broker connections and the
// client that talks to them. docs/PROTOCOL.md is what it promises on the wire.
//
// It knows no model. What a device can do comes in through [Backend], three small
// interfaces that the appliance implements and that tests fake.
//
// Where to start: [Server] is the device side, [Client] the caller's side. Inside:
//
//	message.go request.go job.go   the wire: structs, decoding, limits
//	code.go                        error codes, values that are also errors
//	desk.go worker.go ops.go       admission: ids, queue, exactly one outcome
//	stream.go outbox.go            replies: seq, batching, lanes, windows, redelivery
//	jobs.go journal.go             commands and their records on disk
//	link.go dial.go truncate.go    one supervised broker connection
//	server.go state.go             start, retained documents, shutdown
//
// Nothing in this package runs inside an MQTT callback longer than a channel send.
package control
