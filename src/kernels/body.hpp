// The kernels' bodies for the vector levels: templates over a Level, which says
//   using Arch                    the xsimd architecture
//   struct Tiles                  how many rows and panels a micro-kernel takes at once
//   half16(p)                     16 f16 values to f32
//   byte16(p)                     16 int8 values to f32
//   struct Int8                   the exact dot product of 16 outputs by 4 activations (int8_*.hpp)
//   struct Int4                   the same with nibbles, 16 outputs by 4 and by another 4 activations
// level_scalar.cpp says in plain loops what each of them computes.
#pragma once
#include "../only.h"
#include "functions.hpp"
#include "kernels.h"
#include "simd.hpp"
#include "table.h"

// A function that holds one micro-kernel: inlined into each other they would be ten times the code.
#define PHASOR_APART __attribute__((noinline))

namespace phasor {
namespace {

template <class L>
struct Body {
  using A = typename L::Arch;
  using V = v16<A>;
  using T = typename L::Tiles;

  static constexpr size_t kBlock = 512;
  static constexpr size_t kCached = 512 * 1024;  // bytes of weights above which they come from memory, or may

  // f(n) with n, 1 … R − 1, as a constant: the rows that a tile of R leaves.
  template <int R, class F>
  static PHASOR_INLINE void rest(size_t n, F f) {
    times<R - 1>(PHASOR_EACH(i) {
      if (n == i.value + 1) f(Index<decltype(i)::value + 1>{});
    });
  }

  // Weights that are needed next: `bytes` of each of `pieces` panels, `stride` bytes apart. No pieces: they need not be asked for.
  struct Next {
    uintptr_t at;
    size_t bytes, pieces, stride;
  };
  static constexpr Next kNothingNext{0, 0, 0, 0};
  // Asks for them in equal parts, one at each of `steps` steps of what is computed meanwhile: a burst of requests would hold up the loads behind it.
  // What lies beyond the last panel is the next matrix of the file, as a rule; asking for an address that is nowhere does no harm.
  class Ahead {
   public:
    PHASOR_INLINE Ahead(const Next& n, size_t steps)
        : at_(n.at), piece_((n.bytes + 63) / 64), in_piece_(piece_), left_(piece_ * n.pieces), part_(steps == 0 ? 0 : (left_ + steps - 1) / steps), jump_(n.stride - piece_ * 64) {}
    PHASOR_INLINE void ask() {
      if (left_ == 0) return;
      size_t i = left_ < part_ ? left_ : part_;
      left_ -= i;
      do {
        __builtin_prefetch(reinterpret_cast<const void*>(at_), 0, 2);
        at_ += 64;
        if (--in_piece_ == 0) in_piece_ = piece_, at_ += jump_;
      } while (--i != 0);
    }

   private:
    uintptr_t at_;
    size_t piece_, in_piece_, left_, part_, jump_;
  };

  static PHASOR_INLINE void ask(const void* at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const unsigned char*>(at) + i, 0, 2);
  }

  static constexpr float kLaneNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

  // 16 lanes of the bias from output o on. A lane that has none gets −0, which leaves every value as it is, −0 too.
  static PHASOR_INLINE V bias_lanes(const float* bias, size_t bias_n, size_t o) {
    if (bias == nullptr) return V::set(-0.0f);
    return o + kLanes <= bias_n ? V::load(bias + o) : last_bias(bias, bias_n, o);
  }
  static PHASOR_APART V last_bias(const float* bias, size_t bias_n, size_t o) {
    alignas(64) float lanes[kLanes];
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = o + i < bias_n ? bias[o + i] : -0.0f;
    return V::load(lanes);
  }

  // acc (R, P) plus the bias to y. `at`: the first output of the tile.
  template <int R, int P>
  static PHASOR_INLINE void store_tile(float* y, size_t ldy, V (&acc)[R][P], const float* bias, size_t bias_n, size_t at) {
    times<P>(PHASOR_EACH(p) {
      const size_t o = at + p.value * kLanes;
      const V b = bias_lanes(bias, bias_n, o);
      times<R>(PHASOR_EACH(r) { (acc[r.value][p.value] + b).store(y + r.value * ldy + o); });
    });
  }

  // Weights of 16 outputs: kStep values of k from k on, of a panel that begins at w.
  struct F32 {
    static constexpr size_t kStep = 1, kBytes = kLanes * 4;
    static PHASOR_INLINE size_t page_bytes(size_t width) { return width * kBytes; }
    static PHASOR_INLINE void load(V* v, const void* w, size_t k) { v[0] = V::load(static_cast<const float*>(w) + k * kLanes); }
    static PHASOR_INLINE V last(const void* w, size_t k) { return V::load(static_cast<const float*>(w) + k * kLanes); }
  };
  struct F16 {
    static constexpr size_t kStep = 1, kBytes = kLanes * 2;
    static PHASOR_INLINE size_t page_bytes(size_t width) { return width * kBytes; }
    static PHASOR_INLINE void load(V* v, const void* w, size_t k) { v[0] = last(w, k); }
    static PHASOR_INLINE V last(const void* w, size_t k) { return L::half16(static_cast<const unsigned char*>(w) + k * (kLanes * 2)); }
  };
  struct Bf16 {  // two values of k share a lane: the even one has the low half
    static constexpr size_t kStep = 2, kBytes = kLanes * 4;
    static PHASOR_INLINE void load(V* v, const void* w, size_t k) {
      using I = typename V::I;
      const V both = V::load(reinterpret_cast<const float*>(static_cast<const unsigned char*>(w) + k * (kLanes * 2)));
      times<V::N>(PHASOR_EACH(i) {
        v[0].v[i.value] = as_float<A>(left<16>(as_int<A>(both.v[i.value])));
        v[1].v[i.value] = as_float<A>(as_int<A>(both.v[i.value]) & I(static_cast<int32_t>(0xffff0000u)));
      });
    }
    static PHASOR_INLINE V last(const void* w, size_t k) {
      V v[2];
      load(v, w, k);
      return v[0];
    }
  };

  struct Keys8 {  // of a cache in q8
    static constexpr size_t kStep = 1, kBytes = kLanes;
    static PHASOR_INLINE size_t page_bytes(size_t width) { return static_cast<size_t>(cache_q8_bytes(width)); }
    static PHASOR_INLINE void load(V* v, const void* w, size_t k) { v[0] = last(w, k); }
    static PHASOR_INLINE V last(const void* w, size_t k) {
      const unsigned char* p = static_cast<const unsigned char*>(w);
      return L::byte16(p + cache_key_q8(0, k)) * V::load(reinterpret_cast<const float*>(p + cache_scale_q8(0, k)));
    }
  };

