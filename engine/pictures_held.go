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
	each   map[context.Context]int64 // of used, by the request that holds them
}

// take counts n bytes until ctx, which is that of a request, ends, if there is room
// for them.
func (h *heldPictures) take(ctx context.Context, n int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := h.each[ctx]
	switch {
	case n > h.budget-own: // whatever others hold
		return &PicturesError{Need: own + n, Limit: h.budget}
	case n > h.budget-h.used:
		return fmt.Errorf("%w hold %d bytes, with %d more they would be over %d: ask again when some are answered, or send fewer or smaller ones",
			ErrPicturesFull, h.used, n, h.budget)
	}
	if h.each == nil {
		h.each = make(map[context.Context]int64)
	}
	h.used += n
	if h.each[ctx] += n; own > 0 {
		return nil // all goes with the first
	}
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.used -= h.each[ctx]
		delete(h.each, ctx)
	})
	return nil
}
