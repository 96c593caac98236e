// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"time"

	"windhover/control"
)

// linked reports whether the dropped file is the very file in the store. What is
// written to such a file breaks its lease; one that was copied into the store has none.
func (in installed) linked(c candidate) bool {
	return in.Stored.Dev == c.ID.Dev && in.Stored.Inode == c.ID.Inode
}

// reread looks whether a dropped file of the same size and time has other bytes than
// those that serve: cp -p and rsync -t of files whose times are made the same by their
// build leave it so. Mostly its mode, its owner or the number of its names has changed.
// It returns when to look again, 0 if all is well.
func (d *deployer) reread(ctx context.Context, s *sighting) time.Duration {
	in := d.book.Models[s.Name]
	if in.SHA256 == "" { // vqf.check = "size" asks for no more
		s.touched = false
		return 0
	}
	still := d.now().Sub(s.since)
	if at := weightsArrived(s.Weights, still); at.Err == nil && !at.Complete {
		return pause(still, at.Unsure)
	}
	d.pulse.look("reading "+s.Entry+" again", readLimit)
	var sum string
	var err error
	politely(func() { sum, err = digestOf(ctx, s.Weights) })
	switch {
	case ctx.Err() != nil:
		return rescan
	case err == nil && sum == in.SHA256:
		s.touched = false
		return 0
	}
	d.log.Info("a dropped file has other bytes, though size and time are the same", "model", s.Name, "entry", s.Entry)
	in.Source = fileID{} // which is no file's
	d.book.Models[s.Name] = in
	d.save()
	delete(d.seen, s.Name)
	return recheck
}

// tellSpace says once that the disk of the store gets full, and again after there was
// room: copies into the store leave that much free and are refused below it.
func (d *deployer) tellSpace() {
	free, ok := d.space()
	switch {
	case !ok:
	case !d.low && free < reserve:
		d.low = true
		d.log.Warn("little space is left for models", "event", "low_space", "path", d.store.dir, "free", free)
		d.event(control.Occurrence{Event: "low_space", Message: fmt.Sprintf("%d MiB are free where models are stored: files of other users, which are copied, are refused", free>>20)})
	case free >= 2*reserve:
		d.low = false
	}
}
