#include "jobs.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace threads_test {

using namespace generator;

namespace {

constexpr uint32_t kMostTokens = 24, kTextBytes = 200;

// A hash of what comes out.
class Sum {
 public:
  void add(const void* data, std::size_t bytes) { hash_ = fnv1a(hash_, data, bytes); }
  void add(uint64_t value) { add(&value, sizeof value); }
  void add(const Bits& bits) {
    add(bits.sound());
    if (bits.sound()) add(bits.values.data(), bits.values.size() * sizeof(uint32_t));
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = kFnvStart;
};

uint64_t forward(const Shared& s, const Way& way, uint32_t threads) {
  cli::Pool pool;
  need(pool.start(threads), "no threads");
  Sum sum;
  sum.add(run(s.opened, s.limits, s.in, way, &pool));
  return sum.value();
}
// Three ways whose bits are the same; the second one's observer reads all that it is shown.
uint64_t forward_whole(const Shared& s) {
  return forward(s, {64, 1, 64, true, PHASOR_TABLES_WHOLE, false}, 1);
}
uint64_t forward_watched(const Shared& s) {
  return forward(s, {3, 1, 2, false, PHASOR_TABLES_ROWS, true}, 1);
}
uint64_t forward_spread(const Shared& s) {
  return forward(s, {64, 3, 64, true, PHASOR_TABLES_WHOLE, false}, 3);
}

uint64_t vectors(const Shared& s) {
  cli::Pool none;
  Sum sum;
  const Running r(s.opened, limits_for_vectors(s.opened.model()), &none);
  for (uint32_t i = 0; i < phasor_vector_count(s.opened.model()); ++i) {
    phasor_vector_result result{};
    result.struct_size = sizeof result;
    sum.add(phasor_vector_run(r.session(), i, &result, nullptr));
    sum.add(result.hash);
  }
  return sum.value();
}

uint64_t check(const Shared& s) { return phasor_model_check(s.opened.model(), nullptr); }

uint64_t quantize(const Shared& s) {
  Sum sum;
  for (const char* type : phasor::kRoundedTypeNames) {
    phasor_quantize_options options = PHASOR_QUANTIZE_OPTIONS_INIT;
    options.type = type;
    std::size_t size = 0;
    const phasor_status status =
        phasor_quantize_size(&size, s.file.data(), s.file.size(), &options, nullptr);
    sum.add(status);
    if (status != PHASOR_OK) continue;  // what was rounded is not rounded again
    const Block out(size);
    sum.add(phasor_quantize(out.data(), size, nullptr, 0, s.file.data(), s.file.size(), &options,
                            nullptr));
    sum.add(out.data(), size);
  }
  return sum.value();
}

// The same bytes opened once more, at every level.
uint64_t open_again(const Shared& s) {
  Sum sum;
  for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level) {
    const Opened opened(s.file, phasor_isa_name(level));
    sum.add(phasor_isa_name(level), std::strlen(phasor_model_isa(opened.model())));
    cli::Pool none;
    const Way way = {7, 1, 7, true, PHASOR_TABLES_WHOLE, false};
    sum.add(run(opened, s.limits, s.in, way, &none));
  }
  return sum.value();
}

uint64_t questions(const Shared& s) {
  const phasor_model* const m = s.opened.model();
  Sum sum;
  phasor_field field{};
  field.struct_size = sizeof field;
  for (uint32_t i = phasor_field_count(m); i-- > 0;) {
    sum.add(phasor_field_get(m, i, &field));
    sum.add(field.value, std::strlen(field.value));
  }
  phasor_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  for (uint32_t i = 0; phasor_tensor_get(m, i, &tensor) == PHASOR_OK; ++i) sum.add(tensor.offset);
  std::size_t bytes = 0, more = 0;
  const char *name = nullptr, *text = nullptr;
  for (uint32_t i = 0; i < 40; ++i)
    if (const char* label = phasor_label(m, i, &bytes)) sum.add(label, bytes);
  for (uint32_t i = 0; phasor_prompt(m, i, &name, &bytes, &text, &more) == PHASOR_OK; ++i)
    sum.add(text, more);
  uint32_t skipped = 0;
  (void)phasor_skipped(m, &skipped);
  sum.add(skipped);
  phasor_cost cost{};
  cost.struct_size = sizeof cost;
  sum.add(phasor_model_cost(m, 7, 9, &cost));
  sum.add(cost.step_macs);
  return sum.value();
}

// ---- decoders

phasor_limits limits_of_decoder(const Shared& s) {
  phasor_limits l =
      limits_for(s.limits, s.in, {5, 1, kMostTokens, true, PHASOR_TABLES_WHOLE, false});
  if (phasor::kHasSampling) l.outputs |= PHASOR_WANT_SAMPLING;
  if (phasor::kHasBeam) l.beams = 3;
  l.sequences = std::max(l.sequences, 2u);
  l.logit_rows = std::max(l.logit_rows, 4u);
  return l;
}

// Sequence 0, with its source and nothing else; false where a value is not finite.
bool begun(const Running& r, const Shared& s) {
  need(phasor_sequence_clear(r.session(), 0) == PHASOR_OK, "clear");
  return s.in.sources.empty() || encode_source(r, s.opened, 0, s.in.sources[0]);
}

struct Stops {
  uint32_t tokens, bytes;
};
int stop_token(void* user, uint32_t, uint32_t) { return --static_cast<Stops*>(user)->tokens == 0; }
int stop_text(void* user, const char*, std::size_t bytes) {
  Stops* const stops = static_cast<Stops*>(user);
  stops->bytes += static_cast<uint32_t>(bytes);
  return stops->bytes > 20;
}

void add_generation(const Running& r, const Shared& s, const phasor_generate_options& options,
                    Sum* sum) {
  if (!begun(r, s)) return sum->add(1);
  const Sequences::Tokens& prompt = s.in.targets[0];
  phasor_generation result = PHASOR_GENERATION_INIT;
  Ids out(12);
  sum->add(phasor_generate(r.session(), 0, prompt.ids.data(), std::min(prompt.count(), 3u),
                           out.data(), 12, &options, &result, nullptr));
  sum->add(result.finish);
  sum->add(out.data(), result.count * sizeof(uint32_t));
}

uint64_t generation(const Shared& s) {
  cli::Pool none;
  const Running r(s.opened, limits_of_decoder(s), &none);
  Sum sum;
  Stops stops = {5, 0};
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  options.lookahead = 2;
  add_generation(r, s, options, &sum);
  options = PHASOR_GENERATE_OPTIONS_INIT;
  options.token = stop_token;
  options.user = &stops;
  add_generation(r, s, options, &sum);
  options = PHASOR_GENERATE_OPTIONS_INIT;
  options.temperature = phasor::kHasSampling ? 0.9f : 0;
  options.top_p = phasor::kHasSampling ? 0.8f : 0;
  options.seed = 7;
  add_generation(r, s, options, &sum);
  if (s.opened.inside().has_tokenizer[1] == 0) return sum.value();
  const char* const strings[] = {"e", "the"};
  options.text = stop_text;
  options.user = &stops;
  options.stop = strings;
  options.stop_count = 2;
  add_generation(r, s, options, &sum);
  sum.add(stops.bytes);
  return sum.value();
}

uint64_t beams(const Shared& s) {
  cli::Pool none;
  const Running r(s.opened, limits_of_decoder(s), &none);
  Sum sum;
  if (!begun(r, s)) return 1;
  phasor_beam_options options = PHASOR_BEAM_OPTIONS_INIT;
  options.max_new = 6;
  phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
  sum.add(phasor_beam_search(r.session(), 0, s.in.targets[0].ids.data(), 1, &options, &result,
                             nullptr));
  for (uint32_t i = 0; i < result.count; ++i) {
    phasor_hypothesis h{};
    h.struct_size = sizeof h;
    need(phasor_hypothesis_get(r.session(), i, &h) == PHASOR_OK, "an output is missing");
    sum.add(h.ids, h.count * sizeof(uint32_t));
    sum.add(&h.score, sizeof h.score);
  }
  return sum.value();
}

// Steps that a callback stops at each layer in turn, and the whole of it again.
uint64_t stopped(const Shared& s) {
  cli::Pool none;
  const Running r(s.opened, limits_of_decoder(s), &none);
  Sum sum;
  for (uint32_t after = 0; after < 4; ++after) {
    if (!begun(r, s)) return 1;
    uint32_t left = after;
    phasor_callbacks callbacks = {sizeof(phasor_callbacks), nullptr, nullptr, &left, nullptr};
    callbacks.progress = [](void* user, uint32_t, uint32_t, uint32_t) {
      return (*static_cast<uint32_t*>(user))-- == 0 ? 1 : 0;
    };
    need(phasor_session_callbacks(r.session(), &callbacks) == PHASOR_OK, "callbacks");
    phasor_item item = PHASOR_ITEM_INIT;
    item.ids = s.in.targets[0].ids.data();
    item.count = s.in.targets[0].count();
    sum.add(phasor_step(r.session(), &item, 1, nullptr));
    need(phasor_session_callbacks(r.session(), nullptr) == PHASOR_OK, "callbacks");
    sum.add(phasor_sequence_length(r.session(), 0));
    if (phasor_sequence_length(r.session(), 0) != 0) continue;
    Bits bits;
    step_target(r, 0, s.in.targets[0], 0, kMostTokens, &bits);
    sum.add(bits);
  }
  return sum.value();
}

// A state that one session saves, another restores, and both go on.
uint64_t states(const Shared& s) {
  cli::Pool none;
  const phasor_limits limits = limits_of_decoder(s);
  const Running here(s.opened, limits, &none), there(s.opened, limits, &none);
  const Sequences::Tokens& t = s.in.targets[0];
  Sum sum;
  Bits bits;
  if (!begun(here, s)) return 1;
  Sequences::Tokens half = t;
  half.embeddings.resize(t.embeddings.size() / t.count() * (t.count() / 2));
  half.ids.resize(t.count() / 2);
  step_target(here, 0, half, 0, 3, &bits);
  if (bits.told) return 1;
  std::size_t size = 0;
  need(phasor_state_size(here.session(), 0, &size) == PHASOR_OK, "state_size");
  const Block state(size);
  need(phasor_state_save(here.session(), 0, state.data(), size) == PHASOR_OK, "state_save");
  sum.add(state.data(), size);
  need(phasor_state_restore(there.session(), 1, state.data(), size, nullptr) == PHASOR_OK,
       "state_restore");
  Bits again;
  step_target(here, 0, t, half.count(), 3, &bits);
  step_target(there, 1, t, half.count(), 3, &again);
  sum.add(bits);
  sum.add(again);
  return sum.value();
}

// ---- texts

uint64_t texts(const Shared& s) {
  cli::Pool none;
  phasor_limits limits = s.limits;
  limits.text_bytes = kTextBytes;
  const Running r(s.opened, limits, &none);
  Sum sum;
  for (const uint32_t side : {PHASOR_SOURCE, PHASOR_TARGET}) {
    if (s.opened.inside().descriptor.sides[side - 1].present == 0 ||
        s.opened.inside().has_tokenizer[side - 1] == 0)
      continue;
    for (const std::string text : {"a source5 of target7  words", "Zwölf Boxkämpfer, 3.14!", ""}) {
      std::size_t count = 0;
      Ids ids(kTextBytes * 2), segments(ids.size());
      sum.add(phasor_text_to_ids(r.session(), side, 1, ids.data(), ids.size(), &count, text.data(),
                                 text.size(), nullptr));
      count = std::min(count, ids.size());
      sum.add(ids.data(), count * sizeof(uint32_t));
      phasor_text state = PHASOR_TEXT_INIT;
      for (std::size_t i = 0; i < count; ++i) {
        char out[600];
        std::size_t bytes = 0;
        if (phasor_id_to_text(s.opened.model(), side, &state, ids[i], out, sizeof out, &bytes) ==
            PHASOR_OK)
          sum.add(out, bytes);
      }
      sum.add(phasor_pair_to_ids(r.session(), side, ids.data(), segments.data(), ids.size(), &count,
                                 text.data(), text.size(), "and more", 8, nullptr));
    }
  }
  return sum.value();
}

uint64_t chat(const Shared& s) {
  cli::Pool none;
  phasor_limits limits = s.limits;
  limits.text_bytes = 4096;
  const Running r(s.opened, limits, &none);
  const phasor_chat_message messages[] = {
      {sizeof(phasor_chat_message), "user", 4, "What is it?", 11},
      {sizeof(phasor_chat_message), "assistant", 9, "A test.", 7},
      {sizeof(phasor_chat_message), "user", 4, "Why?", 4}};
  Sum sum;
  for (uint32_t count = 0; count <= 3; ++count) {
    char out[4096];
    std::size_t bytes = 0;
    sum.add(phasor_chat_to_text(r.session(), 1, out, sizeof out, &bytes, messages, count, nullptr));
    sum.add(out, std::min(bytes, sizeof out));
  }
  return sum.value();
}

}  // namespace

