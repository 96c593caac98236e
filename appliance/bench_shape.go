// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"windhover/kernels"
	"windhover/vqf"
)

// benchShape is the geometry of a published model.
type benchShape struct {
	name string
	arch vqf.Arch
}

var benchShapes = []benchShape{
	{"smollm2-135m", vqf.Arch{Dim: 576, NLayers: 30, NHeads: 9, NKVHeads: 3, HeadDim: 64, FFNDim: 1536, VocabSize: 49152, RopeTheta: 100000, NormEps: 1e-5}},
	{"qwen3-0.6b", qwen3(1024, 28, 16, 8, 3072, 1e6)},
	{"qwen3-1.7b", qwen3(2048, 28, 16, 8, 6144, 1e6)},
	{"qwen3-vl-2b", qwen3(2048, 28, 16, 8, 6144, 5e6)}, // its text part
	{"qwen3-8b", qwen3(4096, 36, 32, 8, 12288, 1e6)},
	{"qwen3-30b-a3b", experts(qwen3(2048, 48, 32, 4, 768, 1e6), 128, 8)},
}

func qwen3(dim, layers, heads, kv, ffn uint32, theta float32) vqf.Arch {
	return vqf.Arch{Dim: dim, NLayers: layers, NHeads: heads, NKVHeads: kv, HeadDim: 128, FFNDim: ffn, VocabSize: 151936,
		RopeTheta: theta, NormEps: 1e-6, HasQNorm: 1}
}

// experts makes a mixture of n experts, of which k compute for a token.
func experts(a vqf.Arch, n, k uint32) vqf.Arch {
	a.NExperts, a.MoEFFN, a.TopK, a.FFNDim = n, a.FFNDim, k, n*a.FFNDim
	return a
}

// BenchShapes are the names that BenchOptions.Shape may have.
func BenchShapes() []string {
	names := make([]string, len(benchShapes))
	for i, s := range benchShapes {
		names[i] = s.name
	}
	return names
}

func (b *bench) shape() string {
	if b.opt.Shape == "" {
		return benchShapes[0].name
	}
	return b.opt.Shape
}

// arch is the geometry of the shape.
func (b *bench) arch() (vqf.Arch, error) {
	i := slices.IndexFunc(benchShapes, func(s benchShape) bool { return s.name == b.shape() })
	if i < 0 {
		return vqf.Arch{}, fmt.Errorf("bench: no shape %q: use %s", b.opt.Shape, strings.Join(BenchShapes(), ", "))
	}
	arch := benchShapes[i].arch
	if n := b.opt.Layers; n < 0 || n > int(arch.NLayers) {
		return vqf.Arch{}, fmt.Errorf("bench: %d layers: %s has %d", n, b.shape(), arch.NLayers)
	} else if n > 0 {
		arch.NLayers = uint32(n)
	}
	return arch, nil
}

// madeModel is a file with made-up weights that has no name any more: it is gone
// when it is closed, and when the process ends in whatever way.
type madeModel struct {
	f    *os.File
	plan *vqf.Plan
	spec vqf.Spec
}

// name is what the report calls made-up weights.
func (b *bench) name() string {
	if b.opt.Layers > 0 {
		return b.shape() + ", " + several(b.opt.Layers, "layer")
	}
	return b.shape()
}

// path opens the file as long as it is open here.
func (m *madeModel) path() string { return fmt.Sprintf("/proc/self/fd/%d", m.f.Fd()) }

// makeModel begins a file of the shape, whose data is a hole yet: see write. What
// will not fit the disk or the memory is refused.
func (b *bench) makeModel() (_ *madeModel, err error) {
	plan, spec, err := b.plan()
	if err != nil {
		return nil, err
	}
	dir := b.opt.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	if free, ok := freeSpace(dir); ok && free < plan.Size() {
		return nil, fmt.Errorf("bench: %s in %s takes %d MB and %s has %d MB free: set TMPDIR to a directory with room, or choose a smaller --shape",
			b.shape(), spec.Mode, plan.Size()/1e6, dir, free/1e6)
	}
	f, err := os.CreateTemp(dir, "windhover-bench-*")
	if err != nil {
		return nil, fmt.Errorf("bench: %w: set TMPDIR to a directory with room", err)
	}
	m := &madeModel{f, plan, spec}
	defer func() {
		if err != nil {
			_ = f.Close() // the first error tells more
		}
	}()
	if err := os.Remove(f.Name()); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if err := m.begin(); err != nil {
		return nil, err
	}
	return m, b.fits(m.path()) // header and directory tell
}

// begin writes all but the data.
func (m *madeModel) begin() error {
	err := m.f.Truncate(m.plan.Size())
	if err == nil {
		_, err = m.f.WriteAt(m.plan.Prefix(), 0)
	}
	if err != nil {
		return fmt.Errorf("bench: made-up weights: %w", err)
	}
	return nil
}

