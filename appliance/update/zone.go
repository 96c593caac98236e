// SPDX-License-Identifier: Apache-2.0

package update

import (
	"os"
	"sync"
	"time"
)

// zone is the time zone of this machine as it is now. Go reads it once, when a program
// starts; a box is set up in one place and told later where it stands.
type zone struct {
	path string // /etc/localtime

	mu   sync.Mutex // guards what follows
	seen os.FileInfo
	loc  *time.Location
}

// now is the zone; what cannot be read is that of the start.
func (z *zone) now() *time.Location {
	if os.Getenv("TZ") != "" {
		return time.Local
	}
	fi, err := os.Stat(z.path)
	if err != nil {
		return time.Local
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.seen != nil && os.SameFile(z.seen, fi) && z.seen.ModTime().Equal(fi.ModTime()) && z.seen.Size() == fi.Size() {
		return z.loc
	}
	loc := time.Local
	if data, err := os.ReadFile(z.path); err == nil {
		if read, err := time.LoadLocationFromTZData("Local", data); err == nil {
			loc = read
		}
	}
	z.seen, z.loc = fi, loc
	return loc
}
