// cli: `phasor quantize`. The same model with its matrices in another type, and its test vectors
// with the hashes and the tolerance of that type: the converter's bytes. The file is made in
// memory.
#include <string.h>

#include "../budget/choose.h"
#include "../budget/record.h"
#include "../engine/types.h"
#include "../io/json.h"
#include "../io/npy.h"
#include "../io/sha256.h"
#include "commands.h"

namespace cli {
namespace {

struct QuantizeOptions : CommandLine, OpenOptions, BoardOptions {
  Choice type{"--type " TYPE_CHOICES, "Type of the matrices."};
  Choice output_type{"--output-type " TYPE_CHOICES,
                     "Type of the embeddings and the output matrix. Default: as --type."};
  Choice inputs{
      "--inputs 8|16|rotated",
      "Bits of the inputs of quantized matrices. 16 is nearly exact; prompts take "
      "longer. rotated: 8, rotated before they are rounded, of types in groups: " GROUP_TYPES
      ". Without --type: nothing else changes. Default: as the file has "
      "them."};
  InputFile moments{"--moments FILE.npy",
                    MOMENT_TYPES ": importance of each input, from tools/moments.py."};
  Number bytes{"--bytes SIZE",
               "Instead of --type: choose the type of each matrix by measurement, for a file of at "
               "most this size.",
               1, 0x1p40};
  Number flash{"--flash SIZE", "The same, with a board's flash: as inspect has it.", 1, 0x1p40};
  Number ram{"--ram SIZE",
             "Choose so that a session fits this much RAM, and the file too unless --flash is "
             "given; then with chunks of 16 unless --chunk is given.",
             1, 0x1p40};
  Real speed{"--tokens-per-second N",
             "Choose so that this machine makes at least so many, with these --threads. The time "
             "of each type is measured.",
             0, 1e9, true};
  InputFile text{"--text FILE", "Text to measure with. Default: the file's test vectors."};
  bool rotated() const { return inputs.given && strcmp(inputs.word, "rotated") == 0; }
  // Inputs alone: matrices stay as they are.
  bool same() const { return !type.given && limited() == nullptr && inputs.given && !rotated(); }
  const char* limited() const { return first_given(bytes, flash, ram, speed); }
  FlagGroups flags() {
    return {
        group("Types", type, output_type, inputs, moments),
        group("Best file within limits", bytes, flash, ram, speed, text),
        group("The session that --ram is for", context, source, cache, chunk, text_bytes, tables),
        group("Output", json, quiet), group("Memory and speed", threads, isa)};
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

// The record of the file that was made, from that of its source: how it was made, and how far it is
// from the float weights now.
bool renew_record(const char* name, const Block& made, size_t bytes, const QuantizeOptions& o,
                  const phasor_rounding* rounding) {
  bool rounded = false, weighed = false;
  for (uint32_t i = 0; i < PHASOR_TYPES; ++i)
    if (rounding[i].tensor != nullptr) {
      rounded = true;
      for (const char* type : {WEIGHED_TYPES})
        weighed = weighed || (o.moments != nullptr && strcmp(type, rounding[i].type) == 0);
    }
  Engine e;
  auto record = sized<phasor_record>();
  if (!e.open_bytes(name, made.data(), bytes, o.isa)) return false;
  if (!record_of(e, &record)) return true;
  string method(record.method, record.method_bytes);
  if (rounded) add_method(&method, "rounded");
  if (weighed) add_method(&method, "moments");
  if (o.limited() != nullptr) add_method(&method, "measured");
  Digest by{};
  const char* chosen_by = weighed ? o.moments.value : o.text.value;
  if (chosen_by != nullptr) {
    if (!sha256_of(chosen_by, &by)) return false;
    record.calibration = by.data();
  }
  record.method = method.data();
  record.method_bytes = count_of(method);
  record.numerics = record.rows != 0 ? phasor_numerics() : 0;
  return (record.rows == 0 ||
          (e.start(limits_for_vectors(e, o)) && measure_record(&e, record, &record.divergence))) &&
         (phasor_record_put(e.model, made.data(), &record, &e.error) == PHASOR_OK || e.fail());
}

// The tolerance of the type, as tools/phasor/vectors.py has it: twice what its rounding does to the
// vectors, and at least that of the exact weights.
float tolerance_of(float exact, const Replayed& r) {
  return max(max(exact, r.worst_lead), 2 * max(r.worst_logit, r.worst_residual));
}

bool all_f32(const QuantizeOptions& o) {
  return o.type.given && strcmp(o.type.word, "f32") == 0 &&
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

void print_report(const char* name, size_t bytes, const Choices& choices,
                  const phasor_rounding* rounding, const Replayed& replayed,
                  const QuantizeOptions& o) {
  string out;
  size_t widest = 0;
  for (const Chosen& one : choices.matrices) widest = max(widest, one.name.size());
  for (const Chosen& one : choices.matrices)
    out += "  " + one.name + string(widest - one.name.size(), ' ') +
           format("  %-4s %12s bytes  %.3g\n", one.type, grouped(one.bytes).c_str(), one.harm);
  out += format("%s: %s bytes\n", name, grouped(bytes).c_str());
  if (!choices.matrices.empty()) {
    out += "  " + choices.measured + "\n";
    if (choices.inputs != 0) out += format("  inputs of %u bits\n", choices.inputs);
    if (choices.seconds != 0)
      out += format("  %.1f tokens a second here, measured\n", 1 / choices.seconds);
    if (choices.fit.ram != 0)
      out += format("  a session takes %s bytes of RAM, with chunks of %u; %s are left beside %s\n",
                    grouped(choices.fit.needed).c_str(), choices.fit.limits.chunk,
                    grouped(choices.fit.ram - choices.fit.needed).c_str(),
                    o.flash.given ? "it" : "it and the file");
  }
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

void print_json(const char* name, size_t bytes, const Choices& choices,
                const phasor_rounding* rounding, const Replayed& replayed) {
  Json json;
  json.open('{').add("file", name).add("bytes", bytes);
  if (!choices.matrices.empty()) {
    json.add("divergence", choices.divergence).add("inputs", choices.inputs).open("matrices", '[');
    for (const Chosen& one : choices.matrices)
      json.open('{')
          .add("name", one.name)
          .add("type", one.type)
          .add("bytes", one.bytes)
          .add("harm", one.harm)
          .add("share", one.share)
          .close('}');
    json.close(']');
    if (choices.seconds != 0) json.add("tokens_per_second", 1 / choices.seconds);
    if (choices.fit.ram != 0)
      json.add("ram", choices.fit.ram)
          .add("ram_needed", choices.fit.needed)
          .add("chunk", choices.fit.limits.chunk);
  }
  json.open("types", '[');
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

// Refuses moments of other inputs than this file's matrices read, where their file's head says so
// (tools/phasor/moments.py): with other norms, biases or input scales the inputs are others.
bool read_moments(const Engine& e, const QuantizeOptions& o, vector<float>* out) {
  string comment;
  if (o.moments == nullptr) return true;
  if (!read_npy(o.moments, out, &comment)) return false;
  if (comment.empty()) return true;
  string digests;
  auto tensor = sized<phasor_tensor>();
  for (uint32_t i = 0; phasor_tensor_get(e.model, i, &tensor) == PHASOR_OK; ++i) {
    if (strcmp(tensor.layout, "vector") != 0) continue;
    const char* data = static_cast<const char*>(e.file.data()) + tensor.offset;
    const Digest digest = sha256(data, size_t(tensor.bytes));
    digests.append(digest.begin(), digest.end());
  }
  if (comment == "# vectors sha256 " + hex(sha256(digests.data(), digests.size()).data()))
    return true;
  return data_error(
             "%s: moments of other inputs: the norms, biases and input scales of the model that "
             "gave them are not those of %s. TRY: tools/moments.py with %s",
             o.moments.value, o.model, o.model),
         false;
}

// The type of each tensor as it is; NULL: no matrix.
vector<const char*> own_types(const Engine& e) {
  vector<const char*> types;
  auto tensor = sized<phasor_tensor>();
  for (uint32_t i = 0; phasor_tensor_get(e.model, i, &tensor) == PHASOR_OK; ++i)
    types.push_back(strcmp(tensor.layout, "vector") != 0 ? tensor.type : nullptr);
  return types;
}

// Flags that do not go together: the status, after a line; else 0.
int check_flags(const QuantizeOptions& o) {
  if (o.texts.size() != 1) return usage_error("quantize: expected two files, IN and OUT");
  const char* limited = o.limited();
  if (!o.type.given && limited == nullptr && !o.same())
    return usage_error("quantize: expected --bytes or --type, one of " TYPE_CHOICES);
  const char* beside = first_given(o.output_type, o.moments);
  if (o.same() && beside != nullptr) return usage_error("%s: needs --type", beside);
  const char* typed = first_given(o.type, o.output_type);
  const char* other = typed == nullptr && o.rotated() ? "--inputs rotated" : typed;
  if (limited != nullptr && other != nullptr)
    return usage_error("%s: does not go with %s", limited, other);
  if (o.text.given != nullptr && limited == nullptr)
    return usage_error("--text: needs --bytes, or another limit");
  const char* session = first_given(o.context, o.source, o.cache, o.chunk, o.text_bytes, o.tables);
  if (session != nullptr && !o.ram.given && !(o.cache.given && o.speed.given))
    return usage_error("%s: needs --ram", session);
  if (o.bytes.given && o.flash.given) return usage_error("--bytes: does not go with --flash");
  return 0;
}

int quantize(const QuantizeOptions& o) {
  if (const int status = check_flags(o)) return status;
  const char* limited = o.limited();
  const char* name = o.texts[0];
  vector<float> moments;
  Engine in;
  if (!in.open(o.model, o, Load::map) || !in.check()) return 1;  // damage is not copied
  if (!read_moments(in, o, &moments)) return 1;
  phasor_quantize_options options = PHASOR_QUANTIZE_OPTIONS_INIT;
  options.type = o.type.given ? o.type.word : "f32";
  options.output_type = o.output_type.word;
  const float none = 0;  // an array without values is given, too, and refused by its number
  if (o.moments != nullptr) options.moments = moments.empty() ? &none : moments.data();
  options.moment_count = moments.size();
  if (o.inputs.given) options.inputs = strcmp(o.inputs.word, "16") == 0 ? 16 : 8;
  options.rotated = o.rotated();
  const ReadFile& file = in.file;
  Choices choices;
  if (o.same()) {
    choices.types = own_types(in);
    options.types = choices.types.data();
    options.type_count = count_of(choices.types);
  }
  if (limited != nullptr) {
    for (const char* type : own_types(in))
      if (type != nullptr && strcmp(type, "f32") != 0 && strcmp(type, "f16") != 0 &&
          strcmp(type, "bf16") != 0)
        return data_error(
            "%s: has matrices of %s, and %s rounds none twice. TRY: the model in f32, as the "
            "converter's --type f32 makes it",
            o.model, type, limited);
    Wanted wanted{};
    wanted.name = o.model;
    wanted.bytes = o.flash.given ? o.flash.value : o.bytes.value;
    wanted.flag = o.flash.given ? "--flash" : "--bytes";
    wanted.ram = o.ram.value;
    wanted.resident = !o.flash.given;
    wanted.seconds = o.speed.given ? 1 / double{o.speed.value} : 0;
    wanted.board = &o;
    wanted.text = o.text.value;
    wanted.isa = o.isa;
    wanted.inputs = options.inputs;
    wanted.moments = options.moments;
    wanted.moment_count = options.moment_count;
    wanted.quiet = o.quiet;
    if (!choose_types(wanted, file.data(), file.bytes(), &choices)) return 1;
    options.types = choices.types.data();
    options.type_count = count_of(choices.types);
    options.inputs = choices.inputs;
  }
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
  if (!renew_vectors(name, made, bytes, in, o, &replayed) ||
      !renew_record(name, made, bytes, o, rounding) || !file.unchanged())
    return 1;
  // What is reported is on the disk; what cannot be reported does not take the file's name.
  if (!out.write(made.data(), bytes) || !out.finish()) return 1;
  progress("");
  if (o.json)
    print_json(name, bytes, choices, rounding, replayed);
  else if (!o.quiet)
    print_report(name, bytes, choices, rounding, replayed, o);
  return output_flush() && out.commit() ? 0 : 1;
}

}  // namespace

const Command quantize_command = command<QuantizeOptions, quantize>(
    "quantize", "IN OUT --type TYPE", "convert a model to another weight type",
    "Writes the same bytes as the converter with this --type. With limits instead of --type: the "
    "best file within all of them that measurement finds. A model that is already quantized "
    "converts only to f32. OUT is written whole or not at all.",
    "phasor quantize model.phasor small.phasor --type q8\n"
    "phasor quantize model.phasor small.phasor --flash 1M --ram 256K --context 64\n"
    "phasor quantize model.phasor small.phasor --bytes 90M --text sample.txt");

}  // namespace cli
