// SPDX-License-Identifier: Apache-2.0

// Package kernels holds the arithmetic of the engine: block quantisation and
// re-layout of weights, int8 matrix products, norms, rotary embedding,
// attention and softmax, together with the worker pool and the CPU topology
// they run on.
//
// It takes plain slices and sizes. It knows no file, no tensor name and no
// model. Start with [Matrix], [Acts] and [MatMul] for the weights, with [Pool]
// for the threads and with [Selected] for what this machine runs.
//
// # Implementations
//
// What the CPU has decides which implementation an operation uses, at start.
// KERNELS_DISABLE takes a list of features out (vnni, avx512, avx2, sdot, neon,
// each with all that build on it); KERNELS_REQUIRE names features without which
// the program shall not start, so that a test run cannot pass on another
// implementation than it means to test. The build tag purego leaves all assembly out.
//
// # Bits
//
// Every operation is defined by one generic Go function (files *_generic.go),
// which is always compiled. An assembly implementation must give the same bits
// for all finite input; where a NaN comes out, it is a NaN everywhere, but its
// payload is not defined. Each arithmetic step is one float32 operation rounded
// to nearest even; nothing is fused but where it says fma, nothing is
// re-associated beyond this:
//
//   - Integer dot products are exact, so their order is free.
//   - MatMul, per output: acc = 0; for the column blocks b ascending:
//     s = exact int32 dot of the 32 codes; t = dw*dx; p = t*float32(s);
//     acc = acc + p. The layout, the number of tokens and the row range do not
//     change a bit.
//   - Sums over float32 ([Dot], [RMSNorm], the weights of attention) use 16
//     lanes, all starting at +0. Element i is added to lane i%16, i ascending.
//     Then lane j takes lane j+8 (j < 8), j+4 (j < 4), j+2 (j < 2) and j+1:
//     lane 0 is the sum. One 512-bit, two 256-bit or four 128-bit registers
//     hold the lanes. A lane can never be -0, so that adding zeros for a short
//     tail changes nothing.
//   - Attention goes by blocks of [AttnBlock] positions, whose formula is there.
//     In a block every score and every output element has one accumulator, by
//     fma over the elements or positions ascending; blocks are merged in order.
//     Lanes are positions or output elements, so that there is no sum across
//     lanes but that of the weights.
//   - [Exp] is a polynomial whose every step is spelled out in its generic
//     function; attention and SiLU use the same one.
package kernels
