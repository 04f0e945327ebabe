// cli: `phasor inspect`. The descriptor, the tensors, the arena part by part, and what a token
// costs; from the head of the file.
#include <string.h>

#include "board.h"
#include "commands.h"
#include "engine.h"
#include "json.h"
#include "text.h"

namespace cli {
namespace {

struct Report {
  Engine e;
  phasor_limits limits{};
  size_t arena = 0;
  phasor_cost cost{};
  uint64_t tensor_bytes = 0, parameters = 0;
  Fit fit;
  bool board = false;  // --ram or --flash
};

phasor_tensor tensor_at(const Report& r, uint32_t i) {
  phasor_tensor t{};
  t.struct_size = sizeof t;
  (void)phasor_tensor_get(r.e.model, i, &t);
  return t;
}

bool fill(Report* r, const Options& o) {
  if (!r->e.open(o)) return false;
  r->limits = default_limits(r->e, o);
  if (o.beam == 0) greedy_room(&r->limits, 1);  // as run takes it
  if (o.chunk != 0) r->limits.chunk = o.chunk;
  if (o.text_bytes.given) r->limits.text_bytes = static_cast<uint32_t>(o.text_bytes.value);
  if (o.tables != nullptr && strcmp(o.tables, "rows") == 0) r->limits.tables = PHASOR_TABLES_ROWS;
  phasor_error error = PHASOR_ERROR_INIT;
  if (phasor_session_size(&r->arena, r->e.model, &r->limits, &error) != PHASOR_OK)
    return r->e.fail(error);
  r->cost.struct_size = sizeof r->cost;
  (void)phasor_model_cost(r->e.model, r->limits.source,
                          r->limits.target != 0 ? r->limits.target - 1 : 0, &r->cost);
  for (uint32_t i = 0; i < phasor_tensor_count(r->e.model); ++i) {
    const phasor_tensor t = tensor_at(*r, i);
    r->tensor_bytes += t.bytes;
    r->parameters += t.rows * t.cols;
  }
  return true;
}

template <class F>
void each_part(const Report& r, F call) {
  const char* name = nullptr;
  uint64_t bytes = 0;
  for (uint32_t i = 0; phasor_session_part(r.e.model, &r.limits, i, &name, &bytes) == PHASOR_OK;
       ++i)
    call(name, bytes);
}

template <class F>
void each_field(const Report& r, F call) {
  phasor_field f{};
  f.struct_size = sizeof f;
  for (uint32_t i = 0; phasor_field_get(r.e.model, i, &f) == PHASOR_OK; ++i) call(f);
}

// Where a tensor belongs, docs/format.md.
const char* place_name(uint32_t stack) {
  constexpr const char* kNames[] = {"table", "source", "encoder", "target", "decoder", "output"};
  return stack < 6 ? kNames[stack] : "?";
}

const char* stack_name(uint32_t stack) {
  return stack == PHASOR_ENCODER   ? "encoder"
         : stack == PHASOR_DECODER ? "decoder"
                                   : "encoder-decoder";
}

std::string row(const char* name, const std::string& value, const char* unit) {
  char line[320];
  snprintf(line, sizeof line, "  %-63s %22s%s\n", name, value.c_str(), unit);
  return line;
}

void print_text(const Report& r) {
  std::string out = std::string(r.e.path) + ": " + stack_name(r.e.stack) + ", " +
                    grouped(r.e.file.bytes()) + " bytes\n\ndescriptor\n";
  each_field(r, [&](const phasor_field& f) {
    out += std::string("  ") + f.name + " = " + f.value + "\n";
  });
  out +=
      "\ntensors                                          set type  layout            shape        "
      "      bytes\n";
  for (uint32_t i = 0; i < phasor_tensor_count(r.e.model); ++i) {
    const phasor_tensor t = tensor_at(r, i);
    // 0xFFFF: of the whole stack
    const std::string set = t.set == 0xFFFF ? "" : std::to_string(t.set);
    char line[240], shape[48];
    snprintf(shape, sizeof shape, "%llu x %llu", static_cast<unsigned long long>(t.rows),
             static_cast<unsigned long long>(t.cols));
    snprintf(line, sizeof line, "  %-8s %-37s %5s %-5s %-8s %14s %18s\n", place_name(t.stack),
             t.name, set.c_str(), t.type, t.layout, shape, grouped(t.bytes).c_str());
    out += line;
  }
  out += row("parameters", grouped(r.parameters), "") +
         row("tensors", grouped(r.tensor_bytes), " bytes");
  out += row("model's block", grouped(r.e.model_bytes), " bytes") +
         row("test vectors", grouped(phasor_vector_count(r.e.model)), "");
  out += "\narena for";
  if (r.limits.source != 0) out += " --source " + std::to_string(r.limits.source);
  if (r.limits.target != 0) out += " --context " + std::to_string(r.limits.target);
  if (r.limits.cache_type == PHASOR_CACHE_F16) out += " --cache f16";
  if (r.limits.cache_type == PHASOR_CACHE_Q8) out += " --cache q8";
  out += " --threads " + std::to_string(r.limits.threads) + ", texts of " +
         grouped(r.limits.text_bytes) + " bytes\n";
  each_part(r, [&](const char* name, uint64_t bytes) {
    if (bytes != 0) out += row(name, grouped(bytes), " bytes");
  });
  out += row("the whole arena", grouped(r.arena), " bytes") + "\n";
  if (r.limits.source != 0)
    out += "encoder, a source of " + std::to_string(r.limits.source) + " tokens\n" +
           row("bytes of weights read", grouped(r.cost.encode_bytes), "") +
           row("multiply-adds", grouped(r.cost.encode_macs), "");
  if (r.limits.target != 0)
    out += "decoder, the token at position " + std::to_string(r.limits.target - 1) + "\n" +
           row("bytes read", grouped(r.cost.step_bytes), "") +
           row("multiply-adds", grouped(r.cost.step_macs), "");
  out += "stack, at most, of any call as gcc compiles\n";
  for (const StackBound& bound : kStackBounds)
    out += row(bound.machine, grouped(bound.bytes), " bytes");
  output(r.board ? out + fit_text(r.e, r.fit) : out);
}

void print_json(const Report& r) {
  Json json;
  json.open('{')
      .key("file")
      .text(r.e.path)
      .key("bytes")
      .number(r.e.file.bytes())
      .key("stack")
      .text(stack_name(r.e.stack))
      .key("descriptor")
      .open('{');
  each_field(r, [&](const phasor_field& f) { json.key(f.name).text(f.value); });
  json.close('}').key("tensors").open('[');
  for (uint32_t i = 0; i < phasor_tensor_count(r.e.model); ++i) {
    const phasor_tensor t = tensor_at(r, i);
    json.open('{')
        .key("name")
        .text(t.name)
        .key("stack")
        .number(t.stack)
        .key("set")
        .number(t.set)
        .key("role")
        .number(t.role);
    json.key("type")
        .text(t.type)
        .key("layout")
        .text(t.layout)
        .key("rows")
        .number(t.rows)
        .key("cols")
        .number(t.cols);
    json.key("offset").number(t.offset).key("bytes").number(t.bytes).close('}');
  }
  json.close(']')
      .key("parameters")
      .number(r.parameters)
      .key("tensor_bytes")
      .number(r.tensor_bytes)
      .key("model_bytes")
      .number(r.e.model_bytes);
  json.key("vectors").number(phasor_vector_count(r.e.model));
  json.key("limits")
      .open('{')
      .key("source")
      .number(r.limits.source)
      .key("target")
      .number(r.limits.target)
      .key("threads")
      .number(r.limits.threads);
  json.key("chunk")
      .number(r.limits.chunk)
      .key("text_bytes")
      .number(r.limits.text_bytes)
      .close('}')
      .key("arena_parts")
      .open('[');
  each_part(r, [&](const char* name, uint64_t bytes) {
    json.open('{').key("name").text(name).key("bytes").number(bytes).close('}');
  });
  json.close(']')
      .key("arena_bytes")
      .number(r.arena)
      .key("encode_bytes")
      .number(r.cost.encode_bytes)
      .key("encode_macs")
      .number(r.cost.encode_macs);
  json.key("step_bytes")
      .number(r.cost.step_bytes)
      .key("step_macs")
      .number(r.cost.step_macs)
      .key("stack_bytes")
      .open('{');
  for (const StackBound& bound : kStackBounds) json.key(bound.machine).number(bound.bytes);
  json.close('}');
  if (r.board) {
    json.key("board")
        .open('{')
        .key("fits")
        .boolean(r.fit.fits())
        .key("ram")
        .number(r.fit.ram)
        .key("flash")
        .number(r.fit.flash)
        .key("stack_bytes")
        .number(kStackBytes)
        .key("ram_needed")
        .number(r.fit.needed);
    json.key("chunk")
        .number(r.fit.limits.chunk)
        .key("largest_part")
        .text(r.fit.largest_part.c_str())
        .key("largest_context")
        .number(r.fit.largest_context)
        .close('}');
  }
  json.close('}');
  output(json.str() + "\n");
}

}  // namespace

int inspect(const Options& o) {
  Report r;
  if (!o.texts.empty()) return usage_error("inspect: unexpected argument %s", o.texts[0]);
  uint64_t ram = 0, flash = 0;
  if (o.ram != nullptr && !parse_size(o.ram, &ram))
    return usage_error("--ram %s: expected bytes, such as 131072, 128K or 1M", o.ram);
  if (o.flash != nullptr && !parse_size(o.flash, &flash))
    return usage_error("--flash %s: expected bytes, such as 1048576, 1024K or 1M", o.flash);
  const auto emits = [&](const char* what) {
    return o.emit != nullptr && strcmp(o.emit, what) == 0;
  };
  const bool c = emits("c"), assembly = emits("asm"), header = emits("h");
  if (o.emit != nullptr && !c && !assembly && !header)
    return usage_error("--emit %s: expected c, asm or h", o.emit);
  if (o.tables != nullptr && strcmp(o.tables, "rows") != 0 && strcmp(o.tables, "whole") != 0)
    return usage_error("--tables %s: expected whole or rows", o.tables);
  r.board = ram != 0 || flash != 0;
  if (!fill(&r, o)) return 1;
  if (c || assembly) return (c ? emit_c(r.e) : emit_asm(r.e)) ? 0 : 1;
  if (r.board && !fit(r.e, r.limits, ram, flash, &r.fit)) return 1;
  if (header && !r.fit.fits())
    return data_error("%s: with these limits the board's %s is too small: %s bytes", r.e.path,
                      r.fit.flash_fits ? "RAM" : "flash",
                      grouped(r.fit.flash_fits ? r.fit.needed : r.e.file.bytes()).c_str());
  if (header) return emit_header(r.e, r.board ? r.fit.limits : r.limits) ? 0 : 1;
  if (o.json)
    print_json(r);
  else
    print_text(r);
  return r.fit.fits() ? 0 : 1;
}

}  // namespace cli
