// Level avxvnni on any x86-64 under Linux that has AVX2: where the processor has no AVX-VNNI, the
// program does what vpdpbusd asks, on the registers that the signal's frame has (refused.h).
#if defined(__x86_64__) && defined(__linux__) && !defined(__ILP32__)
#include "refused.h"
#include "tile_shapes.h"

using namespace kernel_test;
using refused::Instead;
using refused::Instruction;

namespace phasor {
extern const Kernels kernels_avxvnni __attribute__((weak));
}

namespace {

// Half `high` of register ymm n in an area of xsave: the low halves are fxsave's; the high ones are
// component 2, whose place cpuid says.
unsigned char* half(unsigned char* area, unsigned n, unsigned high) {
  static const unsigned place = [] {
    unsigned a = 13, b = 0, c = 2, d = 0;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return b;
  }();
  return area + (high != 0 ? place : 160) + 16 * n;
}

// vpdpbusd ymm, ymm, ymm: each int32 += four products of unsigned bytes of the second operand with
// signed bytes of the third.
bool execute(const Instruction& i) {
  constexpr unsigned kHigh = 4;  // of the components that xsave has stored: the high halves
  if (i.opcode != 0x50 || i.prefix != 1 || i.wide != 1) return false;
  uint64_t stored;
  std::memcpy(&stored, i.vectors + 512, sizeof stored);
  if ((stored & kHigh) == 0) {
    for (unsigned n = 0; n < 16; ++n) std::memset(half(i.vectors, n, 1), 0, 16);
    stored |= kHigh;
    std::memcpy(i.vectors + 512, &stored, sizeof stored);
  }
  for (unsigned high = 0; high < 2; ++high) {
    unsigned char a[16], b[16], *to = half(i.vectors, i.reg, high);
    std::memcpy(a, half(i.vectors, i.second, high), 16);
    const void* third = i.mode == 3
                            ? half(i.vectors, i.rm, high)
                            : reinterpret_cast<unsigned char*>(i.address + i.stride) + 16 * high;
    std::memcpy(b, third, 16);
    for (unsigned lane = 0; lane < 4; ++lane) {
      int32_t sum;
      std::memcpy(&sum, to + 4 * lane, 4);
      for (unsigned k = 4 * lane; k < 4 * lane + 4; ++k)
        sum += static_cast<int32_t>(a[k]) * static_cast<int8_t>(b[k]);
      std::memcpy(to + 4 * lane, &sum, 4);
    }
  }
  return true;
}

}  // namespace

TEST_CASE("level avxvnni, executed or its products done by this program") {
  const Kernels* const level = &kernels_avxvnni;
  if (level == nullptr || std::strcmp(level->name, "avxvnni") != 0 ||
      kernels_by_name("avx2") == nullptr) {
    MESSAGE("skipped: the build has no level avxvnni, or the processor no AVX2");
    return;
  }
  const bool real = kernels_by_name("avxvnni") != nullptr;
  const Instead program(execute);
  check_shapes(*level, {1, 2, 5, 6, 7, 13}, {1, 2, 3}, {1, 2});
  CHECK((Instead::executed == 0) == real);
}
#endif
