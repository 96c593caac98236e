// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"slices"

	"windhover/engine/vision"
)

// embeddings are what the tower made of the last pictures, by what was in them:
// the same picture again in the same realm is not computed again. That of another
// is, or what it took would tell what others have seen. One goroutine uses it.
type embeddings struct {
	budget int64 // bytes
	used   int64
	list   []embedding // the last one was used last
}

type embedding struct {
	realm realm
	key   [sha256.Size]byte
	*vision.Embedding
}

func (e *embedding) bytes() int64 { return embeddingBytes(e.Embedding) }

// embeddingBytes is what an embedding takes.
func embeddingBytes(e *vision.Embedding) int64 {
	return 4 * int64(len(e.Tokens)) * int64(1+len(e.DeepStack))
}

// find returns what was made of a picture in a realm, nil if that is not kept.
func (c *embeddings) find(in realm, key [sha256.Size]byte) *vision.Embedding {
	i := slices.IndexFunc(c.list, func(e embedding) bool { return e.realm == in && e.key == key })
	if i < 0 {
		return nil
	}
	e := c.list[i]
	c.list = append(slices.Delete(c.list, i, i+1), e)
	return e.Embedding
}

// keep puts in what was made of a picture, if it fits at all, and drops what was
// used longest ago until it does.
func (c *embeddings) keep(in realm, key [sha256.Size]byte, made *vision.Embedding) {
	e := embedding{in, key, made}
	if e.bytes() > c.budget {
		return
	}
	for c.used+e.bytes() > c.budget {
		c.used -= c.list[0].bytes()
		c.list = slices.Delete(c.list, 0, 1)
	}
	c.list = append(c.list, e)
	c.used += e.bytes()
}
