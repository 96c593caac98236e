// SPDX-License-Identifier: Apache-2.0

package vision

import "testing"

// BenchmarkTower computes 512x512 pixels in a tower of the 2B shape with one
// block and the main merger, on one worker. To compare, not to pass.
func BenchmarkTower(b *testing.B) {
	a := tinyArch()
	a.Dim, a.VisOutDim = 2048, 2048
	a.VisDepth, a.VisHidden, a.VisHeads, a.VisFFN, a.VisMaxPos, a.VisDSCount, a.VisDSIdx = 1, 1024, 16, 4096, 2304, 0, [4]int32{}
	tower := open(b, writeFile(b, a, "", noiseSource(1)), Options{})
	c := tower.Config()
	p, err := c.Still(noiseImage(512, 512, 1))
	if err != nil {
		b.Fatal(err)
	}
	pool := newPool(b, 1)
	encode(b, tower, p, pool)
	for b.Loop() {
		encode(b, tower, p, pool)
	}
	const patches, dim = 1024.0, 1024.0
	work := patches*12*dim*dim + 2*patches*patches*dim + patches*1536*dim + patches/4*(4096*4096+4096*2048)
	b.ReportMetric(work*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}

// BenchmarkResize makes a picture of 12 million pixels smaller.
func BenchmarkResize(b *testing.B) {
	m := noiseImage(4000, 3000, 1)
	for b.Loop() {
		m.resized(1024, 768)
	}
}
