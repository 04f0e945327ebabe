// cli: `phasor quantize`. The same model with its matrices in another type, and its test vectors
// with the hashes and the tolerance of that type: the converter's bytes. The file is made in a
// mapping of its own beside its place.
#include <math.h>
#include <string.h>

#include <algorithm>

#include "commands.h"
#include "engine.h"
#include "npy.h"
#include "text.h"

namespace cli {
namespace {

constexpr float kAnyDifference = 1e9f;  // a tolerance under which every vector runs to its end

struct Replayed {
  std::vector<uint64_t> hashes;
  float worst_logit = 0, worst_residual = 0, worst_lead = 0;
  uint32_t positions = 0, argmax_differs = 0;
};

// Runs the vectors of the file at `data`.
bool replay_all(const char* name, const void* data, size_t bytes, const Options& o, Replayed* out) {
  Engine e;
  if (!e.open_bytes(name, data, bytes, o.isa) || !e.start(limits_for_vectors(e, o))) return false;
  for (uint32_t i = 0; i < phasor_vector_count(e.model); ++i) {
    phasor_vector_result r{};
    r.struct_size = sizeof r;
    phasor_error error = PHASOR_ERROR_INIT;
    if (phasor_vector_run(e.session, i, &r, &error) != PHASOR_OK) return e.fail(error);
    out->hashes.push_back(r.hash);
    out->worst_logit = std::max(out->worst_logit, r.worst_logit);
    out->worst_residual = std::max(out->worst_residual, r.worst_residual);
    out->worst_lead = std::max(out->worst_lead, r.worst_lead);
    out->argmax_differs += r.argmax_differs;
    const phasor_vector v = vector_at(e, i);
    out->positions += v.target_count != 0 ? v.target_count : v.source_count;
  }
  return true;
}

bool record(const char* name, void* data, size_t bytes, const Options& o, const uint64_t* hashes,
            float tolerance) {
  Engine e;
  phasor_error error = PHASOR_ERROR_INIT;
  return e.open_bytes(name, data, bytes, o.isa) &&
         (phasor_vector_record(e.model, data, hashes, tolerance, &error) == PHASOR_OK ||
          e.fail(error));
}

// The tolerance of the type, as tools/phasor/vectors.py has it: twice what its rounding does to the
// vectors, and at least that of the exact weights.
float tolerance_of(float exact, const Replayed& r) {
  return std::max(std::max(exact, r.worst_lead), 2 * std::max(r.worst_logit, r.worst_residual));
}

bool all_f32(const Options& o) {
  return strcmp(o.type, "f32") == 0 &&
         (o.output_type == nullptr || strcmp(o.output_type, "f32") == 0);
}

bool renew_vectors(const char* name, NewMapping& out, const Engine& in, const Options& o,
                   Replayed* r) {
  if (phasor_vector_count(in.model) == 0) return true;
  const float exact = vector_at(in, 0).tolerance;
  if (!record(name, out.data(), out.bytes(), o, nullptr, kAnyDifference) ||
      !replay_all(name, out.data(), out.bytes(), o, r))
    return false;
  return record(name, out.data(), out.bytes(), o, r->hashes.data(),
                all_f32(o) ? exact : tolerance_of(exact, *r));
}

void print_report(const char* name, size_t bytes, const phasor_rounding* rounding,
                  const Replayed& r) {
  output(std::string(name) + ": " + grouped(bytes) + " bytes\n");
  for (uint32_t i = 0; i < PHASOR_TYPES; ++i) {
    const phasor_rounding& t = rounding[i];
    char line[240];
    if (t.bytes == 0) continue;
    if (t.tensor == nullptr)
      snprintf(line, sizeof line, "  %-4s %12s bytes   stored exactly\n", t.type,
               grouped(t.bytes).c_str());
    else
      snprintf(line, sizeof line,
               "  %-4s %12s bytes   largest rounding error %.3g (%.3f%% of its tensor's largest "
               "value), in %s\n",
               t.type, grouped(t.bytes).c_str(), static_cast<double>(t.largest),
               static_cast<double>(t.share) * 100, t.tensor);
    output(line);
  }
  if (r.hashes.empty()) return;
  char line[200];
  snprintf(line, sizeof line,
           "  test vectors: a logit differs by at most %.3g of its position's range from the exact "
           "weights' in float64; another token is the best at %u of %u positions\n",
           static_cast<double>(r.worst_logit), r.argmax_differs, r.positions);
  output(line);
}

}  // namespace

int quantize(const Options& given) {
  Options o = given;
  o.check = true;  // damage is not copied
  if (o.texts.size() != 1) return usage_error("quantize: expected two files, IN and OUT");
  if (o.type == nullptr)
    return usage_error("quantize: expected --type, one of f32, f16, bf16, q8 and q4");
  const char* name = o.texts[0];
  std::vector<float> moments;
  if (o.moments != nullptr && !read_npy(o.moments, &moments)) return 1;
  Engine in;
  if (!in.open(o)) return 1;
  phasor_quantize_options options = PHASOR_QUANTIZE_OPTIONS_INIT;
  options.type = o.type;
  options.output_type = o.output_type;
  options.moments = o.moments != nullptr ? moments.data() : nullptr;
  options.moment_count = moments.size();
  phasor_error error = PHASOR_ERROR_INIT;
  size_t bytes = 0;
  if (phasor_quantize_size(&bytes, in.file.data(), in.file.bytes(), &options, &error) != PHASOR_OK)
    return in.fail(error), 1;
  NewMapping out;
  phasor_rounding rounding[PHASOR_TYPES];
  Replayed replayed;
  if (!out.open(name, bytes)) return 1;
  if (phasor_quantize(out.data(), bytes, rounding, in.file.data(), in.file.bytes(), &options,
                      &error) != PHASOR_OK)
    return in.fail(error), 1;
  if (!renew_vectors(name, out, in, o, &replayed) || !in.file.unchanged()) return 1;
  if (!o.quiet) print_report(name, bytes, rounding, replayed);
  return output_flush() && out.commit() ? 0 : 1;
}

}  // namespace cli
