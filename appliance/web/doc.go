// SPDX-License-Identifier: Apache-2.0

// Package web is what the appliance shows over HTTP: the part of OpenAI's interface
// that a model of this kind can serve, a page for people, and the upload of a model.
// It knows requests, replies and documents of package control, and no engine: what it
// needs of the appliance is the interface [Box].
//
// [New] has the routes. [Guard] stands before them on a TCP port: it asks for a token,
// or else for a name that another site cannot point at this machine.
package web
