// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"path/filepath"

	"windhover/engine/pooling"
)

// hfPooling takes from modules.json how embeddings are made.
func (s *source) hfPooling(dir string) error {
	var broken error
	mode, err := pooling.Read(func(name string) ([]byte, error) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		b, err := readSmall(path)
		if err == nil && b != nil {
			err = s.addFile(path)
		}
		broken = err
		return b, err
	})
	switch {
	case broken != nil:
		return broken
	case err != nil:
		return &failure{kind: ErrSource, msg: dir, err: err}
	}
	s.words.pooling = mode
	return nil
}

// pooling takes from a GGUF file how embeddings are made.
func (k *ggufKeys) pooling(s *source) {
	switch n := k.uint("pooling_type", 0); n {
	case 0, 4: // none; a reranker, which judges by what it generates
	case 1:
		s.words.pooling = "mean"
	case 2:
		s.words.pooling = "cls"
	case 3:
		s.words.pooling = pooling.Last
	default:
		s.words.pooling = fmt.Sprintf("type %d", n)
	}
}

// orBare is what else can be done with a model that computed refuses.
const orBare = " (--bare converts without embeddings)"

// computed refuses a model of embeddings that the engine does not make: it was
// made for nothing else, and would silently be worth nothing. hint ends the message.
func (s *source) computed(hint string) error {
	switch how := s.words.pooling; how {
	case "", pooling.Last:
		return nil
	case pooling.Unknown:
		return faulty("%s: modules.json says that embeddings are made, and the config.json of its module Pooling, which says how, is missing%s", s.path, hint)
	default:
		return unsupported("%s: embeddings are pooled by %q, only the last token's is computed%s", s.path, how, hint)
	}
}
