// Level amx's instructions themselves, on any x86-64 under Linux. A processor that has no tiles
// refuses each with SIGILL: the handler takes its bytes apart by the manual (Intel SDM 2), does
// what it asks on the twin's tiles and goes on behind it. So encodings, operands, strides and their
// order are those that a processor with tiles would see; where there is one, it runs them itself.
#if defined(__x86_64__) && defined(__linux__) && !defined(__ILP32__)
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include "kernels/x86/tile_unit.hpp"
#include "tile_lanes.h"
#include "tile_shapes.h"
#include "tile_twin.h"

using namespace kernel_test;

namespace {

tile_twin::Tiles tiles;
unsigned executed = 0;

[[noreturn]] void give_up(const char* what) {
  const ssize_t written = write(2, what, std::strlen(what));
  _exit(written < 0 ? 4 : 3);
}

// The general registers in the order of their numbers.
constexpr int kRegisters[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15};

// An instruction with a three-byte VEX prefix.
struct Instruction {
  const unsigned char* at;
  const greg_t* registers;
  size_t length = 5;
  unsigned prefix = 0, opcode = 0, mode = 0, reg = 0, rm = 0, second = 0;  // second: vvvv
  int64_t address = 0, stride = 0;

  int64_t value(unsigned n) const { return registers[kRegisters[n]]; }
  int64_t number(size_t bytes) {
    int32_t wide = 0;
    int8_t narrow = 0;
    std::memcpy(bytes == 4 ? static_cast<void*>(&wide) : &narrow, at + length, bytes);
    length += bytes;
    return bytes == 4 ? wide : narrow;
  }
  bool decode() {
    if (at[0] != 0xC4) return false;
    const unsigned r = ~at[1] >> 7 & 1, x = ~at[1] >> 6 & 1, b = ~at[1] >> 5 & 1;
    if ((at[1] & 31) != 2 || (at[2] & 0x84) != 0) return false;  // 0F38, W0, 128 bits
    second = ~at[2] >> 3 & 15;
    prefix = at[2] & 3;  // none, 66, F3, F2
    opcode = at[3];
    mode = at[4] >> 6;
    reg = (at[4] >> 3 & 7) | r << 3;
    rm = at[4] & 7;
    if (mode == 3) {
      rm |= b << 3;
      return true;
    }
    const bool relative = mode == 0 && rm == 5, sib = rm == 4;
    unsigned base = rm | b << 3;
    if (sib) {
      const unsigned byte = at[length++], index = (byte >> 3 & 7) | x << 3;
      base = (byte & 7) | b << 3;
      if (index != 4) stride = value(index) * (1 << (byte >> 6));
      if (mode == 0 && (byte & 7) == 5)
        address = number(4);
      else
        address = value(base);
    } else if (!relative) {
      address = value(base);
    }
    if (mode == 1) address += number(1);
    if (mode == 2) address += number(4);
    if (relative) address = number(4), address += reinterpret_cast<intptr_t>(at + length);
    return true;
  }
  bool execute() const {
    void* memory = reinterpret_cast<void*>(address);
    const bool has_sib = mode != 3 && (at[4] & 7) == 4;
    if (opcode == 0x49 && mode != 3 && prefix == 0 && reg == 0 && second == 0)
      return tiles.configure(static_cast<unsigned char*>(memory) + stride);
    if (opcode == 0x49 && at[4] == 0xC0 && prefix == 0 && second == 0) return tiles.release();
    if (opcode == 0x49 && mode == 3 && prefix == 3 && rm == 0 && second == 0)
      return tiles.zero(reg);
    if (opcode == 0x4B && has_sib && prefix == 3 && second == 0)
      return tiles.load(reg, memory, stride);
    if (opcode == 0x4B && has_sib && prefix == 2 && second == 0)
      return tiles.store(reg, memory, stride);
    if (opcode == 0x5E && mode == 3 && prefix == 3) return tiles.dot(reg, rm, second);
    return false;
  }
};

void on_illegal(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  Instruction i{reinterpret_cast<const unsigned char*>(registers[REG_RIP]), registers};
  if (!i.decode()) give_up("tiles: an instruction that is none of the tiles'\n");
  if (!i.execute()) give_up("tiles: an instruction that a processor would refuse\n");
  registers[REG_RIP] += static_cast<greg_t>(i.length);
  ++executed;
}

// While it lives the twin does what this processor does not.
class OnTheTwin {
 public:
  OnTheTwin() {
    struct sigaction action = {};
    action.sa_sigaction = on_illegal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before_);
  }
  ~OnTheTwin() { sigaction(SIGILL, &before_, nullptr); }
  OnTheTwin(const OnTheTwin&) = delete;
  OnTheTwin& operator=(const OnTheTwin&) = delete;

 private:
  struct sigaction before_ = {};
};

using Code = Tiled<PlainLanes, TileUnit>;

// Whether the processor has tiles; the operating system may keep them all the same.
bool processor_has_tiles() {
  unsigned a = 7, b = 0, c = 0, d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (d >> 24 & 1u) != 0;
}

}  // namespace

TEST_CASE("tiles: the instructions of level amx, executed or by the twin") {
  const bool real = kernels_request_tiles();
  if (!real && processor_has_tiles()) {
    MESSAGE("skipped: the processor has tiles, this process does not get them");
    return;
  }
  Kernels k = kernels_scalar;
  k.name = "the code of amx";
  k.linear_q8r = Code::whole;
  k.linear_q8 = Code::grouped<Code::Q8>;
  k.linear_q4 = Code::grouped<Code::Q4>;
  const OnTheTwin twin;
  executed = 0;
  check_shapes(k, {2, 16, 17, 26, 33}, {1, 2, 3, 4, 5}, {1, 2, 3});
  check_shapes(k, {64}, {6}, {9});
  CHECK(!tiles.configured());
  CHECK((executed == 0) == real);
  float few[kLanes], many[kLanes];
  CHECK(Code::peak(few, 1) * 3 == Code::peak(many, 3));
  CHECK(few[0] != many[0]);
}
#endif