  // R rows by P panels: the chains over k from `first` to `end`, begun at +0 or continued from y. kAhead: the P panels after them are asked
  // for meanwhile, in the order of their addresses.
  template <class W, int R, int P, bool kAhead>
  static PHASOR_INLINE void chains(V (&acc)[R][P], const float* y, size_t ldy, const float* x, size_t ldx,
                                   const void* const (&w)[P], size_t at, size_t first, size_t end, Ahead* ahead) {
    times<R>(PHASOR_EACH(r) { times<P>(PHASOR_EACH(p) { acc[r.value][p.value] = V::set(0.0f); }); });
    if (first != 0)
      times<R>(PHASOR_EACH(r) {
        times<P>(PHASOR_EACH(p) { acc[r.value][p.value] = V::load(y + r.value * ldy + at + p.value * kLanes); });
      });
    size_t k = first;
    if constexpr (kByLane)
      for (; k + 4 <= end; k += 4) {
        Four<A> xk[R];
        times<R>(PHASOR_EACH(r) { xk[r.value] = Four<A>::load(x + r.value * ldx + k); });
        times<P>(PHASOR_EACH(p) {
          times<static_cast<int>(4 / W::kStep)>(PHASOR_EACH(s) {
            constexpr int kFirst = decltype(s)::value * static_cast<int>(W::kStep);
            V wk[W::kStep];
            W::load(wk, w[p.value], k + kFirst);
            times<static_cast<int>(W::kStep)>(PHASOR_EACH(j) {
              times<R>(PHASOR_EACH(r) {
                acc[r.value][p.value] = xk[r.value].template fma<kFirst + decltype(j)::value>(wk[j.value], acc[r.value][p.value]);
              });
            });
          });
        });
      }
    uintptr_t next = kAhead ? 2 * reinterpret_cast<uintptr_t>(w[P - 1]) - reinterpret_cast<uintptr_t>(w[P > 1 ? P - 2 : 0]) : 0;
    for (; k + W::kStep <= end; k += W::kStep) {
      if constexpr (kAhead)
        times<static_cast<int>(P * W::kBytes / 64)>(PHASOR_EACH(i) { __builtin_prefetch(reinterpret_cast<const void*>(next + i.value * 64), 0, 2); });
      next += P * W::kBytes;
      if constexpr (T::kStream && R > 1) ahead->ask();
      V wk[P][W::kStep];
      times<P>(PHASOR_EACH(p) { W::load(wk[p.value], w[p.value], k); });
      times<static_cast<int>(W::kStep)>(PHASOR_EACH(j) {
        times<R>(PHASOR_EACH(r) {
          const V xk = V::set(x[r.value * ldx + k + j.value]);
          times<P>(PHASOR_EACH(p) { acc[r.value][p.value] = fma(xk, wk[p.value][j.value], acc[r.value][p.value]); });
        });
      });
    }
    if constexpr (W::kStep > 1)
      if (k < end) {
        V wk[P];
        times<P>(PHASOR_EACH(p) { wk[p.value] = W::last(w[p.value], k); });
        times<R>(PHASOR_EACH(r) {
          const V xk = V::set(x[r.value * ldx + k]);
          times<P>(PHASOR_EACH(p) { acc[r.value][p.value] = fma(xk, wk[p.value], acc[r.value][p.value]); });
        });
      }
  }

  // All rows by P panels from `at` on: R rows at a time, the rest in one tile.
  template <class W, int R, int P, bool kAhead>
  static PHASOR_APART void linear_rows(float* y, size_t ldy, const float* x, size_t ldx, size_t rows, const void* const (&w)[P],
                          const float* bias, size_t bias_n, size_t at, size_t first, size_t end, const Next& next) {
    Ahead ahead(next, rows / R * (end - first) / W::kStep + 1);
    size_t r = 0;
    for (; r + R <= rows; r += R) {
      V acc[R][P];
      chains<W, R, P, kAhead>(acc, y + r * ldy, ldy, x + r * ldx, ldx, w, at, first, end, &ahead);
      store_tile<R, P>(y + r * ldy, ldy, acc, bias, bias_n, at);
    }
    if constexpr (R > 1)
      if (r < rows)
        rest<R>(rows - r, PHASOR_EACH(n) { linear_rows<W, n.value, P, kAhead>(y + r * ldy, ldy, x + r * ldx, ldx, n.value, w, bias, bias_n, at, first, end, r == 0 ? next : kNothingNext); });
  }
  // `panel(p)` gives panel p, so that weights (one block) and keys (pages) share the code.
  // bytes: of a panel, where they lie side by side and come from memory, or may; else 0.
  template <class W, int R, int P, bool kAhead, class Panel>
  static void linear_panels(float* y, size_t ldy, const float* x, size_t ldx, size_t rows, Panel panel, const float* bias,
                            size_t bias_n, size_t first, size_t panels, size_t cols, size_t bytes) {
    size_t p = first;
    for (; p + P <= panels; p += P) {
      const void* w[P];
      for (int i = 0; i < P; ++i) w[i] = panel(p + static_cast<size_t>(i));
      // With more rows than one tile, k goes in blocks, whose weights stay in the second-level cache from tile to tile.
      // The chains wait in y (1.1).
      size_t k = 0;
      const auto from = [&](size_t at, size_t panels_on) -> Next {  // the block that begins at weight `at` of these panels, or of those behind them
        const size_t block = rows > R && cols - at > kBlock ? kBlock : cols - at;
        return {reinterpret_cast<uintptr_t>(w[0]) + panels_on * bytes + at * W::kBytes / W::kStep, block * W::kBytes / W::kStep, bytes != 0 ? size_t{P} : 0, bytes};
      };
      if (rows > R)
        for (; cols - k > kBlock; k += kBlock)
          linear_rows<W, R, P, false>(y, ldy, x, ldx, rows, w, nullptr, 0, p * kLanes, k, k + kBlock, from(k + kBlock, 0));
      linear_rows<W, R, P, kAhead && (P > 1)>(y, ldy, x, ldx, rows, w, bias, bias_n, p * kLanes, k, cols, from(0, P));
    }
    if constexpr (P > 1)
      if (p < panels) linear_panels<W, R, P / 2, kAhead>(y, ldy, x, ldx, rows, panel, bias, bias_n, p, panels, cols, bytes);
  }

