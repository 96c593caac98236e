// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"sync"
)

// heldPictures counts the resized pictures that requests hold, those that wait too:
// admission has counted so many bytes for all of them together.
type heldPictures struct {
	mu     sync.Mutex
	budget int64 // bytes
	used   int64
}

// take counts n bytes until ctx ends, if there is room for them.
func (h *heldPictures) take(ctx context.Context, n int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n > h.budget-h.used {
		return fmt.Errorf("%w hold %d bytes, with %d more they would be over %d: ask again when some are answered, or send fewer or smaller ones",
			ErrPicturesFull, h.used, n, h.budget)
	}
	h.used += n
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.used -= n
	})
	return nil
}
