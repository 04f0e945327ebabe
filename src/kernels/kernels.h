// Kernels: arithmetic on arrays. They know pointers and sizes; no configuration, no globals, no
// allocation, no failure.
//
// A `Kernels` table is one instruction-set level. Every level gives the same bits: the order of
// every sum is fixed by the rules of numerics.md (named beside each entry), never by the
// width of a vector. `kernels_scalar` is the twin that all others are tested against, and exists in
// every build.
//
// Letters: R rows (tokens), K inputs, N outputs, P panels of 16 outputs, w head width. `ld…` is the
// distance between rows, in elements. Rows of activations are padded to a multiple of 16 with
// zeros, so outputs are written in whole panels. Pointers need no alignment beyond their type's,
// except weights: 64 bytes on a host, 16 on a Cortex-M.
#pragma once
#include "../activations.h"
#include "../caches.h"
#include "../layout.h"

namespace phasor {

// The keys that the rows of a tile see: row r those from first + r·skip to end + r·more − 1.
struct KeyRange {
  size_t first, end, skip, more;
};

// Products of rows with the panels of one type: what y is, the table's members say.
using LinearFloat = void(float* y, size_t ldy, const float* x, size_t ldx, size_t rows,
                         const void* w, const float* bias, size_t bias_n, size_t panels,
                         size_t cols);
using LinearInt8 = void(float* y, size_t ldy, const int8_t* xq, const float* xs,
                        const int32_t* xsum, size_t rows, const void* w, const float* bias,
                        size_t bias_n, size_t panels, size_t groups);

struct Kernels {
  const char* name;  // as `--isa` takes it

  // y (R, ldy ≥ 16·P) = x (R, ldx ≥ K) · Wᵀ, then + bias. One chain per output over k ascending,
  // from +0; bias is its own addition (1.1). w: P panels [K][16] in f32 or f16, [⌈K/2⌉][16][2] in
  // bf16: widened exactly, the sums are f32's (1.5). bias: may be NULL; bias_n of the 16·P lanes
  // have one, the rest get none.
#define PHASOR_MEMBER(type, ...) LinearFloat* linear_##type;
  PHASOR_FLOAT_TYPES(PHASOR_MEMBER, )
#undef PHASOR_MEMBER

  // One row of activations to int8 (1.3). q (32·G): values, the tail zero; scale (G); sum (G): Σq
  // of each group. G = ⌈K/32⌉.
  void (*quantize_row)(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols);

  // The same row for weights with one scale a row: one scale of all of a row's values, and the
  // products' sums over all of K (1.18). q (64·⌈K/64⌉), scale and sum (1). block: of the inputs
  // that are rotated together (1.19), rotation_block(K); 0: they are not rotated.
  void (*quantize_whole)(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                         size_t block);

  // The same with 16 bits an input (1.21): q = 255·hi + lo. Each row has a plane of hi, then one of
  // lo: q (2, 32·G), sum (2, G), scale (G); of a whole row q (2, 64·⌈K/64⌉), sum (2), scale (1).
  void (*quantize_row16)(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols);
  void (*quantize_whole16)(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                           size_t block);

  // One row as quantize_row gives it, of the rotated inputs (1.29): blocks as in quantize_whole,
  // then groups. block: rotation_block(K).
  void (*quantize_rotated)(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                           size_t block);

  // y (R, ldy) = dequantized product, then + bias. xq (R, 32·G), xs (R, G), xsum (R, G) from
  // quantize_row. w: P panels of the type.
  // q8, q4   per group acc = fma(float(isum), sx·sw, acc), groups ascending (1.2, 1.4); a scale
  //          plane, then [G][8][16][4], of q4 [G][4][16][4]: isum = Σn·x − 8·Σx, exact
  // q4t, q2, q2w, q1 and coded types the same with isum = Σw·x over what the codes stand for; a
  //          table of int8 (q4t), a plane with scales (panel_scale) or records, then
  //          [G][bits][16][4] (1.23, 1.27, 1.28, 1.30)
  // q4m, q4k, q5m, q5k isum = Σn·x; of each group acc = fma(float(isum), sx·sw, acc), then acc =
  //          fma(sx·float(Σx), m, acc) (1.20); sw and m are exact in f32 (grid_at of gather.h)
  // q8r, q2r float(isum)·(sx·sw) with xs and xsum (R) from quantize_whole; 16 f32 scales, then
  //          [G][8][16][4], G = 2·⌈K/64⌉
  // linear16 is the same product of rows from quantize_row16 or quantize_whole16: isum is 255·Σw·hi
  // + Σw·lo, and in float fma(255, float(Σw·hi), float(Σw·lo)).
#define PHASOR_MEMBER(type, ...) LinearInt8 *linear_##type, *linear16_##type;
  PHASOR_INT8_TYPES(PHASOR_MEMBER, )
#undef PHASOR_MEMBER

