// SPDX-License-Identifier: Apache-2.0

// Package appliance is the daemon: it turns the content of the drop directory
// into serving models, answers what package control takes in over MQTT, carries
// out jobs in child processes, and tells systemd, HTTP and the local socket how
// it is. It holds no format, no arithmetic and no protocol of its own: those are
// packages vqf, engine and control, which know nothing of each other; here they meet.
// Only cmd/windhover imports it.
//
// Where to start: [Serve], whose body is the start order. Inside:
//
//	config*.go                     config.toml, conf.d, environment
//	watch.go candidate.go complete.go scan.go
//	                               what is in the drop directory, and whether it has arrived whole
//	store.go install.go marker.go  into the store, verified; .ready and .failed
//	deploy.go load.go registry.go  load, probe, swap, drain; which version serves whom
//	backend.go generate.go chat.go jobs*.go
//	                               the device as package control sees it
//	serve.go mqtt.go http.go notify.go metrics.go heat.go
//	                               the running daemon and whom it tells
//	bench*.go doctor*.go tools.go client.go endpoint.go
//	                               what the command line's verbs do
//
// docs/DESIGN.md says why it is built so.
package appliance