// plan is the file of the shape.
func (b *bench) plan() (*vqf.Plan, vqf.Spec, error) {
	arch, err := b.arch()
	if err != nil {
		return nil, vqf.Spec{}, err
	}
	arch.MaxSeqLen, arch.BosID, arch.EosID = 8192, vqf.NoToken, vqf.NoToken
	mode := vqf.Mode(b.opt.Mode)
	switch mode {
	case "":
		mode = vqf.ModeQ8
	case vqf.ModeQ8, vqf.ModeQ4, vqf.ModeDual:
	default:
		return nil, vqf.Spec{}, fmt.Errorf("bench: no mode %q for made-up weights: use q8, q4 or dual", b.opt.Mode)
	}
	want := vqf.Layout8x8
	if strings.HasPrefix(os.Getenv("VLLM_Q8_8X8"), "0") {
		want = vqf.Layout4x4
	}
	spec := vqf.Spec{Arch: arch, Mode: mode}
	spec.Q8, spec.Q4 = vqf.DefaultLayouts(arch, mode, want)
	plan, err := vqf.NewPlan(spec)
	return plan, spec, err
}

// writePiece is how much is on its way to the disk at once: whoever stops waits for
// no more than that.
const writePiece = 16 << 20

// write writes the data, every byte of it: norms of 1, seeded weights and routers. The checksum
// stays 0, which is none. doing hears how far it is.
func (m *madeModel) write(ctx context.Context, doing func(format string, a ...any)) error {
	f, plan := m.f, m.plan
	r := newNoise(1)
	end, sent, waited := int64(0), int64(0), int64(0) // of the file, in bytes
	for _, t := range plan.Tensors {
		chunk := noiseChunk(t, m.spec)
		for done := uint64(0); done < t.Bytes; {
			if err := ctx.Err(); err != nil {
				return err
			}
			p := chunk(r)
			p = p[:min(uint64(len(p)), t.Bytes-done)]
			if _, err := f.WriteAt(p, int64(t.Offset+done)); err != nil {
				return fmt.Errorf("bench: made-up weights: %w: set TMPDIR to a directory with room", err)
			}
			done += uint64(len(p))
			if end = int64(t.Offset + done); end-sent >= writePiece {
				// Hints, both: a file system without them writes when it likes.
				_ = unix.SyncFileRange(int(f.Fd()), sent, end-sent, unix.SYNC_FILE_RANGE_WRITE)
				_ = unix.SyncFileRange(int(f.Fd()), waited, sent-waited, unix.SYNC_FILE_RANGE_WAIT_AFTER)
				doing("writing made-up weights: %d of %d MB", end/1e6, plan.Size()/1e6)
				waited, sent = sent, end
			}
		}
	}
	return nil
}

// noiseChunk makes what a tensor is filled with, piece by piece. A piece is whole
// groups of blocks, in the layout that the tensor has.
func noiseChunk(t vqf.Tensor, spec vqf.Spec) func(*noise) []byte {
	buf := make([]byte, 1<<20)
	switch {
	case t.Name == "moe_router": // 1/32 to 1/16 of either sign, which chooses other experts for each token
		return func(r *noise) []byte {
			r.fill(buf)
			for i := 3; i < len(buf); i += 4 {
				buf[i], buf[i-1] = buf[i]&0x80|0x3d, buf[i-1]&0x7f
			}
			return buf
		}
	case t.Type == vqf.F32: // norms
		one := binary.LittleEndian.AppendUint32(nil, 0x3f800000)
		ones := bytes.Repeat(one, len(buf)/4)
		return func(*noise) []byte { return ones }
	case t.Type == vqf.F16: // the embedding: between 0.5 and 1, of either sign
		return func(r *noise) []byte {
			r.fill(buf)
			for i := 1; i < len(buf); i += 2 {
				buf[i] = buf[i]&0x83 | 0x38
			}
			return buf
		}
	}
	layout := [...]kernels.Layout{vqf.LayoutRow: kernels.Q8Row, vqf.Layout4x4: kernels.Q8x4, vqf.Layout8x8: kernels.Q8x8}[spec.Q8]
	if t.Type == vqf.Q4_0 {
		layout = [...]kernels.Layout{vqf.LayoutRow: kernels.Q4Row, vqf.Layout4x4: kernels.Q4x4}[spec.Q4]
	}
	cols := int(spec.Arch.Dim)
	if s, ok := spec.Arch.Shape(t.Name); ok {
		cols = s.Cols
	}
	buf = buf[:len(buf)/layout.GroupBytes()*layout.GroupBytes()]
	return func(r *noise) []byte {
		fillBlocks(buf, layout, cols, r)
		return buf
	}
}