  // The product of a type.
#define PHASOR_CASE(type, ...) \
  case Type::type:             \
    return linear_##type;
  LinearFloat* linear_float(Type type) const {
    switch (type) {
      PHASOR_FLOAT_TYPES(PHASOR_CASE, )
      default:
        return nullptr;
    }
  }
  LinearInt8* linear_int8(Type type) const {
    switch (product_type(type)) {
      PHASOR_INT8_TYPES(PHASOR_CASE, )
      default:
        return nullptr;
    }
  }
#undef PHASOR_CASE
#define PHASOR_CASE(type, ...) \
  case Type::type:             \
    return linear16_##type;
  LinearInt8* linear_int16(Type type) const {
    switch (product_type(type)) {
      PHASOR_INT8_TYPES(PHASOR_CASE, )
      default:
        return nullptr;
    }
  }
#undef PHASOR_CASE

  // By the format of the keys: s (R, lds ≥ 16·pages): s[r][16·p + i] = q[r]·key(p, i), one chain
  // over the width ascending (1.6). k_pages[p]: keys of 16 positions, [w][16] in f32 and f16, which
  // is widened exactly (1.5); in q8 a key's value is float(q)·scale, rounded once (cache_key_q8 of
  // layout.h).
  void (*scores[kCacheTypes])(float* s, size_t lds, const float* q, size_t ldq, size_t rows,
                              const void* const* k_pages, size_t pages, size_t width);

  // Terms of scores that are no product with a panel (1.9). A table t has the distance fastest:
  // [w][ldt]. y (R, ldy): y[r][i] = Σ_d q[r][d]·t[d][i] for i < n, one chain over d ascending. No
  // lane beyond n is read or written.
  void (*table_scores)(float* y, size_t ldy, const float* q, size_t ldq, size_t rows,
                       const float* t, size_t ldt, size_t n, size_t width);
  // y (R, ldy): y[r][j − first] for keys first … end−1 is Σ_d key(j)[d]·t[d][j − first − r·step],
  // one chain (t points at row 0's entry of the first key); with q, of fma(q[r][d]·key(j)[d], t,
  // acc), q·key rounded. Keys in f32. Keys in f32.
  void (*key_table_scores)(float* y, size_t ldy, const float* q, size_t ldq, size_t rows,
                           const void* const* k_pages, size_t first, size_t end, const float* t,
                           size_t ldt, size_t step, size_t width);
  // s[j] for whole pages: Σ_d v[d]·tanh(q[d] + key(j)[d]), one chain (Bahdanau et al. 2015). Keys
  // in f32.
  void (*additive_scores)(float* s, const float* q, const float* v, const void* const* k_pages,
                          size_t pages, size_t width);
  // s[j] = fma(−|query − j|, slope, s[j]) for keys first … end−1 (Press et al. 2022).
  void (*distance_bias)(float* s, size_t first, size_t end, size_t query, float slope);

  // In place over keys first … end−1 of one row (s starts at a multiple of 16 positions): exact
  // maximum, e = exp(s − max), Σe by lanes (position mod 16) and the fixed tree; places of the
  // touched blocks that are not keys become +0. Returns 1/Σe; 0 when there is no key (1.6). s must
  // not hold a NaN: the caller tests (the result is then NaN).
  float (*softmax)(float* s, size_t first, size_t end);

  // By the format of the values: out (R, ldo): out[r][d] = (Σ_t e[r][t]·v[t][d], one chain over row
  // r's keys ascending from +0) · inv[r] (1.6). v_pages[p]: [16][round_up(w, 16)] in f32 and f16;
  // in q8 cache_value_q8 of layout.h. Writes exactly `width` floats a row.
  void (*mix[kCacheTypes])(float* out, size_t ldo, const float* e, size_t lde, const float* inv,
                           size_t rows, const void* const* v_pages, KeyRange keys, size_t width);

