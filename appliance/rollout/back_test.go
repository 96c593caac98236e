// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"testing"
	"testing/synctest"

	"windhover/appliance/rollout"
	"windhover/internal/testdisk"
)

// A version that was taken back when nobody was there to hear of it, before the broker
// was, is still told as one: whoever asks for it again learns that the one before serves.
func TestBackIsToldLater_P161(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, fresh := newRelease(13), newRelease(14)
		fresh.kills = rollout.Observe
		all := []*release{old, fresh}
		d := world(t, old)
		_, whole := life(t, d, nil, all, fresh.want(42))
		for range 5 {
			if whole {
				break
			}
			d.Restart(testdisk.Everything, 0)
			_, whole = life(t, d, nil, all)
		}
		if !whole {
			t.Fatal("it is not taken back")
		}
		for _, rev := range []int64{42, 43} {
			b, _ := life(t, d, nil, all, fresh.want(rev))
			if r := b.last(); r.Status != rollout.Rejected || !r.RolledBack || b.serving != old.SHA256 {
				t.Errorf("rev %d: reported %+v", rev, r)
			}
		}
		if b, _ := life(t, d, nil, all, rollout.Remove{Model: name, Job: "j"}); b.last().Status != rollout.Succeeded {
			t.Fatalf("removed: %+v", b.last())
		}
		if b, _ := life(t, d, nil, all, fresh.want(44)); b.last().RolledBack {
			t.Errorf("nothing serves: %+v", b.last())
		}
	})
}
