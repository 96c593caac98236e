// SPDX-License-Identifier: Apache-2.0

package ota

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// buckets is how finely a fleet is divided: hundredths of a percent.
const buckets = 10000

// Bucket is the place of a device in a roll-out, from 0 to 9999: the first 8 bytes,
// big-endian, of the SHA-256 of "salt/device", modulo 10000. Another salt gives
// another order, so that not the same devices always go first.
func Bucket(salt, device string) int {
	return int(share(salt+"/"+device) % buckets)
}

// reaches says whether the devices of a bucket act on the document. A device that one
// percentage reaches is reached by every higher one with the same salt.
func (r Rollout) reaches(bucket int) bool { return float64(bucket) < r.Percent*buckets/100 }

// Delay is how long a device waits before it downloads: its own share of the jitter,
// the same after a restart, so that a group does not come at once.
func (r Rollout) Delay(device string) time.Duration {
	j := r.Jitter()
	if j <= 0 {
		return 0
	}
	return time.Duration(share("jitter/"+r.Salt+"/"+device) % uint64(j))
}

func share(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:])
}
