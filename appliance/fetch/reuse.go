// SPDX-License-Identifier: Apache-2.0

package fetch

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"windhover/appliance/disk"
)

// reuse takes blocks from files that are there. Versions of a model have many in
// common at the same places. A file that cannot be read has none: the network has them.
func (p *part) reuse(ctx context.Context, installed []string) error {
	if p.missing == 0 {
		return nil
	}
	buf := make([]byte, p.x.Block)
	for _, path := range installed {
		g, err := p.f.Disk.Open(path, false)
		if err != nil {
			continue
		}
		if err := errors.Join(p.reuseFile(ctx, g, buf), g.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (p *part) reuseFile(ctx context.Context, g disk.File, buf []byte) error {
	for at := int64(0); p.missing > 0; at += p.x.Block {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := g.ReadAt(buf, at)
		if n == 0 || err != nil && !errors.Is(err, io.EOF) {
			return nil
		}
		sum := sha256.Sum256(buf[:n])
		before := p.done
		if _, err := p.put(sum, buf[:n]); err != nil {
			return err
		}
		p.reused += p.done - before
		if err := p.settle(0); err != nil {
			return err
		}
		if err != nil { // the end of the file
			return nil
		}
	}
	return nil
}
