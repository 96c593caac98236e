// SPDX-License-Identifier: Apache-2.0

// Instructions that the Go assembler does not know, as WORD macros. Operands
// are register numbers (0-31) and lane or shift constants, in the order of
// Arm's own syntax: destination first. The comment behind each macro is that
// syntax with the macro's parameters in braces; TestNeonMacros feeds it to the
// GNU assembler and compares words, so it is part of the code.

// Dot product (needs ASIMDDP).
#define SDOTE(d, n, m, i)  WORD $(0x4F80E000 | (((i)&1)<<21) | ((m)<<16) | (((i)>>1)<<11) | ((n)<<5) | (d)) // sdot v{d}.4s, v{n}.16b, v{m}.4b[{i}]
#define SDOTV(d, n, m)     WORD $(0x4E809400 | ((m)<<16) | ((n)<<5) | (d)) // sdot v{d}.4s, v{n}.16b, v{m}.16b

// Integer arithmetic.
#define SMULL(d, n, m)     WORD $(0x0E20C000 | ((m)<<16) | ((n)<<5) | (d)) // smull v{d}.8h, v{n}.8b, v{m}.8b
#define SMULL2(d, n, m)    WORD $(0x4E20C000 | ((m)<<16) | ((n)<<5) | (d)) // smull2 v{d}.8h, v{n}.16b, v{m}.16b
#define SMLAL(d, n, m)     WORD $(0x0E208000 | ((m)<<16) | ((n)<<5) | (d)) // smlal v{d}.8h, v{n}.8b, v{m}.8b
#define SMLAL2(d, n, m)    WORD $(0x4E208000 | ((m)<<16) | ((n)<<5) | (d)) // smlal2 v{d}.8h, v{n}.16b, v{m}.16b
#define SADDLP(d, n)       WORD $(0x4E602800 | ((n)<<5) | (d)) // saddlp v{d}.4s, v{n}.8h
#define SADALP(d, n)       WORD $(0x4E606800 | ((n)<<5) | (d)) // sadalp v{d}.4s, v{n}.8h
#define SSHRB(d, n, i)     WORD $(0x4F000400 | ((16-(i))<<16) | ((n)<<5) | (d)) // sshr v{d}.16b, v{n}.16b, #{i:1-8}
#define SQXTNH(d, n)       WORD $(0x0E614800 | ((n)<<5) | (d)) // sqxtn v{d}.4h, v{n}.4s
#define SQXTNH2(d, n)      WORD $(0x4E614800 | ((n)<<5) | (d)) // sqxtn2 v{d}.8h, v{n}.4s
#define SQXTNB(d, n)       WORD $(0x0E214800 | ((n)<<5) | (d)) // sqxtn v{d}.8b, v{n}.8h
#define SQXTNB2(d, n)      WORD $(0x4E214800 | ((n)<<5) | (d)) // sqxtn2 v{d}.16b, v{n}.8h
#define BICB(d, n, m)      WORD $(0x4E601C00 | ((m)<<16) | ((n)<<5) | (d)) // bic v{d}.16b, v{n}.16b, v{m}.16b
#define UMAXVS(d, n)       WORD $(0x6EB0A800 | ((n)<<5) | (d)) // umaxv s{d}, v{n}.4s
#define SMAXVS(d, n)       WORD $(0x4EB0A800 | ((n)<<5) | (d)) // smaxv s{d}, v{n}.4s
#define SXTLH(d, n)        WORD $(0x0F08A400 | ((n)<<5) | (d)) // sxtl v{d}.8h, v{n}.8b
#define SXTLH2(d, n)       WORD $(0x4F08A400 | ((n)<<5) | (d)) // sxtl2 v{d}.8h, v{n}.16b
#define SXTLS(d, n)        WORD $(0x0F10A400 | ((n)<<5) | (d)) // sxtl v{d}.4s, v{n}.4h
#define SXTLS2(d, n)       WORD $(0x4F10A400 | ((n)<<5) | (d)) // sxtl2 v{d}.4s, v{n}.8h

// Float arithmetic on four lanes. Definitions multiply, round, then add, but for
// those of attention, which are fused.
#define FADDV(d, n, m)     WORD $(0x4E20D400 | ((m)<<16) | ((n)<<5) | (d)) // fadd v{d}.4s, v{n}.4s, v{m}.4s
#define FSUBV(d, n, m)     WORD $(0x4EA0D400 | ((m)<<16) | ((n)<<5) | (d)) // fsub v{d}.4s, v{n}.4s, v{m}.4s
#define FMULV(d, n, m)     WORD $(0x6E20DC00 | ((m)<<16) | ((n)<<5) | (d)) // fmul v{d}.4s, v{n}.4s, v{m}.4s
#define FMULE(d, n, m, i)  WORD $(0x4F809000 | (((i)&1)<<21) | ((m)<<16) | (((i)>>1)<<11) | ((n)<<5) | (d)) // fmul v{d}.4s, v{n}.4s, v{m}.s[{i}]
#define FMLAE(d, n, m, i)  WORD $(0x4F801000 | (((i)&1)<<21) | ((m)<<16) | (((i)>>1)<<11) | ((n)<<5) | (d)) // fmla v{d}.4s, v{n}.4s, v{m}.s[{i}]
#define FDIVV(d, n, m)     WORD $(0x6E20FC00 | ((m)<<16) | ((n)<<5) | (d)) // fdiv v{d}.4s, v{n}.4s, v{m}.4s
#define FMAXV(d, n, m)     WORD $(0x4E20F400 | ((m)<<16) | ((n)<<5) | (d)) // fmax v{d}.4s, v{n}.4s, v{m}.4s
#define FADDPS(d, n)       WORD $(0x7E30D800 | ((n)<<5) | (d)) // faddp s{d}, v{n}.2s
#define FNEGV(d, n)        WORD $(0x6EA0F800 | ((n)<<5) | (d)) // fneg v{d}.4s, v{n}.4s
#define FCMGTV(d, n, m)    WORD $(0x6EA0E400 | ((m)<<16) | ((n)<<5) | (d)) // fcmgt v{d}.4s, v{n}.4s, v{m}.4s
#define FCMEQV(d, n, m)    WORD $(0x4E20E400 | ((m)<<16) | ((n)<<5) | (d)) // fcmeq v{d}.4s, v{n}.4s, v{m}.4s

// Across lanes and between types.
#define FMAXVS(d, n)       WORD $(0x6E30F800 | ((n)<<5) | (d)) // fmaxv s{d}, v{n}.4s
#define SCVTFV(d, n)       WORD $(0x4E21D800 | ((n)<<5) | (d)) // scvtf v{d}.4s, v{n}.4s
#define FCVTZSV(d, n)      WORD $(0x4EA1B800 | ((n)<<5) | (d)) // fcvtzs v{d}.4s, v{n}.4s
#define FCVTL(d, n)        WORD $(0x0E217800 | ((n)<<5) | (d)) // fcvtl v{d}.4s, v{n}.4h
#define FCVTL2(d, n)       WORD $(0x4E217800 | ((n)<<5) | (d)) // fcvtl2 v{d}.4s, v{n}.8h
#define FCVTN(d, n)        WORD $(0x0E216800 | ((n)<<5) | (d)) // fcvtn v{d}.4h, v{n}.4s
#define FCVTN2(d, n)       WORD $(0x4E216800 | ((n)<<5) | (d)) // fcvtn2 v{d}.8h, v{n}.4s
