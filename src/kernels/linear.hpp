// The linear products of the vector levels with activations in f32: weights in f32, f16 or bf16,
// and the keys of attention, which lie as weights do (rules 1.1, 1.5 and 1.8).
// scalar_products.hpp says in plain loops what each of them computes.
#pragma once

#include "outputs.hpp"
#include "simd.hpp"

namespace phasor {
namespace {

// Rows of activations, ldx apart.
struct Inputs {
  const float* x;
  size_t ldx;
  PHASOR_INLINE Inputs from(size_t r) const { return {x + r * ldx, ldx}; }
};

PHASOR_INLINE void ask(const void* at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64)
    __builtin_prefetch(static_cast<const unsigned char*>(at) + i, 0, 2);
}

// The chains of a tile, begun.
template <class V, size_t R, size_t P>
PHASOR_INLINE void start_chains(V (&acc)[R][P]) {
  PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
    PHASOR_UNROLL for (size_t p = 0; p < P; ++p) acc[r][p] = V::set(0.0f);
}

// How many of N values are loaded before they are used. All of them: the loads wait together. But
// of values in four registers that only one row uses, one: more would not fit.
template <class V, size_t R, size_t N>
constexpr size_t kHeldOf = R == 1 && V::N == 4 ? 1 : N;

// acc (R, P) plus the bias. `at`: the first output of the tile.
template <class V, size_t R, size_t P>
PHASOR_INLINE void store_tile(const Outputs& out, const V (&acc)[R][P], size_t at) {
  PHASOR_UNROLL for (size_t p = 0; p < P; ++p) {
    const size_t o = at + p * kLanes;
    const V bias = bias_lanes<V>(out, o);
    PHASOR_UNROLL for (size_t r = 0; r < R; ++r) (acc[r][p] + bias).store(out.y + r * out.ldy + o);
  }
}

template <class L>
struct Linear {
  using A = typename L::Arch;
  using V = v16<A>;
  using T = typename L::Tiles;

  static constexpr size_t kBlock = 512;
  // bytes of weights above which they come from memory, or may
  static constexpr size_t kCached = 512 * 1024;

  // Weights of 16 outputs: value k of a panel that begins at w, or where two share a lane both.
  struct F32 {
    using Value = float;
    static constexpr Type kType = Type::f32;
    static constexpr size_t kStep = 1, kBytes = kLanes * 4;
    static PHASOR_INLINE V one(const unsigned char* w, size_t k) {
      return V::load(reinterpret_cast<const float*>(w) + k * kLanes);
    }
  };
  struct F16 {
    using Value = uint16_t;
    static constexpr Type kType = Type::f16;
    static constexpr size_t kStep = 1, kBytes = kLanes * 2;
    static PHASOR_INLINE V one(const unsigned char* w, size_t k) {
      return L::half16(w + k * kBytes);
    }
  };
  struct Bf16 {  // two values of k share a lane: the even one has the low half
    static constexpr Type kType = Type::bf16;
    static constexpr size_t kStep = 2, kBytes = kLanes * 4;
    static PHASOR_INLINE void both(V* v, const unsigned char* w, size_t k) {
      v[1] = V::load(reinterpret_cast<const float*>(w + k * (kLanes * 2)));
      PHASOR_UNROLL for (size_t i = 0; i < V::N; ++i) {
        const auto pairs = as_int<A>(v[1].v[i]);
        v[0].v[i] = as_float<A>(left<16>(pairs));
        v[1].v[i] = as_float<A>(pairs & typename V::I(-0x10000));
      }
    }
    static PHASOR_INLINE V one(const unsigned char* w, size_t k) {
      V v[2];
      both(v, w, k);
      return v[0];
    }
  };
  struct CacheQ8 {  // keys in q8
    using Value = unsigned char;
    static constexpr size_t kStep = 1, kBytes = kLanes;
    static PHASOR_INLINE V one(const unsigned char* w, size_t k) {
      const float* scales = reinterpret_cast<const float*>(w + cache_scale_q8(0, k));
      return L::byte16(w + cache_key_q8(0, k)) * V::load(scales);
    }
  };
  template <class W>
  static PHASOR_INLINE void load(V* v, const unsigned char* w, size_t k) {
    if constexpr (W::kStep == 1)
      v[0] = W::one(w, k);
    else
      W::both(v, w, k);
  }

