// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"windhover/engine/vision"
	"windhover/internal/testmodel"
	"windhover/vqf"
)

// resident reads a line of /proc/self/status, in bytes.
func resident(t *testing.T, field string) int64 {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skipf("no %s here: %v", field, err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, rest, ok := strings.Cut(s.Text(), ":"); ok && name == field {
			var kib int64
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Skipf("no %s here", field)
	return 0
}

// published makes a file of the size and directory of Qwen3-VL-2B in q4, all
// weights zero, that takes no room on the disk.
func published(t *testing.T) string {
	t.Helper()
	plan, err := vqf.NewPlan(vqf.Spec{
		Arch: vqf.Arch{
			Dim: 2048, NLayers: 28, NHeads: 16, NKVHeads: 8, HeadDim: 128, HeadDimFull: 128, FFNDim: 6144, VocabSize: 151936,
			MaxSeqLen: 8192, RopeTheta: 5e6, NormEps: 1e-6, HasQNorm: 1, HasMRope: 1, MRopeNSec: 3, MRopeSections: [4]int32{24, 20, 20},
			HasVision: 1, VisDepth: 24, VisHidden: 1024, VisHeads: 16, VisFFN: 4096, VisPatch: 16, VisTemporal: 2, VisMerge: 2,
			VisOutDim: 2048, VisInChan: 3, VisMaxPos: 2304, VisDSCount: 3, VisDSIdx: [4]int32{5, 11, 17},
			ImageTokenID: 151655, VideoTokenID: 151656,
		},
		Mode: vqf.ModeQ4, Q8: vqf.Layout8x8, Q4: vqf.Layout4x4, Vision: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "2b.vqf")
	if err := os.WriteFile(path, plan.Prefix(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, plan.Size()); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file of 2.3 GB is loaded in no time: its weights are not touched, and the
// cache of 8192 tokens takes memory only when it is written.
func TestLoadTouchesLittle(t *testing.T) {
	path := published(t)
	need, err := Estimate(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, anon := resident(t, "RssFile"), resident(t, "RssAnon")
	start := time.Now()
	m := load(t, path, Options{NoTokenizer: true})
	took := time.Since(start)
	file, anon = resident(t, "RssFile")-file, resident(t, "RssAnon")-anon
	t.Logf("loaded in %v, %d kB of the file and %d kB of memory resident; need %+v", took, file>>10, anon>>10, need)
	if file > 20<<20 {
		t.Errorf("%d bytes of the file are resident after loading, want under 20 MB", file)
	}
	if anon > need.Scratch+16<<20 {
		t.Errorf("%d bytes of memory taken by loading, want about the scratch of %d", anon, need.Scratch)
	}
	if text := need.Scratch - need.pictures.bytes - formBytes(m.cfg.Vocab); text > 64<<20 {
		t.Errorf("scratch of %d bytes without pictures and forms for a model of 2B", text)
	}
	if m.Info().Context != 8192 || m.Info().Family != "q4" {
		t.Errorf("info %+v", m.Info())
	}
	// The place of a picture without one is refused.
	if _, err := m.Generate(context.Background(), Request{Tokens: []int32{1, 151655}}, nil); !errors.Is(err, ErrPicture) {
		t.Errorf("picture: %v, want %v", err, ErrPicture)
	}
}

// The cache grows with what is written to it.
func TestCacheGrowsByPages(t *testing.T) {
	c := testmodel.Default()
	c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.MaxSeq = 8, 4, 4, 64, 4096
	m := load(t, testmodel.Write(t, c), Options{Chunk: 64})
	full := m.Info().Need.KV // 32 MiB
	before := resident(t, "RssAnon")
	logitsOf(t, m, noise(256), 0)
	if grown := resident(t, "RssAnon") - before; grown > full/2 {
		t.Errorf("%d bytes taken for 256 of 4096 tokens, the full cache has %d", grown, full)
	}
}

// In layered residency a file of 2.3 GB computes with a tenth of it in memory: two
// layers, the head, and the rows of the embedding. What is kept is mapped.
func TestLayeredHoldsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("reads two gigabytes")
	}
	m := load(t, published(t), Options{NoTokenizer: true, Residency: ResidencyLayered, Context: 64})
	need := m.Info().Need
	layer := footprintOf(m.file, &m.cfg, "q4").layer
	text := need.Weights - vision.StepBytes(m.file)
	before, most := resident(t, "RssFile"), int64(0)
	m.st.trace = func(int, []float32) {
		most = max(most, resident(t, "RssFile")-before+inCore(t, m.w.res.(*streamed).mem))
	}
	ids, _, err := m.Greedy(context.Background(), []int32{1, 2}, 2)
	if err != nil || len(ids) != 2 {
		t.Fatalf("%v, %v", ids, err)
	}
	t.Logf("at most %d kB resident, a layer has %d, need %+v", most>>10, layer>>10, need)
	if most < 2*layer || most > text+8<<20 { // with what is touched of the program
		t.Errorf("%d bytes resident, want from %d to about %d", most, 2*layer, text)
	}
	if text > 300<<20 || need.Private > 2*layer+1<<20 {
		t.Errorf("need %+v", need)
	}
}
