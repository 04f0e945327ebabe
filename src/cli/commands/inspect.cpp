// cli: `phasor inspect`. The descriptor, the tensors, the arena part by part, and what a token
// costs; from the head of the file.
#include <inttypes.h>
#include <stdlib.h>

#include "../budget/record.h"
#include "../engine/board.h"
#include "../engine/engine.h"
#include "../engine/wording.h"
#include "../io/json.h"
#include "commands.h"

namespace cli {
namespace {

struct InspectOptions : CommandLine, BoardOptions {
  Number ram{"--ram SIZE",
             "Check that the model fits this much RAM: bytes, or 128K, or 1M. Exit status 1 if it "
             "does not.",
             1, 0x1p40};
  Number flash{"--flash SIZE", "Check that the file fits this much flash.", 1, 0x1p40};
  Choice emit{"--emit c|asm|h",
              "Print source code. c, asm: the file as data, aligned to 64. h: a C header with the "
              "limits and the sizes of both memory blocks."};
  FlagGroups flags() {
    return {
        group("Output", json),
        group("Memory and speed", context, source, cache, beam, threads, chunk, text_bytes, tables),
        group("Boards", ram, flash, emit)};
  }
};

enum { kEmitC, kEmitAssembly, kEmitHeader };  // the choices of --emit

struct Report {
  Engine e;
  phasor_limits limits{};
  size_t arena = 0;
  phasor_cost cost = sized<phasor_cost>();
  uint64_t tensor_bytes = 0, parameters = 0;
  Fit fit;
  bool board = false;  // --ram or --flash
};

phasor_tensor tensor_at(const Report& r, uint32_t index) {
  auto tensor = sized<phasor_tensor>();
  (void)phasor_tensor_get(r.e.model, index, &tensor);
  return tensor;
}

// 0, or the exit status.
int fill(Report* r, const InspectOptions& o) {
  if (!r->e.open(o.model, {}, Load::map)) return 1;
  if (const int status = check_sides(r->e, o)) return status;
  const phasor_limits& limits = r->limits = board_limits(r->e, o);
  if (phasor_session_size(&r->arena, r->e.model, &limits, &r->e.error) != PHASOR_OK)
    return r->e.fail(), 1;
  (void)phasor_model_cost(r->e.model, limits.source, limits.target != 0 ? limits.target - 1 : 0,
                          &r->cost);
  for (uint32_t i = 0; i < phasor_tensor_count(r->e.model); ++i) {
    const phasor_tensor tensor = tensor_at(*r, i);
    r->tensor_bytes += tensor.bytes;
    r->parameters += tensor.rows * tensor.cols;
  }
  return 0;
}

template <class Call>
void each_part(const Report& r, Call call) {
  const char* name = nullptr;
  uint64_t bytes = 0;
  for (uint32_t i = 0; phasor_session_part(r.e.model, &r.limits, i, &name, &bytes) == PHASOR_OK;
       ++i)
    call(name, bytes);
}

template <class Call>
void each_field(const Report& r, Call call) {
  auto field = sized<phasor_field>();
  for (uint32_t i = 0; phasor_field_get(r.e.model, i, &field) == PHASOR_OK; ++i) call(field);
}

const char* stack_name(uint32_t stack) {
  return stack == PHASOR_ENCODER   ? "encoder"
         : stack == PHASOR_DECODER ? "decoder"
                                   : "encoder-decoder";
}

string row(const char* name, uint64_t value, const char* unit) {
  return format("  %-63s %22s%s\n", name, grouped(value).c_str(), unit);
}

string tensor_rows(const Report& r) {
  string out =
      "\ntensors                                          set type  inputs layout            shape"
      "              bytes\n";
  for (uint32_t i = 0; i < phasor_tensor_count(r.e.model); ++i) {
    const phasor_tensor t = tensor_at(r, i);
    // 0xFFFF: of the whole stack
    const string set = t.set == 0xFFFF ? "" : to_string(t.set),
                 inputs = t.inputs == 0    ? ""
                          : t.rotated != 0 ? "8 rot."
                                           : to_string(t.inputs),
                 shape = format("%" PRIu64 " x %" PRIu64, t.rows, t.cols);
    out += format("  %-8s %-37s %5s %-5s %-6s %-8s %14s %18s\n", place_name(t.stack), t.name,
                  set.c_str(), t.type, inputs.c_str(), t.layout, shape.c_str(),
                  grouped(t.bytes).c_str());
  }
  return out + row("parameters", r.parameters, "") + row("tensors", r.tensor_bytes, " bytes");
}

string record_part(const Report& r) {
  auto record = sized<phasor_record>();
  return record_of(r.e, &record) ? "\nrecord\n" + record_lines(r.e, record) : string();
}

string arena_rows(const Report& r) {
  const phasor_limits& limits = r.limits;
  string out = "\narena for";
  if (limits.source != 0) out += format(" --source %u", limits.source);
  if (limits.target != 0) out += format(" --context %u", limits.target);
  if (limits.cache_type != 0) out += string(" --cache ") + kCacheNames[limits.cache_type];
  out += format(" --threads %u, texts of %s bytes\n", limits.threads,
                grouped(limits.text_bytes).c_str());
  each_part(r, [&](const char* name, uint64_t bytes) {
    if (bytes != 0) out += row(name, bytes, " bytes");
  });
  return out + row("the whole arena", r.arena, " bytes");
}

void print_text(const Report& r) {
  string out = format("%s: %s, %s bytes\n\ndescriptor\n", r.e.path, stack_name(r.e.stack),
                      grouped(r.e.file.bytes()).c_str());
  each_field(r, [&](const phasor_field& field) {
    out += string("  ") + field.name + " = " + field.value + "\n";
  });
  out +=
      record_part(r) + tensor_rows(r) + row("model's block", r.e.model_bytes, " bytes") +
      row("test vectors", phasor_vector_count(r.e.model), (string(" ") + proof_of(r.e)).c_str()) +
      arena_rows(r) + "\n";
  if (r.limits.source != 0)
    out += format("encoder, a source of %u tokens\n", r.limits.source) +
           row("bytes of weights read", r.cost.encode_bytes, "") +
           row("multiply-adds", r.cost.encode_macs, "");
  if (r.limits.target != 0)
    out += format("decoder, the token at position %u\n", r.limits.target - 1) +
           row("bytes read", r.cost.step_bytes, "") + row("multiply-adds", r.cost.step_macs, "");
  out += "stack, at most, of any call as gcc compiles\n";
  for (const StackBound& bound : kStackBounds) out += row(bound.machine, bound.bytes, " bytes");
  output(r.board ? out + fit_text(r.e, r.fit) : out);
}

// Whether a field's value is a text of its maker's, whatever it looks like (the keys of type string
// in src/facts/descriptor.toml).
bool is_text(const string& name) {
  const string last = name.substr(name.rfind('.') + 1);
  return name.rfind("model.", 0) == 0 || last == "labels" || last == "prompts";
}

// The numbers of a value; none where it has anything else, or may be cut.
vector<string> numbers_in(const string& value) {
  vector<string> out(1);
  for (const char c : value)
    if (c == ' ')
      out.emplace_back();
    else
      out.back() += c;
  for (const string& number : out) {
    char* end = nullptr;
    (void)strtod(number.c_str(), &end);
    const bool plain = number.find_first_not_of("0123456789+-.e") == string::npos;
    if (number.empty() || *end != 0 || !plain) return {};
  }
  if (value.size() + 1 >= sizeof phasor_field::value) return {};
  return out;
}

void add_number(Json* json, const string& number) {
  if (number.find_first_of(".e") == string::npos)
    json->value(strtoll(number.c_str(), nullptr, 10));
  else
    json->value(strtod(number.c_str(), nullptr));
}

// A field with its number or list of numbers, or its text.
void add_field(Json* json, const phasor_field& field) {
  const vector<string> numbers = is_text(field.name) ? vector<string>() : numbers_in(field.value);
  if (numbers.empty()) {
    json->add(field.name, field.value);
  } else if (numbers.size() == 1) {
    json->key(field.name);
    add_number(json, numbers[0]);
  } else {
    json->open(field.name, '[');
    for (const string& number : numbers) add_number(json, number);
    json->close(']');
  }
}

void print_json(const Report& r) {
  Json json;
  json.open('{').add("file", r.e.path).add("bytes", r.e.file.bytes());
  json.add("stack", stack_name(r.e.stack)).open("descriptor", '{');
  each_field(r, [&](const phasor_field& field) { add_field(&json, field); });
  json.close('}').open("tensors", '[');
  for (uint32_t i = 0; i < phasor_tensor_count(r.e.model); ++i) {
    const phasor_tensor t = tensor_at(r, i);
    json.open('{').add("name", t.name).add("stack", t.stack).add("set", t.set).add("role", t.role);
    json.add("type", t.type).add("layout", t.layout).add("rows", t.rows).add("cols", t.cols);
    json.add("offset", t.offset).add("bytes", t.bytes);
    if (t.inputs != 0) json.add("inputs", t.inputs);
    if (t.rotated != 0) json.add("rotated", true);
    json.close('}');
  }
  json.close(']')
      .add("parameters", r.parameters)
      .add("tensor_bytes", r.tensor_bytes)
      .add("model_bytes", r.e.model_bytes)
      .add("vectors", phasor_vector_count(r.e.model))
      .add("proof", proof_of(r.e));
  auto record = sized<phasor_record>();
  if (record_of(r.e, &record)) add_record(&json, record);
  json.open("limits", '{')
      .add("source", r.limits.source)
      .add("target", r.limits.target)
      .add("threads", r.limits.threads)
      .add("chunk", r.limits.chunk)
      .add("text_bytes", r.limits.text_bytes)
      .close('}');
  json.open("arena_parts", '[');
  each_part(r, [&](const char* name, uint64_t bytes) {
    json.open('{').add("name", name).add("bytes", bytes).close('}');
  });
  json.close(']')
      .add("arena_bytes", r.arena)
      .add("encode_bytes", r.cost.encode_bytes)
      .add("encode_macs", r.cost.encode_macs)
      .add("step_bytes", r.cost.step_bytes)
      .add("step_macs", r.cost.step_macs);
  json.open("stack_bytes", '{');
  for (const StackBound& bound : kStackBounds) json.add(bound.machine, bound.bytes);
  json.close('}');
  if (r.board)
    json.open("board", '{')
        .add("fits", r.fit.fits())
        .add("ram", r.fit.ram)
        .add("flash", r.fit.flash)
        .add("stack_bytes", kStackBytes)
        .add("ram_needed", r.fit.needed)
        .add("stack", kStackBytes)
        .add("chunk", r.fit.limits.chunk)
        .add("largest_part", r.fit.largest_part)
        .add("largest_context", r.fit.largest_context)
        .close('}');
  output(json.close('}').str() + "\n");
}

int inspect(const InspectOptions& o) {
  Report r;
  r.board = o.ram.given || o.flash.given;
  if (const int status = fill(&r, o)) return status;
  const bool header = o.emit.given && o.emit == kEmitHeader;
  if (o.emit.given && !header) return (o.emit == kEmitC ? emit_c(r.e) : emit_asm(r.e)) ? 0 : 1;
  if (r.board && !fit(r.e, r.limits, o.ram.value, o.flash.value, &r.fit)) return 1;
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

}  // namespace

const Command inspect_command = command<InspectOptions, inspect>(
    "inspect", "MODEL", "show a model's settings, tensors and memory", "",
    "phasor inspect model.phasor\n"
    "phasor inspect model.phasor --json\n"
    "phasor inspect model.phasor --context 64 --ram 512K --flash 1M");

}  // namespace cli
