// cli: `phasor verify`. Reads the whole file, then replays its test vectors on this machine.
#include <inttypes.h>

#include "../budget/record.h"
#include "../engine/engine.h"
#include "../io/json.h"
#include "commands.h"

namespace cli {
namespace {

struct VerifyOptions : CommandLine, OpenOptions, MemoryOptions {
  FlagGroups flags() {
    return {group("Output", json, quiet), group("Memory and speed", threads, isa)};
  }
};

struct Outcome {
  phasor_vector vector = sized<phasor_vector>();
  phasor_vector_result result = sized<phasor_vector_result>();
  phasor_status status = PHASOR_OK;
  string hash, error;
};

Outcome replay(const Engine& e, uint32_t index) {
  Outcome out;
  out.vector = vector_at(e, index);
  out.status = phasor_vector_run(e.session, index, &out.result, &e.error);
  out.hash = format("%016" PRIx64, out.result.hash);
  (void)e.done(out.status, &out.error);
  return out;
}

// What the recorded hash says: nothing where none is recorded or under other rules of arithmetic.
const char* hash_note(const Outcome& o) {
  if (o.vector.hash == 0) return "not recorded";
  if (o.vector.numerics != phasor_numerics()) return "of other numerics";
  return o.vector.hash == o.result.hash ? "as recorded" : "NOT as recorded";
}

void print_text(uint32_t index, const Outcome& o) {
  const phasor_vector_result& r = o.result;
  output(
      format("vector %u: %u source and %u target tokens: %s; worst logit %.2e of the range at "
             "position %u, worst residual %.2e in %s layer %u; hash %s, %s\n",
             index, o.vector.source_count, o.vector.target_count, phasor_status_name(o.status),
             r.worst_logit, r.worst_position, r.worst_residual,
             r.worst_stack == kEncoder ? "encoder" : "decoder", r.worst_layer, o.hash.c_str(),
             hash_note(o)));
}

void add_json(Json* json, const Outcome& o) {
  json->open('{')
      .add("hash", o.hash)
      .add("worst_logit", o.result.worst_logit)
      .add("worst_position", o.result.worst_position)
      .add("worst_residual", o.result.worst_residual)
      .add("worst_lead", o.result.worst_lead)
      .add("argmax_differs", o.result.argmax_differs)
      .add("tolerance", o.vector.tolerance)
      .add("status", phasor_status_name(o.status));
  if (!o.error.empty()) json->add("error", o.error);
  json->close('}');
}

// The divergence of the record again. False after an error; *differs says where it is another one.
bool check_record(Engine* e, const VerifyOptions& o, Json* json, string* differs) {
  auto record = sized<phasor_record>();
  if (!record_of(*e, &record) || record.rows == 0) return true;
  float found = 0;
  if (!measure_record(e, record, &found)) return false;
  json->add("divergence", found);
  const bool same = found == record.divergence;
  const char* note = record.numerics == 0                   ? "not recorded"
                     : record.numerics != phasor_numerics() ? "of other numerics"
                     : same                                 ? "as recorded"
                                                            : "NOT as recorded";
  if (!o.json && !o.quiet)
    output(format("record: divergence %.3g from the source, %s\n", double{found}, note));
  if (record.numerics == phasor_numerics() && !same)
    *differs = format("the divergence from the source is %.9g, the record has %.9g", double{found},
                      double{record.divergence});
  return true;
}

int verify(const VerifyOptions& o) {
  Engine e;
  if (!e.open(o.model, o, Load::map)) return 1;
  Json json;
  json.open('{')
      .add("file", e.path)
      .add("numerics", phasor_numerics())
      .add("isa", phasor_model_isa(e.model))
      .open("vectors", '[');
  if (phasor_model_check(e.model, &e.error) != PHASOR_OK) {
    json.close(']').add("error", e.said()).add("ok", false).close('}');
    if (o.json) output(json.str() + "\n");
    return e.fail(), 1;
  }
  if (!e.start(limits_for_vectors(e, o))) return 1;
  const uint32_t count = phasor_vector_count(e.model);
  uint32_t failed = 0;
  string first;
  for (uint32_t i = 0; i < count; ++i) {
    const Outcome out = replay(e, i);
    if (out.status != PHASOR_OK && failed++ == 0) first = format("test vector %u: ", i) + out.error;
    if (o.json)
      add_json(&json, out);
    else if (!o.quiet)
      print_text(i, out);
  }
  json.close(']');
  if (failed == 0 && !check_record(&e, o, &json, &first)) return 1;
  const bool ok = first.empty();
  json.add("proof", proof_of(e)).add("ok", ok).close('}');
  if (o.json) output(json.str() + "\n");
  if (!e.file.unchanged()) return 1;
  if (failed != 0)
    return data_error("%s: %s (%u of %u test vectors differ, %s)", e.path, first.c_str(), failed,
                      count, phasor_model_isa(e.model));
  if (!ok) return data_error("%s: %s. TRY: convert it again", e.path, first.c_str());
  const string vectors = count == 0   ? "no test vectors"
                         : count == 1 ? format("1 test vector %s", proof_of(e))
                                      : format("%u test vectors %s", count, proof_of(e));
  if (!o.json)
    output(format("%s: ok, structure, checksums and weights, %s, %s\n", e.path, vectors.c_str(),
                  phasor_model_isa(e.model)));
  return 0;
}

}  // namespace

const Command verify_command = command<VerifyOptions, verify>(
    "verify", "MODEL", "check a file: structure, checksums, weights and test vectors",
    "Exit status 1 if the file is damaged or a test vector gives a different result.",
    "phasor verify model.phasor\n"
    "phasor verify model.phasor --isa scalar\n"
    "phasor verify model.phasor --json");

}  // namespace cli
