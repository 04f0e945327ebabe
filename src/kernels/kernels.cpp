// Which levels this build has and this processor runs, the floating-point mode, and the self-check
// of the arithmetic. Imports nothing: the processor is asked directly (getauxval, on Linux for ARM,
// is a weak reference). A build with -DPHASOR_SCALAR_ONLY has the scalar level alone.
#include "kernels.h"

#include <string.h>

#include "functions.hpp"
#include "products.hpp"
#if defined(__x86_64__) && !defined(PHASOR_SCALAR_ONLY)
#define PHASOR_X86_LEVELS 1
#include <cpuid.h>
#if defined(__linux__) && !defined(__ILP32__)
#define PHASOR_LINUX_AMX 1
#endif
#elif defined(__aarch64__) && !defined(PHASOR_SCALAR_ONLY)
#define PHASOR_AARCH64_LEVELS 1
#elif defined(__arm__) && !defined(PHASOR_SCALAR_ONLY) && defined(__ARM_ARCH_PROFILE) && \
    __ARM_ARCH_PROFILE == 'A'
#define PHASOR_ARM_LEVELS 1
#elif defined(__wasm__) && !defined(PHASOR_SCALAR_ONLY)
#define PHASOR_WASM_LEVELS 1
#endif

namespace phasor {

#if defined(__linux__) && (defined(PHASOR_AARCH64_LEVELS) || defined(PHASOR_ARM_LEVELS))
extern "C" unsigned long getauxval(unsigned long) __attribute__((weak));
#endif

namespace {

#if defined(PHASOR_X86_LEVELS)
// What the processor has and the operating system saves (Intel SDM 1, 13.3 and 14.3: OSXSAVE, then
// XCR0).
struct Features {
  bool avx2, avxvnni, avx512, avx512vnni, amx;
};
// Tiles of palette 1 are eight of 16 rows of 64 bytes.
bool palette_is_known() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(0x1d, 0, &a, &b, &c, &d) != 0 && a >= 1 &&
         __get_cpuid_count(0x1d, 1, &a, &b, &c, &d) != 0 && a == (1024u << 16 | 8192u) &&
         b == (8u << 16 | 64u) && (c & 0xffffu) == 16;
}
Features features() {
  unsigned a = 0, b = 0, c = 0, d = 0, b7 = 0, c7 = 0, d7 = 0, a71 = 0;
  Features f = {};
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return f;
  const unsigned leaf1 = c;
  if ((leaf1 >> 27 & 1u) == 0) return f;  // OSXSAVE
  unsigned xcr0, high;
  __asm__("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
  unsigned sub = 0;
  if (__get_cpuid_count(7, 0, &sub, &b7, &c7, &d7) == 0) return f;
  if (sub >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
  const bool avx = (xcr0 & 6u) == 6u && (leaf1 >> 28 & 1u) != 0;
  // with FMA and F16C
  f.avx2 = avx && (b7 >> 5 & 1u) != 0 && (leaf1 >> 12 & 1u) != 0 && (leaf1 >> 29 & 1u) != 0;
  f.avxvnni = f.avx2 && (a71 >> 4 & 1u) != 0;
  // F, DQ, CD, BW, VL
  const unsigned wanted = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
  f.avx512 = f.avx2 && (xcr0 & 0xe6u) == 0xe6u && (b7 & wanted) == wanted;
  f.avx512vnni = f.avx512 && (c7 >> 11 & 1u) != 0;
  // AMX-TILE, AMX-INT8; XTILECFG, XTILEDATA
  f.amx = f.avx512vnni && (d7 >> 24 & 3u) == 3u && (xcr0 >> 17 & 3u) == 3u && palette_is_known();
  return f;
}

// Linux gives a process the tiles' registers when it asks for them; using them before ends it. What
// it answered is true of the process until it ends: the one thing that this library remembers.
#if defined(PHASOR_LINUX_AMX)
bool tiles_given = false;
#endif
bool has_tiles() {
#if defined(PHASOR_LINUX_AMX)
  return __atomic_load_n(&tiles_given, __ATOMIC_ACQUIRE);
#else
  return false;
#endif
}
#elif defined(PHASOR_AARCH64_LEVELS)
bool has_dotprod() {
#if defined(__ARM_FEATURE_DOTPROD)
  return true;
#elif defined(__linux__)
  return getauxval != nullptr && (getauxval(16) >> 20 & 1u) != 0;  // AT_HWCAP, HWCAP_ASIMDDP
#else
  return false;
#endif
}
bool has_i8mm() {
#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(__ARM_FEATURE_DOTPROD)
  return true;
#elif defined(__linux__)
  return has_dotprod() && getauxval != nullptr &&
         (getauxval(26) >> 13 & 1u) != 0;  // AT_HWCAP2, HWCAP2_I8MM
#else
  return false;
#endif
}
#elif defined(PHASOR_ARM_LEVELS)
bool has_neon() {
#if defined(__ARM_NEON) && defined(__ARM_FEATURE_FMA)
  return true;
#elif defined(__linux__)
  return getauxval != nullptr && (getauxval(16) & 0x11000u) == 0x11000u;  // NEON and VFPv4
#else
  return false;
#endif
}
#endif

bool same(const char* a, const char* b) {
  while (*a != 0 && *a == *b) {
    ++a;
    ++b;
  }
  return *a == *b;
}

}  // namespace

// A level that levels.mk has for this processor family, and whether this processor runs it.
#define PHASOR_LEVEL(level, runs)               \
  if constexpr (level_built(#level)) {          \
    extern const Kernels kernels_##level;       \
    if (runs) out[levels++] = &kernels_##level; \
  }

size_t kernels_available(const Kernels* out[8]) noexcept {
  size_t levels = 0;
#if defined(PHASOR_X86_LEVELS)
  const Features has = features();
  PHASOR_LEVEL(amx, has.amx && has_tiles())
  PHASOR_LEVEL(avx512vnni, has.avx512vnni)
  PHASOR_LEVEL(avx512, has.avx512)
  PHASOR_LEVEL(avxvnni, has.avxvnni)
  PHASOR_LEVEL(avx2, has.avx2)
  PHASOR_LEVEL(sse2, true)
#elif defined(PHASOR_AARCH64_LEVELS)
  PHASOR_LEVEL(i8mm, has_i8mm())
  PHASOR_LEVEL(dotprod, has_dotprod())
  PHASOR_LEVEL(neon, true)
#elif defined(PHASOR_ARM_LEVELS)
  PHASOR_LEVEL(neon, has_neon())
#elif defined(PHASOR_HELIUM_LEVEL)
  PHASOR_LEVEL(helium, true)
#elif defined(PHASOR_DSP_LEVEL)
  PHASOR_LEVEL(dsp, true)
#elif defined(PHASOR_WASM_LEVELS)
#if defined(PHASOR_WASM_RELAXED)  // where the engine rounds its multiply-adds once
  PHASOR_LEVEL(relaxed, arithmetic_is_sound(kernels_relaxed))
#endif
  PHASOR_LEVEL(simd128, true)  // an engine without it does not load the module at all
#endif
  out[levels++] = &kernels_scalar;
  return levels;
}

bool kernels_request_tiles() noexcept {
#if defined(PHASOR_LINUX_AMX)
  if (has_tiles() || !level_built("amx") || !features().amx) return has_tiles();
  // arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)
  long result = 158;
  __asm__ volatile("syscall" : "+a"(result) : "D"(0x1023L), "S"(18L) : "rcx", "r11", "memory");
  if (result == 0) __atomic_store_n(&tiles_given, true, __ATOMIC_RELEASE);
  return result == 0;
#else
  return false;
#endif
}

const Kernels* kernels_by_name(const char* name) noexcept {
  const Kernels* all[8];
  const size_t n = kernels_available(all);
  if (name == nullptr || same(name, "auto")) return all[0];
  for (size_t i = 0; i < n; ++i)
    if (same(name, all[i]->name)) return all[i];
  return nullptr;
}

#if defined(PHASOR_LINUX_AMX)
namespace {

// The tiles of level amx, and the rows that fill none: products in q8r, q2r, q8 and q4 whose scales
// are all 1, so that their outputs are whole numbers.
bool tiles_are_sound(const Kernels& k) {
  constexpr size_t kRows = 17, kCols = kRowStep, kGroups = kCols / kGroup;
  alignas(64) unsigned char panel[64 + kCols * kLanes];
  alignas(64) int8_t x[kRows][kCols];
  float y[kRows][kLanes], one[kRows * kGroups];
  int32_t sum[kRows * kGroups] = {}, sums[kRows] = {};
  for (size_t i = 0; i < kRows * kCols; ++i) {
    const int32_t value = static_cast<int32_t>(i * 29 % 255) - 127;
    x[i / kCols][i % kCols] = static_cast<int8_t>(value);
    sum[i / kGroup] += value;
    sums[i / kCols] += value;
  }
  for (float& s : one) s = 1.0f;
  for (size_t i = 64; i < sizeof panel; ++i) panel[i] = static_cast<unsigned char>(i * 37 >> 3);
  const auto equal = [&](Type type) {
    const unsigned bits = value_bits(type);
    for (size_t r = 0; r < kRows; ++r)
      for (size_t o = 0; o < kLanes; ++o) {
        int32_t wanted = 0;
        for (size_t c = 0; c < kCols; ++c) {
          const unsigned byte = panel[64 + panel_index(type, o, c)];
          wanted += x[r][c] * (bits < 8 ? code_value(type, panel, code_in(byte, bits, c))
                                        : static_cast<int8_t>(byte));
        }
        if (y[r][o] != static_cast<float>(wanted)) return false;
      }
    return true;
  };
  memcpy(panel, one, kLanes * sizeof(float));
  if (kHasQ8r) k.linear_q8r(y[0], kLanes, x[0], one, sums, kRows, panel, nullptr, 0, 1, kGroups);
  if (kHasQ8r && !equal(Type::q8r)) return false;
  if (kHasQ2r) k.linear_q2r(y[0], kLanes, x[0], one, sums, kRows, panel, nullptr, 0, 1, kGroups);
  if (kHasQ2r && !equal(Type::q2r)) return false;
  for (size_t i = 0; i < 64; i += 2) panel[i] = 0, panel[i + 1] = 0x3c;  // 1 in f16
  if (kHasQ8) k.linear_q8(y[0], kLanes, x[0], one, sum, kRows, panel, nullptr, 0, 1, kGroups);
  if (kHasQ8 && !equal(Type::q8)) return false;
  if (kHasQ4) k.linear_q4(y[0], kLanes, x[0], one, sum, kRows, panel, nullptr, 0, 1, kGroups);
  return !kHasQ4 || equal(Type::q4);
}

}  // namespace
#endif

// The mode registers: round to nearest, no flushing, no traps. What else is in them is given back
// unchanged.
uint64_t fp_mode_enter() noexcept {
#if defined(__SSE2__)
  const uint32_t before = _mm_getcsr();
  _mm_setcsr(0x1f80u);
  return before;
#elif defined(__aarch64__)
  uint64_t before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  // FZ16, RMode, FZ, DN and AHP; the traps
  const uint64_t mode = before & ~(0x7c80000ull | 0x9f00ull);
  __asm__ volatile("msr fpcr, %0" ::"r"(mode) : "memory");
  return before;
#elif defined(__arm__) && defined(__ARM_FP) && !defined(__SOFTFP__)
  uint32_t before;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(before));
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
  // AHP DN FZ RMode, traps; what is Len elsewhere is LTPSIZE on ARMv8.1-M, and loops need it as it
  // is
  constexpr uint32_t mode = 0x7c09f00u;
#else
  constexpr uint32_t mode = 0x7c09f00u | 0x370000u;  // and Len, Stride
#endif
  __asm__ volatile("vmsr fpscr, %0" ::"r"(before & ~mode) : "memory");
  return before;
#elif defined(__riscv_flen)
  uint32_t before;
  __asm__ volatile("fsrmi %0, 0" : "=r"(before)::"memory");
  return before;
#else
  return 0;
#endif
}

void fp_mode_leave(uint64_t before) noexcept {
#if defined(__SSE2__)
  _mm_setcsr(static_cast<uint32_t>(before));
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" ::"r"(before) : "memory");
#elif defined(__arm__) && defined(__ARM_FP) && !defined(__SOFTFP__)
  __asm__ volatile("vmsr fpscr, %0" ::"r"(static_cast<uint32_t>(before)) : "memory");
#elif defined(__riscv_flen)
  __asm__ volatile("fsrm %0" ::"r"(static_cast<uint32_t>(before)) : "memory");
#else
  static_cast<void>(before);
#endif
}

bool arithmetic_is_sound(const Kernels& k) noexcept {
#if defined(PHASOR_LINUX_AMX)
  if (same(k.name, "amx") && !tiles_are_sound(k)) return false;
#endif
  // Fused: (1 + 2^-12)² − (1 + 2^-11) is 2^-24 when the product is not rounded, else 0; all 16
  // outputs of a row.
  alignas(64) float w[32], y[16], x[2] = {-1.0f, 1.0f + 0x1p-12f};
  for (size_t i = 0; i < 16; ++i) {
    w[i] = 1.0f + 0x1p-11f;
    w[16 + i] = x[1];
  }
  k.linear_f32(y, 16, x, 2, 1, w, nullptr, 0, 1, 2);
  for (float v : y)
    if (v != 0x1p-24f) return false;
  // The sum 1 + 2^-24 is a tie: to even, whatever the mode was. Then a little more than the tie:
  // up.
  for (size_t i = 0; i < 16; ++i) {
    y[i] = 1.0f;
    w[i] = i % 2 == 0 ? 0x1p-24f : 0x1.000002p-24f;
  }
  k.add(y, w, 16);
  for (size_t i = 0; i < 16; ++i)
    if (y[i] != (i % 2 == 0 ? 1.0f : 1.0f + 0x1p-23f)) return false;
#if defined(PHASOR_ARM_LEVELS) || defined(PHASOR_HELIUM_LEVEL)
  const bool flushes = &k != &kernels_scalar;  // these vector units always do
#else
  const bool flushes = false;
#endif
  for (size_t i = 0; i < 16; ++i) w[i] = 0x1p-126f;
  k.scale(y, w, 16, 0.5f);
  for (float v : y)
    if (!flushes && bits_of(v) != 0x00400000u) return false;
  // Division and square root: {1, −1, …} scaled by 3 has mean 0 and variance 9; with eps = −6 they
  // give 1/√3. The vectors' own division is in SiLU.
  for (size_t i = 0; i < 16; ++i) {
    w[i] = i % 2 == 0 ? 3.0f : -3.0f;
    w[16 + i] = 1.0f;
    y[i] = 1.0f;
  }
  if (kHasLayerNorm || kHasRmsNorm)
    (kHasLayerNorm ? k.layer_norm : k.rms_norm)(y, w, w + 16, nullptr, 16, -6.0f);
  for (size_t i = 0; i < 16 && (kHasLayerNorm || kHasRmsNorm); ++i)
    if (bits_of(y[i]) != (i % 2 == 0 ? 0x3fddb3d7u : 0xbfddb3d7u)) return false;
  for (size_t i = 0; i < 16; ++i) y[i] = 1.0f;
  if (kHasSilu) k.activation[kSilu](y, 16);
  for (float v : y)
    if (kHasSilu && bits_of(v) != 0x3f3b26a8u) return false;
  // Conversion and rounding: 127·{1, ½/127 (a tie, to 0), 1.5/127 (a tie, to 2), …}.
  float in[4] = {127.0f, 0.5f, 1.5f, -2.5f}, scale;
  int8_t q[32];
  int32_t sum;
  if (!kHasGroups && !kHasCacheQ8) return true;
  k.quantize_row(q, &scale, &sum, in, 4);
  return q[0] == 127 && q[1] == 0 && q[2] == 2 && q[3] == -2 && q[31] == 0 && sum == 127 &&
         bits_of(scale) == bits_of(127.0f * 0x1.020408p-7f);
}

}  // namespace phasor
