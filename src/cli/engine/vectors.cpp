#include "vectors.h"

#include "../io/npy.h"

namespace cli {
namespace {

uint32_t number_of(const Engine& e, const char* name, uint32_t otherwise) {
  const vector<uint32_t> said = numbers_of(e, name);
  return said.empty() ? otherwise : said[0];
}

}  // namespace

uint32_t vector_width(const Engine& e) { return number_of(e, "source.vectors", 0); }

bool Vectors::read(const Engine& e, const char* path) {
  vector<size_t> shape;
  if (!read_rows(path, &given_, &shape)) return false;
  row_ = number_of(e, "encoder.embedding_width", e.source.width);
  const size_t own = vector_width(e), dimensions = shape.size();
  width_ = own != 0 ? own : row_;
  if ((dimensions != 2 && dimensions != 3) || shape.back() != width_ || given_.empty())
    return data_error("%s: expected an array of (positions, %zu) or (sequences, positions, %zu)",
                      path, width_, width_),
           false;
  const size_t count = shape[dimensions - 2];
  sequences_ = dimensions == 2 ? 1 : shape[0];
  places_.assign(count, PHASOR_NONE);
  if (own != 0) {
    const phasor_side& side = e.source;
    places_.insert(places_.begin(), side.prefix, side.prefix + side.prefix_count);
    places_.insert(places_.end(), side.suffix, side.suffix + side.suffix_count);
  }
  for (size_t i = 0; i < given_.size(); ++i)
    if (!all_finite(&given_[i], 1))
      return data_error("%s: sequence %zu, position %zu has a value that is not finite", path,
                        i / (count * width_), i / width_ % count),
             false;
  const size_t most = e.source.max_positions;
  if (most == 0 || places_.size() <= most) return true;
  return data_error("%s: %zu positions, the model has %zu", path, places_.size(), most), false;
}

vector<float> Vectors::rows(size_t sequence) const {
  vector<float> out(places_.size() * row_);
  const float* from = &given_[sequence * (given_.size() / sequences_)];
  for (size_t i = 0; i < places_.size(); ++i) {
    if (places_[i] != PHASOR_NONE) continue;
    std::copy_n(from, width_, &out[i * row_]);
    from += width_;
  }
  return out;
}

}  // namespace cli
