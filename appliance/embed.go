// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"

	"windhover/control"
	"windhover/engine"
)

// embed makes the embeddings of a request's texts, on one version of a model.
func (b *backend) embed(ctx context.Context, s *serving, r *control.Request, emit func(control.Event) error) (*control.Result, error) {
	if s.Dimensions() == 0 {
		return nil, control.Errorf(control.Unsupported, "model %s makes no embeddings: it continues text; ask one whose source is made for them, as Qwen3-Embedding is", s.Name)
	}
	if n := s.Dimensions(); r.Dimensions > n {
		return nil, control.Errorf(control.BadRequest, "dimensions %d: 1 to %d, which model %s gives", r.Dimensions, n, s.Name)
	}
	texts := r.Texts
	if texts == nil {
		texts = []string{r.Prompt}
	}
	req := engine.EmbedRequest{
		Texts: make([][]int32, len(texts)), Dimensions: r.Dimensions,
		Client: r.Client, Priority: r.Priority, Realm: b.now().Engine.realm(r.Client),
	}
	for i, text := range texts {
		req.Texts[i] = s.EmbedTokens(text)
		if b.cfg.Log.Prompts {
			b.log.Info("prompt", "client", r.Client, "id", r.ID, "text", text)
		}
	}
	res, err := s.Embed(ctx, req, func(i int, vector []float32) error {
		return emit(control.Event{Vector: &control.Vector{Index: i, Numbers: vector}})
	})
	if err != nil {
		return nil, b.broken(ctx, r, s, err)
	}
	b.metrics.embedded(res)
	return &control.Result{TTFT: res.Timing.Total, Model: s.ref(), Usage: Usage(res.Usage), PrefillTPS: round1(res.Timing.PrefillTPS)}, nil
}
