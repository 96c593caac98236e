// SPDX-License-Identifier: Apache-2.0

package pooling_test

import (
	"errors"
	"strings"
	"testing"

	"windhover/engine/pooling"
)

// The files of Qwen3-Embedding, and the same in the words of newer versions.
const (
	transformer = `{"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"}`
	pools       = `{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"}`
	normalizes  = `{"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"}`
	lastToken   = `{"word_embedding_dimension":1024,"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":false,"pooling_mode_max_tokens":false,
"pooling_mode_mean_sqrt_len_tokens":false,"pooling_mode_weightedmean_tokens":false,"pooling_mode_lasttoken":true,"include_prompt":true}`
	newer = `[{"idx":0,"name":"0","path":"","type":"sentence_transformers.base.modules.transformer.Transformer"},
{"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.sentence_transformer.modules.pooling.Pooling"},
{"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.sentence_transformer.modules.normalize.Normalize"}]`
)

func list(modules ...string) string { return "[" + strings.Join(modules, ",") + "]" }

func reader(modules, config string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		switch {
		case name == "modules.json" && modules != "":
			return []byte(modules), nil
		case name == "1_Pooling/config.json" && config != "":
			return []byte(config), nil
		}
		return nil, nil
	}
}

func TestRead(t *testing.T) {
	usual := list(transformer, pools, normalizes)
	for _, c := range []struct{ name, modules, config, want string }{
		{"no sentence-transformers", "", "", ""},
		{"Qwen3-Embedding", usual, lastToken, pooling.Last},
		{"not normalised", list(transformer, pools), lastToken, pooling.Last},
		{"newer", newer, `{"embedding_dimension":1024,"pooling_mode":"lasttoken","include_prompt":true}`, pooling.Last},
		{"newer, old config", newer, lastToken, pooling.Last},
		{"prompt left out", usual, `{"pooling_mode_lasttoken":true,"include_prompt":false}`, pooling.Last},
		{"mean", usual, `{"pooling_mode_mean_tokens":true,"pooling_mode_lasttoken":false}`, "mean"},
		{"cls", usual, `{"pooling_mode_cls_token":true}`, "cls"},
		{"two", usual, `{"pooling_mode_mean_tokens":true,"pooling_mode_lasttoken":true}`, "mean and last"},
		{"newer, two", newer, `{"pooling_mode":["lasttoken","max"]}`, "last and max"},
		{"newer, list of one", newer, `{"pooling_mode":["lasttoken"]}`, pooling.Last},
		{"the new word goes before the old ones", usual, `{"pooling_mode":"mean","pooling_mode_lasttoken":true}`, "mean"},
		{"none said", usual, `{"pooling_mode":null}`, "mean"},
		{"config missing", usual, "", pooling.Unknown},
		{"more is computed", list(transformer, pools, `{"path":"2_Dense","type":"sentence_transformers.models.Dense"}`, normalizes), lastToken, "last, with Dense"},
		{"normalised before", list(transformer, normalizes, pools), lastToken, "last, with Normalize"},
		{"code of its own", list(`{"path":"","type":"modeling_zembed.ZembedTransformer"}`, pools), lastToken, "last, with modeling_zembed.ZembedTransformer"},
		{"twice", list(transformer, pools, pools), lastToken, "last, with Pooling"},
		{"reranker", list(transformer, `{"path":"1_LogitScore","type":"sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}`), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := pooling.Read(reader(c.modules, c.config))
			if err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ name, modules, config, want string }{
		{"no list", `{}`, "", "modules.json: "},
		{"no text", `[{"type":1}]`, "", "modules.json: "},
		{"many", list(strings.Split(strings.Repeat("{} ", 65)[:65*3-1], " ")...), "", "65 modules"},
		{"large", strings.Repeat(" ", 1<<20+1), "", "1048577 bytes"},
		{"out of the directory", list(transformer, strings.Replace(pools, "1_Pooling", "../x", 1)), "", "leads out"},
		{"absolute", list(transformer, strings.Replace(pools, "1_Pooling", "/etc", 1)), "", "leads out"},
		{"config no object", list(transformer, pools), "[]", "1_Pooling/config.json: "},
		{"mode a number", list(transformer, pools), `{"pooling_mode":3}`, "1_Pooling/config.json: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := pooling.Read(reader(c.modules, c.config))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, error %v, want one line with %q", got, err, c.want)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := pooling.Read(func(string) ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v, want that of the disk", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(list(transformer, pools, normalizes), lastToken)
	f.Add(newer, `{"pooling_mode":["lasttoken","max"]}`)
	f.Fuzz(func(t *testing.T, modules, config string) {
		mode, err := pooling.Read(reader(modules, config))
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q is no line", err)
		}
		if err != nil && mode != "" || len(mode) > 16<<10 {
			t.Errorf("mode %q with error %v", mode, err)
		}
	})
}
