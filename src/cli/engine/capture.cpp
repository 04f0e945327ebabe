#include "capture.h"

#include <stdint.h>
#include <string.h>

namespace cli {
namespace {

// Room for planes of rows of values; false where their number is more than memory can have.
bool make_room(vector<float>* values, uint64_t planes, uint64_t rows, uint64_t width) {
  const uint64_t plane = rows * width, most = SIZE_MAX / sizeof(float) / 2;  // each is below 2^32
  if (plane != 0 && (plane > most || planes > most / plane)) return false;
  values->resize(size_t(planes * plane));
  return true;
}

// The session has an observer while this lives.
class Observed {
 public:
  Observed(const Engine& e, void (*see)(void*, const phasor_view*), void* self) : e_(e) {
    e_.observe(see, self);
  }
  ~Observed() { e_.observe(nullptr, nullptr); }

 private:
  const Engine& e_;
};

}  // namespace

bool Capture::open(const ArrayOptions& o) {
  const char* const paths[] = {o.logits, o.hidden, o.hidden_decoder, o.attention};
  for (int i = 0; i < 4; ++i)
    if (paths[i] != nullptr && !files_[i].open(paths[i])) return false;
  return true;
}

bool Capture::commit() {
  return std::all_of(files_, files_ + 4, [](NpyWriter& file) { return file.commit(); });
}

bool Capture::wanted() const {
  return std::any_of(files_, files_ + 4, [](const NpyWriter& file) { return file.is_open(); });
}

// Room for what is wanted of a sequence: `queries` tokens of the stack whose attention over `keys`
// tokens is kept.
void Capture::begin(const Engine& e, uint32_t kind, uint32_t queries, uint32_t keys) {
  const bool cross = kind == PHASOR_SEE_CROSS_ATTENTION;
  attention_kind_ = kind;
  attention_stack_ = e.has_target() ? kDecoder : kEncoder;
  queries_ = queries;
  keys_ = keys;
  if (attention_.is_open()) weights_.resize((e.has_target() ? e.target : e.source).layers);
  const auto prepare = [this](Stack* stack, const phasor_side& side, uint32_t rows) {
    *stack = {side.layers, rows, side.width, {}};
    if (!make_room(&stack->values, uint64_t{side.layers} + 2, rows, side.width)) too_large_ = true;
  };
  if (hidden_.is_open() && e.has_source()) prepare(&encoder_, e.source, cross ? keys : queries);
  if ((hidden_.is_open() && !e.has_source()) || hidden_decoder_.is_open())
    prepare(&decoder_, e.target, queries);
}

void Capture::see(void* self, const phasor_view* view) {
  Capture* capture = static_cast<Capture*>(self);
  if (view->what == PHASOR_SEE_SELF_ATTENTION || view->what == PHASOR_SEE_CROSS_ATTENTION)
    capture->keep_attention(*view);
  else
    capture->keep_rows(*view);
}

void Capture::keep_rows(const phasor_view& view) {
  Stack& stack = view.stack == kEncoder ? encoder_ : decoder_;
  if (stack.values.empty()) return;
  const size_t plane = view.what == PHASOR_SEE_EMBEDDING ? 0
                       : view.what == PHASOR_SEE_FINAL   ? stack.layers + 1
                                                         : view.layer + 1;
  for (uint32_t row = 0; row < view.rows; ++row)
    memcpy(&stack.values[(plane * stack.rows + view.position + row) * stack.width],
           view.data + row * view.stride, stack.width * sizeof(float));
}

void Capture::keep_attention(const phasor_view& view) {
  if (view.what != attention_kind_ || view.stack != attention_stack_ || weights_.empty()) return;
  vector<float>& layer = weights_[view.layer];
  if (view.heads > heads_) heads_ = view.heads;
  if (too_large_ || !make_room(&layer, view.heads, queries_, keys_)) {
    too_large_ = true;
    return;
  }
  for (size_t head = 0; head < view.heads; ++head)
    for (uint32_t row = 0; row < view.rows; ++row)
      memcpy(&layer[(head * queries_ + view.position + row) * keys_],
             view.data + head * view.head_stride + row * view.stride, view.cols * sizeof(float));
}

bool Capture::encode(const Engine& e, const TokenIds& source, const TokenIds& segments) {
  if (segments.empty()) return e.encode(source) == PHASOR_OK || e.fail();
  phasor_item item = item_of(source.data(), source.size(), PHASOR_LOGITS_NONE);
  item.segments = segments.data();
  return phasor_encode(e.session, &item, 1, &e.error) == PHASOR_OK || e.fail();
}

// The rows of logits of the last step.
bool Capture::append_logits(const Engine& e, uint32_t rows, uint32_t width) {
  for (uint32_t i = 0; i < rows && logits_.is_open(); ++i)
    if (!logits_.append(phasor_logits(e.session, i), width)) return false;
  return true;
}

bool Capture::replay(Engine& e, const TokenIds& source, const TokenIds& target) {
  const uint32_t rows = count_of(target), vocabulary = e.target.vocabulary;
  if (e.has_source())
    begin(e, PHASOR_SEE_CROSS_ATTENTION, rows, e.source_count(source));
  else
    begin(e, PHASOR_SEE_SELF_ATTENTION, rows, rows);
  const Observed observed(e, &see, this);
  if (phasor_sequence_clear(e.session, 0) != PHASOR_OK) return e.fail();
  if (e.has_source() && !encode(e, source, {})) return false;
  for (uint32_t done = 0, count = 0; done < rows; done += count) {
    count = min(rows - done, max(e.limits.logit_rows, 1u));
    if (e.step(&target[done], count, PHASOR_LOGITS_ALL) != PHASOR_OK) return e.fail();
    if (!append_logits(e, count, vocabulary)) return false;
  }
  return end(e, rows, vocabulary);
}

bool Capture::replay_encoder(Engine& e, const TokenIds& source, const TokenIds& segments,
                             const phasor_output& shape) {
  const uint32_t count = count_of(source), rows = shape.pooling != 0 ? 1 : count;
  begin(e, PHASOR_SEE_SELF_ATTENTION, count, count);
  const Observed observed(e, &see, this);
  if (!encode(e, source, segments)) return false;
  for (uint32_t done = 0, part = 0; done < rows && logits_.is_open(); done += part) {
    part = min(rows - done, max(e.limits.logit_rows, 1u));
    if (phasor_encoder_output(e.session, 0, done, part, &e.error) != PHASOR_OK) return e.fail();
    if (!append_logits(e, part, shape.width)) return false;
  }
  return end(e, rows, shape.width);
}

bool Capture::end(const Engine& e, uint32_t rows, uint32_t width) {
  // a layer with fewer heads than another ends in zeros
  for (vector<float>& layer : weights_)
    if (!make_room(&layer, heads_, queries_, keys_)) too_large_ = true;
  if (too_large_) return data_error("%s: the array is too large for this machine", e.path), false;
  const auto write = [](NpyWriter& file, const Stack& stack) {
    return !file.is_open() || (file.append(stack.values.data(), stack.values.size()) &&
                               file.finish({stack.layers + 2, stack.rows, stack.width}));
  };
  if ((logits_.is_open() && !logits_.finish({rows, width})) ||
      !write(hidden_, e.has_source() ? encoder_ : decoder_) || !write(hidden_decoder_, decoder_))
    return false;
  for (const vector<float>& layer : weights_)
    if (!attention_.append(layer.data(), layer.size())) return false;
  return !attention_.is_open() || attention_.finish({weights_.size(), heads_, queries_, keys_});
}

}  // namespace cli
