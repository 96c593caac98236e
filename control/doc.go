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
//	message.go request.go job.go   the wire: structs, decoding (validate.go, peek.go)
//	code.go                        error codes, values that are also errors
//	desk.go worker.go              admission: ids, queue, exactly one outcome
//	stream.go outbox.go            replies: seq, batching, lanes, windows, redelivery
//	jobs.go jobrun.go journal.go   commands, their records, what is on disk
//	link.go dial.go truncate.go    one supervised broker connection
//	client.go send.go              the other side
//	server.go documents.go         start, shutdown, retained documents (state.go, retained.go)
//
// No MQTT callback blocks: on the device it is a send to a channel, or a refusal when
// that is full.
package control
