// cli: `phasor quantize`. The same model with its matrices in another type, and its test vectors
// with the hashes and the tolerance of that type: the converter's bytes. The file is made in
// memory.
#include <string.h>

#include "../engine/engine.h"
#include "../io/json.h"
#include "../io/npy.h"
#include "commands.h"
#include "types.h"

namespace cli {
namespace {

struct QuantizeOptions : CommandLine, OpenOptions, MemoryOptions {
  Choice type{"--type " TYPE_CHOICES, "Type of the matrices."};
  Choice output_type{"--output-type " TYPE_CHOICES,
                     "Type of the embeddings and the output matrix. Default: as --type."};
  Choice inputs{"--inputs 8|16",
                "Bits of the inputs of quantized matrices. 16 is nearly exact; prompts take "
                "longer. Default: as the file has them."};
  InputFile moments{"--moments FILE.npy",
                    "q8 and q4: importance of each input, from tools/moments.py."};
  FlagGroups flags() {
    return {group("Types", type, output_type, inputs, moments), group("Output", json, quiet),
            group("Memory and speed", threads, isa)};
  }
};

constexpr float kAnyDifference = 1e9f;  // a tolerance under which every vector runs to its end

struct Replayed {
  vector<uint64_t> hashes;
  float worst_logit = 0, worst_residual = 0, worst_lead = 0;
  uint32_t positions = 0, argmax_differs = 0;
};

// Runs the vectors of the file that was made.
bool replay_all(const char* name, const Block& made, size_t bytes, const QuantizeOptions& o,
                Replayed* out) {
  Engine e;
  if (!e.open_bytes(name, made.data(), bytes, o.isa) || !e.start(limits_for_vectors(e, o)))
    return false;
  const uint32_t count = phasor_vector_count(e.model);
  for (uint32_t i = 0; i < count; ++i) {
    if (!o.quiet) progress(format("test vector %u of %u", i + 1, count), true);
    auto one = sized<phasor_vector_result>();
    if (phasor_vector_run(e.session, i, &one, &e.error) != PHASOR_OK) return e.fail();
    out->hashes.push_back(one.hash);
    out->worst_logit = max(out->worst_logit, one.worst_logit);
    out->worst_residual = max(out->worst_residual, one.worst_residual);
    out->worst_lead = max(out->worst_lead, one.worst_lead);
    out->argmax_differs += one.argmax_differs;
    const phasor_vector vector = vector_at(e, i);
    out->positions += vector.target_count != 0 ? vector.target_count : vector.source_count;
  }
  return true;
}

bool record(const char* name, const Block& made, size_t bytes, const QuantizeOptions& o,
            const uint64_t* hashes, float tolerance) {
  Engine e;
  return e.open_bytes(name, made.data(), bytes, o.isa) &&
         (phasor_vector_record(e.model, made.data(), hashes, tolerance, &e.error) == PHASOR_OK ||
          e.fail());
}

// The tolerance of the type, as tools/phasor/vectors.py has it: twice what its rounding does to the
// vectors, and at least that of the exact weights.
float tolerance_of(float exact, const Replayed& r) {
  return max(max(exact, r.worst_lead), 2 * max(r.worst_logit, r.worst_residual));
}

bool all_f32(const QuantizeOptions& o) {
  return strcmp(o.type.word, "f32") == 0 &&
         (!o.output_type.given || strcmp(o.output_type.word, "f32") == 0);
}

bool renew_vectors(const char* name, const Block& made, size_t bytes, const Engine& in,
                   const QuantizeOptions& o, Replayed* replayed) {
  if (phasor_vector_count(in.model) == 0) return true;
  const float exact = vector_at(in, 0).tolerance;
  if (!record(name, made, bytes, o, nullptr, kAnyDifference) ||
      !replay_all(name, made, bytes, o, replayed))
    return false;
  return record(name, made, bytes, o, replayed->hashes.data(),
                all_f32(o) ? exact : tolerance_of(exact, *replayed));
}

void print_report(const char* name, size_t bytes, const phasor_rounding* rounding,
                  const Replayed& replayed) {
  string out = format("%s: %s bytes\n", name, grouped(bytes).c_str());
  for (uint32_t i = 0; i < PHASOR_TYPES; ++i) {
    const phasor_rounding& of = rounding[i];
    if (of.bytes == 0) continue;
    out += format("  %-4s %12s bytes   ", of.type, grouped(of.bytes).c_str());
    out +=
        of.tensor == nullptr
            ? "stored exactly\n"
            : format("largest rounding error %.3g (%.3f%% of its tensor's largest value), in %s\n",
                     of.largest, 100.0 * of.share, of.tensor);
  }
  if (!replayed.hashes.empty())
    out += format(
        "  test vectors: a logit differs by at most %.3g of its position's range from the exact "
        "weights' in float64; another token is the best at %u of %u positions\n",
        replayed.worst_logit, replayed.argmax_differs, replayed.positions);
  output(out);
}

void print_json(const char* name, size_t bytes, const phasor_rounding* rounding,
                const Replayed& replayed) {
  Json json;
  json.open('{').add("file", name).add("bytes", bytes).open("types", '[');
  for (uint32_t i = 0; i < PHASOR_TYPES; ++i) {
    const phasor_rounding& of = rounding[i];
    if (of.bytes == 0) continue;
    json.open('{').add("type", of.type).add("bytes", of.bytes);
    if (of.tensor != nullptr)
      json.add("largest_error", of.largest).add("share", of.share).add("tensor", of.tensor);
    json.close('}');
  }
  json.close(']').add("vectors", replayed.hashes.size());
  if (!replayed.hashes.empty())
    json.add("worst_logit", replayed.worst_logit)
        .add("argmax_differs", replayed.argmax_differs)
        .add("positions", replayed.positions);
  output(json.close('}').str() + "\n");
}

int quantize(const QuantizeOptions& o) {
  if (o.texts.size() != 1) return usage_error("quantize: expected two files, IN and OUT");
  if (!o.type.given)
    return usage_error(
        "quantize: expected --type, one of f32, f16, bf16, q8, q4, q8r, q8rh, q4m and "
        "q4k");
  const char* name = o.texts[0];
  vector<float> moments;
  if (o.moments != nullptr && !read_npy(o.moments, &moments)) return 1;
  Engine in;
  if (!in.open(o.model, o, Load::map) || !in.check()) return 1;  // damage is not copied
  phasor_quantize_options options = PHASOR_QUANTIZE_OPTIONS_INIT;
  options.type = o.type.word;
  options.output_type = o.output_type.word;
  const float none = 0;  // an array without values is given, too, and refused by its number
  if (o.moments != nullptr) options.moments = moments.empty() ? &none : moments.data();
  options.moment_count = moments.size();
  if (o.inputs.given) options.inputs = strcmp(o.inputs.word, "16") == 0 ? 16 : 8;
  const ReadFile& file = in.file;
  size_t bytes = 0;
  if (phasor_quantize_size(&bytes, file.data(), file.bytes(), &options, &in.error) != PHASOR_OK)
    return in.fail(), 1;
  NewFile out;
  Block made;
  if (!out.open(name)) return 1;
  if (!made.allocate(bytes))
    return data_error("%s: no memory for its %s bytes", name, grouped(bytes).c_str());
  if (!o.quiet) progress(format("quantizing, %s bytes", grouped(bytes).c_str()), true);
  phasor_rounding rounding[PHASOR_TYPES] = {};
  for (phasor_rounding& r : rounding) r.struct_size = sizeof r;
  if (phasor_quantize(made.data(), bytes, rounding, PHASOR_TYPES, file.data(), file.bytes(),
                      &options, &in.error) != PHASOR_OK)
    return in.fail(), 1;
  Replayed replayed;
  if (!renew_vectors(name, made, bytes, in, o, &replayed) || !file.unchanged()) return 1;
  // What is reported is on the disk; what cannot be reported does not take the file's name.
  if (!out.write(made.data(), bytes) || !out.finish()) return 1;
  progress("");
  if (o.json)
    print_json(name, bytes, rounding, replayed);
  else if (!o.quiet)
    print_report(name, bytes, rounding, replayed);
  return output_flush() && out.commit() ? 0 : 1;
}

}  // namespace

const Command quantize_command = command<QuantizeOptions, quantize>(
    "quantize", "IN OUT --type TYPE", "convert a model to another weight type",
    "Writes the same bytes as the converter with this --type. A model that is already quantized "
    "converts only to f32. OUT is written whole or not at all.",
    "phasor quantize model.phasor small.phasor --type q8\n"
    "phasor quantize model.phasor small.phasor --type q4 --output-type q8\n"
    "phasor quantize model.phasor small.phasor --type q8 --moments moments.npy");

}  // namespace cli
