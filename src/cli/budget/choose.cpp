#include "choose.h"

#include <string.h>

#include "../engine/wording.h"

namespace cli {
namespace {

// Types whose inputs are rounded in groups, so that a matrix's own rounding says what it costs.
// Types with a scale for each row are for speed, not for size. With room for all matrices in q8
// no smaller type is wanted, and without it no larger one.
constexpr const char *kMiddle = "q8", *kAbove = "f16";
constexpr const char* kBelow[] = {"q4", "q4k", "q4m", "q4t"};
constexpr double kWorthWhile = 0.0005;  // divergence by which inputs of 16 bits must be better
constexpr uint64_t kAlign = 64;

uint64_t padded(uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

struct File {
  Block block;
  size_t bytes = 0;
};

// One way to store a matrix.
struct Way {
  const char* type;
  uint64_t bytes;
  double harm;
};

struct Matrix {
  uint32_t tensor;
  string name;
  uint64_t offset, bytes;  // in f32
  vector<Way> all, ways;  // in the order of measurement; the hull
  size_t chosen = 0;
};

// Ways on the lower convex hull of (bytes, harm), from the smallest on: what a further byte brings
// falls from each to the next.
vector<Way> hull(vector<Way> ways) {
  std::sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.harm < b.harm;
  });
  const auto gain = [](const Way& a, const Way& b) {
    return (a.harm - b.harm) / double(b.bytes - a.bytes);
  };
  vector<Way> out;
  for (const Way& way : ways) {
    if (!out.empty() && (way.harm >= out.back().harm || way.bytes == out.back().bytes)) continue;
    while (out.size() > 1 && gain(out.back(), way) >= gain(out[out.size() - 2], out.back()))
      out.pop_back();
    out.push_back(way);
  }
  return out;
}

class Search {
 public:
  Search(const Wanted& wanted, const void* file, size_t bytes)
      : w_(wanted), file_(file), bytes_(bytes) {}

  bool run(Choices* out) {
    phasor_quantize_options f32 = options("f32");
    if (!convert(f32, file_, bytes_, &work_)) return false;
    Engine reader;
    for (Engine* e : {&reader, &exact_})
      if (!e->open_bytes(w_.name, work_.block.data(), work_.bytes, w_.isa)) return false;
    if (!probe_.read(&reader, w_.text, w_.threads) ||
        !exact_.start(probe_.limits(exact_, w_.threads)) || !probe_.keep(&exact_))
      return false;
    return measure_ways() && allot() && compare(out);
  }

 private:
  phasor_quantize_options options(const char* type) const {
    phasor_quantize_options out = PHASOR_QUANTIZE_OPTIONS_INIT;
    out.type = type;
    out.moments = w_.moments;
    out.moment_count = w_.moment_count;
    return out;
  }
  bool fail() {
    return data_error("%s: %s", w_.name, error_.text), false;
  }
  bool no_memory(uint64_t bytes) const {
    return data_error("%s: no memory for its %s bytes", w_.name, grouped(bytes).c_str()), false;
  }
  // False: a line says why; or *refused, where that is given and the library does not convert.
  bool convert(const phasor_quantize_options& options, const void* file, size_t bytes, File* out,
               bool* refused = nullptr) {
    if (phasor_quantize_size(&out->bytes, file, bytes, &options, &error_) != PHASOR_OK)
      return fail();
    if (!out->block.allocate(out->bytes)) return no_memory(out->bytes);
    const bool done = phasor_quantize(out->block.data(), out->bytes, nullptr, 0, file, bytes,
                                      &options, &error_) == PHASOR_OK;
    if (!done && refused != nullptr) return *refused = true, false;
    return done || fail();
  }

  static phasor_tensor tensor_at(const Engine& e, uint32_t i) {
    auto tensor = sized<phasor_tensor>();
    (void)phasor_tensor_get(e.model, i, &tensor);
    return tensor;
  }