  // P panels of `bytes` each.
  template <class W>
  static PHASOR_INLINE void linear_chains(float* y, size_t ldy, const float* x, size_t ldx, size_t rows, const void* w, size_t bytes, const float* bias,
                                          size_t bias_n, size_t panels, size_t cols) {
    const auto panel = [=](size_t p) { return static_cast<const void*>(static_cast<const unsigned char*>(w) + p * bytes); };
    const bool far = T::kStream && panels * bytes > kCached;
    if (rows == 1 && far)
      linear_panels<W, 1, T::kOneRow, true>(y, ldy, x, ldx, 1, panel, bias, bias_n, 0, panels, cols, 0);
    else if (rows == 1)
      linear_panels<W, 1, T::kOneRow, false>(y, ldy, x, ldx, 1, panel, bias, bias_n, 0, panels, cols, 0);
    else
      linear_panels<W, T::kRows, T::kPanels, false>(y, ldy, x, ldx, rows, panel, bias, bias_n, 0, panels, cols, far ? bytes : 0);
  }
  static void linear_f32(float* y, size_t ldy, const float* x, size_t ldx, size_t rows, const float* w, const float* bias,
                         size_t bias_n, size_t panels, size_t cols) {
    linear_chains<F32>(y, ldy, x, ldx, rows, w, kLanes * cols * 4, bias, bias_n, panels, cols);
  }
  static void linear_f16(float* y, size_t ldy, const float* x, size_t ldx, size_t rows, const void* w, const float* bias, size_t bias_n,
                         size_t panels, size_t cols) {
    linear_chains<F16>(y, ldy, x, ldx, rows, w, kLanes * cols * 2, bias, bias_n, panels, cols);
  }
  static void linear_bf16(float* y, size_t ldy, const float* x, size_t ldx, size_t rows, const void* w, const float* bias, size_t bias_n,
                          size_t panels, size_t cols) {
    linear_chains<Bf16>(y, ldy, x, ldx, rows, w, kLanes * ((cols + 1) / 2) * 4, bias, bias_n, panels, cols);
  }

  template <class W, class Page>
  static PHASOR_INLINE void scores_of(float* s, size_t lds, const float* q, size_t ldq, size_t rows, const Page* const* k_pages, size_t pages, size_t width) {
    // The pages of a layer lie far from each other: while some are computed, those after them are asked for.
    const auto panel = [=](size_t p) __attribute__((always_inline)) {
      if (T::kStream && p + T::kOneRow < pages) ask(k_pages[p + T::kOneRow], W::page_bytes(width));
      return static_cast<const void*>(k_pages[p]);
    };
    if (rows == 1)
      linear_panels<W, 1, T::kOneRow, false>(s, lds, q, ldq, 1, panel, nullptr, 0, 0, pages, width, 0);
    else
      linear_panels<W, T::kRows, T::kPanels, false>(s, lds, q, ldq, rows, panel, nullptr, 0, 0, pages, width, 0);
  }
  static void scores(float* s, size_t lds, const float* q, size_t ldq, size_t rows, const float* const* k_pages,
                     size_t pages, size_t width) {
    scores_of<F32>(s, lds, q, ldq, rows, k_pages, pages, width);
  }
  static void scores_f16(float* s, size_t lds, const float* q, size_t ldq, size_t rows, const uint16_t* const* k_pages,
                         size_t pages, size_t width) {
    scores_of<F16>(s, lds, q, ldq, rows, k_pages, pages, width);
  }
  static void scores_q8(float* s, size_t lds, const float* q, size_t ldq, size_t rows, const unsigned char* const* k_pages,
                        size_t pages, size_t width) {
    scores_of<Keys8>(s, lds, q, ldq, rows, k_pages, pages, width);
  }

  // R rows by N blocks of 16 distances from place i on, the last with n lanes.
  template <int R, int N>
  static PHASOR_INLINE void table_tile(float* y, size_t ldy, const float* q, size_t ldq, const float* t, size_t ldt, size_t i, size_t n, size_t width) {
    V acc[R][N];
    times<R>(PHASOR_EACH(r) { times<N>(PHASOR_EACH(b) { acc[r.value][b.value] = V::set(0.0f); }); });
    for (size_t d = 0; d < width; ++d) {
      const float* entries = t + d * ldt + i;
      V td[N];
      times<N>(PHASOR_EACH(b) { td[b.value] = b.value == N - 1 ? load(entries + b.value * kLanes, n) : V::load(entries + b.value * kLanes); });
      times<R>(PHASOR_EACH(r) {
        const V qd = V::set(q[r.value * ldq + d]);
        times<N>(PHASOR_EACH(b) { acc[r.value][b.value] = fma(qd, td[b.value], acc[r.value][b.value]); });
      });
    }
    times<R>(PHASOR_EACH(r) {
      times<N>(PHASOR_EACH(b) {
        float* out = y + r.value * ldy + i + b.value * kLanes;
        if (b.value == N - 1 && n != kLanes)
          store_part<A>(out, acc[r.value][b.value], n);
        else
          acc[r.value][b.value].store(out);
      });
    });
  }
  template <int R>
  static PHASOR_APART void table_rows(float* y, size_t ldy, const float* q, size_t ldq, const float* t, size_t ldt, size_t n, size_t width) {
    constexpr size_t kStep = T::kPanels * kLanes;
    size_t i = 0;
    for (; i + kStep <= n; i += kStep) table_tile<R, T::kPanels>(y, ldy, q, ldq, t, ldt, i, kLanes, width);
    for (; i < n; i += kLanes) table_tile<R, 1>(y, ldy, q, ldq, t, ldt, i, n - i < kLanes ? n - i : kLanes, width);
  }
  static void table_scores(float* y, size_t ldy, const float* q, size_t ldq, size_t rows, const float* t, size_t ldt, size_t n, size_t width) {
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) table_rows<4>(y + r * ldy, ldy, q + r * ldq, ldq, t, ldt, n, width);
    for (; r < rows; ++r) table_rows<1>(y + r * ldy, ldy, q + r * ldq, ldq, t, ldt, n, width);
  }

