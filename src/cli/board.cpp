#include "board.h"

#include <string.h>

#include "text.h"

namespace cli {
namespace {

bool needed(const Engine& e, const phasor_limits& limits, uint64_t* bytes, phasor_error* error) {
  size_t arena = 0;
  if (phasor_session_size(&arena, e.model, &limits, error) != PHASOR_OK) return false;
  *bytes = uint64_t{e.model_bytes} + arena;
  return true;
}

// The longest sequence that fits with these limits otherwise; 0 when none does.
uint32_t longest(const Engine& e, phasor_limits limits, uint64_t ram) {
  uint32_t& length = e.has_target() ? limits.target : limits.source;
  uint32_t low = 0, high = length;  // low fits (or is 0), high does not
  while (high - low > 1) {
    uint64_t bytes = 0;
    phasor_error error = PHASOR_ERROR_INIT;
    const uint32_t middle = low + (high - low) / 2;
    length = middle;
    (needed(e, limits, &bytes, &error) && bytes <= ram ? low : high) = middle;
  }
  return low;
}

void find_largest_part(const Engine& e, Fit* f) {
  const char* name = nullptr;
  uint64_t bytes = 0;
  for (uint32_t i = 0; phasor_session_part(e.model, &f->limits, i, &name, &bytes) == PHASOR_OK; ++i)
    if (bytes > f->largest_part_bytes) {
      f->largest_part = name;
      f->largest_part_bytes = bytes;
    }
}

// A C identifier of the file's name: "my-model.phasor" is my_model_phasor.
std::string symbol_of(const char* path) {
  const char* slash = strrchr(path, '/');
  std::string name = slash != nullptr ? slash + 1 : path;
  for (char& c : name)
    if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))) c = '_';
  return name.empty() || (name[0] >= '0' && name[0] <= '9') ? "model_" + name : name;
}

// A path inside a string of the assembler.
std::string quoted(const char* path) {
  std::string out = "\"";
  for (; *path != 0; ++path) {
    if (*path == '"' || *path == '\\') out += '\\';
    out += *path;
  }
  return out + "\"";
}

}  // namespace

bool parse_size(const char* text, uint64_t* bytes) {
  uint64_t value = 0;
  const char* p = text;
  for (; *p >= '0' && *p <= '9'; ++p) {
    value = value * 10 + static_cast<uint64_t>(*p - '0');
    if (value > uint64_t{1} << 40) return false;
  }
  if (p == text) return false;
  const uint64_t unit = *p == 'K' ? 1024 : *p == 'M' ? 1024 * 1024 : 1;
  if (unit != 1) ++p;
  *bytes = value * unit;
  return *p == 0 && value != 0;
}

bool fit(const Engine& e, const phasor_limits& given, uint64_t ram, uint64_t flash, Fit* out) {
  Fit f;
  f.ram = ram;
  f.flash = flash;
  f.limits = given;
  f.flash_fits = flash == 0 || e.file.bytes() <= flash;
  phasor_error error = PHASOR_ERROR_INIT;
  if (!needed(e, f.limits, &f.needed, &error)) return e.fail(error);
  // fewer tokens at a time: slower prompts, the same bits
  while (ram != 0 && f.needed > ram && f.limits.chunk > 1) {
    f.limits.chunk = f.limits.chunk / 2;
    if (!needed(e, f.limits, &f.needed, &error)) return e.fail(error);
  }
  f.ram_fits = ram == 0 || f.needed <= ram;
  if (!f.ram_fits) {
    f.largest_context = longest(e, f.limits, ram);
    find_largest_part(e, &f);
  }
  *out = f;
  return true;
}

