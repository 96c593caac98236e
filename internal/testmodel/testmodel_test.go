// SPDX-License-Identifier: Apache-2.0

package testmodel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"windhover/internal/testmodel"
	"windhover/vqf"
)

func TestWriteIsAWholeFile(t *testing.T) {
	for _, mode := range []vqf.Mode{vqf.ModeQ8, vqf.ModeQ4, vqf.ModeDual, vqf.ModeQ4I, vqf.ModeG256} {
		t.Run(string(mode), func(t *testing.T) {
			c := testmodel.Default()
			c.Mode = mode
			f, err := vqf.Open(testmodel.Write(t, c), vqf.OpenOptions{FullCheck: true})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, want := f.HasQ8(), mode.HasQ8(); got != want {
				t.Errorf("q8 tensors: %v, want %v", got, want)
			}
			if got, want := f.HasQ4(), mode.HasQ4(); got != want {
				t.Errorf("q4 tensors: %v, want %v", got, want)
			}
			if !json.Valid(f.Tokenizer()) || !json.Valid(f.Meta()) {
				t.Errorf("embedded JSON: tokenizer %.60q, meta %.60q", f.Tokenizer(), f.Meta())
			}
			report, err := f.Verify(context.Background(), vqf.VerifyOptions{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A model of embeddings says so, and what it sets behind a text; another does not.
func TestEmbeds(t *testing.T) {
	for _, embeds := range []bool{false, true} {
		c := testmodel.Default()
		c.Embeds = embeds
		f, err := vqf.Open(testmodel.Write(t, c), vqf.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var meta struct {
			Pooling string `json:"pooling"`
		}
		if err := json.Unmarshal(f.Meta(), &meta); err != nil {
			t.Fatal(err)
		}
		var tok struct {
			Around *struct {
				Single []struct {
					SpecialToken *struct{ ID string }
				}
			} `json:"post_processor"`
		}
		if err := json.Unmarshal(f.Tokenizer(), &tok); err != nil {
			t.Fatal(err)
		}
		if (meta.Pooling == "last") != embeds || (tok.Around != nil) != embeds {
			t.Errorf("embeds %v: pooling %q, post-processor %v", embeds, meta.Pooling, tok.Around)
		}
		if embeds && (len(tok.Around.Single) != 2 || tok.Around.Single[1].SpecialToken == nil || tok.Around.Single[1].SpecialToken.ID != "<|endoftext|>") {
			t.Errorf("behind a text: %+v", tok.Around.Single)
		}
	}
}

func TestSameBytesTwice(t *testing.T) {
	c := testmodel.Default()
	c.Random = true
	var files [2][]byte
	for i := range files {
		path := filepath.Join(t.TempDir(), "x.vqf")
		if err := c.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		var err error
		if files[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two files of one configuration differ")
	}
}

func TestScript(t *testing.T) {
	cases := []struct {
		from int32
		text string
		end  int32
	}{
		{testmodel.Tokens("\n")[0], testmodel.Answer, testmodel.TokenEnd},
		{testmodel.TokenThink, testmodel.Thinking, testmodel.TokenDone},
		{testmodel.Tokens("9")[0], testmodel.Chinese, testmodel.TokenEnd},
		{testmodel.Tokens("0")[0], "1234567801234", testmodel.Tokens("5")[0]},
		{testmodel.TokenDone, "\n" + testmodel.Answer, testmodel.TokenEnd},
	}
	for _, c := range cases {
		id := c.from
		for i, want := range testmodel.Tokens(c.text) {
			if id = testmodel.Next(id); id != want {
				t.Errorf("%q: token %d is %d, want %d", c.text, i, id, want)
			}
		}
		if got := testmodel.Next(id); got != c.end {
			t.Errorf("%q: ends with %d, want %d", c.text, got, c.end)
		}
	}
}