Shared::Shared(Block bytes, uint64_t seed) : file(std::move(bytes)), opened(file) {
  Choices choices(seed);
  in = any_sequences(&choices, opened, kMostTokens);
  uint32_t source = 1, target = 1;
  for (const Sequences::Tokens& t : in.sources) source = std::max(source, t.count());
  for (const Sequences::Tokens& t : in.targets) target = std::max(target, t.count());
  limits.struct_size = sizeof limits;
  need(phasor_limits_for(opened.model(), source, target, &limits) == PHASOR_OK, "limits_for");
  limits.sequences = static_cast<uint32_t>(std::max(in.sources.size(), in.targets.size()));
}

std::vector<Job> jobs_for(const Shared& s) {
  std::vector<Job> jobs = {{"forward", forward_whole}, {"forward, watched", forward_watched},
                           {"check", check},           {"quantize", quantize},
                           {"open", open_again},       {"questions", questions},
                           {"texts", texts},           {"forward, with a pool", forward_spread}};
  if (phasor::kHasVectors) jobs.push_back({"vectors", vectors});
  if (phasor_chat_available(s.opened.model()) != 0) jobs.push_back({"chat", chat});
  if (s.opened.encoder()) return jobs;
  jobs.insert(jobs.end(), {{"generation", generation}, {"stopped", stopped}, {"states", states}});
  if (phasor::kHasBeam) jobs.push_back({"beams", beams});
  return jobs;
}

std::vector<std::string> at_once(uint32_t count, const std::function<void(uint32_t)>& task) {
  std::vector<std::string> lines;
  std::mutex mutex;
  std::atomic<uint32_t> ready{0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      ready.fetch_add(1);
      while (ready.load() < count) std::this_thread::yield();
      try {
        task(i);
      } catch (const std::exception& what) {
        const std::lock_guard<std::mutex> lock(mutex);
        lines.push_back(what.what());
      }
    });
  for (std::thread& t : threads) t.join();
  return lines;
}

}  // namespace threads_test