  // P panels, and which inputs: the chains go on from `first` to `end`.
  template <size_t P>
  struct Panels {
    const unsigned char* w[P];
    size_t at, first, end;  // `at`: the first panel's first output
  };

  // R rows by P panels: the chains over k, begun at +0 or continued from y. kAhead: the P panels
  // after them are asked for meanwhile, in the order of their addresses.
  template <class W, bool kAhead, size_t R, size_t P>
  static PHASOR_INLINE void chains(V (&acc)[R][P], const Outputs& out, const Inputs& in,
                                   const Panels<P>& panels, Ahead& ahead) {
    const size_t ldx = in.ldx, end = panels.end;
    const float* x = in.x;
    start_chains(acc);
    if (panels.first != 0)
      PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p)
          acc[r][p] = V::load(out.y + r * out.ldy + panels.at + p * kLanes);
    const unsigned char* w[P];
    PHASOR_UNROLL for (size_t p = 0; p < P; ++p) w[p] = panels.w[p];
    size_t k = panels.first;
    if constexpr (kByLane)
      for (; k + 4 <= end; k += 4) {
        Four<A> xk[R];
        PHASOR_UNROLL for (size_t r = 0; r < R; ++r) xk[r] = Four<A>::load(x + r * ldx + k);
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p)
          PHASOR_UNROLL for (size_t s = 0; s < 4; s += W::kStep) {
            V wk[W::kStep];
            load<W>(wk, w[p], k + s);
            PHASOR_UNROLL for (size_t j = 0; j < W::kStep; ++j)
              PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
                acc[r][p] = xk[r].fma(s + j, wk[j], acc[r][p]);
          }
      }
    uintptr_t next = 2 * reinterpret_cast<uintptr_t>(w[P - 1]) -
                     reinterpret_cast<uintptr_t>(w[P > 1 ? P - 2 : 0]);
    for (; k + W::kStep <= end; k += W::kStep) {
      if constexpr (kAhead)
        PHASOR_UNROLL for (size_t i = 0; i < P * W::kBytes; i += 64)
          __builtin_prefetch(reinterpret_cast<const void*>(next + i), 0, 2);
      next += P * W::kBytes;
      if constexpr (T::kStream && R > 1) ahead.ask();
      constexpr size_t kHeld = kHeldOf<V, R, P>;
      PHASOR_UNROLL for (size_t b = 0; b < P; b += kHeld) {
        V wk[kHeld][W::kStep];
        PHASOR_UNROLL for (size_t p = 0; p < kHeld; ++p) load<W>(wk[p], w[b + p], k);
        if constexpr (R > 1)
          PHASOR_UNROLL for (size_t p = 0; p < kHeld; ++p)
            PHASOR_UNROLL for (size_t j = 0; j < W::kStep; ++j) wk[p][j].hold();
        PHASOR_UNROLL for (size_t j = 0; j < W::kStep; ++j)
          PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
            const V xk = V::set(x[r * ldx + k + j]);
            PHASOR_UNROLL for (size_t p = 0; p < kHeld; ++p)
              acc[r][b + p] = fma(xk, wk[p][j], acc[r][b + p]);
          }
      }
    }
    if constexpr (W::kStep > 1)
      if (k < end) {
        V wk[P];
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p) wk[p] = W::one(w[p], k);
        PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
          const V xk = V::set(x[r * ldx + k]);
          PHASOR_UNROLL for (size_t p = 0; p < P; ++p) acc[r][p] = fma(xk, wk[p], acc[r][p]);
        }
      }
  }

  // All rows by P panels: R rows at a time, the rest in one tile.
  template <class W, size_t R, size_t P, bool kAhead>
  static PHASOR_APART void linear_rows(const Outputs& out, const Inputs& in, size_t rows,
                                       const Panels<P>& panels, const Next& next) {
    Ahead ahead(next, rows / R * (panels.end - panels.first) / W::kStep + 1);
    size_t r = 0;
    for (; r + R <= rows; r += R) {
      V acc[R][P];
      chains<W, kAhead>(acc, out.from(r), in.from(r), panels, ahead);
      store_tile(out.from(r), acc, panels.at);
    }
    if constexpr (R > 1)
      if (r < rows)
        few_rows<W, R - 1, P, kAhead>(out.from(r), in.from(r), rows - r, panels,
                                      r == 0 ? next : kNothingNext);
  }
  // R rows or fewer, in one tile.
  template <class W, size_t R, size_t P, bool kAhead>
  static PHASOR_INLINE void few_rows(const Outputs& out, const Inputs& in, size_t rows,
                                     const Panels<P>& panels, const Next& next) {
    if (rows == R) return linear_rows<W, R, P, kAhead>(out, in, R, panels, next);
    if constexpr (R > 1) few_rows<W, R - 1, P, kAhead>(out, in, rows, panels, next);
  }
  // `panel(p)` gives panel p, so that weights (one block) and keys (pages) share the code: those
  // from `first` to `stop`. bytes: of a panel, where they lie side by side and come from memory, or
  // may; else 0.
  template <class W, size_t R, size_t P, bool kAhead, class Panel>
  static void linear_panels(const Outputs& out, const Inputs& in, size_t rows, Panel panel,
                            size_t first, size_t stop, size_t cols, size_t bytes) {
    size_t p = first;
    for (; p + P <= stop; p += P) {
      Panels<P> panels;
      for (size_t i = 0; i < P; ++i) panels.w[i] = panel(p + i);
      panels.at = p * kLanes;
      panels.first = 0;
      // The block of weights from `k` on of these panels, or of those that lie `behind` them.
      const auto from = [&](size_t k, size_t behind) -> Next {
        const size_t block = rows > R && cols - k > kBlock ? kBlock : cols - k;
        const uintptr_t at =
            reinterpret_cast<uintptr_t>(panels.w[0]) + behind * bytes + k * W::kBytes / W::kStep;
        return {at, block * W::kBytes / W::kStep, bytes != 0 ? P : 0, bytes};
      };
      // With more rows than one tile, k goes in blocks, whose weights stay in the second-level
      // cache from tile to tile. The chains wait in y (1.1).
      if (rows > R)
        for (; cols - panels.first > kBlock; panels.first = panels.end) {
          panels.end = panels.first + kBlock;
          linear_rows<W, R, P, false>({out.y, out.ldy, nullptr, 0}, in, rows, panels,
                                      from(panels.end, 0));
        }
      panels.end = cols;
      linear_rows<W, R, P, kAhead && (P > 1)>(out, in, rows, panels, from(0, P));
    }
    if constexpr (P > 1)
      if (p < stop) linear_panels<W, R, P / 2, kAhead>(out, in, rows, panel, p, stop, cols, bytes);
  }

  template <class W>
  static void linear(float* y, size_t ldy, const float* x, size_t ldx, size_t rows, const void* w,
                     const float* bias, size_t bias_n, size_t panels, size_t cols) {
    const Outputs out = {y, ldy, bias, bias_n};
    const Inputs in = {x, ldx};
    const size_t bytes = static_cast<size_t>(panel_bytes(W::kType, cols));
    const auto panel = [=](size_t p) { return static_cast<const unsigned char*>(w) + p * bytes; };
    const bool far = T::kStream && panels * bytes > kCached;
    if (rows == 1 && far)
      linear_panels<W, 1, T::kOneRow, true>(out, in, 1, panel, 0, panels, cols, 0);
    else if (rows == 1)
      linear_panels<W, 1, T::kOneRow, false>(out, in, 1, panel, 0, panels, cols, 0);
    else
      linear_panels<W, T::kRows, T::kPanels, false>(out, in, rows, panel, 0, panels, cols,
                                                    far ? bytes : 0);
  }
};

}  // namespace
}  // namespace phasor
