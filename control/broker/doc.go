// SPDX-License-Identifier: Apache-2.0

// Package broker is the MQTT broker inside the appliance: nats-server with its MQTT
// 3.1.1 listener and a file store, so that a box answers prompts without any other
// service. It listens on loopback unless it is given users; it has no NATS port.
//
// It knows nothing of the messages beyond the access rules of docs/PROTOCOL.md,
// "Security", which it turns into permissions of its users.
package broker
