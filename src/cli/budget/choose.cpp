#include "choose.h"

#include <string.h>

#include "../engine/pass.h"
#include "../engine/roles.h"
#include "../engine/types.h"
#include "../engine/wording.h"
#include "ways.h"

namespace cli {
namespace {

// Types whose inputs are rounded in groups, so that a matrix's own rounding says what it costs.
// Types with a scale for each row are for speed, not for size. With room for all matrices in q8
// no smaller type is wanted but for matrices that have its values, as those of a file that was
// quantized before; without that room no larger one.
constexpr const char *kMiddle = "q8", *kAbove = "f16";
constexpr const char* kBelow[] = {SMALL_TYPES};
constexpr double kWorthWhile = 0.0005;  // divergence by which inputs of 16 bits must be better
constexpr uint64_t kAtOnce = uint64_t{1} << 27;
constexpr uint32_t kChunk = 16;  // of a session that shares its RAM with the weights
constexpr int kTries = 4;  // choices until one is measured to be fast and small enough

struct File {
  Block block;
  size_t bytes = 0;
  File() = default;
  File(File&& other) noexcept { take(&other); }
  void take(File* other) {
    block.swap(&other->block);
    std::swap(bytes, other->bytes);
  }
};

struct Matrix {
  uint32_t tensor;
  string name;
  uint64_t offset, bytes;  // in f32
  double share;            // of a token's products
  vector<Way> all;         // in the order of measurement
  size_t chosen = 0;       // of them
};

// A type to measure each matrix in; the file of all in it, and its time, once they were needed.
struct Candidate {
  const char* type;
  File made{};
  double seconds = 0;
};

// All matrices in one type.
struct Uniform {
  const char* type;
  uint64_t bytes;
  double seconds;
};

// What a file was measured to be.
struct Measured {
  double divergence = 0, seconds = 0;
  Fit fit;
  uint32_t inputs = 0;
  bool meets = true;  // what is wanted of memory and speed
};

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
    if (!probe_.read(&reader, w_.text, w_.board->threads) ||
        !exact_.start(probe_.limits(exact_, w_.board->threads)) || !probe_.keep(&exact_) ||
        !set_room() || !measure_ways())
      return false;
    Measured is;
    if (!allot()) return no_choice();
    for (int tries = 1;; ++tries) {
      if (!measure_choice(&is)) return false;
      if (is.meets || tries == kTries) break;
      tighten(is);
      if (!allot()) break;
    }
    return compare(is, out);
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

  // Whether a token's products have all of a matrix: not the encoder of a model that has a decoder,
  // nor a table of rows.
  bool in_token(const phasor_tensor& tensor) const {
    if (strcmp(tensor.layout, "panel16") != 0) return false;
    if (!exact_.has_target())
      return tensor.stack == kEncoder || (tensor.stack == kSource && tensor.role != kRoleEmbedding);
    return tensor.stack == kOutput || tensor.stack == kTarget || tensor.role == kRoleEmbedding ||
           (tensor.stack == kDecoder && tensor.role != kRoleCrossKv);  // which a source needs once
  }

  // `other` has its matrices, and nothing else, in another type than f32.
  void list_matrices(const Engine& other) {
    double products = 0;
    for (uint32_t i = 0; i < phasor_tensor_count(exact_.model); ++i) {
      const phasor_tensor tensor = tensor_at(exact_, i);
      types_.push_back(nullptr);
      if (strcmp(tensor.type, tensor_at(other, i).type) == 0) continue;
      const double weights = in_token(tensor) ? double(tensor.rows) * double(tensor.cols) : 0;
      products += weights;
      matrices_.push_back(
          {i, tensor_label(tensor), tensor.offset, tensor.bytes, weights, {}, 0});
    }
    for (Matrix& m : matrices_) m.share /= max(products, 1.0);
  }

