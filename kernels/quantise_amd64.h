// SPDX-License-Identifier: Apache-2.0

// What quantising weights and activations have in common.

// LARGEST leaves in each dword of X4 the bits of the largest magnitude of Y0-Y3.
// Y14 has the sign bits; Y4-Y7 are lost.
#define LARGEST \
	VANDNPS      Y0, Y14, Y4   \
	VANDNPS      Y1, Y14, Y5   \
	VANDNPS      Y2, Y14, Y6   \
	VANDNPS      Y3, Y14, Y7   \
	VPMAXUD      Y5, Y4, Y4    \
	VPMAXUD      Y7, Y6, Y6    \
	VPMAXUD      Y6, Y4, Y4    \
	VEXTRACTI128 $1, Y4, X5    \
	VPMAXUD      X5, X4, X4    \
	VPSHUFD      $0x4e, X4, X5 \
	VPMAXUD      X5, X4, X4    \
	VPSHUFD      $0xb1, X4, X5 \
	VPMAXUD      X5, X4, X4

// CODES makes codes of eight finite values in y: y*Y6, plus 0.5 of its sign,
// truncated. Y13 is 0.5, Y14 has the sign bits; Y8 is lost.
#define CODES(y) \
	VMULPS     Y6, y, y    \
	VANDPS     Y14, y, Y8  \
	VORPS      Y13, Y8, Y8 \
	VADDPS     Y8, y, y    \
	VCVTTPS2DQ y, y
