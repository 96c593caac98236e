// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// config is a Hugging Face config.json. A key is looked up in text_config
// first, which multimodal models have, then at the top; null counts as absent.
// The first wrong value is kept in err, so that a row of look-ups needs one
// check at its end.
type config struct {
	path string
	top  map[string]json.RawMessage
	text map[string]json.RawMessage
	err  error
}

// What the small files of a directory may have. A tokenizer.json goes to some 30 MB, a
// tokenizer_config.json with its added tokens to 1; any other is a few KiB, and taken
// apart by encoding/json, which needs many times its size.
const (
	maxVocab = 64 << 20
	maxJSON  = 4 << 20
)

// readSmall reads a file that may be missing: nil then.
func readSmall(path string) ([]byte, error) {
	switch filepath.Base(path) {
	case "tokenizer.json", "vocab.json", "merges.txt":
		return readUpTo(path, maxVocab)
	}
	return readUpTo(path, maxJSON)
}

// readUpTo is readSmall for a file of at most limit bytes.
func readUpTo(path string, limit int64) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("convert: %w", err)
	case !st.Mode().IsRegular() || st.Size() > limit:
		return nil, faulty("%s: not a regular file of at most %d bytes", path, limit)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	return b, nil
}

func readConfig(dir string) (*config, error) {
	c := &config{path: filepath.Join(dir, "config.json")}
	b, err := readSmall(c.path)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, faulty("%s is missing: a Hugging Face directory has one (for GGUF give the .gguf file itself)", c.path)
	}
	return c, c.parse(b)
}

func (c *config) parse(b []byte) (err error) {
	if err := json.Unmarshal(b, &c.top); err != nil {
		return faulty("%s: %v", c.path, err)
	}
	c.text, err = c.object("text_config")
	return err
}

// object returns the members of a nested object, nil when there is none.
func (c *config) object(key string) (map[string]json.RawMessage, error) {
	raw := c.get(key)
	if raw == nil {
		return nil, nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, faulty("%s: %s is no object", c.path, key)
	}
	return m, nil
}

// get returns the value of key, nil when it is absent or null.
func (c *config) get(key string) json.RawMessage {
	for _, m := range []map[string]json.RawMessage{c.text, c.top} {
		if raw, ok := m[key]; ok && !bytes.Equal(raw, []byte("null")) {
			return raw
		}
	}
	return nil
}

func (c *config) fail(key string, raw json.RawMessage, want string) {
	if c.err == nil {
		c.err = faulty("%s: %s is %.40s, want %s", c.path, key, raw, want)
	}
}

// uint reads a number that fits the header's 32 bits; absent gives def.
func (c *config) uint(key string, def uint32) uint32 {
	raw := c.get(key)
	if raw == nil {
		return def
	}
	v, err := strconv.ParseUint(string(raw), 10, 32)
	if err != nil || v > math.MaxInt32 {
		c.fail(key, raw, "an integer from 0")
	}
	return uint32(v)
}

// need is uint for a key that must be there and positive.
func (c *config) need(key string) uint32 {
	v := c.uint(key, 0)
	if v == 0 && c.err == nil {
		c.err = faulty("%s: %s is missing or 0", c.path, key)
	}
	return v
}

func (c *config) float(key string, def float32) float32 {
	raw := c.get(key)
	if raw == nil {
		return def
	}
	v, err := strconv.ParseFloat(string(raw), 32)
	if err != nil {
		c.fail(key, raw, "a number")
	}
	return float32(v)
}

func (c *config) text1(key string) string {
	var s string
	if raw := c.get(key); raw != nil {
		if err := json.Unmarshal(raw, &s); err != nil {
			c.fail(key, raw, "a string")
		}
	}
	return s
}

// flag reads a bool; present tells whether it is there at all.
func (c *config) flag(key string) (v, present bool) {
	raw := c.get(key)
	if raw == nil {
		return false, false
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		c.fail(key, raw, "true or false")
	}
	return v, true
}

// tokenID reads an id as the header stores it: null, absent and lists give 0
// (docs/FORMAT.md section 8.2); the metadata has the whole truth.
func (c *config) tokenID(key string) uint32 {
	raw := c.get(key)
	if raw == nil || raw[0] == '[' {
		return 0
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || v < -1 || v > math.MaxInt32 {
		c.fail(key, raw, "a token id")
	}
	return uint32(v)
}
