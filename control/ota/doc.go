// SPDX-License-Identifier: Apache-2.0

// Package ota judges the signed documents of over-the-air updates: what a device is
// to run (Desired), what a release is (Release) and the digests of a file's blocks
// (Index), each in an envelope with Ed25519 signatures. docs/PROTOCOL.md, "Updates
// over the air", is what it promises.
//
// It is pure: it reads no file, asks no clock and opens no connection. What has to
// outlast a restart is a value, Memory, that goes in and comes out. Who downloads and
// installs is not its business.
//
// Start with [Judge], the device's side; [Sign] and [BuildIndex] are the publisher's.
//
//	envelope.go keys.go     signatures, roles, thresholds
//	desired.go check.go     what a device is to run, and what a document may say
//	release.go index.go     what a release is, and the digests of its blocks
//	accept.go memory.go     the judgement, and what is remembered of it
//	rollout.go window.go    buckets, jitter, times of day
//
// Every attack has a code of its own: arbitrary software signature_missing,
// signature_invalid, key_unknown or, for bytes, digest_mismatch; rollback
// rollback_rejected; freeze manifest_expired; mix and match mix_and_match; another
// box's document wrong_target. Endless data and slow retrieval are noticed by who
// downloads.
package ota