  // out (w): goes on with the chain in out: for i < n ascending, fma(e[i], t[i·step + d], out[d]).
  void (*mix_table)(float* out, const float* e, const float* t, size_t step, size_t n,
                    size_t width);

  // y (n) = fma((x − mean)·r, g, b) (1.11); b may be NULL ((x − mean)·r·g). Returns the mean square
  // about the mean, for the test of rule 1.14. y may be x.
  float (*layer_norm)(float* y, const float* x, const float* g, const float* b, size_t n,
                      float eps);
  // y (n) = (x·r)·g with r = 1/sqrt(tree(x²)/n + eps); b, when there is one, is fused as above.
  // Returns the mean square.
  float (*rms_norm)(float* y, const float* x, const float* g, const float* b, size_t n, float eps);

  // Rotary positions (Su et al. 2021, "RoFormer"): pair i of x (2·half) turns by the angle with
  // cosine c[i] and sine s[i]: y0 = fma(x0, c, −(x1·s)), y1 = fma(x0, s, x1·c) (1.11). Pairs (i, i
  // + half), or (2i, 2i + 1).
  void (*rotate_halves)(float* x, const float* c, const float* s, size_t half);
  void (*rotate_pairs)(float* x, const float* c, const float* s, size_t half);

  // y (n) = x / max(√Σx², 1e-12), Σ by lanes and the fixed tree. Returns Σx². y may be x.
  float (*unit)(float* y, const float* x, size_t n);

  void (*add)(float* y, const float* x, size_t n);             // y += x
  void (*scale)(float* y, const float* x, size_t n, float s);  // y = x·s
  void (*mul)(float* y, const float* x, size_t n);             // y *= x
  void (*mul_add)(float* y, const float* x, const float* w, size_t n);  // y = fma(x, w, y)
  void (*clip)(float* y, size_t n, float limit);               // to ±limit; NaN stays
  // y (n) = f(y) by the activation's code; the formulas are in functions.hpp (1.12). xIELU: NULL.
  void (*activation[kActivationCodes])(float* y, size_t n);
  void (*xielu)(float* y, size_t n, const float* numbers);  // with αp, αn, β and ε of the layer
  void (*soft_cap)(float* y, size_t n, float cap);  // cap·tanh(y·(1/cap)) (1.9)

  // The lowest index of the largest of x (n ≥ 1); n when a NaN is among them. *largest gets the
  // value.
  size_t (*argmax)(const float* x, size_t n, float* largest);

  // Element-wise functions of src/kernels/functions.hpp, for the tests that sweep them and for
  // sampling.
  void (*exp)(float* y, size_t n);
  void (*log)(float* y, size_t n);

  // What this level's arithmetic does at most: rounds of multiply-adds on operands in registers, as
  // many chains as the registers hold; no memory beyond the first-level cache. Return the
  // multiply-adds done. out (16) gets something that depends on all of them.
  uint64_t (*peak_f32)(float* out, uint64_t rounds);
  uint64_t (*peak_int8)(float* out, uint64_t rounds);
};

extern const Kernels kernels_scalar;

// The levels of this build, best first, that this processor runs; at most 8. Returns their number.
size_t kernels_available(const Kernels* out[8]) noexcept;
// Asks the system for the registers of level amx, which is available when they are given: true. A
// processor without them is not asked for.
bool kernels_request_tiles() noexcept;
// The level of that name if this build has it and this processor runs it, else NULL; NULL or "auto"
// asks for the best.
const Kernels* kernels_by_name(const char* name) noexcept;

// Sets round-to-nearest without flushing subnormals and gives back what was there (1.13); every
// call into the kernels lies between the two, on worker threads too.
uint64_t fp_mode_enter() noexcept;
void fp_mode_leave(uint64_t before) noexcept;
// Both, from here to the end of a block.
class FpMode {
 public:
  FpMode() : before_(fp_mode_enter()) {}
  ~FpMode() { fp_mode_leave(before_); }
  FpMode(const FpMode&) = delete;
  FpMode& operator=(const FpMode&) = delete;

 private:
  const uint64_t before_;
};
// False when the arithmetic of this machine, compiler or level breaks the contract: fused
// multiply-add, division, square root, subnormals, conversion and rounding are compared with known
// bits. Checked at open.
bool arithmetic_is_sound(const Kernels& k) noexcept;

}  // namespace phasor