  // The bytes that the file may have: at most --bytes, and what a session leaves if both are in
  // RAM. Its chunks are smaller where not even the smallest file fits otherwise.
  bool set_room() {
    room_ = w_.bytes != 0 ? w_.bytes : UINT64_MAX;
    seconds_ = w_.seconds;
    if (check_sides(exact_, *w_.board) != 0) return false;
    limits_ = board_limits(exact_, *w_.board);
    if (w_.ram == 0 || !w_.resident) return true;
    if (w_.board->chunk == 0 && limits_.chunk > kChunk) limits_.chunk = kChunk;
    Fit f;
    for (const uint32_t inputs : {16u, 8u}) {  // the smallest file's
      if (w_.inputs != 0 && w_.inputs != inputs) continue;
      phasor_quantize_options to = options(kBelow[0]);
      to.inputs = inputs;
      File made;
      Engine e;
      if (!convert(to, file_, bytes_, &made) ||
          !e.open_bytes(w_.name, made.block.data(), made.bytes, w_.isa) ||
          !fit(e, limits_, w_.ram - min<uint64_t>(made.bytes, w_.ram - 1), 0, &f))
        return false;
      if (f.ram_fits) break;
    }
    limits_ = f.limits;
    const uint64_t own = f.needed + kStackBytes;
    room_ = min(room_, w_.ram - min(own, w_.ram - 1));
    return true;
  }

  // All matrices in the candidate's type, and the time of that file. False: a line says why, or
  // *refused: a weight is too large for the type.
  bool make_whole(Candidate* c, bool* refused) {
    return convert(options(c->type), file_, bytes_, &c->made, refused) &&
           time(c->made, &c->seconds);
  }

  // Measures how fast a file is, where that counts.
  bool time(const File& made, double* seconds) {
    *seconds = 0;
    if (w_.seconds == 0) return true;
    Engine e;
    return e.open_bytes(w_.name, made.block.data(), made.bytes, w_.isa) &&
           seconds_of_token(&e, w_.board->threads, w_.board->cache, seconds);
  }

  // Whether the file of a candidate is within what is wanted. False where a matrix is quantized
  // already: a line says so.
  bool fits(Candidate* c, bool* fit) {
    const phasor_quantize_options to = options(c->type);
    size_t bytes = 0;
    if (phasor_quantize_size(&bytes, file_, bytes_, &to, &error_) != PHASOR_OK) return fail();
    *fit = bytes <= room_;
    if (!*fit || w_.seconds == 0) return true;
    bool refused = false;
    if (make_whole(c, &refused)) return *fit = c->seconds <= w_.seconds, true;
    File().take(&c->made);
    return *fit = false, refused;
  }

  bool list_candidates(vector<Candidate>* out) {
    Candidate middle{kMiddle}, above{kAbove};
    if (!fits(&middle, &exact_below_)) return false;
    bool larger = exact_below_;
    if (!larger && !fits(&above, &larger)) return false;
    out->push_back(std::move(middle));
    for (const char* type : kBelow) out->push_back({type});
    if (larger) out->push_back(std::move(above));
    return true;
  }

  // What each matrix costs in each type: it alone, in the exact weights, has the type's values.
  bool measure_ways() {
    vector<Candidate> candidates;
    if (!list_candidates(&candidates)) return false;
    size_t done = 0;
    for (Candidate& listed : candidates) {
      Candidate c = std::move(listed);  // whose memory is free behind this turn
      bool refused = false;
      if (c.made.bytes == 0 && !make_whole(&c, &refused) && !refused) return false;
      if (refused && matrices_.empty()) return fail();
      done += refused ? matrices_.size() : 0;
      if (refused) continue;
      Engine sizes;
      if (!sizes.open_bytes(w_.name, c.made.block.data(), c.made.bytes, w_.isa)) return false;
      if (matrices_.empty()) list_matrices(sizes);
      const bool all_have_it = !exact_below_ || c.type == kMiddle || floats(c.type);
      if (all_have_it) uniform_.push_back({c.type, c.made.bytes, c.seconds});
      const size_t all = matrices_.size() * candidates.size();
      for (size_t first = 0; first < matrices_.size();)
        if (!measure_some(c, sizes, all_have_it, all, &first, &done)) return false;
    }
    double seconds = 0;
    if (!time(work_, &seconds)) return false;
    for (Matrix& m : matrices_) m.all.push_back({"f32", m.bytes, 0, m.share * seconds});
    return true;
  }

