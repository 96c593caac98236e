// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Messages name what was dropped, not where the store keeps it.
func TestMessagesNameWhatWasDropped(t *testing.T) {
	st := store{"/s p/store"}
	file := candidate{Entry: "m.vqf", Weights: "/s p/drop/m.vqf"}
	dir := candidate{Entry: "m", Weights: "/s p/drop/m/weights.vqf"}
	tests := []struct {
		c          candidate
		text, want string
	}{
		{file, "vqf: /s p/store/.adopt-83/model.vqf: header: bad", "vqf: m.vqf: header: bad"},
		{file, "open /s p/store/.adopt-83/model.vqf.own: no", "open m.vqf: no"},
		{file, "a /s p/store/sha256-ab/model.vqf b /s p/store/x/model.vqf", "a m.vqf b m.vqf"},
		{dir, "vqf: /s p/store/.adopt-83/model.vqf: bad", "vqf: m/weights.vqf: bad"},
		{dir, "engine: /s p/store/.adopt-83/tokenizer.json: bad", "engine: m/tokenizer.json: bad"},
		{dir, "none in /s p/store/.adopt-83/model.vqf or beside it", "none in m/weights.vqf or beside it"},
		{file, "mkdir /s p/store/.adopt-83: no", "mkdir /s p/store: no"},
		{file, "mkdir /s p/store: no", "mkdir /s p/store: no"},
		{file, "the store is full", "the store is full"},
	}
	for _, tt := range tests {
		if got := st.inDrop(tt.text, tt.c); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// No marker, document or record shows a path of the store.
func TestFailuresShowNoPathOfTheStore(t *testing.T) {
	whole := tinyModel(t, nil)
	for name, at := range map[string]int{"directory": offDir + 40, "data": len(whole) / 2, "checksum": len(whole) - 1} {
		for _, entry := range []string{"m.vqf", "m/model.vqf"} {
			r := newRig(t, t.TempDir())
			if entry != "m.vqf" {
				if err := os.Mkdir(filepath.Join(r.drop, "m"), 0o755); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(r.drop, "m", "tokenizer.json"), "{")
			}
			r.put(t, entry, flip(whole, at, false))
			r.scan(context.Background())
			top, _, _ := strings.Cut(entry, "/")
			doc, ok := readMarker(t, filepath.Join(r.drop, top+".failed"))
			if !ok {
				t.Fatalf("%s, %s: no marker; %s", name, entry, r.states())
			}
			model := r.reg.list()[0]
			for _, text := range []string{doc.Message, model.Error.Message} {
				if text == "" || strings.Contains(text, r.store.dir) || strings.Contains(text, adopting) {
					t.Errorf("%s, %s: %q", name, entry, text)
				}
			}
		}
	}
}
