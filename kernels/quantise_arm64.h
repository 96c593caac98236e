// SPDX-License-Identifier: Apache-2.0

// What quantising weights and activations have in common; needs neon_arm64.h.

// LARGEST leaves in R5 and lane 0 of V16 the bits of the largest magnitude of
// V0-V7. V28 is 0x7FFFFFFF; V16-V23 are lost.
#define LARGEST \
	VAND  V28.B16, V0.B16, V16.B16; \
	VAND  V28.B16, V1.B16, V17.B16; \
	VAND  V28.B16, V2.B16, V18.B16; \
	VAND  V28.B16, V3.B16, V19.B16; \
	VAND  V28.B16, V4.B16, V20.B16; \
	VAND  V28.B16, V5.B16, V21.B16; \
	VAND  V28.B16, V6.B16, V22.B16; \
	VAND  V28.B16, V7.B16, V23.B16; \
	VUMAX V17.S4, V16.S4, V16.S4;   \
	VUMAX V19.S4, V18.S4, V18.S4;   \
	VUMAX V21.S4, V20.S4, V20.S4;   \
	VUMAX V23.S4, V22.S4, V22.S4;   \
	VUMAX V18.S4, V16.S4, V16.S4;   \
	VUMAX V22.S4, V20.S4, V20.S4;   \
	VUMAX V20.S4, V16.S4, V16.S4;   \
	UMAXVS(16, 16);                 \
	FMOVS F16, R5

// CODES makes of V0-V7, finite, the codes x*F24, plus 0.5 of its sign, truncated,
// as int16 in V16-V19. V29 has the sign bits, V30 is 0.5; V20-V23 are lost.
#define CODES \
	FMULE(0, 0, 24, 0);             \
	FMULE(1, 1, 24, 0);             \
	FMULE(2, 2, 24, 0);             \
	FMULE(3, 3, 24, 0);             \
	FMULE(4, 4, 24, 0);             \
	FMULE(5, 5, 24, 0);             \
	FMULE(6, 6, 24, 0);             \
	FMULE(7, 7, 24, 0);             \
	VAND  V29.B16, V0.B16, V16.B16; \
	VAND  V29.B16, V1.B16, V17.B16; \
	VAND  V29.B16, V2.B16, V18.B16; \
	VAND  V29.B16, V3.B16, V19.B16; \
	VAND  V29.B16, V4.B16, V20.B16; \
	VAND  V29.B16, V5.B16, V21.B16; \
	VAND  V29.B16, V6.B16, V22.B16; \
	VAND  V29.B16, V7.B16, V23.B16; \
	VORR  V30.B16, V16.B16, V16.B16;\
	VORR  V30.B16, V17.B16, V17.B16;\
	VORR  V30.B16, V18.B16, V18.B16;\
	VORR  V30.B16, V19.B16, V19.B16;\
	VORR  V30.B16, V20.B16, V20.B16;\
	VORR  V30.B16, V21.B16, V21.B16;\
	VORR  V30.B16, V22.B16, V22.B16;\
	VORR  V30.B16, V23.B16, V23.B16;\
	FADDV(0, 0, 16);                \
	FADDV(1, 1, 17);                \
	FADDV(2, 2, 18);                \
	FADDV(3, 3, 19);                \
	FADDV(4, 4, 20);                \
	FADDV(5, 5, 21);                \
	FADDV(6, 6, 22);                \
	FADDV(7, 7, 23);                \
	FCVTZSV(0, 0);                  \
	FCVTZSV(1, 1);                  \
	FCVTZSV(2, 2);                  \
	FCVTZSV(3, 3);                  \
	FCVTZSV(4, 4);                  \
	FCVTZSV(5, 5);                  \
	FCVTZSV(6, 6);                  \
	FCVTZSV(7, 7);                  \
	SQXTNH(16, 0);                  \
	SQXTNH2(16, 1);                 \
	SQXTNH(17, 2);                  \
	SQXTNH2(17, 3);                 \
	SQXTNH(18, 4);                  \
	SQXTNH2(18, 5);                 \
	SQXTNH(19, 6);                  \
	SQXTNH2(19, 7)
