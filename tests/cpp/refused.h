// Instructions that this processor refuses, done by a program: the handler of SIGILL takes their
// bytes apart by the manual (Intel SDM 2) and goes on behind them. So the code of a level, its
// encodings, operands and addresses, is tested where no processor has its instructions. x86-64
// Linux.
#pragma once
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

namespace refused {

[[noreturn]] inline void give_up(const char* what) {
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
  unsigned char* vectors;  // as xsave stores them
  size_t length = 5;
  // second: vvvv; wide: 256 bits
  unsigned prefix = 0, opcode = 0, mode = 0, reg = 0, rm = 0, second = 0, wide = 0;
  int64_t address = 0, stride = 0;

  int64_t value(unsigned n) const { return registers[kRegisters[n]]; }
  int64_t number(size_t bytes) {
    int32_t four = 0;
    int8_t one = 0;
    std::memcpy(bytes == 4 ? static_cast<void*>(&four) : &one, at + length, bytes);
    length += bytes;
    return bytes == 4 ? four : one;
  }
  bool decode() {
    if (at[0] != 0xC4) return false;
    const unsigned r = ~at[1] >> 7 & 1, x = ~at[1] >> 6 & 1, b = ~at[1] >> 5 & 1;
    if ((at[1] & 31) != 2 || (at[2] & 0x80) != 0) return false;  // 0F38, W0
    wide = at[2] >> 2 & 1;
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
};

// While it lives `execute` does what this processor refuses; false: a processor that has the
// instruction would refuse it too.
class Instead {
 public:
  using Execute = bool (*)(const Instruction&);
  explicit Instead(Execute execute) {
    execute_ = execute;
    executed = 0;
    struct sigaction action = {};
    action.sa_sigaction = on_illegal;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before_);
  }
  ~Instead() { sigaction(SIGILL, &before_, nullptr); }
  Instead(const Instead&) = delete;
  Instead& operator=(const Instead&) = delete;
  static inline uint64_t executed = 0;

 private:
  static void on_illegal(int, siginfo_t*, void* context) {
    mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
    Instruction i{reinterpret_cast<const unsigned char*>(machine.gregs[REG_RIP]), machine.gregs,
                  reinterpret_cast<unsigned char*>(machine.fpregs)};
    if (!i.decode()) give_up("SIGILL: an instruction that this test does not know\n");
    if (!execute_(i)) give_up("SIGILL: an instruction that every processor would refuse\n");
    machine.gregs[REG_RIP] += static_cast<greg_t>(i.length);
    ++executed;
  }
  static inline Execute execute_ = nullptr;
  struct sigaction before_ = {};
};

// Whether the processor has what bit `bit` of register `output` (0: eax … 3: edx) of this leaf of
// cpuid says.
inline bool processor_has(unsigned leaf, unsigned sub, unsigned output, unsigned bit) {
  unsigned r[4] = {leaf, 0, sub, 0};
  __asm__("cpuid" : "+a"(r[0]), "=b"(r[1]), "+c"(r[2]), "=d"(r[3]));
  return (r[output] >> bit & 1u) != 0;
}

}  // namespace refused
