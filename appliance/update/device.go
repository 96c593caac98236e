// SPDX-License-Identifier: Apache-2.0

package update

import (
	"context"

	"windhover/appliance/rollout"
	"windhover/control/ota"
)

// Device is the part of an appliance that has the models. Verify to Withdraw are called
// one at a time, the others beside them. An error with a code (control.Error) keeps it;
// any other gets that of its phase.
type Device interface {
	// Claim says whether updates may install a model of that name: an error says who
	// has it instead.
	Claim(model string) error
	// Path is where the file of a digest lies once it is in the store.
	Path(sum ota.Digest) string
	// Has says whether it lies there, for good.
	Has(sum ota.Digest) bool
	// Verify reads a downloaded file, whose digest is known to be right, and says whether
	// its structure is sound.
	Verify(ctx context.Context, model string, v rollout.Version, path string) error
	// Stage lets move put the file under its name in the store. It is asked for again
	// after a restart, and Has is true afterwards.
	Stage(ctx context.Context, model string, v rollout.Version, move func(to string) error) error
	// Load loads a version from the store, beside the one that serves or in its place.
	Load(ctx context.Context, model string, v rollout.Version) error
	// Probe tries the version that was loaded.
	Probe(ctx context.Context, model string, v rollout.Version, h ota.Health) error
	// Switch lets it serve.
	Switch(ctx context.Context, model string, v rollout.Version) error
	// Restore lets a version of the store serve, at once if it does, and frees whatever
	// else was loaded.
	Restore(ctx context.Context, model string, v rollout.Version) error
	// Withdraw lets nothing serve under the name.
	Withdraw(ctx context.Context, model string) error
	// Sample is what was seen of the version that serves since it does.
	Sample(model string) rollout.Sample
	// Default makes a model that serves the default one.
	Default(model string) error
	// Collect removes files of updates whose digest is not to be kept.
	Collect(keep map[ota.Digest]bool) error
}