std::string fit_text(const Engine& e, const Fit& f) {
  std::string out = "\nboard\n";
  if (f.flash != 0) {
    const uint64_t bytes = e.file.bytes();
    out += "  flash: the file takes " + grouped(bytes) + " of " + grouped(f.flash) + " bytes: ";
    out += f.flash_fits ? "it fits, and leaves " + grouped(f.flash - bytes) + " for the program\n"
                        : "it does not fit, " + grouped(bytes - f.flash) + " bytes are missing\n";
  }
  if (f.ram == 0) return out;
  out += "  RAM: the model's block and the arena take " + grouped(f.needed) + " of " +
         grouped(f.ram) + " bytes with chunks of " + std::to_string(f.limits.chunk) +
         (f.limits.chunk == 1 ? " token: " : " tokens: ");
  if (f.ram_fits)
    return out + "they fit, and leave " + grouped(f.ram - f.needed) +
           " for the stack and your own\n  stack: the library takes at most " +
           grouped(kStackBytes) +
           " bytes on a Cortex-M, your program's functions and callbacks come on top\n";
  out += "they do not fit, " + grouped(f.needed - f.ram) + " bytes are missing; " +
         grouped(f.largest_part_bytes) + " are " + f.largest_part + "\n";
  const char* flag = e.has_target() ? "--context " : "--source ";
  return out + (f.largest_context != 0 ? "  the most that fits is " + std::string(flag) +
                                             std::to_string(f.largest_context) + "\n"
                                       : std::string("  not even ") + flag + "1 fits\n");
}

bool emit_c(const Engine& e) {
  const std::string name = symbol_of(e.path);
  const unsigned char* data = static_cast<const unsigned char*>(e.file.data());
  const size_t bytes = e.file.bytes();
  std::string out =
      "/* A Phasor model, to be compiled with your program: const void* and size for "
      "phasor_model_open. C11 or C++11. */\n"
      "#include <stddef.h>\n#ifdef __cplusplus\nextern \"C\" const unsigned char " +
      name + "[];\nextern \"C\" const size_t " + name +
      "_bytes;\nalignas(64)\n#else\n_Alignas(64)\n#endif\nconst unsigned char " + name + "[" +
      std::to_string(bytes) + "] = {";
  char number[8];
  for (size_t i = 0; i < bytes; ++i) {
    snprintf(number, sizeof number, "%s%u,", i % 32 == 0 ? "\n" : "", data[i]);
    out += number;
    if (out.size() > 60000 && !output(out)) return false;
    if (out.size() > 60000) out.clear();
  }
  return output(out + "\n};\nconst size_t " + name + "_bytes = sizeof " + name + ";\n");
}

bool emit_asm(const Engine& e) {
  const std::string name = symbol_of(e.path);
  return output(
      "/* A Phasor model where the linker puts read-only data: extern const unsigned char " + name +
      "[]; extern const size_t " + name + "_bytes; */\n" + "    .section .rodata." + name +
      ",\"a\"\n    .balign 64\n    .global " + name + "\n" + name + ":\n    .incbin " +
      quoted(e.path) + "\n.L" + name + "_end:\n    .balign 8\n    .global " + name + "_bytes\n" +
      name + "_bytes:\n#if __SIZEOF_SIZE_T__ == 8\n    .8byte .L" + name + "_end - " + name +
      "\n#else\n    .4byte .L" + name + "_end - " + name +
      "\n#endif\n    .section .note.GNU-stack,\"\",%progbits\n");
}

bool emit_header(const Engine& e, const phasor_limits& limits) {
  phasor_error error = PHASOR_ERROR_INIT;
  size_t arena = 0;
  if (phasor_session_size(&arena, e.model, &limits, &error) != PHASOR_OK) return e.fail(error);
  const std::string symbol = symbol_of(e.path);
  std::string name = symbol;
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  const auto define = [&name](const char* what, const std::string& value) {
    return "#define " + name + "_" + what + " " + value + "\n";
  };
  const auto number = [](uint64_t value) { return std::to_string(value) + "u"; };
  std::string values = "{ sizeof(phasor_limits)";
  for (const uint32_t value :
       {limits.source, limits.target, limits.sequences, limits.chunk, limits.threads,
        limits.text_bytes, limits.logit_rows, limits.cache_type, limits.outputs, limits.tables,
        limits.best_rows, limits.beams})
    values += ", " + number(value);
  return output("/* What " + symbol +
                " needs: phasor_model_size and phasor_session_size with these limits give the same "
                "numbers on every machine. */\n#pragma once\n"
                "#include <phasor.h>\n\nextern const unsigned char " +
                symbol + "[]; /* --emit c or asm */\nextern const size_t " + symbol +
                "_bytes;\n\n" + define("MODEL_BYTES", number(e.model_bytes)) +
                define("ARENA_BYTES", number(arena)) + define("SOURCE", number(limits.source)) +
                define("CONTEXT", number(limits.target)) +
                define("TEXT_BYTES", number(limits.text_bytes)) +
                define("STACK_BYTES", number(kStackBytes)) + define("LIMITS", values + " }"));
}

}  // namespace cli
