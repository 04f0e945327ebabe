#include "board.h"

#include <inttypes.h>
#include <string.h>

namespace cli {
namespace {

bool needed(const Engine& e, const phasor_limits& limits, uint64_t* bytes) {
  size_t arena = 0;
  if (phasor_session_size(&arena, e.model, &limits, &e.error) != PHASOR_OK) return false;
  *bytes = uint64_t{e.model_bytes} + arena;
  return true;
}

// What fits leaves the library its own stack.
bool within(uint64_t needed, uint64_t ram) { return needed + kStackBytes <= ram; }

// The longest sequence that fits with these limits otherwise; 0 when none does.
uint32_t longest(const Engine& e, phasor_limits limits, uint64_t ram) {
  uint32_t& length = e.has_target() ? limits.target : limits.source;
  uint32_t low = 0, high = length;  // low fits (or is 0), high does not
  while (high - low > 1) {
    uint64_t bytes = 0;
    const uint32_t middle = low + (high - low) / 2;
    length = middle;
    (needed(e, limits, &bytes) && within(bytes, ram) ? low : high) = middle;
  }
  return low;
}

// What smaller limits of another kind save, by the flags that ask for them.
string savings(const Engine& e, const Fit& f) {
  struct Way {
    string flag;
    phasor_limits limits;
  };
  vector<Way> ways;
  const auto way = [&](const string& flag, auto change) {
    ways.push_back({flag, f.limits});
    change(ways.back().limits);
  };
  for (uint32_t type = f.limits.cache_type + 1; type < kCacheTypes; ++type)
    way(string("--cache ") + kCacheNames[type], [type](phasor_limits& l) { l.cache_type = type; });
  if (f.limits.tables != PHASOR_TABLES_ROWS)
    way("--tables rows", [](phasor_limits& l) { l.tables = PHASOR_TABLES_ROWS; });
  if (f.limits.text_bytes > 256)
    way("--text-bytes 256", [](phasor_limits& l) { l.text_bytes = 256; });
  if (e.has_source() && f.limits.source > 1)
    way("half of --source", [](phasor_limits& l) { l.source /= 2; });
  if (e.has_target() && f.limits.target > 1)
    way("half of --context", [](phasor_limits& l) { l.target /= 2; });
  string out;
  for (const Way& w : ways) {
    uint64_t bytes = 0;
    if (needed(e, w.limits, &bytes) && bytes < f.needed)
      out += (out.empty() ? "  " : ", ") + w.flag + " saves " + grouped(f.needed - bytes);
  }
  return out.empty() ? out : out + "\n";
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
string symbol_of(const char* path) {
  const char* slash = strrchr(path, '/');
  string name = slash != nullptr ? slash + 1 : path;
  for (char& c : name)
    if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))) c = '_';
  return name.empty() || (name[0] >= '0' && name[0] <= '9') ? "model_" + name : name;
}

// A path inside a string of the assembler.
string quoted(const char* path) {
  string out = "\"";
  for (; *path != 0; ++path) {
    if (*path == '"' || *path == '\\') out += '\\';
    out += *path;
  }
  return out + "\"";
}

// A source with the file's symbol wherever it says NAME.
string named(string source, const char* path) {
  const string symbol = symbol_of(path);
  for (size_t at = 0; (at = source.find("NAME", at)) != string::npos; at += symbol.size())
    source.replace(at, strlen("NAME"), symbol);
  return source;
}

}  // namespace

phasor_limits board_limits(const Engine& e, const BoardOptions& o) {
  phasor_limits limits = default_limits(e, o);
  if (o.beam == 0) greedy_room(&limits, 1);
  if (o.chunk != 0) limits.chunk = o.chunk;
  if (o.text_bytes.given) limits.text_bytes = o.text_bytes;
  limits.tables = o.tables;
  return limits;
}

bool fit(const Engine& e, const phasor_limits& given, uint64_t ram, uint64_t flash, Fit* out) {
  Fit f;
  f.ram = ram;
  f.flash = flash;
  f.limits = given;
  f.flash_fits = flash == 0 || e.file.bytes() <= flash;
  if (!needed(e, f.limits, &f.needed)) return e.fail();
  // fewer tokens at a time: slower prompts, the same bits
  while (ram != 0 && !within(f.needed, ram) && f.limits.chunk > 1) {
    f.limits.chunk /= 2;
    if (!needed(e, f.limits, &f.needed)) return e.fail();
  }
  f.ram_fits = ram == 0 || within(f.needed, ram);
  if (!f.ram_fits) {
    f.largest_context = longest(e, f.limits, ram);
    find_largest_part(e, &f);
  }
  *out = f;
  return true;
}

