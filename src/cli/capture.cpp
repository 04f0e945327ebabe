#include "capture.h"

#include <stdint.h>
#include <string.h>

namespace cli {
namespace {

constexpr uint32_t kEncoderStack = 2, kDecoderStack = 4;  // as phasor_view has them

// Room for planes of rows of values; false where their number is more than memory can have.
bool make_room(std::vector<float>* values, uint64_t planes, uint64_t rows, uint64_t width) {
  const uint64_t plane = rows * width, most = SIZE_MAX / sizeof(float) / 2;  // each is below 2^32
  if (plane != 0 && (plane > most || planes > most / plane)) return false;
  values->resize(static_cast<size_t>(planes * plane));
  return true;
}

bool too_large(const Engine& e) {
  return data_error("%s: the array is too large for this machine", e.path), false;
}

}  // namespace

bool Capture::open(const Options& o) {
  return (o.logits == nullptr || logits_.open(o.logits)) &&
         (o.hidden == nullptr || hidden_.open(o.hidden)) &&
         (o.hidden_decoder == nullptr || hidden_decoder_.open(o.hidden_decoder)) &&
         (o.attention == nullptr || attention_.open(o.attention));
}

bool Capture::prepare(Stack* s, const phasor_side& side, uint32_t count) {
  *s = {side.layers, count, side.width, {}};
  return make_room(&s->values, uint64_t{side.layers} + 2, count, side.width);
}

void Capture::see(void* self, const phasor_view* view) {
  Capture* c = static_cast<Capture*>(self);
  if (view->what == PHASOR_SEE_SELF_ATTENTION || view->what == PHASOR_SEE_CROSS_ATTENTION)
    c->keep_attention(*view);
  else
    c->keep_rows(*view);
}

void Capture::keep_rows(const phasor_view& v) {
  Stack& s = v.stack == kEncoderStack ? encoder_ : decoder_;
  if (s.values.empty()) return;
  const uint32_t plane = v.what == PHASOR_SEE_EMBEDDING ? 0
                         : v.what == PHASOR_SEE_FINAL   ? s.layers + 1
                                                        : v.layer + 1;
  for (uint32_t r = 0; r < v.rows; ++r)
    memcpy(&s.values[((size_t(plane) * s.rows) + v.position + r) * s.width], v.data + r * v.stride,
           s.width * sizeof(float));
}

void Capture::keep_attention(const phasor_view& v) {
  if (v.what != attention_kind_ || v.stack != attention_stack_ || weights_.empty()) return;
  std::vector<float>& layer = weights_[v.layer];
  if (v.heads > heads_) heads_ = v.heads;
  if (too_large_ || !make_room(&layer, v.heads, queries_, keys_)) {
    too_large_ = true;
    return;
  }
  for (uint32_t h = 0; h < v.heads; ++h)
    for (uint32_t r = 0; r < v.rows; ++r)
      memcpy(&layer[(size_t(h) * queries_ + v.position + r) * keys_],
             v.data + h * v.head_stride + r * v.stride, v.cols * sizeof(float));
}

bool Capture::replay(Engine& e, const std::vector<uint32_t>& source,
                     const std::vector<uint32_t>& target) {
  const uint32_t rows = static_cast<uint32_t>(target.size()),
                 source_rows = static_cast<uint32_t>(source.size());
  const bool lone_decoder = e.stack == PHASOR_DECODER;
  if (hidden_.is_open() && !lone_decoder && !prepare(&encoder_, e.source, source_rows))
    return too_large(e);
  if ((hidden_decoder_.is_open() || (hidden_.is_open() && lone_decoder)) &&
      !prepare(&decoder_, e.target, rows))
    return too_large(e);
  attention_stack_ = kDecoderStack;
  attention_kind_ = lone_decoder ? PHASOR_SEE_SELF_ATTENTION : PHASOR_SEE_CROSS_ATTENTION;
  queries_ = rows;
  keys_ = lone_decoder ? rows : source_rows;
  if (attention_.is_open()) weights_.resize(e.target.layers);
  const phasor_callbacks callbacks = {sizeof(phasor_callbacks), &see, nullptr, this};
  phasor_session_callbacks(e.session, &callbacks);

  phasor_error error = PHASOR_ERROR_INIT;
  phasor_status status = phasor_sequence_clear(e.session, 0);
  if (status == PHASOR_OK && !lone_decoder) {
    const phasor_item item = {sizeof(phasor_item), 0,       source_rows, PHASOR_LOGITS_NONE,
                              source.data(),       nullptr, nullptr,     nullptr};
    status = phasor_encode(e.session, &item, 1, &error);
  }
  for (uint32_t t = 0; t < rows && status == PHASOR_OK; ++t) {
    const phasor_item item = {sizeof(phasor_item), 0,       1,       PHASOR_LOGITS_LAST,
                              &target[t],          nullptr, nullptr, nullptr};
    status = phasor_step(e.session, &item, 1, &error);
    if (status == PHASOR_OK && logits_.is_open() &&
        !logits_.append(phasor_logits(e.session, 0), e.target.vocabulary))
      return false;
  }
  phasor_session_callbacks(e.session, nullptr);
  return status == PHASOR_OK ? write_logits(rows, e.target.vocabulary) && write_all(e)
                             : e.fail(error);
}

bool Capture::replay_encoder(Engine& e, const std::vector<uint32_t>& source,
                             const std::vector<uint32_t>& segments, const phasor_output& shape) {
  const uint32_t count = static_cast<uint32_t>(source.size()),
                 rows = shape.pooling != 0 ? 1 : count;
  if (hidden_.is_open() && !prepare(&encoder_, e.source, count)) return too_large(e);
  attention_kind_ = PHASOR_SEE_SELF_ATTENTION;
  attention_stack_ = kEncoderStack;
  queries_ = keys_ = count;
  if (attention_.is_open()) weights_.resize(e.source.layers);
  const phasor_callbacks callbacks = {sizeof(phasor_callbacks), &see, nullptr, this};
  phasor_session_callbacks(e.session, &callbacks);
  phasor_error error = PHASOR_ERROR_INIT;
  const phasor_item item = {sizeof(phasor_item),
                            0,
                            count,
                            PHASOR_LOGITS_NONE,
                            source.data(),
                            nullptr,
                            segments.empty() ? nullptr : segments.data(),
                            nullptr};
  phasor_status status = phasor_encode(e.session, &item, 1, &error);
  phasor_session_callbacks(e.session, nullptr);
  for (uint32_t r = 0; r < rows && logits_.is_open() && status == PHASOR_OK; ++r) {
    status = phasor_encoder_output(e.session, 0, r, 1, &error);
    if (status == PHASOR_OK && !logits_.append(phasor_logits(e.session, 0), shape.width))
      return false;
  }
  return status == PHASOR_OK ? write_logits(rows, shape.width) && write_all(e) : e.fail(error);
}

bool Capture::write(NpyWriter& file, const Stack& s) {
  return file.append(s.values.data(), s.values.size()) &&
         file.finish({s.layers + 2, s.rows, s.width});
}

bool Capture::write_all(const Engine& e) {
  if (too_large_) return too_large(e);
  if (hidden_.is_open() && !write(hidden_, e.stack == PHASOR_DECODER ? decoder_ : encoder_))
    return false;
  if (hidden_decoder_.is_open() && !write(hidden_decoder_, decoder_)) return false;
  if (!attention_.is_open()) return true;
  for (std::vector<float>& layer : weights_) {
    if (!make_room(&layer, heads_, queries_, keys_))
      return too_large(e);  // a layer with fewer heads ends in zeros
    if (!attention_.append(layer.data(), layer.size())) return false;
  }
  return attention_.finish({weights_.size(), heads_, queries_, keys_});
}

}  // namespace cli