  // Some matrices from *first on: no more than kAtOnce bytes have their values in f32. `every`: not
  // only those whose values the type keeps, which need no measurement.
  bool measure_some(const Candidate& c, const Engine& sizes, bool every, size_t all, size_t* first,
                    size_t* done) {
    unsigned char* const weights = static_cast<unsigned char*>(work_.block.data());
    phasor_quantize_options back = options(c.type);
    vector<const char*> types = types_;
    for (const Matrix& m : matrices_) types[m.tensor] = c.type;
    size_t last = *first;
    uint64_t bytes = 0;
    do {
      types[matrices_[last].tensor] = "f32";
      bytes += matrices_[last++].bytes;
    } while (last < matrices_.size() && bytes + matrices_[last].bytes <= kAtOnce);
    back.types = types.data();
    back.type_count = count_of(types);
    File rounded;
    Engine values;
    if (!convert(back, c.made.block.data(), c.made.bytes, &rounded) ||
        !values.open_bytes(w_.name, rounded.block.data(), rounded.bytes, w_.isa))
      return false;
    const auto* from = static_cast<const unsigned char*>(rounded.block.data());
    vector<unsigned char> kept;
    for (; *first < last; ++*first) {
      Matrix& m = matrices_[*first];
      if (!w_.quiet) progress(format("measuring matrix %zu of %zu", ++*done, all), true);
      unsigned char* const at = weights + m.offset;
      const unsigned char* const now = from + tensor_at(values, m.tensor).offset;
      double harm = 0;
      if (memcmp(at, now, size_t(m.bytes)) != 0) {
        if (!every) continue;
        kept.assign(at, at + m.bytes);
        memcpy(at, now, kept.size());
        const bool measured = probe_.measure(&exact_, &harm);
        memcpy(at, kept.data(), kept.size());
        if (!measured) return false;
      }
      m.all.push_back({c.type, tensor_at(sizes, m.tensor).bytes, harm, m.share * c.seconds});
    }
    return true;
  }

  // The choice of least harm. False: the cheapest ways do not fit.
  bool allot() {
    vector<vector<Way>> ways;
    Room room{work_.bytes, work_.bytes, room_, seconds_};
    for (const Matrix& m : matrices_) {
      ways.push_back(m.all);
      room.fixed -= padded(m.bytes);
    }
    vector<Way> chosen;
    if (!cli::allot(ways, room, &chosen, &least_)) return false;
    for (size_t i = 0; i < chosen.size(); ++i) choose(&matrices_[i], chosen[i].type);
    return true;
  }
  void choose(Matrix* m, const char* type) {
    m->chosen = 0;
    while (m->all[m->chosen].type != type) ++m->chosen;
    types_[m->tensor] = type;
  }
  bool no_choice() const {
    if (least_.bytes > room_ && room_ != w_.bytes)
      return data_error("--ram %s: a session and the smallest file of this model take %s bytes. "
                        "TRY: a smaller --context, or --flash",
                        grouped(w_.ram).c_str(),
                        grouped(w_.ram - min(room_, w_.ram) + least_.bytes).c_str()),
             false;
    if (least_.bytes > room_)
      return data_error("%s %s: the smallest file of this model has %s bytes", w_.flag,
                        grouped(w_.bytes).c_str(), grouped(least_.bytes).c_str()),
             false;
    return too_slow(least_.seconds);
  }
  bool too_slow(double seconds) const {
    return data_error("--tokens-per-second %.6g: the fastest file of this size makes %.1f here. "
                      "TRY: --threads, or fewer tokens a second",
                      1 / w_.seconds, 1 / seconds),
           false;
  }

  // What a file is as it is, with inputs of so many bits. *kept has its weights, or gets them.
  bool measure_file(const vector<const char*>* types, const char* type, uint32_t inputs,
                    File* kept, Measured* out) {
    phasor_quantize_options to = options(type);
    to.inputs = out->inputs = inputs;
    if (types != nullptr) to.types = types->data(), to.type_count = count_of(*types);
    const bool rounded = kept->bytes != 0;
    File made;
    if (!convert(to, rounded ? kept->block.data() : file_, rounded ? kept->bytes : bytes_, &made))
      return false;
    Engine e;
    if (!e.open_bytes(w_.name, made.block.data(), made.bytes, w_.isa) ||
        !e.start(probe_.limits(e, w_.board->threads)) || !probe_.measure(&e, &out->divergence) ||
        !time(made, &out->seconds))
      return false;
    out->meets = out->seconds <= w_.seconds;
    Fit& f = out->fit;
    if (w_.ram == 0) return kept->take(&made), true;
    if (!fit(e, limits_, w_.resident ? 0 : w_.ram, 0, &f)) return false;
    if (w_.resident) {  // with smaller chunks it would fit; a smaller file is wanted
      f.ram = w_.ram - min<uint64_t>(made.bytes, w_.ram - 1);
      f.ram_fits = f.needed + kStackBytes <= f.ram;
    }
    out->meets = out->meets && f.ram_fits;
    kept->take(&made);
    return true;
  }

