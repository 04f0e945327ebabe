// cli: `phasor verify`. Reads the whole file, then replays its test vectors on this machine.
#include <inttypes.h>

#include "commands.h"
#include "engine.h"
#include "json.h"
#include "text.h"

namespace cli {
namespace {

struct Outcome {
  phasor_vector vector{};
  phasor_vector_result result{};
  phasor_status status = PHASOR_OK;
  std::string error;
};

Outcome replay(const Engine& e, uint32_t i) {
  Outcome out;
  out.vector = vector_at(e, i);
  out.result.struct_size = sizeof out.result;
  phasor_error error = PHASOR_ERROR_INIT;
  out.status = phasor_vector_run(e.session, i, &out.result, &error);
  if (out.status != PHASOR_OK) out.error = error.text;
  return out;
}

// What the recorded hash says: nothing where none is recorded or under other rules of arithmetic.
const char* hash_note(const Outcome& o) {
  if (o.vector.hash == 0) return "not recorded";
  if (o.vector.numerics != phasor_numerics()) return "of other numerics";
  return o.vector.hash == o.result.hash ? "as recorded" : "NOT as recorded";
}

std::string hex(uint64_t hash) {
  char digits[24];
  snprintf(digits, sizeof digits, "%016" PRIx64, hash);
  return digits;
}

void print_text(uint32_t i, const Outcome& o) {
  char line[400];
  snprintf(line, sizeof line,
           "vector %u: %u source and %u target tokens: %s; worst logit %.2e of the range at "
           "position %u, worst residual %.2e in %s layer %u; hash %s, %s\n",
           i, o.vector.source_count, o.vector.target_count, phasor_status_name(o.status),
           static_cast<double>(o.result.worst_logit), o.result.worst_position,
           static_cast<double>(o.result.worst_residual),
           o.result.worst_stack == 2 ? "encoder" : "decoder", o.result.worst_layer,
           hex(o.result.hash).c_str(), hash_note(o));
  output(line);
}

void add_json(Json* json, const Outcome& o) {
  json->open('{')
      .key("hash")
      .text(hex(o.result.hash).c_str())
      .key("worst_logit")
      .real(static_cast<double>(o.result.worst_logit));
  json->key("worst_position")
      .number(o.result.worst_position)
      .key("worst_residual")
      .real(static_cast<double>(o.result.worst_residual));
  json->key("worst_lead")
      .real(static_cast<double>(o.result.worst_lead))
      .key("argmax_differs")
      .number(o.result.argmax_differs)
      .key("tolerance")
      .real(static_cast<double>(o.vector.tolerance));
  json->key("status").text(phasor_status_name(o.status));
  if (!o.error.empty()) json->key("error").text(o.error.c_str());
  json->close('}');
}

int checked(const Engine& e, const Options& o) {
  phasor_error error = PHASOR_ERROR_INIT;
  if (phasor_model_check(e.model, &error) == PHASOR_OK) return 0;
  if (o.json) {
    Json json;
    json.open('{')
        .key("file")
        .text(e.path)
        .key("numerics")
        .number(phasor_numerics())
        .key("isa")
        .text(phasor_model_isa(e.model));
    json.key("vectors")
        .open('[')
        .close(']')
        .key("error")
        .text(error.text)
        .key("ok")
        .boolean(false)
        .close('}');
    output(json.str() + "\n");
  }
  e.fail(error);
  return 1;
}

}  // namespace

int verify(const Options& o) {
  Engine e;
  if (!o.texts.empty()) return usage_error("verify: unexpected argument %s", o.texts[0]);
  if (!e.open(o)) return 1;
  if (const int status = checked(e, o)) return status;
  if (!e.start(limits_for_vectors(e, o))) return 1;
  const uint32_t count = phasor_vector_count(e.model);
  uint32_t failed = 0;
  std::string first;
  Json json;
  json.open('{')
      .key("file")
      .text(e.path)
      .key("numerics")
      .number(phasor_numerics())
      .key("isa")
      .text(phasor_model_isa(e.model))
      .key("vectors")
      .open('[');
  for (uint32_t i = 0; i < count; ++i) {
    const Outcome out = replay(e, i);
    if (out.status != PHASOR_OK && failed++ == 0)
      first = "test vector " + std::to_string(i) + ": " + out.error;
    if (o.json)
      add_json(&json, out);
    else if (!o.quiet)
      print_text(i, out);
  }
  json.close(']').key("ok").boolean(failed == 0).close('}');
  if (o.json) output(json.str() + "\n");
  if (!e.file.unchanged()) return 1;
  if (failed != 0)
    return data_error("%s: %s (%u of %u test vectors differ, %s)", e.path, first.c_str(), failed,
                      count, phasor_model_isa(e.model));
  if (!o.json)
    output(std::string(e.path) + ": ok, structure, checksums and weights" +
           (count != 0 ? ", " + std::to_string(count) + " test vector" + (count == 1 ? "" : "s")
                       : std::string(", no test vectors")) +
           ", " + phasor_model_isa(e.model) + "\n");
  return 0;
}

}  // namespace cli
