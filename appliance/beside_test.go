// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"windhover/internal/testmodel"
)

// What sentence-transformers keeps beside weights.
const (
	modulesBeside = `[{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},{"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"}]`
	lastBeside    = `{"pooling_mode_lasttoken":true}`
)

// putEmbeddings puts bare weights of a model of embeddings into drop/m, without the file
// that says how they are made.
func putEmbeddings(t *testing.T, r *rig) (weights []byte) {
	t.Helper()
	weights = tinyModel(t, func(c *testmodel.Config) { c.Bare, c.Random = true, true })
	r.put(t, "m/tokenizer.json", testmodel.EmbeddingTokenizerJSON())
	r.put(t, "m/modules.json", []byte(modulesBeside))
	r.put(t, "m/model.vqf", weights)
	return weights
}

// numbers is how many an embedding of the only model has.
func (r *rig) numbers(t *testing.T) int {
	t.Helper()
	list := r.reg.list()
	if len(list) != 1 {
		t.Fatalf("%d models", len(list))
	}
	return list[0].Embeds
}

// A directory makes embeddings once all that says so is beside its weights, in whatever
// order it comes; the config.json of the model is not taken for that of its pooling.
func TestDirectoryOfEmbeddings(t *testing.T) {
	r := newRig(t, t.TempDir())
	ctx := context.Background()
	putEmbeddings(t, r)
	r.put(t, "m/config.json", []byte(lastBeside))
	r.scan(ctx)
	expect(t, r, "m ready*")
	if n := r.numbers(t); n != 0 {
		t.Fatalf("embeddings of %d numbers, and nothing says how", n)
	}
	var keys []string
	for _, step := range []struct {
		pooling string
		embeds  bool
	}{{lastBeside, true}, {`{"pooling_mode_mean_tokens":true}`, false}, {lastBeside, true}} {
		r.put(t, "m/1_Pooling/config.json", []byte(step.pooling))
		r.scan(ctx)
		expect(t, r, "m ready*")
		if n := r.numbers(t); (n > 0) != step.embeds {
			t.Errorf("%s: embeddings of %d numbers", step.pooling, n)
		}
		key := r.book.Models["m"].Key
		keys = append(keys, key)
		stored, err := os.ReadFile(filepath.Join(filepath.Dir(r.store.weights(key)), "1_Pooling", "config.json"))
		if err != nil || string(stored) != step.pooling {
			t.Errorf("in the store: %s, %v", stored, err)
		}
	}
	if keys[0] == keys[1] || keys[0] != keys[2] {
		t.Errorf("keys of the store %q: the first and the last of the same files, the second of others", keys)
	}
	if err := os.RemoveAll(filepath.Join(r.drop, "m", "1_Pooling")); err != nil {
		t.Fatal(err)
	}
	r.scan(ctx)
	if n := r.numbers(t); n != 0 {
		t.Errorf("embeddings of %d numbers, although what said how is gone", n)
	}
}

// A link to a directory leads out of the drop directory and is not followed.
func TestLinkedPooling(t *testing.T) {
	elsewhere := t.TempDir()
	writeBytes(t, filepath.Join(elsewhere, "config.json"), []byte(lastBeside))
	r := newRig(t, t.TempDir())
	putEmbeddings(t, r)
	if err := os.Symlink(elsewhere, filepath.Join(r.drop, "m", "1_Pooling")); err != nil {
		t.Fatal(err)
	}
	r.scan(context.Background())
	expect(t, r, "m ready*")
	if n := r.numbers(t); n != 0 {
		t.Errorf("embeddings of %d numbers by a file elsewhere", n)
	}
}

// Where signatures are required each file needs its own, and that of the model's
// config.json is not that of its pooling.
func TestSignedPooling(t *testing.T) {
	key := newMinisign(t)
	r := newRig(t, t.TempDir())
	r.who.require = true
	r.trustMinisignKey(t, "maker", key.Public())
	ctx := context.Background()
	weights := putEmbeddings(t, r)
	r.put(t, "m/model.vqf.minisig", minisig(t, key, weights))
	r.put(t, "m/tokenizer.json.minisig", minisig(t, key, testmodel.EmbeddingTokenizerJSON()))
	r.put(t, "m/modules.json.minisig", minisig(t, key, []byte(modulesBeside)))
	r.put(t, "m/config.json", []byte("{}"))
	r.put(t, "m/config.json.minisig", minisig(t, key, []byte("{}")))
	r.put(t, "m/1_Pooling/config.json", []byte(lastBeside))
	r.scan(ctx)
	r.clock = r.clock.Add(signatureWait)
	r.scan(ctx)
	expect(t, r, "m failed signature_missing")
	r.says(t, "m", "1_Pooling/config.json is not signed")
	r.put(t, "m/1_Pooling/config.json.minisig", minisig(t, key, []byte("{}")))
	r.scan(ctx)
	expect(t, r, "m failed minisign_invalid")
	r.says(t, "m", "1_Pooling/config.json.minisig")
	r.put(t, "m/1_Pooling/config.json.minisig", minisig(t, key, []byte(lastBeside)))
	r.scan(ctx)
	expect(t, r, "m ready*")
	in := r.book.Models["m"]
	if n := r.numbers(t); n == 0 || !slices.Contains(in.Beside, "1_Pooling/config.json") || len(believed(in, "1_Pooling/config.json", r.who.trust())) != 1 {
		t.Errorf("embeddings of %d numbers, beside the weights %q, signed %+v", n, in.Beside, in.Signed)
	}
}