  // Lanes low … high − 1 of a block whose lane `low` is at p; the others are +0.
  static PHASOR_INLINE V load_lanes(const float* p, size_t low, size_t high) {
    if (high - low == kLanes) return V::load(p);
    alignas(64) float lanes[kLanes] = {};
    for (size_t i = low; i < high; ++i) lanes[i] = p[i - low];
    return V::load(lanes);
  }
  // R rows by N whole pages from page `page` on; row r's entries lie at t − r·step.
  template <int R, int N>
  static PHASOR_INLINE void key_table_tile(float* y, size_t ldy, const float* q, size_t ldq, const float* const* k_pages, size_t page, const float* t,
                                           size_t ldt, size_t step, size_t width) {
    V acc[R][N];
    times<R>(PHASOR_EACH(r) { times<N>(PHASOR_EACH(b) { acc[r.value][b.value] = V::set(0.0f); }); });
    for (size_t d = 0; d < width; ++d) {
      const float* entries = t + d * ldt;
      times<N>(PHASOR_EACH(b) {
        const V key = V::load(k_pages[page + b.value] + d * kLanes);
        times<R>(PHASOR_EACH(r) {
          const V product = q != nullptr ? V::set(q[r.value * ldq + d]) * key : key;
          acc[r.value][b.value] = fma(product, V::load(entries - r.value * step + b.value * kLanes), acc[r.value][b.value]);
        });
      });
    }
    times<R>(PHASOR_EACH(r) { times<N>(PHASOR_EACH(b) { acc[r.value][b.value].store(y + r.value * ldy + b.value * kLanes); }); });
  }
  // Keys low … high − 1 of one page, whose entries lie at t.
  static PHASOR_INLINE void key_table_part(float* y, const float* q, const float* keys, size_t low, size_t high, const float* t, size_t ldt, size_t width) {
    V acc = V::set(0.0f);
    for (size_t d = 0; d < width; ++d) {
      V key = V::load(keys + d * kLanes);
      if (q != nullptr) key = V::set(q[d]) * key;
      acc = fma(key, load_lanes(t + d * ldt, low, high), acc);
    }
    alignas(64) float lanes[kLanes];
    acc.store(lanes);
    for (size_t i = low; i < high; ++i) y[i - low] = lanes[i];
  }
  template <int R>
  static PHASOR_APART void key_table_rows(float* y, size_t ldy, const float* q, size_t ldq, const float* const* k_pages, size_t first, size_t end,
                                          const float* t, size_t ldt, size_t step, size_t width) {
    for (size_t j = first; j < end;) {
      const size_t page = j / kLanes, low = j % kLanes, left = end - j, at = j - first;
      if (low == 0 && left >= 2 * kLanes) {
        key_table_tile<R, 2>(y + at, ldy, q, ldq, k_pages, page, t + at, ldt, step, width);
        j += 2 * kLanes;
      } else if (low == 0 && left >= kLanes) {
        key_table_tile<R, 1>(y + at, ldy, q, ldq, k_pages, page, t + at, ldt, step, width);
        j += kLanes;
      } else {
        const size_t high = low + left < kLanes ? low + left : kLanes;
        for (size_t r = 0; r < R; ++r)
          key_table_part(y + r * ldy + at, q != nullptr ? q + r * ldq : nullptr, k_pages[page], low, high, t + at - r * step, ldt, width);
        j += high - low;
      }
    }
  }
  static void key_table_scores(float* y, size_t ldy, const float* q, size_t ldq, size_t rows, const float* const* k_pages, size_t first, size_t end,
                               const float* t, size_t ldt, size_t step, size_t width) {
    size_t r = 0;
    for (; r + 4 <= rows; r += 4)
      key_table_rows<4>(y + r * ldy, ldy, q != nullptr ? q + r * ldq : nullptr, ldq, k_pages, first, end, t - r * step, ldt, step, width);
    for (; r < rows; ++r)
      key_table_rows<1>(y + r * ldy, ldy, q != nullptr ? q + r * ldq : nullptr, ldq, k_pages, first, end, t - r * step, ldt, step, width);
  }

  static PHASOR_APART void additive_scores(float* s, const float* q, const float* v, const float* const* k_pages, size_t pages, size_t width) {
    for (size_t p = 0; p < pages; ++p) {
      V acc = V::set(0.0f);
      for (size_t d = 0; d < width; ++d) acc = fma(V::set(v[d]), tanh_of(V::set(q[d]) + V::load(k_pages[p] + d * kLanes)), acc);
      acc.store(s + p * kLanes);
    }
  }

  static void distance_bias(float* s, size_t first, size_t end, size_t query, float slope) {
    const V at = V::load(kLaneNumbers), query_at = V::set(float_of_size(query)), factor = V::set(slope), zero = V::set(0.0f);
    each(s + first, end - first, [=](V x, size_t i, size_t) __attribute__((always_inline)) {
      const V distance = abs(query_at - (V::set(float_of_size(first + i)) + at));  // whole numbers below 2^24: exact
      return fma(zero - distance, factor, x);
    });
  }