  // `other` has its matrices, and nothing else, in another type than f32.
  void list_matrices(const Engine& other) {
    for (uint32_t i = 0; i < phasor_tensor_count(exact_.model); ++i) {
      const phasor_tensor tensor = tensor_at(exact_, i);
      types_.push_back(nullptr);
      if (strcmp(tensor.type, tensor_at(other, i).type) == 0) continue;
      matrices_.push_back({i, tensor_label(tensor), tensor.offset, tensor.bytes, {}, {}, 0});
    }
  }

  // False where a matrix is quantized already: a line says so.
  bool list_candidates(vector<const char*>* out) {
    const auto fits = [this](const char* type, bool* fit) {
      size_t bytes = 0;
      const phasor_quantize_options to = options(type);
      if (phasor_quantize_size(&bytes, file_, bytes_, &to, &error_) != PHASOR_OK) return fail();
      *fit = bytes <= w_.bytes;
      return true;
    };
    bool middle = false, above = false, below = false;
    if (!fits(kMiddle, &middle) || !fits(kBelow[0], &below) || !fits(kAbove, &above)) return false;
    out->push_back(kMiddle);
    if (!middle) out->insert(out->end(), std::begin(kBelow), std::end(kBelow));
    if (middle || above) out->push_back(kAbove);
    return true;
  }

  // What each matrix costs in each type: it alone, in the exact weights, has the type's values.
  bool measure_ways() {
    unsigned char* const weights = static_cast<unsigned char*>(work_.block.data());
    vector<const char*> candidates;
    if (!list_candidates(&candidates)) return false;
    size_t done = 0;
    for (const char* type : candidates) {
      File made, rounded;
      const phasor_quantize_options to = options(type), back = options("f32");
      bool refused = false;  // a weight is too large for the type
      if (!convert(to, file_, bytes_, &made, &refused) && !refused) return false;
      if (refused && matrices_.empty()) return fail();
      done += refused ? matrices_.size() : 0;
      if (refused) continue;
      Engine sizes;
      if (!sizes.open_bytes(w_.name, made.block.data(), made.bytes, w_.isa)) return false;
      if (!convert(back, made.block.data(), made.bytes, &rounded)) return false;
      if (matrices_.empty()) list_matrices(sizes);
      uniform_.push_back({type, made.bytes, 0});
      const size_t all = matrices_.size() * candidates.size();
      const auto* values = static_cast<const unsigned char*>(rounded.block.data());
      vector<unsigned char> kept;
      for (Matrix& m : matrices_) {
        if (!w_.quiet) progress(format("measuring matrix %zu of %zu", ++done, all), true);
        unsigned char* const at = weights + m.offset;
        kept.assign(at, at + m.bytes);
        memcpy(at, values + m.offset, kept.size());
        double harm = 0;
        const bool measured = probe_.measure(&exact_, &harm);
        memcpy(at, kept.data(), kept.size());
        if (!measured) return false;
        m.all.push_back({type, tensor_at(sizes, m.tensor).bytes, harm});
      }
    }
    for (Matrix& m : matrices_) {
      m.all.push_back({"f32", m.bytes, 0});
      m.ways = hull(m.all);
    }
    return true;
  }

