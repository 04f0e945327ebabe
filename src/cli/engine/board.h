// cli: a model on a board: whether it fits the memory there is, and the file as a source that a
// linker takes.
#pragma once

#include "engine.h"

namespace cli {

// The deepest that a function of the library goes on a Cortex-M, phasor_quantize aside;
// tools/make/stack.py finds it in the compiler's call graph, `make test-board` wants it to be no
// more.
constexpr uint32_t kStackBytes = 5632;
// The same of all machines, as gcc compiles; `make test-stack` wants it to be no more, and paints
// the stack to see how deep it goes.
struct StackBound {
  const char* machine;
  uint32_t bytes;
};
constexpr StackBound kStackBounds[] = {{"Cortex-M", kStackBytes},
                                       {"x86-64", 28160},
                                       {"aarch64", 8192},
                                       {"armhf", 8192},
                                       {"riscv64", 8192}};

// What a session on a board is given, beside the usual room.
struct BoardOptions : MemoryOptions {
  Number text_bytes{"--text-bytes N",
                    "Longest text for the tokenizer, in bytes. 0: token ids only. Default: 4096.",
                    0, 1 << 28};
  Choice tables{"--tables whole|rows",
                "Sinusoid and rotary tables. whole: compute once. rows: compute when needed, with "
                "less memory and the same bits. Default: whole."};
};

// Limits as `run` takes them, with what was asked for.
phasor_limits board_limits(const Engine& engine, const BoardOptions& options);

struct Fit {
  uint64_t ram = 0, flash = 0;  // what the board has; 0: not asked
  // RAM for `limits`: the model's block and the arena; they fit beside kStackBytes
  uint64_t needed = 0;
  // the given ones, or with the largest smaller chunk that fits, or with a chunk of 1
  phasor_limits limits{};
  bool ram_fits = true, flash_fits = true;
  // where the RAM is too small: the longest target (an encoder: source) that fits, 0: none does
  uint32_t largest_context = 0;
  string largest_part;  // and the part of the arena that takes most
  uint64_t largest_part_bytes = 0;
  bool fits() const { return ram_fits && flash_fits; }
};

// Looks for limits that fit. False after an error of the library, which has been printed.
bool fit(const Engine& engine, const phasor_limits& given, uint64_t ram, uint64_t flash, Fit* out);
string fit_text(const Engine& engine, const Fit& fit);

// The whole file as C (an array) or as assembly (.incbin), aligned to 64, with the symbols NAME and
// NAME_bytes; NAME is made of the file's. False when standard output fails.
bool emit_c(const Engine& engine);
bool emit_asm(const Engine& engine);
// The limits, the bytes of the model's block and of the arena for them: constants of a C header,
// their names made of the file's.
bool emit_header(const Engine& engine, const phasor_limits& limits);

}  // namespace cli