  // With the inputs that are asked for, or those of 8 bits unless 16 are better by what counts and
  // meet what is wanted too.
  bool measure_inputs(const vector<const char*>* types, const char* type, bool quantized,
                      Measured* out) {
    const uint32_t inputs = !quantized ? 0 : w_.inputs != 0 ? w_.inputs : 8;
    File made;
    if (!measure_file(types, type, inputs, &made, out)) return false;
    if (!quantized || w_.inputs != 0) return true;
    Measured wide;
    if (!measure_file(types, type, 16, &made, &wide)) return false;
    if (out->divergence - wide.divergence > kWorthWhile && wide.meets) *out = wide;
    return true;
  }

  static bool floats(const char* type) { return type[0] == 'f'; }

  bool measure_choice(Measured* out) {
    bool quantized = false;
    for (const Matrix& m : matrices_) quantized = quantized || !floats(types_[m.tensor]);
    if (!w_.quiet) progress("measuring the file", true);
    return measure_inputs(&types_, "f32", quantized, out);
  }

  // The next choice is measured against less, where this one is too slow or leaves the session too
  // little.
  void tighten(const Measured& is) {
    if (w_.seconds != 0 && is.seconds > w_.seconds) seconds_ *= w_.seconds / is.seconds;
    if (is.fit.ram_fits || !w_.resident) return;
    const uint64_t over = is.fit.needed + kStackBytes - is.fit.ram;
    room_ -= min(room_ - 1, over);
  }

  // The choice beside every type that all matrices may have within what is wanted: the best is
  // taken.
  bool compare(const Measured& choice, Choices* out) {
    string others;
    const char* best = nullptr;
    Measured is = choice;
    double fastest = choice.seconds;
    for (const Uniform& way : uniform_) {
      if (way.bytes > room_) continue;
      Measured other;
      if (!measure_inputs(nullptr, way.type, !floats(way.type), &other)) return false;
      fastest = min(fastest, other.seconds);
      if (!other.meets) continue;
      others += format("%s%s %.3g", others.empty() ? "" : ", ", way.type, other.divergence);
      if (!is.meets || other.divergence < is.divergence) best = way.type, is = other;
    }
    if (!is.meets && !is.fit.ram_fits)
      return data_error("--ram %s: a session of this model takes %s bytes. TRY: phasor inspect %s "
                        "with the same flags, which says what saves memory",
                        grouped(is.fit.ram).c_str(), grouped(is.fit.needed).c_str(), w_.name),
             false;
    if (!is.meets) return too_slow(fastest);
    for (Matrix& m : matrices_) {
      if (best != nullptr) choose(&m, best);
      const Way& way = m.all[m.chosen];
      out->matrices.push_back({m.name, way.type, way.bytes, way.harm, m.share});
    }
    out->types = types_;
    out->inputs = is.inputs;
    out->divergence = is.divergence;
    out->fit = is.fit;
    out->seconds = is.seconds;
    out->measured = format("%s %.3g on %zu rows", probe_.unit(), is.divergence, probe_.rows());
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
  vector<Uniform> uniform_;
  vector<const char*> types_;
  phasor_limits limits_{};  // of the session that RAM is for
  uint64_t room_ = 0;       // bytes that the file may have
  double seconds_ = 0;      // that a token may take; 0: any
  bool exact_below_ = false;  // smaller types than q8 only for matrices that have their values
  Least least_;
};

}  // namespace

bool choose_types(const Wanted& wanted, const void* file, size_t bytes, Choices* out) {
  return Search(wanted, file, bytes).run(out);
}

}  // namespace cli