  // The smallest way of each, then the step that brings most for its bytes, as long as it fits
  // (the continuous knapsack's order: Dantzig 1957).
  bool allot() {
    uint64_t total = work_.bytes;  // padded tensors, and what is no matrix
    for (const Matrix& m : matrices_) total += padded(m.ways[0].bytes) - padded(m.bytes);
    if (total > w_.bytes)
      return data_error("--bytes %s: the smallest file of this model has %s bytes",
                        grouped(w_.bytes).c_str(), grouped(total).c_str()),
             false;
    struct Step {
      double gain;
      size_t matrix, way;
    };
    vector<Step> steps;
    for (size_t i = 0; i < matrices_.size(); ++i)
      for (size_t k = 1; k < matrices_[i].ways.size(); ++k) {
        const Way &a = matrices_[i].ways[k - 1], &b = matrices_[i].ways[k];
        steps.push_back({(a.harm - b.harm) / double(b.bytes - a.bytes), i, k});
      }
    std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
      if (a.gain != b.gain) return a.gain > b.gain;
      return a.matrix != b.matrix ? a.matrix < b.matrix : a.way < b.way;
    });
    for (const Step& step : steps) {
      Matrix& m = matrices_[step.matrix];
      if (m.chosen + 1 != step.way) continue;  // a step before it did not fit
      const uint64_t more = padded(m.ways[step.way].bytes) - padded(m.ways[m.chosen].bytes);
      if (total + more > w_.bytes) continue;
      total += more;
      m.chosen = step.way;
    }
    return true;
  }

  // The divergence of a file as it is, with inputs of so many bits.
  bool measure_file(const vector<const char*>* types, const char* type, uint32_t inputs,
                    double* out) {
    phasor_quantize_options to = options(type);
    to.inputs = inputs;
    if (types != nullptr) to.types = types->data(), to.type_count = count_of(*types);
    File made;
    if (!convert(to, file_, bytes_, &made)) return false;
    Engine e;
    return e.open_bytes(w_.name, made.block.data(), made.bytes, w_.isa) &&
           e.start(probe_.limits(e, w_.threads)) && probe_.measure(&e, out);
  }

  // With the inputs that are asked for, or those of 8 bits unless 16 are better by what counts.
  bool measure_inputs(const vector<const char*>* types, const char* type, bool quantized,
                      uint32_t* inputs, double* out) {
    *inputs = !quantized ? 0 : w_.inputs != 0 ? w_.inputs : 8;
    if (!measure_file(types, type, *inputs, out)) return false;
    double wide = 0;
    if (!quantized || w_.inputs != 0) return true;
    if (!measure_file(types, type, 16, &wide)) return false;
    if (*out - wide > kWorthWhile) *out = wide, *inputs = 16;
    return true;
  }

  // The choice beside every type that all matrices may have in a file of that size: the best is
  // taken.
  bool compare(Choices* out) {
    const auto floats = [](const char* type) { return type[0] == 'f'; };
    bool quantized = false;
    for (const Matrix& m : matrices_) {
      types_[m.tensor] = m.ways[m.chosen].type;
      quantized = quantized || !floats(m.ways[m.chosen].type);
    }
    if (!w_.quiet) progress("measuring the file", true);
    if (!measure_inputs(&types_, "f32", quantized, &out->inputs, &out->divergence)) return false;
    string others;
    const char* best = nullptr;
    for (const Way& way : uniform_) {
      if (way.bytes > w_.bytes) continue;
      uint32_t inputs = 0;
      double divergence = 0;
      if (!measure_inputs(nullptr, way.type, !floats(way.type), &inputs, &divergence)) return false;
      others += format("%s%s %.3g", others.empty() ? "" : ", ", way.type, divergence);
      if (divergence < out->divergence)
        best = way.type, out->divergence = divergence, out->inputs = inputs;  // of one address
    }
    for (const Matrix& m : matrices_) {
      if (best != nullptr) types_[m.tensor] = best;
      for (const Way& way : m.all)
        if (way.type == types_[m.tensor])
          out->matrices.push_back({m.name, way.type, way.bytes, way.harm});
    }
    out->types = types_;
    out->measured = format("%s %.3g on %zu rows", probe_.unit(), out->divergence, probe_.rows());
    if (!others.empty()) out->measured += "; all matrices as " + others;
    if (best != nullptr) out->measured += string("; ") + best + " is taken";
    return true;
  }

  const Wanted& w_;
  const void* file_;
  size_t bytes_;
  File work_;
  Engine exact_;
  Probe probe_;
  phasor_error error_ = PHASOR_ERROR_INIT;
  vector<Matrix> matrices_;
  vector<Way> uniform_;
  vector<const char*> types_;
};

}  // namespace

bool choose_types(const Wanted& wanted, const void* file, size_t bytes, Choices* out) {
  return Search(wanted, file, bytes).run(out);
}

}  // namespace cli