  static PHASOR_INLINE V load_values(const float* p) { return V::load(p); }
  static PHASOR_INLINE V load_values(const uint16_t* p) { return L::half16(reinterpret_cast<const unsigned char*>(p)); }
  static constexpr size_t kPagesAhead = 2;
  // The values of a position from place `at` of the width on, block by block; next() goes to the page's next position.
  template <class Value>
  struct ValuesOf {
    const Value* v;
    size_t ld;
    PHASOR_INLINE ValuesOf(const Value* page, size_t slot, size_t ldv, size_t at) : v(page + slot * ldv + at), ld(ldv) {}
    PHASOR_INLINE V load(size_t block) const { return load_values(v + block * kLanes); }
    PHASOR_INLINE void ask(size_t blocks) const {
      for (size_t slot = 0; slot < kLanes; ++slot) Body::ask(v + slot * ld, blocks * kLanes * sizeof(Value));
    }
    PHASOR_INLINE void next() { v += ld; }
  };
  struct ValuesOfQ8 {  // two blocks share a group; `at` is the first of its group, or there is one block only
    const unsigned char *scale, *v;
    PHASOR_INLINE ValuesOfQ8(const unsigned char* page, size_t slot, size_t, size_t at) : scale(page + cache_scale_q8(slot, at)), v(page + cache_value_q8(slot, at)) {}
    PHASOR_INLINE V load(size_t block) const {
      float s;
      __builtin_memcpy(&s, scale + cache_scale_q8(0, block * kLanes), 4);
      return L::byte16(v + (cache_value_q8(0, block * kLanes) - kCacheScales)) * V::set(s);
    }
    PHASOR_INLINE void ask(size_t blocks) const {
      for (size_t block = 0; block < blocks; block += 2)
        Body::ask(scale + cache_scale_q8(0, block * kLanes), block + 2 <= blocks ? kCacheGroup : kCacheScales + kLanes * kLanes);
    }
    PHASOR_INLINE void next() {
      scale += 4;
      v += kLanes;
    }
  };
  static PHASOR_INLINE auto values_of(const unsigned char* page, size_t slot, size_t ldv, size_t at) { return ValuesOfQ8(page, slot, ldv, at); }
  template <class Value>
  static PHASOR_INLINE auto values_of(const Value* page, size_t slot, size_t ldv, size_t at) { return ValuesOf<Value>(page, slot, ldv, at); }
  // Goes on with the chains of R rows by D blocks of 16 of the value's width, from `at` on, over keys first … end − 1.
  template <int R, int D, class Value>
  static PHASOR_INLINE void mix_keys(V (&acc)[R][D], const float* e, size_t lde, const Value* const* v_pages, size_t ldv, size_t at, size_t first, size_t end) {
    for (size_t t = first; t < end;) {
      const size_t stop = t / kLanes * kLanes + kLanes < end ? t / kLanes * kLanes + kLanes : end;
      auto v = values_of(v_pages[t / kLanes], t % kLanes, ldv, at);
      if (T::kStream && t / kLanes + kPagesAhead <= (end - 1) / kLanes) values_of(v_pages[t / kLanes + kPagesAhead], 0, ldv, at).ask(D);
      if constexpr (kByLane)
        for (; t + 4 <= stop; t += 4) {
          Four<A> et[R];
          times<R>(PHASOR_EACH(r) { et[r.value] = Four<A>::load(e + r.value * lde + t); });
          times<4>(PHASOR_EACH(j) {
            times<D>(PHASOR_EACH(d) {
              const V vt = v.load(d.value);
              times<R>(PHASOR_EACH(r) { acc[r.value][d.value] = et[r.value].template fma<decltype(j)::value>(vt, acc[r.value][d.value]); });
            });
            v.next();
          });
        }
      for (; t < stop; ++t, v.next()) {
        V vt[D];
        times<D>(PHASOR_EACH(d) { vt[d.value] = v.load(d.value); });
        times<R>(PHASOR_EACH(r) {
          const V et = V::set(e[r.value * lde + t]);
          times<D>(PHASOR_EACH(d) { acc[r.value][d.value] = fma(et, vt[d.value], acc[r.value][d.value]); });
        });
      }
    }
  }
  // The same over keys that one row of several sees.
  template <int D, class Value>
  static PHASOR_APART void mix_own(V (&acc)[1][D], const float* e, const Value* const* v_pages, size_t ldv, size_t at, size_t first, size_t end) {
    mix_keys<1, D>(acc, e, 0, v_pages, ldv, at, first, end);
  }
  // n of the last block's lanes are written.
  template <int R, int D, class Value>
  static void mix_tile(float* out, size_t ldo, const float* e, size_t lde, const float* inv, const Value* const* v_pages,
                       size_t ldv, size_t at, KeyRange keys, size_t n) {
    V acc[R][D];
    times<R>(PHASOR_EACH(r) { times<D>(PHASOR_EACH(d) { acc[r.value][d.value] = V::set(0.0f); }); });
    // Keys that all rows see are mixed together; those before and after them row by row.
    const size_t last = keys.first + (R - 1) * keys.skip, shared = last < keys.end ? last : keys.end;
    const auto own = PHASOR_EACH(r) {
      return [&, r](size_t first, size_t end) __attribute__((always_inline)) {
        if (first >= end) return;
        V one[1][D];
        times<D>(PHASOR_EACH(d) { one[0][d.value] = acc[r.value][d.value]; });
        mix_own<D>(one, e + r.value * lde, v_pages, ldv, at, first, end);
        times<D>(PHASOR_EACH(d) { acc[r.value][d.value] = one[0][d.value]; });
      };
    };
    times<R>(PHASOR_EACH(r) { own(r)(keys.first + r.value * keys.skip, shared); });
    mix_keys<R, D>(acc, e, lde, v_pages, ldv, at, shared, keys.end);
    times<R>(PHASOR_EACH(r) {
      const size_t begin = keys.first + r.value * keys.skip;
      own(r)(begin > keys.end ? begin : keys.end, keys.end + r.value * keys.more);
    });
    times<R>(PHASOR_EACH(r) {
      const V f = V::set(inv[r.value]);
      times<D>(PHASOR_EACH(d) {
        float* o = out + r.value * ldo + at + d.value * kLanes;
        const V y = acc[r.value][d.value] * f;
        if (d.value == D - 1 && n != kLanes)
          store_part<A>(o, y, n);
        else
          y.store(o);
      });
    });
  }
  static PHASOR_INLINE KeyRange from_row(const KeyRange& k, size_t r) { return {k.first + r * k.skip, k.end + r * k.more, k.skip, k.more}; }
  template <int R, int D, class Value>
  static PHASOR_APART void mix_rows(float* out, size_t ldo, const float* e, size_t lde, const float* inv, size_t rows,
                       const Value* const* v_pages, size_t ldv, size_t at, KeyRange keys, size_t n) {
    size_t r = 0;
    for (; r + R <= rows; r += R) mix_tile<R, D>(out + r * ldo, ldo, e + r * lde, lde, inv + r, v_pages, ldv, at, from_row(keys, r), n);
    if constexpr (R > 1)
      if (r < rows)
        rest<R>(rows - r, PHASOR_EACH(m) { mix_rows<m.value, D>(out + r * ldo, ldo, e + r * lde, lde, inv + r, m.value, v_pages, ldv, at, from_row(keys, r), n); });
  }
  template <int R, int D, class Value>
  static void mix_blocks(float* out, size_t ldo, const float* e, size_t lde, const float* inv, size_t rows,
                         const Value* const* v_pages, size_t at, KeyRange keys, size_t width) {
    const size_t ldv = up_to_lanes(width), step = D * kLanes;
    for (; at + step <= ldv; at += step)
      mix_rows<R, D>(out, ldo, e, lde, inv, rows, v_pages, ldv, at, keys,
                     at + step <= width ? kLanes : kLanes - (ldv - width));
    if constexpr (D > 1)
      if (at < ldv) mix_blocks<R, D / 2>(out, ldo, e, lde, inv, rows, v_pages, at, keys, width);
  }
  template <class Value>
  static PHASOR_INLINE void mix_of(float* out, size_t ldo, const float* e, size_t lde, const float* inv, size_t rows,
                                   const Value* const* v_pages, KeyRange keys, size_t width) {
    if (rows == 1)
      mix_blocks<1, T::kOneRow>(out, ldo, e, lde, inv, 1, v_pages, 0, keys, width);
    else
      mix_blocks<(T::kRows < 4 ? T::kRows : 4), T::kPanels>(out, ldo, e, lde, inv, rows, v_pages, 0, keys, width);
  }
  static void mix(float* out, size_t ldo, const float* e, size_t lde, const float* inv, size_t rows,
                  const float* const* v_pages, KeyRange keys, size_t width) {
    mix_of(out, ldo, e, lde, inv, rows, v_pages, keys, width);
  }
  static void mix_f16(float* out, size_t ldo, const float* e, size_t lde, const float* inv, size_t rows,
                      const uint16_t* const* v_pages, KeyRange keys, size_t width) {
    mix_of(out, ldo, e, lde, inv, rows, v_pages, keys, width);
  }
  static void mix_q8(float* out, size_t ldo, const float* e, size_t lde, const float* inv, size_t rows,
                     const unsigned char* const* v_pages, KeyRange keys, size_t width) {
    mix_of(out, ldo, e, lde, inv, rows, v_pages, keys, width);
  }

  static PHASOR_APART void mix_table(float* out, const float* e, const float* t, size_t step, size_t n, size_t width) {
    for (size_t at = 0; at < width; at += kLanes) {
      const size_t m = width - at < kLanes ? width - at : kLanes;
      V acc = load(out + at, m);
      for (size_t i = 0; i < n; ++i) acc = fma(V::set(e[i]), load(t + i * step + at, m), acc);
      if (m == kLanes)
        acc.store(out + at);
      else
        store_part<A>(out + at, acc, m);
    }
  }

