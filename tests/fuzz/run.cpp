// A stranger's file that opens is run: limits at random, then eight calls at random of nearly the
// whole interface. Every answer is a status with its line; what is given is what was asked for, and
// every byte of it was written.
#include <algorithm>
#include <cmath>

#include "edit.h"
#include "generator/tokenizers.h"
#include "models.h"

namespace fuzz {
namespace {

constexpr uint32_t kCalls = 8;

struct Run {
  Choices* c;
  const Model& model;
  const Session& session;
  const phasor_limits& limits;

  phasor_session* s() const { return session.get(); }
  uint32_t sequence() const { return c->below(limits.sequences + (c->chance(3) ? 1 : 0)); }
  uint32_t vocabulary() const { return model.vocabulary(PHASOR_TARGET); }
};

void look_at_view(void*, const phasor_view* v) {
  const bool attention =
      v->what == PHASOR_SEE_SELF_ATTENTION || v->what == PHASOR_SEE_CROSS_ATTENTION;
  for (uint32_t h = 0; h < (attention ? v->heads : 1); ++h)
    for (uint32_t r = 0; r < v->rows; ++r)
      look_at(v->data + h * v->head_stride + r * v->stride, v->cols);
}

void encode(const Run& r) {
  const uint32_t sequence = r.sequence();
  if (!encode_any(r.c, r.model, r.session, sequence, std::min(r.limits.source + 1, 20u))) return;
  uint32_t rows = 0, stride = 0;
  const float* const hidden = phasor_hidden(r.s(), sequence, &rows, &stride);
  auto side = sized<phasor_side>();
  if (hidden == nullptr || !ok(phasor_model_side(r.model.get(), PHASOR_SOURCE, &side))) return;
  for (uint32_t i = 0; i < rows; ++i) look_at(hidden + size_t{i} * stride, side.width);
  if (!r.c->chance(30)) return;
  // the same, or something else, as states: of an encoder-decoder
  const Block states(size_t{rows} * side.width * sizeof(float));
  for (uint32_t i = 0; i < rows; ++i)
    std::memcpy(states.as<float>() + size_t{i} * side.width, hidden + size_t{i} * stride,
                side.width * sizeof(float));
  if (r.c->chance(20)) *states.as<float>() = any_float(r.c);
  phasor_item item = PHASOR_ITEM_INIT;
  item.sequence = sequence;
  item.count = rows;
  item.states = states.as<float>();
  phasor_error error = PHASOR_ERROR_INIT;
  (void)phasor_encode(r.s(), &item, 1, &error);
}

void encoder_outputs(const Run& r) {
  auto output = sized<phasor_output>();
  auto side = sized<phasor_side>();
  demand(phasor_model_output(r.model.get(), &output) == PHASOR_OK, "a model without an output");
  (void)phasor_model_side(r.model.get(), PHASOR_SOURCE, &side);
  const uint32_t sequence = r.sequence(), count = r.c->below(4);
  Answer answer;
  if (answer(phasor_encoder_output(r.s(), sequence, r.c->below(3), count, &answer.error)))
    for (uint32_t i = 0; i < count; ++i) {
      const float* const row = phasor_logits(r.s(), i);
      demand(row != nullptr, "a row of output is missing");
      look_at(row, output.width);
    }
  const uint32_t width = output.output == PHASOR_OUTPUT_POOLED ? output.width : side.width;
  const uint32_t dim = r.c->chance(70) ? width : r.c->below(width + 2);
  const Block vector(size_t{dim} * sizeof(float));
  if (answer(phasor_embedding(r.s(), sequence, r.c->below(5), r.c->below(4), vector.as<float>(),
                              dim, &answer.error)))
    look_at(vector.as<float>(), dim);
}

// Tokens for some sequences.
void step(const Run& r) {
  Choices* const c = r.c;
  const uint32_t count = c->of({1u, 1u, 2u, 3u}), want = c->below(6);
  std::vector<std::vector<uint32_t>> ids(count);
  std::vector<std::vector<float>> embeddings(count);
  std::vector<phasor_item> items;
  for (uint32_t i = 0; i < count; ++i) {
    phasor_item item = PHASOR_ITEM_INIT;
    item.sequence = c->chance(80) ? i % r.limits.sequences : r.sequence();
    item.count = c->chance(95) ? c->between(1, 19) : c->below(60);
    item.count =
        c->chance(70) ? std::min(item.count, std::max(r.limits.target / 3, 1u)) : item.count;
    item.logits = want;
    ids[i] = any_ids(c, r.vocabulary(), item.count);
    item.ids = ids[i].data();
    if (c->chance(8)) {
      embeddings[i].assign(size_t{item.count} * 600, c->chance(90) ? 0.25f : any_float(c));
      item.embeddings = embeddings[i].data();
      if (c->chance(90)) item.ids = nullptr;
    }
    if (c->chance(10)) item.segments = ids[i].data();
    items.push_back(item);
  }
  std::vector<uint32_t> lengths;
  for (const phasor_item& item : items)
    lengths.push_back(phasor_sequence_length(r.s(), item.sequence));
  const Block exact(items.data(), items.size() * sizeof(phasor_item));
  Answer answer;
  if (!answer(phasor_step(r.s(), exact.as<phasor_item>(), count, &answer.error))) return;
  uint32_t rows = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t length = phasor_sequence_length(r.s(), items[i].sequence);
    demand(length == lengths[i] + items[i].count, "a step gives another length");
    demand(items[i].ids == nullptr ||
               phasor_sequence_common(r.s(), items[i].sequence, items[i].ids, 0) == 0,
           "more ids in common than there are");
    look_at(phasor_sequence_ids(r.s(), items[i].sequence), length);
    const bool all = want == PHASOR_LOGITS_ALL || want == PHASOR_BEST_ALL;
    rows += want == PHASOR_LOGITS_NONE ? 0 : all ? items[i].count : 1;
  }
  auto output = sized<phasor_output>();  // logits of the vocabulary, or classes
  demand(phasor_model_output(r.model.get(), &output) == PHASOR_OK, "a model without an output");
  for (uint32_t i = 0; i < rows; ++i) {
    uint32_t id = 0;
    float logit = 0;
    const phasor_status status = phasor_argmax(r.s(), i, &id, &logit);
    demand(status == PHASOR_NOT_FINITE || (status == PHASOR_OK && id < output.width),
           "a row without a best token");
    if (want != PHASOR_LOGITS_LAST && want != PHASOR_LOGITS_ALL) continue;
    const float* row = phasor_logits(r.s(), i);
    look_at(row, output.width);
    const auto is_nan = [](float x) { return std::isnan(x); };
    demand(std::any_of(row, row + output.width, is_nan) == (status == PHASOR_NOT_FINITE),
           "a row with a NaN has a best token, or one without has none");
  }
  demand(phasor_logits(r.s(), rows) == nullptr, "a row of logits too many");
}

void change_sequences(const Run& r) {
  const uint32_t a = r.sequence(), b = r.sequence(), before = phasor_sequence_length(r.s(), a);
  const uint32_t length = r.c->chance(80) ? r.c->below(before + 1) : r.c->below(60);
  switch (r.c->below(4)) {
    case 0:
      if (ok(phasor_sequence_fork(r.s(), b, a)))
        demand(phasor_sequence_length(r.s(), b) == before, "a fork of another length");
      break;
    case 1:
      if (ok(phasor_sequence_clear(r.s(), a)))
        demand(phasor_sequence_length(r.s(), a) == 0, "a cleared sequence has tokens");
      break;
    default:
      if (ok(phasor_sequence_truncate(r.s(), a, length)))
        demand(phasor_sequence_length(r.s(), a) == length, "a cut sequence of another length");
      else
        demand(phasor_sequence_length(r.s(), a) == before, "a refused cut changes the sequence");
  }
  (void)phasor_sequence_status(r.s(), a);
}

void move_state(const Run& r) {
  size_t need = 0;
  const uint32_t from = r.sequence(), to = r.sequence();
  if (!ok(phasor_state_size(r.s(), from, &need))) return;
  const Block state(need), again(need);
  demand(phasor_state_save(r.s(), from, state.as(), need) == PHASOR_OK, "a state is not saved");
  Answer answer;
  if (!answer(phasor_state_restore(r.s(), to, state.as(), need, &answer.error))) return;
  demand(phasor_state_save(r.s(), to, again.as(), need) == PHASOR_OK, "a state is not saved");
  demand(std::memcmp(state.as(), again.as(), need) == 0, "a state is saved as other bytes");
}

void generate(const Run& r) {
  Choices* const c = r.c;
  const std::vector<uint32_t> ids = any_ids(c, r.vocabulary(), c->below(4));
  uint32_t out[8];
  PHASOR_FUZZ_UNWRITTEN(out, sizeof out);
  Answer answer;
  if (c->chance(50)) {
    phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
    (void)phasor_generation_defaults(r.model.get(), &o);
    phasor_generation g = PHASOR_GENERATION_INIT;
    if (answer(phasor_generate(r.s(), r.sequence(), ids.data(), static_cast<uint32_t>(ids.size()),
                               out, 8, &o, &g, &answer.error)))
      look_at(out, g.count);
    return;
  }
  phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
  phasor_beam_options o = PHASOR_BEAM_OPTIONS_INIT;
  o.max_new = 5;
  if (!answer(phasor_beam_search(r.s(), r.sequence(), ids.data(), static_cast<uint32_t>(ids.size()),
                                 &o, &result, &answer.error)))
    return;
  for (uint32_t i = 0; i < result.count; ++i) {
    auto h = sized<phasor_hypothesis>();
    demand(phasor_hypothesis_get(r.s(), i, &h) == PHASOR_OK, "an output is missing");
    look_at(h.ids, h.count);
  }
}

void texts(const Run& r) {
  Choices* const c = r.c;
  const std::string text = generator::any_input(c, c->below(20));
  const Block exact(text.data(), text.size());
  const uint32_t side = c->between(PHASOR_SOURCE, PHASOR_TARGET);
  const size_t capacity = c->of({200u, 3u, 0u});
  const Block ids(capacity * 4), segments(capacity * 4);
  size_t count = 0, half = text.size() / 2;
  const bool pair = c->chance(30);
  Answer answer;
  const phasor_status status =
      pair ? phasor_pair_to_ids(r.s(), side, ids.as<uint32_t>(), segments.as<uint32_t>(), capacity,
                                &count, exact.as<char>(), half, exact.as<char>() + half,
                                text.size() - half, &answer.error)
           : phasor_text_to_ids(r.s(), side, static_cast<int>(c->below(2)), ids.as<uint32_t>(),
                                capacity, &count, exact.as<char>(), text.size(), &answer.error);
  if (!answer(status, {PHASOR_BAD_INPUT, PHASOR_FULL}) && status == PHASOR_BAD_INPUT) return;
  demand((count > capacity) == (status == PHASOR_FULL), "ids that do not fit are no error");
  phasor_text state = PHASOR_TEXT_INIT;
  for (size_t i = 0; i < std::min(count, capacity); ++i) {
    const uint32_t id = ids.as<uint32_t>()[i];
    demand(id < r.model.vocabulary(side), "an id outside of the vocabulary");
    char out[64];
    size_t bytes = 0;
    if (ok(phasor_id_to_text(r.model.get(), side, &state, id, out, c->of({64u, 2u}), &bytes)))
      look_at(out, bytes);
    if (const char* piece = phasor_piece(r.model.get(), side, id, &bytes)) look_at(piece, bytes);
    demand(phasor_piece_flags(r.model.get(), side, id) < 4, "flags of a piece that there are not");
  }
  char out[64];
  size_t bytes = 0;
  if (ok(phasor_text_flush(r.model.get(), side, &state, out, sizeof out, &bytes)))
    look_at(out, bytes);
}

void talk(const Run& r) {
  Choices* const c = r.c;
  std::vector<std::string> words;
  for (uint32_t i = 0; i < 6; ++i)
    words.push_back(i % 2 != 0 ? generator::any_input(c, c->below(5))
                               : c->of<std::string>({"user", "assistant", "system", "x\n"}));
  std::vector<phasor_chat_message> messages;
  for (uint32_t i = 0; i + 1 < words.size(); i += 2)
    messages.push_back({sizeof(phasor_chat_message), words[i].data(), words[i].size(),
                        words[i + 1].data(), words[i + 1].size()});
  const size_t capacity = c->of({300u, 5u, 0u});
  const Block out(capacity);
  size_t bytes = 0;
  Answer answer;
  const phasor_status status =
      phasor_chat_to_text(r.s(), static_cast<int>(c->below(2)), out.as<char>(), capacity, &bytes,
                          messages.data(), c->below(4), &answer.error);
  if (answer(status, {PHASOR_BAD_INPUT, PHASOR_FULL, PHASOR_UNSUPPORTED})) look_at(out.as(), bytes);
}

void watch(const Run& r) {
  static const phasor_callbacks all = {sizeof(phasor_callbacks), look_at_view, nullptr, nullptr,
                                       nullptr};
  (void)ok(phasor_session_callbacks(r.s(), r.c->chance(80) ? &all : nullptr));
}

}  // namespace

void run_run(const uint8_t* data, size_t size) {
  const std::vector<Part> parts = split_parts(data, size, 3);
  const Bytes file = edited_file(parts[0], parts[1], kAnySection);
  const Model model(file.data(), file.size());
  if (model.get() == nullptr) return;
  Choices choices = parts[2].choices();
  const phasor_limits limits = any_limits(&choices, model);
  const Session session(model, limits);
  if (session.get() == nullptr) return;
  const Run r{&choices, model, session, limits};
  constexpr void (*kCallsOfAll[])(const Run&) = {
      step, step, step, change_sequences, move_state, generate, texts, talk, watch, encode};
  if (model.encodes()) encode(r);
  for (uint32_t i = 0; i < kCalls; ++i) {
    if (!model.decodes() && choices.chance(60))
      encoder_outputs(r);
    else
      kCallsOfAll[choices.below(sizeof kCallsOfAll / sizeof *kCallsOfAll)](r);
  }
  // the callbacks are gone before what they look at is
  (void)phasor_session_callbacks(session.get(), nullptr);
}

}  // namespace fuzz
