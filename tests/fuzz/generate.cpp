// Options, items and results of a caller that nobody checks: every field of every struct, the size
// included, may be anything. Structs lie in as many bytes as their size says.
#include <algorithm>
#include <array>
#include <list>
#include <memory>

#include "models.h"

namespace fuzz {
namespace {

// Arrays and texts that live as long as a call.
struct Arena {
  std::vector<std::unique_ptr<Block>> blocks;
  template <class T>
  T* keep(const T* values, size_t count) {
    blocks.push_back(std::make_unique<Block>(values, count * sizeof(T)));
    return blocks.back()->template as<T>();
  }
};

template <class T>
bool known(const T* given) {
  return phasor::known_size<T>(given->struct_size);
}

// A copy of a struct in exactly as many bytes as its struct_size says, where the library knows
// such a size; else in four.
template <class T>
T* exact(Arena* a, T* given, Choices* c) {
  if (c->chance(6)) given->struct_size = c->below(2 * sizeof(T));
  return reinterpret_cast<T*>(
      a->keep(reinterpret_cast<const uint8_t*>(given), known(given) ? given->struct_size : 4));
}

const uint32_t* some_ids(Arena* a, Choices* c, uint32_t vocabulary, uint32_t* count) {
  *count = c->of({0u, 0u, 1u, 3u});
  return a->keep(any_ids(c, vocabulary, *count).data(), *count);
}

// Sequences with their lengths, now and then a wrong one.
const uint32_t* some_words(Arena* a, Choices* c, uint32_t vocabulary, uint32_t* count) {
  std::vector<uint32_t> all;
  for (uint32_t i = c->of({0u, 0u, 1u, 3u}); i > 0; --i) {
    const uint32_t n = c->of({1u, 2u, 3u});
    const std::vector<uint32_t> ids = any_ids(c, vocabulary, n);
    all.push_back(c->chance(95) ? n : any_number(c));
    all.insert(all.end(), ids.begin(), ids.end());
  }
  *count = static_cast<uint32_t>(all.size());
  return a->keep(all.data(), all.size());
}

// 0, a small number, or any.
uint32_t count_of(Choices* c, uint32_t most) {
  return c->chance(60) ? 0 : c->chance(85) ? c->below(most + 1) : any_number(c);
}
float share_of(Choices* c) {
  return c->chance(60) ? 0 : c->chance(80) ? static_cast<float>(c->below(65)) / 64 : any_float(c);
}

struct User {
  Choices* c;
  uint32_t left;
};
// An older caller's struct may end before its `user`.
int stop_sometimes(User* user) { return user != nullptr && user->left-- == 0 ? 1 : 0; }

void set_callbacks(phasor_generate_options* o, User* user) {
  Choices* const c = user->c;
  o->user = user;
  if (c->chance(20))
    o->token = [](void* u, uint32_t, uint32_t) { return stop_sometimes(static_cast<User*>(u)); };
  if (c->chance(30))
    o->text = [](void* u, const char* text, size_t bytes) {
      look_at(text, bytes);
      return stop_sometimes(static_cast<User*>(u));
    };
  if (c->chance(20))
    o->logits = [](void* u, float* logits, uint32_t vocabulary, const uint32_t* ids,
                   uint32_t count) {
      look_at(ids, count);
      look_at(logits, vocabulary);
      if (u == nullptr) return 0;
      Choices* const choices = static_cast<User*>(u)->c;
      logits[choices->below(vocabulary)] = any_float(choices);
      return stop_sometimes(static_cast<User*>(u));
    };
}

void set_stops(phasor_generate_options* o, Arena* a, Choices* c) {
  if (!c->chance(30)) return;
  std::vector<const char*> stops(c->of({1u, 2u, 5u, 70u}));
  for (const char*& stop : stops) {
    std::vector<char> text(c->chance(97) ? c->below(4) + 1 : c->below(300), 'a');
    for (char& byte : text) byte = c->of({'a', 'b', ' ', '\xC3', '\xA9', '\xFF'});
    text.push_back(0);
    stop = a->keep(text.data(), text.size());
  }
  o->stop = a->keep(const_cast<const char* const*>(stops.data()), stops.size());
  o->stop_count = static_cast<uint32_t>(stops.size());
}

phasor_generate_options any_options(Arena* a, Choices* c, const Model& model, User* user,
                                    phasor_random* random) {
  const uint32_t vocabulary = model.vocabulary(PHASOR_TARGET);
  phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
  if (c->chance(20)) (void)phasor_generation_defaults(model.get(), &o);
  o.max_new = count_of(c, 12);
  o.forced = some_ids(a, c, vocabulary, &o.forced_count);
  o.temperature = c->chance(50) ? 0 : any_float(c);
  o.top_k = count_of(c, 5);
  for (float* share : {&o.top_p, &o.min_p, &o.typical_p}) *share = share_of(c);
  for (float* penalty : {&o.repetition_penalty, &o.presence_penalty, &o.frequency_penalty})
    *penalty = c->chance(70) ? 0 : any_float(c);
  o.no_repeat_ngram = count_of(c, 4);
  o.min_new = count_of(c, 4);
  o.suppressed = some_ids(a, c, vocabulary, &o.suppressed_count);
  o.end = some_ids(a, c, vocabulary, &o.end_count);
  o.seed = c->seed();
  if (c->chance(30)) o.random = random;
  o.reuse = count_of(c, 1);
  o.slide = count_of(c, 1);
  o.keep = count_of(c, 4);
  o.lookahead = count_of(c, 4);
  o.bad_words = some_words(a, c, vocabulary, &o.bad_words_count);
  o.source = some_ids(a, c, vocabulary, &o.source_count);
  o.source_no_repeat_ngram = count_of(c, 3);
  if (c->chance(20)) o.forced_last = a->keep(any_ids(c, vocabulary, 1).data(), 1);
  set_stops(&o, a, c);
  set_callbacks(&o, user);
  return o;
}

struct Call {
  Choices* c;
  const Model& model;
  const Session& session;
  const phasor_limits& limits;
  uint32_t sequence() const { return c->below(limits.sequences + (c->chance(3) ? 1 : 0)); }
};

void generate(const Call& r) {
  Choices* const c = r.c;
  Arena a;
  User user = {c, c->below(20)};
  phasor_random random = {{c->seed(), 0, 0, 0}};
  const uint32_t vocabulary = r.model.vocabulary(PHASOR_TARGET);
  phasor_generate_options given = any_options(&a, c, r.model, &user, &random);
  const phasor_generate_options* const options = exact(&a, &given, c);
  phasor_generation made = PHASOR_GENERATION_INIT;
  phasor_generation* const result = exact(&a, &made, c);
  const uint32_t count = c->below(5), capacity = c->of({8u, 1u, 0u, 30u});
  const uint32_t* const ids = a.keep(any_ids(c, vocabulary, count).data(), count);
  const Block out(capacity * 4);
  Answer answer;
  const phasor_status status =
      phasor_generate(r.session.get(), r.sequence(), ids, count, out.as<uint32_t>(), capacity,
                      options, result, &answer.error);
  (void)answer(status);
  if (!known(result) || !known(options))
    return demand(status == PHASOR_BAD_INPUT, "a struct of an unknown size is taken");
  if (status != PHASOR_OK) return;
  demand(result->count <= capacity, "more tokens than there is room for");
  for (uint32_t i = 0; i < result->count; ++i)
    demand(out.as<uint32_t>()[i] < vocabulary, "a token outside of the vocabulary");
}

phasor_beam_options* any_search(Arena* arena, Choices* c, const Model& model, User* user) {
  const uint32_t vocabulary = model.vocabulary(PHASOR_TARGET);
  phasor_beam_options given = PHASOR_BEAM_OPTIONS_INIT;
  given.beams = count_of(c, 4);
  given.max_new = c->chance(80) ? c->between(1, 8) : any_number(c);
  given.early_stopping = count_of(c, 3);
  if (c->chance(40)) given.length_penalty = any_float(c);
  given.renormalize = count_of(c, 2);
  given.forced = some_ids(arena, c, vocabulary, &given.forced_count);
  given.no_repeat_ngram = count_of(c, 4);
  given.min_new = count_of(c, 4);
  given.suppressed = some_ids(arena, c, vocabulary, &given.suppressed_count);
  given.end = some_ids(arena, c, vocabulary, &given.end_count);
  if (c->chance(30)) given.repetition_penalty = any_float(c);
  given.length_norm = count_of(c, 2);
  given.bad_words = some_words(arena, c, vocabulary, &given.bad_words_count);
  given.source = some_ids(arena, c, vocabulary, &given.source_count);
  given.source_no_repeat_ngram = count_of(c, 3);
  if (c->chance(20)) given.forced_last = arena->keep(any_ids(c, vocabulary, 1).data(), 1);
  phasor_generate_options callbacks = PHASOR_GENERATE_OPTIONS_INIT;
  set_callbacks(&callbacks, user);
  given.logits = callbacks.logits;
  set_stops(&callbacks, arena, c);
  given.stop = callbacks.stop;
  given.stop_count = callbacks.stop_count;
  given.user = user;
  if (c->chance(30)) {
    given.groups = count_of(c, 4);
    if (c->chance(80)) given.diversity_penalty = any_float(c);
    if (c->chance(50)) given.coverage_penalty = any_float(c);
  }
  return exact(arena, &given, c);
}

void search(const Call& r) {
  Choices* const c = r.c;
  Arena a;
  User user = {c, c->below(20)};
  const uint32_t vocabulary = r.model.vocabulary(PHASOR_TARGET);
  phasor_beam_options* const options = any_search(&a, c, r.model, &user);
  phasor_beam_result made = PHASOR_BEAM_RESULT_INIT;
  phasor_beam_result* const result = exact(&a, &made, c);
  const uint32_t count = c->below(5);
  const uint32_t* const ids = a.keep(any_ids(c, vocabulary, count).data(), count);
  Answer answer;
  const phasor_status status =
      phasor_beam_search(r.session.get(), r.sequence(), ids, count, options, result, &answer.error);
  (void)answer(status);
  if (!known(result) || !known(options))
    return demand(status == PHASOR_BAD_INPUT, "a struct of an unknown size is taken");
  for (uint32_t i = 0;; ++i) {
    auto h = sized<phasor_hypothesis>();
    if (!ok(phasor_hypothesis_get(r.session.get(), i, &h))) break;
    demand(h.count <= r.limits.target, "an output longer than the limits");
    demand(h.score == h.score && h.log_probability == h.log_probability,
           "a score that is no number");
    for (uint32_t k = 0; k < h.count; ++k)
      demand(h.ids[k] < vocabulary, "a token outside of the vocabulary");
  }
}

void choose(const Call& r) {
  Choices* const c = r.c;
  Arena a;
  User user = {c, 0};
  phasor_random random = {{c->seed(), 1, 0, 0}};
  const uint32_t vocabulary = r.model.vocabulary(PHASOR_TARGET);
  phasor_generate_options given = any_options(&a, c, r.model, &user, &random);
  const phasor_generate_options* const options = exact(&a, &given, c);
  const uint32_t count = c->below(6);
  const uint32_t* const ids = a.keep(any_ids(c, vocabulary, count).data(), count);
  const Block probabilities(size_t{vocabulary} * sizeof(float));
  uint32_t id = 0;
  Answer answer;
  if (!answer(phasor_choose(r.session.get(), &id,
                            c->chance(50) ? probabilities.as<float>() : nullptr, c->below(3), ids,
                            count, c->below(7), options, &answer.error)))
    return;
  demand(id < vocabulary, "a token outside of the vocabulary");
}

// Items whose fields are anything, as many bytes apart as the first one says.
void step(const Call& r) {
  Choices* const c = r.c;
  Arena a;
  const uint32_t vocabulary = r.model.vocabulary(PHASOR_TARGET), count = c->of({1u, 1u, 2u, 0u});
  const uint32_t size = c->chance(90) ? sizeof(phasor_item) : c->below(2 * sizeof(phasor_item));
  const size_t apart = std::min<size_t>(std::max(size, 4u), sizeof(phasor_item));
  Bytes items(apart * count);
  for (uint32_t i = 0; i < count; ++i) {
    phasor_item item = PHASOR_ITEM_INIT;
    item.struct_size = i == 0 || c->chance(97) ? size : any_number(c);
    item.sequence = r.sequence();
    item.count = c->below(8);
    item.logits = c->chance(90) ? c->below(5) : any_number(c);
    item.ids = a.keep(any_ids(c, vocabulary, item.count).data(), item.count);
    if (c->chance(10)) item.ids = nullptr;
    if (c->chance(10)) item.positions = a.keep(any_ids(c, 40, item.count).data(), item.count);
    if (c->chance(10)) item.segments = a.keep(any_ids(c, 3, item.count).data(), item.count);
    std::memcpy(items.data() + i * apart, &item, apart);
  }
  const auto* const given = reinterpret_cast<phasor_item*>(a.keep(items.data(), items.size()));
  Answer answer;
  (void)answer(r.model.encodes() && c->chance(30)
                   ? phasor_encode(r.session.get(), given, count, &answer.error)
                   : phasor_step(r.session.get(), given, count, &answer.error));
}

// Jobs of any ids, now and then changed between two steps.
void jobs(const Call& r) {
  Choices* const c = r.c;
  Arena a;
  User user = {c, c->below(20)};
  phasor_random random = {{c->seed(), 1, 0, 0}};
  const bool both = r.model.encodes();
  const uint32_t vocabulary = r.model.vocabulary(PHASOR_TARGET),
                 inputs = both ? r.model.vocabulary(PHASOR_SOURCE) : vocabulary;
  phasor_generate_options given = any_options(&a, c, r.model, &user, &random);
  if (c->chance(80)) {
    given.token = nullptr;
    given.text = nullptr;
    given.random = nullptr;
    given.reuse = given.slide = given.lookahead = 0;
  }
  const phasor_generate_options* const options = exact(&a, &given, c);
  constexpr uint32_t kCapacity = 6;
  const uint32_t count = c->below(6);
  std::vector<phasor_job> all(count, phasor_job PHASOR_JOB_INIT);
  std::list<Block> out;
  for (phasor_job& job : all) {
    out.emplace_back(kCapacity * sizeof(uint32_t));
    job.count = c->below(8);
    job.ids = a.keep(any_ids(c, inputs, job.count).data(), job.count);
    job.out = out.back().as<uint32_t>();
    job.capacity = c->below(kCapacity + 1);
    if (c->chance(2)) job.struct_size = any_number(c);
    if (c->chance(3)) job.sequence = c->below(4);
  }
  for (uint32_t steps = c->between(1, 12), left = 1; steps > 0 && left != 0; --steps) {
    Answer answer;
    const phasor_status status =
        c->chance(90)
            ? phasor_jobs_step(r.session.get(), all.data(), count, options, &left, &answer.error)
            : phasor_jobs_run(r.session.get(), all.data(), count, options, &answer.error);
    (void)answer(status);
    if (!known(options))
      return demand(status == PHASOR_BAD_INPUT, "a struct of an unknown size is taken");
    for (uint32_t i = 0; i < count; ++i) {
      if (all[i].struct_size != sizeof(phasor_job)) return;
      demand(all[i].made <= all[i].capacity, "more tokens than there is room for");
      for (uint32_t k = 0; k < all[i].made; ++k)
        demand(all[i].out[k] < vocabulary, "a token outside of the vocabulary");
    }
    if (count == 0 || !c->chance(6)) continue;
    phasor_job& job = all[c->below(count)];
    switch (c->below(3)) {
      case 0:
        job.sequence = c->below(5);
        break;
      case 1:
        job.made = c->below(job.made + 1);
        break;
      default:
        job.finish = c->below(5);
    }
  }
}

// The same of searches.
void beam_jobs(const Call& r) {
  Choices* const c = r.c;
  Arena a;
  User user = {c, c->below(20)};
  const uint32_t vocabulary = r.model.vocabulary(PHASOR_TARGET),
                 inputs = r.model.encodes() ? r.model.vocabulary(PHASOR_SOURCE) : vocabulary;
  phasor_beam_options* const options = any_search(&a, c, r.model, &user);
  constexpr uint32_t kCapacity = 6, kOutputs = 3;
  const uint32_t count = c->below(6);
  std::vector<phasor_job> all(count, phasor_job PHASOR_JOB_INIT);
  std::vector<std::array<phasor_hypothesis, kOutputs>> outputs(count);
  std::list<Block> out;
  for (uint32_t i = 0; i < count; ++i) {
    phasor_job& job = all[i];
    job.count = c->below(8);
    job.ids = a.keep(any_ids(c, inputs, job.count).data(), job.count);
    job.capacity = c->below(kCapacity + 1);
    job.n_best = c->below(kOutputs + 1);
    out.emplace_back(std::max(job.n_best, 1u) * job.capacity * sizeof(uint32_t));
    job.out = out.back().as<uint32_t>();
    for (phasor_hypothesis& one : outputs[i]) one = sized<phasor_hypothesis>();
    if (c->chance(80)) job.outputs = outputs[i].data();
    if (c->chance(3)) outputs[i][c->below(kOutputs)].struct_size = any_number(c);
    if (c->chance(3)) job.sequence = c->below(4);
  }
  for (uint32_t steps = c->between(1, 12), left = 1; steps > 0 && left != 0; --steps) {
    Answer answer;
    (void)answer(
        phasor_beam_jobs_step(r.session.get(), all.data(), count, options, &left, &answer.error));
    for (const phasor_job& job : all) {
      demand(job.made <= job.capacity && job.found <= std::max(job.n_best, 1u),
             "more outputs than there is room for");
      for (uint32_t k = 0; k < job.made; ++k)
        demand(job.out[k] < vocabulary, "a token outside of the vocabulary");
    }
    if (count == 0 || !c->chance(6)) continue;
    phasor_job& job = all[c->below(count)];
    switch (c->below(4)) {
      case 0:
        job.sequence = c->below(5);
        break;
      case 1:
        (void)phasor_sequence_clear(r.session.get(), c->below(r.limits.sequences));
        break;
      case 2:
        (void)phasor_sequence_fork(r.session.get(), c->below(r.limits.sequences),
                                   c->below(r.limits.sequences));
        break;
      default:
        if (known(options)) options->beams = c->below(4);
    }
  }
}

}  // namespace

void run_generate(const uint8_t* data, size_t size) {
  const std::vector<Part> parts = split_parts(data, size, 2);
  const Model* const generated = generated_model(parts[0]);
  if (generated == nullptr || !generated->decodes()) return;
  const Model& model = *generated;
  Choices choices = parts[1].choices();
  phasor_limits limits = any_limits(&choices, model);
  if (choices.chance(70)) limits.outputs |= PHASOR_WANT_SAMPLING;
  const Session session(model, limits);
  if (session.get() == nullptr) return;
  const Call r{&choices, model, session, limits};
  if (!encode_any(&choices, model, session, 0, std::min(limits.source, 6u))) return;
  constexpr void (*kCalls[])(const Call&) = {generate, search, choose, step, jobs, beam_jobs};
  for (uint32_t i = choices.between(1, 3); i > 0; --i) kCalls[choices.below(6)](r);
}

}  // namespace fuzz