  static void quantize_row(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
    for (size_t first = 0; first < cols; first += kGroup, q += kGroup) {
      const size_t n = cols - first;
      const V a = n >= kLanes ? V::load(x + first) : load_part<A>(x + first, n);
      const V b = n >= kGroup   ? V::load(x + first + kLanes)
                  : n > kLanes ? load_part<A>(x + first + kLanes, n - kLanes)
                               : V::set(0.0f);
      const float amax = largest_lane<A>(larger(abs(a), abs(b)));
      const bool zero = amax < 0x1p-80f;
      const V inv = V::set(zero ? 0.0f : 127.0f / amax), round = V::set(kRound);
      *sum++ = L::Int8::narrow(q, rounded((zero ? V::set(0.0f) : a * inv) + round), rounded((zero ? V::set(0.0f) : b * inv) + round));
      *scale++ = zero ? 0.0f : amax * 0x1.020408p-7f;
    }
  }
  static PHASOR_INLINE Int16<A> rounded(V x) {
    Int16<A> t;
    times<V::N>(PHASOR_EACH(i) { t.v[i.value] = as_int<A>(x.v[i.value]) - typename V::I(static_cast<int32_t>(bits_of(kRound))); });
    return t;
  }

  // One group of 32: R rows of activations, `stride` bytes apart, by P panels, `bytes` apart.
  struct Q8 : L::Int8 {
    using Int8 = typename L::Int8;
    static constexpr size_t kGroupBytes = kLanes * kGroup;
    template <int R, int P>
    static PHASOR_INLINE void products(typename Int8::Sum (&sum)[R][P], const int8_t* x, size_t stride, const unsigned char* w, size_t bytes) {
      times<8 / Int8::kSteps>(PHASOR_EACH(j) {
        typename Int8::Weights wj[P];
        times<P>(PHASOR_EACH(p) { wj[p.value] = Int8::weights(w + p.value * bytes + j.value * Int8::kSteps * 64); });
        times<R>(PHASOR_EACH(r) {
          const typename Int8::Values xj = Int8::values(x + r.value * stride + j.value * Int8::kSteps * 4);
          times<P>(PHASOR_EACH(p) { Int8::dot(sum[r.value][p.value], wj[p.value], xj); });
        });
      });
    }
  };
  struct Q4 : L::Int4 {
    using Int4 = typename L::Int4;
    static constexpr size_t kGroupBytes = kLanes * kGroup / 2;
    template <int R, int P>
    static PHASOR_INLINE void products(typename Int4::Sum (&sum)[R][P], const int8_t* x, size_t stride, const unsigned char* w, size_t bytes) {
      times<4>(PHASOR_EACH(j) {
        typename Int4::Nibbles wj[P];
        times<P>(PHASOR_EACH(p) { wj[p.value] = Int4::nibbles(w + p.value * bytes + j.value * 64); });
        times<R>(PHASOR_EACH(r) {
          const typename Int4::Both xj = Int4::both(x + r.value * stride + j.value * 4);
          times<P>(PHASOR_EACH(p) { Int4::dot(sum[r.value][p.value], wj[p.value], xj); });
        });
      });
    }
  };
  // Goes on with the chains over groups first … end − 1; w: the groups of the first panel, scale(p, g): 16 of a panel's scales; ask(): called
  // before each group.
  template <class Q, int R, int P, class Scale, class Ask>
  static PHASOR_INLINE void quantised_groups(V (&acc)[R][P], const int8_t* xq, const float* xs, const int32_t* xsum, const unsigned char* w, size_t bytes,
                                             size_t groups, size_t first, size_t end, Scale scale, Ask ask) {
    for (size_t g = first; g < end; ++g) {
      if constexpr (T::kStream) ask();
      typename Q::Sum sum[R][P];
      times<R>(PHASOR_EACH(r) {
        const typename Q::Sum start = Q::start(xsum[r.value * groups + g]);
        times<P>(PHASOR_EACH(p) { sum[r.value][p.value] = start; });
      });
      Q::products(sum, xq + g * kGroup, groups * kGroup, w + g * Q::kGroupBytes, bytes);
      V sw[P];
      times<P>(PHASOR_EACH(p) { sw[p.value] = scale(p, g); });
      times<R>(PHASOR_EACH(r) {
        const V sx = V::set(xs[r.value * groups + g]);
        times<P>(PHASOR_EACH(p) {
          acc[r.value][p.value] = fma(Q::to_float(sum[r.value][p.value]), sx * sw[p.value], acc[r.value][p.value]);
        });
      });
    }
  }
  template <int R, int P>
  static PHASOR_INLINE void start_chains(V (&acc)[R][P]) {
    times<R>(PHASOR_EACH(r) { times<P>(PHASOR_EACH(p) { acc[r.value][p.value] = V::set(0.0f); }); });
  }
  // Few rows: the weights come from memory, which is fastest when all of it is read in one direction. So one panel after the other, and of
  // each the scales before the groups.
  template <class Q, int R>
  static PHASOR_APART void quantised_stream(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, const unsigned char* w,
                                            const float* bias, size_t bias_n, size_t panels, size_t groups) {
    constexpr size_t kScales = 64;
    alignas(64) float scales[kScales * kLanes];
    const size_t plane = plane_bytes(groups), bytes = plane + groups * Q::kGroupBytes;
    for (size_t p = 0; p < panels; ++p, w += bytes) {
      V acc[R][1];
      start_chains<R, 1>(acc);
      for (size_t first = 0; first < groups; first += kScales) {
        const size_t end = groups - first < kScales ? groups : first + kScales;
        for (size_t g = first; g < end; ++g) L::half16(w + g * (kLanes * 2)).store(scales + (g - first) * kLanes);
        quantised_groups<Q, R, 1>(acc, xq, xs, xsum, w + plane, bytes, groups, first, end,
                                  [&](auto, size_t g) __attribute__((always_inline)) { return V::load(scales + (g - first) * kLanes); }, [] {});
      }
      store_tile<R, 1>(y, ldy, acc, bias, bias_n, p * kLanes);
    }
  }
  template <class Q, int R, int P>
  static PHASOR_APART void quantised_rows(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows,
                                          const unsigned char* w, size_t bytes, size_t plane, const float* bias, size_t bias_n, size_t at,
                                          size_t groups, const Next& next) {
    Ahead ahead(next, rows / R * groups);
    size_t r = 0;
    for (; r + R <= rows; r += R) {
      V acc[R][P];
      start_chains<R, P>(acc);
      quantised_groups<Q, R, P>(acc, xq + r * groups * kGroup, xs + r * groups, xsum + r * groups, w + plane, bytes, groups, 0, groups,
                                [&](auto panel, size_t g) __attribute__((always_inline)) { return L::half16(w + panel.value * bytes + g * (kLanes * 2)); }, [&]() __attribute__((always_inline)) { ahead.ask(); });
      store_tile<R, P>(y + r * ldy, ldy, acc, bias, bias_n, at);
    }
    if constexpr (R > 1)
      if (r < rows)
        rest<R>(rows - r, PHASOR_EACH(n) {
          quantised_rows<Q, n.value, P>(y + r * ldy, ldy, xq + r * groups * kGroup, xs + r * groups, xsum + r * groups, n.value, w, bytes, plane, bias, bias_n, at, groups, r == 0 ? next : kNothingNext);
        });
  }
  template <class Q, int R, int P>
  static void quantised_panels(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows,
                               const unsigned char* w, const float* bias, size_t bias_n, size_t first, size_t panels,
                               size_t groups) {
    const size_t plane = plane_bytes(groups), bytes = plane + groups * Q::kGroupBytes;
    size_t p = first;
    for (; p + P <= panels; p += P)
      quantised_rows<Q, R, P>(y, ldy, xq, xs, xsum, rows, w + p * bytes, bytes, plane, bias, bias_n, p * kLanes, groups, {reinterpret_cast<uintptr_t>(w) + (p + P) * bytes, P * bytes, 1, 0});
    if constexpr (P > 1)
      if (p < panels) quantised_panels<Q, R, P / 2>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, p, panels, groups);
  }
  template <class Q>
  static PHASOR_INLINE void linear_quantised(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows,
                                             const void* w, const float* bias, size_t bias_n, size_t panels, size_t groups) {
    const unsigned char* bytes = static_cast<const unsigned char*>(w);
    if (T::kStream && rows == 1)
      quantised_stream<Q, 1>(y, ldy, xq, xs, xsum, bytes, bias, bias_n, panels, groups);
    else if (rows == 1)
      quantised_panels<Q, 1, T::kOneRowInt8>(y, ldy, xq, xs, xsum, 1, bytes, bias, bias_n, 0, panels, groups);
    else
      quantised_panels<Q, T::kRowsInt8, T::kPanelsInt8>(y, ldy, xq, xs, xsum, rows, bytes, bias, bias_n, 0, panels, groups);
  }
  static void linear_q8(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows,
                        const void* w, const float* bias, size_t bias_n, size_t panels, size_t groups) {
    linear_quantised<Q8>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
  }
  static void linear_q4(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows,
                        const void* w, const float* bias, size_t bias_n, size_t panels, size_t groups) {
    linear_quantised<Q4>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
  }

  // y = f(y), 16 at a time; the tail's absent lanes are +0 and dropped.
  template <class F>
  static PHASOR_INLINE void each(float* y, size_t n, F f) {
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) f(V::load(y + i), i, kLanes).store(y + i);
    if (i < n) store_part<A>(y + i, f(load_part<A>(y + i, n - i), i, n - i), n - i);
  }
  static PHASOR_INLINE V load(const float* p, size_t n) { return n == kLanes ? V::load(p) : load_part<A>(p, n); }

  // `other` in the lanes of the first and the last block that are not first … end − 1: whole vectors, for the next reads are.
  static PHASOR_APART void mask_edges(float* s, size_t begin, size_t stop, size_t first, size_t end, float other) {
    const V lane = V::load(kLaneNumbers), none = V::set(other);
    where_gt(V::set(float_of_size(first - begin)), lane, none, V::load(s + begin)).store(s + begin);
    where_gt(V::set(float_of_size(end - (stop - kLanes))), lane, V::load(s + stop - kLanes), none).store(s + stop - kLanes);
  }
  static float softmax(float* s, size_t first, size_t end) {
    if (first >= end) return 0.0f;
    const size_t begin = first / kLanes * kLanes, stop = up_to_lanes(end);
    if (begin != first || stop != end) mask_edges(s, begin, stop, first, end, -kInfinity);
    V m = V::load(s + begin);
    for (size_t i = begin + kLanes; i < stop; i += kLanes) m = larger(m, V::load(s + i));
    const V largest = V::set(largest_lane<A>(m));
    V sum = V::set(0.0f);
    for (size_t i = begin; i < stop; i += kLanes) {
      const V e = exp_not_positive(V::load(s + i) - largest);
      sum = sum + e;
      e.store(s + i);
    }
    if (begin != first || stop != end) mask_edges(s, begin, stop, first, end, 0.0f);  // they are 0 already unless a key is NaN or all are −inf
    return 1.0f / tree<A>(sum);
  }

  // y = (x − mean)·r scaled by g and shifted by b, for both norms.
  static PHASOR_INLINE void normed(float* y, const float* x, const float* g, const float* b, size_t n, V mean, V r,
                                   bool centred) {
    for (size_t i = 0; i < n; i += kLanes) {
      const size_t m = n - i < kLanes ? n - i : kLanes;
      const V xi = load(x + i, m), z = (centred ? xi - mean : xi) * r, gi = load(g + i, m);
      const V out = b != nullptr ? fma(z, gi, load(b + i, m)) : z * gi;
      if (m == kLanes)
        out.store(y + i);
      else
        store_part<A>(y + i, out, m);
    }
  }
  static float layer_norm(float* y, const float* x, const float* g, const float* b, size_t n, float eps) {
    V sum = V::set(0.0f), squares = sum;
    for (size_t i = 0; i < n; i += kLanes) sum = sum + load(x + i, n - i < kLanes ? n - i : kLanes);
    const float mean = tree<A>(sum) / float_of_size(n);
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const V d = V::load(x + i) - V::set(mean);
      squares = fma(d, d, squares);
    }
    if (i < n) {  // an absent lane is mean − mean
      alignas(64) float t[16];
      V::set(mean).store(t);
      for (size_t j = i; j < n; ++j) t[j - i] = x[j];
      const V d = V::load(t) - V::set(mean);
      squares = fma(d, d, squares);
    }
    const float square = tree<A>(squares) / float_of_size(n);
    normed(y, x, g, b, n, V::set(mean), V::set(1.0f / sqrt1(square + eps)), true);
    return square;
  }
  // Σx² by lanes and the fixed tree.
  static PHASOR_INLINE float sum_of_squares(const float* x, size_t n) {
    V squares = V::set(0.0f);
    for (size_t i = 0; i < n; i += kLanes) {
      const V xi = load(x + i, n - i < kLanes ? n - i : kLanes);
      squares = fma(xi, xi, squares);
    }
    return tree<A>(squares);
  }
  static float rms_norm(float* y, const float* x, const float* g, const float* b, size_t n, float eps) {
    const float square = sum_of_squares(x, n) / float_of_size(n);
    normed(y, x, g, b, n, V::set(0.0f), V::set(1.0f / sqrt1(square + eps)), false);
    return square;
  }

  static void rotate_halves(float* x, const float* c, const float* s, size_t half) {
    size_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const V x0 = V::load(x + i), x1 = V::load(x + half + i), ci = V::load(c + i), si = V::load(s + i);
      fma(x0, ci, negated(x1 * si)).store(x + i);
      fma(x0, si, x1 * ci).store(x + half + i);
    }
    for (; i < half; ++i) turn(x + i, x + half + i, c[i], s[i]);
  }
  static void rotate_pairs(float* x, const float* c, const float* s, size_t half) {
    for (size_t i = 0; i < half; ++i) turn(x + 2 * i, x + 2 * i + 1, c[i], s[i]);
  }

  static float unit(float* y, const float* x, size_t n) {
    const float square = sum_of_squares(x, n), length = sqrt1(square);
    const V divisor = V::set(length > 1e-12f ? length : 1e-12f);
    for (size_t i = 0; i < n; i += kLanes) {
      const size_t m = n - i < kLanes ? n - i : kLanes;
      const V out = load(x + i, m) / divisor;
      if (m == kLanes)
        out.store(y + i);
      else
        store_part<A>(y + i, out, m);
    }
    return square;
  }

  static void add(float* y, const float* x, size_t n) {
    each(y, n, [=](V v, size_t i, size_t m) __attribute__((always_inline)) { return v + load(x + i, m); });
  }
  static void mul(float* y, const float* x, size_t n) {
    each(y, n, [=](V v, size_t i, size_t m) __attribute__((always_inline)) { return v * load(x + i, m); });
  }
  static void scale(float* y, const float* x, size_t n, float s) {
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) (V::load(x + i) * V::set(s)).store(y + i);
    if (i < n) store_part<A>(y + i, load_part<A>(x + i, n - i) * V::set(s), n - i);
  }
  static void clip(float* y, size_t n, float limit) {
    const V most = V::set(limit);
    each(y, n, [=](V v, size_t, size_t) __attribute__((always_inline)) { return clip_of(v, most); });
  }
  static void relu(float* y, size_t n) {
    each(y, n, [](V v, size_t, size_t) __attribute__((always_inline)) { return relu_of(v); });
  }
  static void gelu_erf(float* y, size_t n) {
    each(y, n, [](V v, size_t, size_t) __attribute__((always_inline)) { return gelu_erf_of(v); });
  }
  static void gelu_tanh(float* y, size_t n) {
    each(y, n, [](V v, size_t, size_t) __attribute__((always_inline)) { return gelu_tanh_of(v); });
  }
  static void silu(float* y, size_t n) {
    each(y, n, [](V v, size_t, size_t) __attribute__((always_inline)) { return silu_of(v); });
  }
  static void soft_cap(float* y, size_t n, float cap) {
    const V c = V::set(cap), inv = V::set(1.0f / cap);
    each(y, n, [=](V v, size_t, size_t) __attribute__((always_inline)) { return c * tanh_of(v * inv); });
  }
  static void exp_all(float* y, size_t n) {
    each(y, n, [](V v, size_t, size_t) __attribute__((always_inline)) { return exp_of(v); });
  }
  static void log_all(float* y, size_t n) {
    each(y, n, [](V v, size_t, size_t) __attribute__((always_inline)) { return log_of(v); });
  }

  // The largest of all lanes, then the first place that holds it: two passes without an index in the vectors.
  static size_t argmax(const float* x, size_t n, float* largest) {
    const V zero = V::set(0.0f), one = V::set(1.0f);
    V m = V::set(-kInfinity), numbers = one;  // a lane of `numbers` becomes 0 at a NaN
    for (size_t i = 0; i < n; i += kLanes) {
      const size_t rest = n - i;
      V v = load(x + i, rest < kLanes ? rest : kLanes);
      numbers = where_gt(V::set(kInfinity), v, numbers, where_gt(v, zero, numbers, zero));
      if (rest >= kLanes) m = larger(m, v);
    }
    float best = largest_lane<A>(m);
    alignas(64) float ok[16];
    numbers.store(ok);
    for (size_t i = 0; i < kLanes; ++i)
      if (!(ok[i] > 0.0f)) {
        *largest = __builtin_nanf("");
        return n;
      }
    for (size_t i = n / kLanes * kLanes; i < n; ++i) best = x[i] > best ? x[i] : best;
    // Where all are below 0 and the largest is subnormal, a level that flushes sees 0 as the largest, and none is as large.
    size_t at = 0;
    while (at < n && !(x[at] >= best)) ++at;
    if (at == n) {
      at = 0;
      for (size_t i = 1; i < n; ++i) at = x[i] > x[at] ? i : at;
    }
    *largest = x[at];
    return at;
  }

  static PHASOR_APART uint64_t peak_f32(float* out, uint64_t rounds) {
    constexpr int kChains = T::kRows * T::kPanels;
    V acc[kChains];
    times<kChains>(PHASOR_EACH(i) { acc[i.value] = V::set(static_cast<float>(i.value)); });
    const V x = V::set(0.5f), w = V::set(0x1p-20f);
    for (uint64_t n = 0; n < rounds; ++n) times<kChains>(PHASOR_EACH(i) { acc[i.value] = fma(x, w, acc[i.value]); });
    times<kChains - 1>(PHASOR_EACH(i) { acc[0] = acc[0] + acc[i.value + 1]; });
    acc[0].store(out);
    return rounds * kChains * kLanes;
  }
  // Rows of activations by panels of one vector of weights each. The activations change from round to round, so that no product is left out.
  static PHASOR_APART uint64_t peak_int8(float* out, uint64_t rounds) {
    using Int8 = typename L::Int8;
    constexpr int kRows = V::N == 1 ? 6 : sizeof(typename Int8::Sum) > 64 ? 1 : 4, kPanels = V::N == 1 ? 2 : 1;
    alignas(64) unsigned char bytes[kPanels * 128];
    alignas(64) int8_t values[2][kRows][kGroup];
    for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<unsigned char>(i * 37);
    for (size_t i = 0; i < sizeof values; ++i) values[i / (kRows * kGroup)][i / kGroup % kRows][i % kGroup] = static_cast<int8_t>(i * 29 % 255 - 127);
    typename Int8::Weights w[kPanels];
    typename Int8::Sum sum[kRows][kPanels];
    times<kPanels>(PHASOR_EACH(p) { w[p.value] = Int8::weights(bytes + p.value * 128); });
    times<kRows>(PHASOR_EACH(r) { times<kPanels>(PHASOR_EACH(p) { sum[r.value][p.value] = Int8::start(0); }); });
    for (uint64_t n = 0; n < rounds; ++n)
      times<8 / Int8::kSteps>(PHASOR_EACH(j) {
        times<kRows>(PHASOR_EACH(r) {
          const typename Int8::Values x = Int8::values(values[n & 1][r.value] + j.value * Int8::kSteps * 4);
          times<kPanels>(PHASOR_EACH(p) { Int8::dot(sum[r.value][p.value], w[p.value], x); });
        });
      });
    V all = V::set(0.0f);
    times<kRows>(PHASOR_EACH(r) { times<kPanels>(PHASOR_EACH(p) { all = all + Int8::to_float(sum[r.value][p.value]); }); });
    all.store(out);
    return rounds * kRows * kPanels * kLanes * kGroup;
  }

  static constexpr Kernels table(const char* name) {
    return PHASOR_KERNEL_TABLE(name);
  }
};

}  // namespace
}  // namespace phasor