string fit_text(const Engine& e, const Fit& f) {
  string out = "\nboard\n";
  const uint64_t bytes = e.file.bytes();
  if (f.flash != 0)
    out += format("  flash: the file takes %s of %s bytes: ", grouped(bytes).c_str(),
                  grouped(f.flash).c_str()) +
           (f.flash_fits ? "it fits, and leaves " + grouped(f.flash - bytes) + " for the program\n"
                         : "it does not fit, " + grouped(bytes - f.flash) + " bytes are missing\n");
  if (f.ram == 0) return out;
  out += format(
      "  RAM: the model's block and the arena take %s of %s bytes with chunks of %u token%s: ",
      grouped(f.needed).c_str(), grouped(f.ram).c_str(), f.limits.chunk, plural(f.limits.chunk));
  if (f.ram_fits)
    return out + "they fit, and leave " + grouped(f.ram - f.needed) +
           " for the stack and your own\n  stack: the library takes at most " +
           grouped(kStackBytes) +
           " bytes on a Cortex-M, your program's functions and callbacks come on top\n";
  out += format("with %s of the library's stack they do not fit, %s bytes are missing; %s are %s\n",
                grouped(kStackBytes).c_str(), grouped(f.needed + kStackBytes - f.ram).c_str(),
                grouped(f.largest_part_bytes).c_str(), f.largest_part.c_str());
  const char* flag = e.has_target() ? "--context" : "--source";
  return out + (f.largest_context != 0
                    ? format("  the most that fits is %s %u\n", flag, f.largest_context)
                    : format("  not even %s 1 fits\n", flag)) +
         savings(e, f);
}

bool emit_c(const Engine& e) {
  const unsigned char* data = static_cast<const unsigned char*>(e.file.data());
  const char head[] =
      "/* A Phasor model, to be compiled with your program: const void* and size for "
      "phasor_model_open. C11 or C++11. */\n"
      "#include <stddef.h>\n"
      "#ifdef __cplusplus\n"
      "extern \"C\" const unsigned char NAME[];\n"
      "extern \"C\" const size_t NAME_bytes;\n"
      "alignas(64)\n"
      "#else\n"
      "_Alignas(64)\n"
      "#endif\n"
      "const unsigned char NAME[";
  string out = named(head, e.path) + to_string(e.file.bytes()) + "] = {";
  for (size_t i = 0; i < e.file.bytes(); ++i) {
    if (i % 32 == 0) {
      if (!output(out + "\n")) return false;
      out.clear();
    }
    out += to_string(data[i]) + ",";
  }
  return output(out + named("\n};\nconst size_t NAME_bytes = sizeof NAME;\n", e.path));
}

bool emit_asm(const Engine& e) {
  const char head[] =
      "/* A Phasor model where the linker puts read-only data: extern const unsigned char NAME[]; "
      "extern const size_t NAME_bytes; */\n"
      "    .section .rodata.NAME,\"a\"\n"
      "    .balign 64\n"
      "    .global NAME\n"
      "NAME:\n"
      "    .incbin ";
  const char tail[] =
      "\n.LNAME_end:\n"
      "    .balign 8\n"
      "    .global NAME_bytes\n"
      "NAME_bytes:\n"
      "#if __SIZEOF_SIZE_T__ == 8\n"
      "    .8byte .LNAME_end - NAME\n"
      "#else\n"
      "    .4byte .LNAME_end - NAME\n"
      "#endif\n"
      "    .section .note.GNU-stack,\"\",%progbits\n";
  return output(named(head, e.path) + quoted(e.path) + named(tail, e.path));
}

bool emit_header(const Engine& e, const phasor_limits& limits) {
  size_t arena = 0;
  if (phasor_session_size(&arena, e.model, &limits, &e.error) != PHASOR_OK) return e.fail();
  string name = symbol_of(e.path);
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = char(c - 'a' + 'A');
  const auto define = [&name](const char* what, uint64_t value) {
    return format("#define %s_%s %" PRIu64 "u\n", name.c_str(), what, value);
  };
  string values = "{ sizeof(phasor_limits)";
  for (const uint32_t value :
       {limits.source, limits.target, limits.sequences, limits.chunk, limits.threads,
        limits.text_bytes, limits.logit_rows, limits.cache_type, limits.outputs, limits.tables,
        limits.best_rows, limits.beams, limits.searches})
    values += format(", %uu", value);
  const char head[] =
      "/* What NAME needs: phasor_model_size and phasor_session_size with these limits give the "
      "same numbers on every machine. */\n"
      "#pragma once\n"
      "#include <phasor.h>\n\n"
      "extern const unsigned char NAME[]; /* --emit c or asm */\n"
      "extern const size_t NAME_bytes;\n\n";
  return output(named(head, e.path) + define("MODEL_BYTES", e.model_bytes) +
                define("ARENA_BYTES", arena) + define("SOURCE", limits.source) +
                define("CONTEXT", limits.target) + define("TEXT_BYTES", limits.text_bytes) +
                define("STACK_BYTES", kStackBytes) +
                format("#define %s_LIMITS %s }\n", name.c_str(), values.c_str()));
}

}  // namespace cli
