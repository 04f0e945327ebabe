#include "properties.h"

#include <algorithm>
#include <cmath>

#include "generator/tokenizers.h"
#include "model_numbers.h"
#include "trial.h"

namespace generator {
namespace {

constexpr uint32_t kMostTokens = 37, kMostTextBytes = 120;

// Everything that one model is tried with.
struct Trial {
  Choices* choices;
  const Block& file;
  const Opened& opened;
  cli::Pool* pool;
  Sequences in;
  phasor_limits limits;
  Bits plain;
  uint32_t longest = 0;

  Way whole() const { return {longest, 1, longest, true, PHASOR_TABLES_WHOLE, false}; }
  uint32_t sequences() const { return limits.sequences; }
};

uint32_t most_tokens(const std::vector<Sequences::Tokens>& all) {
  uint32_t most = 0;
  for (const Sequences::Tokens& t : all) most = std::max(most, t.count());
  return most;
}

// Limits at random: what a way of running does not say.
phasor_limits any_limits(Choices* c, const Opened& o, const Sequences& in) {
  phasor_limits l{};
  l.struct_size = sizeof l;
  need(phasor_limits_for(o.model(), most_tokens(in.sources), most_tokens(in.targets), &l) ==
           PHASOR_OK,
       "limits_for");
  l.sequences = static_cast<uint32_t>(std::max(in.sources.size(), in.targets.size()));
  l.text_bytes = c->chance(50) ? kMostTextBytes : l.text_bytes;
  if (phasor::kHasViews && c->chance(20)) l.outputs |= PHASOR_WANT_ATTENTION;
  if (o.encoder()) return l;
  const uint32_t allowed = phasor::longest_sequence(o.inside(), phasor::kDecoder);
  l.target = std::min(l.target + c->below(5), allowed != 0 ? allowed : ~0u);
  if (phasor::kHasSampling) l.outputs |= c->chance(70) ? PHASOR_WANT_SAMPLING : 0;
  l.best_rows = c->of({0u, 1u, 5u});
  l.beams = phasor::kHasBeam ? c->of({0u, 0u, 1u, 3u}) : 0;
  l.cache_type =
      c->of<uint32_t>({PHASOR_CACHE_F32, PHASOR_CACHE_F32, PHASOR_CACHE_F16, PHASOR_CACHE_Q8});
  std::size_t size = 0;
  if (phasor_session_size(&size, o.model(), &l, nullptr) != PHASOR_OK)
    l.cache_type = PHASOR_CACHE_F32;
  return l;
}

// ---- what can be asked of a model

void check_questions(const Opened& o) {
  const phasor_model* const m = o.model();
  phasor_field field{};
  field.struct_size = sizeof field;
  for (uint32_t i = 0; i < phasor_field_count(m); ++i)
    need(phasor_field_get(m, i, &field) == PHASOR_OK, "a field has no text");
  phasor_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  for (uint32_t i = 0; i < phasor_tensor_count(m); ++i) {
    need(phasor_tensor_get(m, i, &tensor) == PHASOR_OK, "a tensor cannot be described");
    need(std::strcmp(tensor.name, "unknown tensor") != 0, "a tensor has no name");
  }
  phasor_output out{};
  out.struct_size = sizeof out;
  need(phasor_model_output(m, &out) == PHASOR_OK, "output");
  std::size_t bytes = 0, more = 0;
  const char *name = nullptr, *text = nullptr;
  for (uint32_t i = 0; i <= out.classes; ++i) (void)phasor_label(m, i, &bytes);
  for (uint32_t i = 0; i < out.prompts; ++i)
    need(phasor_prompt(m, i, &name, &bytes, &text, &more) == PHASOR_OK, "a prompt is missing");
  need(phasor_prompt(m, out.prompts, &name, &bytes, &text, &more) == PHASOR_BAD_INPUT,
       "a prompt too many");
  uint32_t skipped = 0;
  const uint32_t* const ids = phasor_skipped(m, &skipped);
  for (uint32_t i = 0; i < skipped; ++i)
    need(ids[i] < o.inside().descriptor.sides[phasor::kEncoder].vocabulary,
         "a skipped id that is none");
  phasor_cost cost{};
  cost.struct_size = sizeof cost;
  need(phasor_model_cost(m, 7, 9, &cost) == PHASOR_OK, "cost");
}

// A norm without an epsilon divides by zero where the values of a row are equal: the call says that
// a value is not finite.
bool has_no_epsilon(const Opened& o) {
  const phasor::Descriptor& d = o.inside().descriptor;
  bool none = d.output.head_norm != phasor::kNormNone && d.output.head_norm_eps == 0;
  for (const phasor::StackDescriptor& s : d.stacks)
    none = none || (s.final_norm != phasor::kNormNone && s.final_norm_eps == 0) ||
           (s.embedding_norm != phasor::kNormNone && s.embedding_norm_eps == 0);
  return none;
}

// ---- the same bits

const std::vector<const char*>& levels() {
  static const std::vector<const char*> all = [] {
    std::vector<const char*> names;
    while (const char* name = phasor_isa_name(static_cast<uint32_t>(names.size())))
      names.push_back(name);
    return names;
  }();
  return all;
}

void check_ways(Trial* t) {
  Choices* const c = t->choices;
  const Way ways[] = {
      {1, 1, 1, false, PHASOR_TABLES_ROWS, false},
      {3, 3, 3, true, PHASOR_TABLES_WHOLE, false},
      {c->between(2, 20), c->of({1u, 2u, 3u}), c->between(1, t->longest), c->chance(50),
       c->below(2), c->chance(50)},
  };
  for (const Way& way : ways) {
    const std::string what = "other bits in chunks of " + std::to_string(way.chunk) +
                             ", steps of " + std::to_string(way.step) + ", with " +
                             std::to_string(way.threads) + " threads";
    need(run(t->opened, t->limits, t->in, way, t->pool) == t->plain, what.c_str());
  }
  const char* const level = c->of(levels());
  const Opened other(t->file, level);
  const Bits bits = run(other, t->limits, t->in, ways[1], t->pool);
  need(bits == t->plain, (std::string("other bits with level ") + level).c_str());
}

// ---- the file's own vectors

phasor_limits limits_of_vectors(const Trial& t, const Opened& o) {
  phasor_limits l = limits_for_vectors(o.model());
  l.cache_type = t.limits.cache_type;
  l.chunk = t.choices->of({1u, 3u, 64u});
  l.logit_rows = t.choices->between(1, 40);
  return l;
}

void check_vectors(const Trial& t, const Block& file) {
  const Block copy(file.data(), file.size());
  std::vector<uint64_t> hashes;
  phasor_error error = PHASOR_ERROR_INIT;
  {
    const Opened o(copy);
    const Running r(o, limits_of_vectors(t, o), t.pool);
    for (uint32_t i = 0; i < phasor_vector_count(o.model()); ++i) {
      phasor_vector_result result{};
      result.struct_size = sizeof result;
      const phasor_status status = phasor_vector_run(r.session(), i, &result, &error);
      if (status == PHASOR_NOT_FINITE && has_no_epsilon(o)) return;
      need(status, error, "vector_run");
      hashes.push_back(result.hash);
    }
    if (hashes.empty()) return;
    need(phasor_vector_record(o.model(), copy.data(), hashes.data(), 1e9f, &error), error,
         "vector_record");
  }
  const auto verify = [&] {
    const Opened o(copy);
    o.check();
    const Running r(o, limits_of_vectors(t, o), t.pool);
    phasor_vector_result result{};
    result.struct_size = sizeof result;
    phasor_status status = PHASOR_OK;
    for (uint32_t i = 0; i < hashes.size() && status == PHASOR_OK; ++i)
      status = phasor_vector_run(r.session(), i, &result, &error);
    return status;
  };
  need(verify(), error, "verify");
  hashes[0] ^= 2;
  {
    const Opened o(copy);
    need(phasor_vector_record(o.model(), copy.data(), hashes.data(), 1e9f, &error), error,
         "vector_record");
  }
  need(verify() == PHASOR_MISMATCH, "a wrong hash goes through verify");
}

// ---- other types

bool quantized(const char* type) { return type[0] == 'q'; }

// Whether the file's matrices may become these types, and whether they are them already.
struct Convertible {
  bool allowed = true, same = true;
};
Convertible convertible(const Opened& o, const char* type, const char* ends) {
  Convertible answer;
  phasor_tensor t{};
  t.struct_size = sizeof t;
  for (uint32_t i = 0; phasor_tensor_get(o.model(), i, &t) == PHASOR_OK; ++i) {
    const bool outer = t.stack == phasor::kStackSource || t.stack == phasor::kStackTarget;
    const bool end = (outer && t.role == phasor::kRoleEmbedding) ||
                     (t.stack == phasor::kStackTarget && t.role == phasor::kRolePerLayer) ||
                     (t.stack == phasor::kStackOutput && t.role == phasor::kRoleOutputWeight);
    if (std::strcmp(t.layout, "panel16") != 0 && !end) continue;
    const char* const to = end ? ends : type;
    const bool same = std::strcmp(t.type, to) == 0;
    answer.same = answer.same && same;
    answer.allowed = answer.allowed && (same || std::strcmp(to, "f32") == 0 || !quantized(t.type));
  }
  return answer;
}

// The first tokens of the first sequence.
Sequences beginning(const Sequences& in) {
  Sequences out;
  const auto cut = [](const std::vector<Sequences::Tokens>& from,
                      std::vector<Sequences::Tokens>* to) {
    if (from.empty()) return;
    to->push_back(from[0]);
    to->back().ids.resize(std::min(from[0].ids.size(), std::size_t{3}));
    to->back().segments.resize(std::min(from[0].segments.size(), to->back().ids.size()));
    to->back().embeddings.resize(from[0].embeddings.size() / from[0].ids.size() *
                                 to->back().ids.size());
  };
  cut(in.sources, &out.sources);
  cut(in.targets, &out.targets);
  return out;
}

void check_type(const Trial& t, const char* type, const char* ends) {
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_quantize_options options = PHASOR_QUANTIZE_OPTIONS_INIT;
  options.type = type;
  options.output_type = ends;
  std::size_t size = 0;
  const Convertible can = convertible(t.opened, type, ends);
  phasor_status status =
      phasor_quantize_size(&size, t.file.data(), t.file.size(), &options, &error);
  if (!can.allowed) return need(status == PHASOR_UNSUPPORTED, "what was rounded is rounded again");
  need(status, error, "quantize_size");
  const Block less(size - 1), made(size);
  status = phasor_quantize(less.data(), size - 1, nullptr, 0, t.file.data(), t.file.size(),
                           &options, &error);
  need(status == PHASOR_NO_MEMORY, "quantize takes a byte less than its size");
  phasor_rounding rounding[PHASOR_TYPES] = {};
  for (phasor_rounding& r : rounding) r.struct_size = sizeof r;
  status = phasor_quantize(made.data(), size, rounding, PHASOR_TYPES, t.file.data(), t.file.size(),
                           &options, &error);
  need(status, error, std::string("quantize to ") + type);
  const Opened o(made);
  o.check();
  Sequences in = beginning(t.in);
  const Way way = {3, 1, 3, true, PHASOR_TABLES_WHOLE, false};
  phasor_limits limits = t.limits;
  limits.sequences = 1;
  const Bits bits = run(o, limits, in, way, t.pool);
  if (can.same)
    need(bits == run(t.opened, limits, in, way, t.pool),
         "other bits in the type that the file had");
  if (t.plain.sound() && bits.sound() && t.choices->chance(20)) check_vectors(t, made);
}

void check_types(const Trial& t) {
  for (unsigned code = 1; code <= phasor::kTypes; ++code)
    if ((phasor::kMatrixTypes >> code & 1) != 0 && !phasor::given_type(phasor::Type(code)))
      check_type(t, phasor::kTypeNames[code], phasor::kTypeNames[code]);
  check_type(t, "f32", phasor::kRoundedTypeNames[phasor::kHasQ8 ? t.choices->below(5) : 0]);
}

// ---- sequences

struct Stop {
  uint32_t layer, stopped;
};

// A step that a callback stops leaves its sequence as it was, or empty where a window has let go.
// Sequence 1, which has all tokens, becomes that of 0 before it has its second half.
void check_stop(Choices* c, const Trial& t, const Running& r, const Sequences::Tokens& target,
                uint32_t half) {
  phasor_error error = PHASOR_ERROR_INIT;
  const uint32_t whole = phasor_sequence_length(r.session(), 1);
  if (phasor_sequence_truncate(r.session(), 1, half) != PHASOR_OK) return;
  Stop stop = {c->below(t.opened.inside().layer_count[phasor::kDecoder]), 0};
  phasor_callbacks callbacks = {sizeof(phasor_callbacks), nullptr, nullptr, &stop, nullptr};
  callbacks.progress = [](void* user, uint32_t, uint32_t layer, uint32_t) {
    Stop* const s = static_cast<Stop*>(user);
    return layer == s->layer ? static_cast<int>(++s->stopped) : 0;
  };
  need(phasor_session_callbacks(r.session(), &callbacks) == PHASOR_OK, "callbacks");
  phasor_item item = PHASOR_ITEM_INIT;
  item.sequence = 1;
  item.count = whole - half;
  item.ids = target.ids.data() + half;
  const phasor_status status = phasor_step(r.session(), &item, 1, &error);
  need(phasor_session_callbacks(r.session(), nullptr) == PHASOR_OK, "callbacks");
  need(status == PHASOR_STOPPED && stop.stopped != 0, "a step goes on though a callback stops it");
  const uint32_t left = phasor_sequence_length(r.session(), 1);
  need(left == half || (left == 0 && t.opened.inside().window != 0),
       "a stopped step leaves another length");
  if (left == 0) return;
  Bits again, first;
  step_target(r, 1, target, half, whole - half, &again);
  need(phasor_sequence_truncate(r.session(), 0, half) == PHASOR_OK, "truncate");
  step_target(r, 0, target, half, whole - half, &first);
  need(again == first, "other bits after a stopped step");
}

void check_sequences(const Trial& t) {
  const Sequences::Tokens& target = t.in.targets[0];
  if (target.count() < 2) return;
  Choices* const c = t.choices;
  const uint32_t half = c->between(1, target.count() - 1), step = c->between(1, target.count());
  const Way way = {
      c->of({1u, 3u, 5u, t.longest}), c->of({1u, 3u}), target.count(), false, c->below(2), false};
  phasor_limits limits = limits_for(t.limits, t.in, way);
  limits.sequences = std::max(limits.sequences, 2u);
  const auto first_half = [&](const Running& r, uint32_t sequence) {
    Bits bits;
    Sequences::Tokens begun = target;
    begun.embeddings.resize(target.embeddings.size() / target.ids.size() * half);
    begun.ids.resize(half);
    if (!t.in.sources.empty()) (void)encode_source(r, t.opened, sequence, t.in.sources[0]);
    step_target(r, sequence, begun, 0, step, &bits);
    return bits;
  };
  const auto rest = [&](const Running& r, uint32_t sequence, uint32_t from) {
    Bits bits;
    step_target(r, sequence, target, from, step, &bits);
    return bits;
  };
  const Running r(t.opened, limits, t.pool);
  const Bits begun = first_half(r, 0);
  const Bits whole = rest(r, 0, half);
  need(phasor_sequence_clear(r.session(), 0) == PHASOR_OK, "clear");
  need(first_half(r, 0) == begun, "other bits after clear");

  // A fork goes on as its origin does, and neither disturbs the other.
  need(phasor_sequence_fork(r.session(), 1, 0) == PHASOR_OK, "fork");
  need(rest(r, 1, half) == whole, "other bits in a fork");
  std::size_t size = 0;
  need(phasor_state_size(r.session(), 0, &size) == PHASOR_OK, "state_size");
  const Block state(size), less(size - 1);
  need(phasor_state_save(r.session(), 0, less.data(), size - 1) == PHASOR_NO_MEMORY,
       "a state in a byte less than its size");
  need(phasor_state_save(r.session(), 0, state.data(), size) == PHASOR_OK, "state_save");
  need(rest(r, 0, half) == whole, "other bits beside a fork");

  check_stop(c, t, r, target, half);

  // What is cut off can be said again, where the layers' windows still have what it would see.
  const uint32_t back = c->between(0, half);
  const phasor_status cut = phasor_sequence_truncate(r.session(), 0, back);
  if (cut == PHASOR_OK) {
    Bits again;
    step_target(r, 0, target, back, step, &again);
    const std::size_t kept = again.values.size();
    need(again.sound() && kept >= whole.values.size() &&
             std::equal(whole.values.begin(), whole.values.end(),
                        again.values.end() - static_cast<std::ptrdiff_t>(whole.values.size())),
         "other bits after truncate");
  } else {
    need(cut == PHASOR_BAD_INPUT && t.opened.inside().window != 0, "truncate");
  }

  // The state goes on in another session.
  phasor_error error = PHASOR_ERROR_INIT;
  Way other = way;
  other.chunk = c->of({1u, 2u, 7u, t.longest});
  other.threads = c->of({1u, 3u});
  phasor_limits elsewhere = limits_for(t.limits, t.in, other);
  elsewhere.target = std::max(elsewhere.target, target.count());
  const Running moved(t.opened, elsewhere, t.pool);
  need(phasor_state_restore(moved.session(), 0, state.data(), size, &error), error,
       "state_restore");
  need(rest(moved, 0, half) == whole, "other bits after a state was restored");
  state.data()[c->below(static_cast<uint32_t>(size))] ^=
      static_cast<unsigned char>(1u << c->below(8));
  (void)phasor_state_restore(moved.session(), 0, state.data(), size, &error);
}

// ---- generation

struct Made {
  Ids ids;
  phasor_status status;
};

Made generate(const Running& r, const Trial& t, const phasor_generate_options& options) {
  const uint32_t prompt = std::min(t.in.targets[0].count(), 3u);
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_generation result = PHASOR_GENERATION_INIT;
  need(phasor_sequence_clear(r.session(), 0) == PHASOR_OK, "clear");
  if (!t.in.sources.empty() && !encode_source(r, t.opened, 0, t.in.sources[0]))
    return {{}, PHASOR_NOT_FINITE};
  Made made{Ids(4), PHASOR_OK};
  made.status = phasor_generate(r.session(), 0, t.in.targets[0].ids.data(), prompt, made.ids.data(),
                                4, &options, &result, &error);
  need(result.count <= 4, "more tokens than there is room for");
  made.ids.resize(result.count);
  for (const uint32_t id : made.ids)
    need(id < vocabulary_of(t.opened.model()), "a token out of the vocabulary");
  if (made.status != PHASOR_BAD_INPUT) need(made.status, error, "generate");
  return made;
}

// The tokens are those of the largest logits, one after the other.
void check_greedy(const Running& r, const Trial& t, const Ids& made) {
  Sequences::Tokens all = t.in.targets[0];
  all.ids.resize(std::min(all.count(), 3u));
  all.segments.clear();
  all.embeddings.clear();
  const uint32_t prompt = all.count();
  need(phasor_sequence_clear(r.session(), 0) == PHASOR_OK, "clear");
  if (!t.in.sources.empty()) need(encode_source(r, t.opened, 0, t.in.sources[0]), "encode");
  for (uint32_t i = 0; i < made.size(); ++i) {
    const uint32_t first = i == 0 ? 0 : all.count() - 1;
    Bits bits;
    step_target(r, 0, all, first, prompt, &bits);
    uint32_t id = 0;
    float logit = 0;
    const uint32_t row = i == 0 ? (prompt - 1) : 0;
    need(phasor_argmax(r.session(), row, &id, &logit) == PHASOR_OK && id == made[i],
         "greedy decoding takes another token");
    all.ids.push_back(made[i]);
  }
}

// Searches side by side, one more than run at the same time, give what each gives alone.
void check_searches(const Running& r, const Trial& t, const phasor_beam_options& options) {
  const bool both = !t.in.sources.empty();
  const Ids& ids = both ? t.in.sources[0].ids : t.in.targets[0].ids;
  phasor_item item = PHASOR_ITEM_INIT;
  item.ids = ids.data();
  item.count = both ? static_cast<uint32_t>(ids.size()) : 1;
  need(phasor_sequence_clear(r.session(), 0) == PHASOR_OK, "clear");
  if (both && phasor_encode(r.session(), &item, 1, nullptr) != PHASOR_OK) return;
  phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
  const phasor_status alone =
      phasor_beam_search(r.session(), 0, ids.data(), both ? 0 : 1, &options, &result, nullptr);
  const auto hypothesis = [] {
    phasor_hypothesis h{};
    h.struct_size = sizeof h;
    return h;
  };
  const auto text_of = [](const phasor_hypothesis& h) {
    std::string bytes(reinterpret_cast<const char*>(h.ids), h.count * sizeof(uint32_t));
    return bytes.append(reinterpret_cast<const char*>(&h.score), sizeof h.score);
  };
  std::vector<std::string> want;
  phasor_hypothesis h = hypothesis();
  for (uint32_t i = 0; i < result.count && alone == PHASOR_OK; ++i) {
    need(phasor_hypothesis_get(r.session(), i, &h) == PHASOR_OK, "an output is missing");
    want.push_back(text_of(h));
  }
  const uint32_t count = r.limits.searches + 1;
  std::vector<phasor_job> jobs(count, phasor_job PHASOR_JOB_INIT);
  std::vector<Ids> out(count, Ids(std::size_t{r.limits.beams} * options.max_new));
  std::vector<std::vector<phasor_hypothesis>> outputs(
      count, std::vector<phasor_hypothesis>(r.limits.beams, hypothesis()));
  for (uint32_t i = 0; i < count; ++i) {
    jobs[i].ids = item.ids;
    jobs[i].count = item.count;
    jobs[i].out = out[i].data();
    jobs[i].capacity = options.max_new;
    jobs[i].n_best = r.limits.beams;
    jobs[i].outputs = outputs[i].data();
  }
  phasor_error error = PHASOR_ERROR_INIT;
  need(phasor_beam_jobs_run(r.session(), jobs.data(), count, &options, &error), error, "jobs");
  for (uint32_t i = 0; i < count; ++i) {
    need(jobs[i].status == alone && jobs[i].found == want.size(),
         "a search beside others ends in another way");
    for (uint32_t k = 0; k < want.size(); ++k)
      need(text_of(outputs[i][k]) == want[k], "a search beside others has another output");
  }
}

// A decoder that is given what the encoder gave has the same bits; a value that is not finite is
// told.
void check_states(const Trial& t) {
  const Way way = {t.choices->of({1u, 3u, 7u, t.longest}),
                   t.choices->of({1u, 3u}),
                   t.choices->between(1, t.longest),
                   false,
                   t.choices->below(2),
                   false};
  const Running r(t.opened, limits_for(t.limits, t.in, way), t.pool);
  const uint32_t width = t.opened.inside().descriptor.stacks[phasor::kEncoder].width;
  std::vector<std::vector<float>> states(t.in.sources.size());
  std::vector<phasor_item> items(t.in.sources.size(), PHASOR_ITEM_INIT);
  std::vector<Bits> plain(items.size()), given(items.size());
  for (uint32_t i = 0; i < items.size(); ++i) {
    need(encode_source(r, t.opened, i, t.in.sources[i]), "encode");
    uint32_t rows = 0, stride = 0;
    const float* const hidden = phasor_hidden(r.session(), i, &rows, &stride);
    need(hidden != nullptr && rows == t.in.sources[i].count(), "hidden states of a source");
    for (uint32_t row = 0; row < rows; ++row)
      states[i].insert(states[i].end(), hidden + std::size_t{row} * stride,
                       hidden + std::size_t{row} * stride + width);
    step_target(r, i, t.in.targets[i], 0, way.step, &plain[i]);
    items[i].sequence = i;
    items[i].count = rows;
    items[i].states = states[i].data();
  }
  // all of them together, and of the last its ids where it has some
  const Sequences::Tokens& last = t.in.sources.back();
  if (t.choices->chance(30) && last.embeddings.empty()) {
    items.back().states = nullptr;
    items.back().ids = last.ids.data();
    if (!last.segments.empty()) items.back().segments = last.segments.data();
  }
  phasor_error error = PHASOR_ERROR_INIT;
  const uint32_t count = static_cast<uint32_t>(items.size());
  need(phasor_encode(r.session(), items.data(), count, &error), error, "encode of states");
  for (uint32_t i = 0; i < count; ++i) {
    step_target(r, i, t.in.targets[i], 0, way.step, &given[i]);
    need(given[i] == plain[i], "other bits of the encoder's own states");
  }
  states[0][t.choices->below(static_cast<uint32_t>(states[0].size()))] =
      t.choices->chance(50) ? INFINITY : NAN;
  items[0].ids = items[0].segments = nullptr;
  items[0].states = states[0].data();
  need(phasor_encode(r.session(), items.data(), 1, &error) == PHASOR_NOT_FINITE,
       "states that are not finite");
  items[0].ids = t.in.targets[0].ids.data();
  need(phasor_encode(r.session(), items.data(), 1, &error) == PHASOR_BAD_INPUT,
       "states beside ids");
  items[0].ids = nullptr;
  need(phasor_step(r.session(), items.data(), 1, &error) == PHASOR_BAD_INPUT, "states in a step");
}

// Tokens that are not seen change nothing of those that are.
void check_seen(const Trial& t) {
  const Sequences::Tokens& all = t.in.sources[0];
  const Running r(t.opened, limits_for(t.limits, t.in, t.whole()), t.pool);
  const uint32_t width = t.opened.inside().descriptor.stacks[phasor::kEncoder].width;
  const auto hidden = [&](phasor_item item, uint32_t rows, std::vector<float>* out) {
    phasor_error error = PHASOR_ERROR_INIT;
    const phasor_status status = phasor_encode(r.session(), &item, 1, &error);
    if (status != PHASOR_OK) return status;
    uint32_t count = 0, stride = 0;
    const float* const first = phasor_hidden(r.session(), 0, &count, &stride);
    out->clear();
    for (uint32_t row = 0; row < rows; ++row)
      out->insert(out->end(), first + std::size_t{row} * stride,
                  first + std::size_t{row} * stride + width);
    return status;
  };
  phasor_item item = PHASOR_ITEM_INIT;
  item.count = all.count();
  item.ids = all.ids.data();
  if (!all.segments.empty()) item.segments = all.segments.data();
  item.seen = t.choices->between(1, item.count);
  std::vector<float> some, alone;
  const phasor_status status = hidden(item, item.seen, &some);
  need(status == PHASOR_OK || status == PHASOR_BAD_INPUT, "encode of tokens that are not seen");
  if (status != PHASOR_OK) return;
  item.count = item.seen;
  item.seen = 0;
  need(hidden(item, item.count, &alone) == PHASOR_OK && some == alone,
       "other bits beside tokens that are not seen");
}

// What gives classes has no tokens to choose from: each way of choosing one says so.
void check_no_generation(const Trial& t) {
  phasor_limits limits = limits_for(t.limits, t.in, t.whole());
  limits.beams = phasor::kHasBeam ? 2 : 0;
  limits.searches = limits.beams != 0 ? 1 : 0;
  const Running r(t.opened, limits, t.pool);
  need(encode_source(r, t.opened, 0, t.in.sources[0]), "encode");
  const uint32_t* const ids = t.in.targets[0].ids.data();
  uint32_t out[4];
  const auto refused = [](phasor_status status, const phasor_error& error) {
    need(status == PHASOR_BAD_INPUT && std::strstr(error.text, "gives classes") != nullptr,
         "tokens of a model that gives classes");
  };
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_generation result = PHASOR_GENERATION_INIT;
  refused(phasor_generate(r.session(), 0, ids, 1, out, 4, &options, &result, &error), error);
  phasor_job job = PHASOR_JOB_INIT;
  job.ids = t.in.sources[0].ids.data();
  job.count = t.in.sources[0].count();
  job.out = out;
  job.capacity = 4;
  refused(phasor_jobs_run(r.session(), &job, 1, &options, &error), error);
  if (limits.beams == 0) return;
  phasor_beam_options beams = PHASOR_BEAM_OPTIONS_INIT;
  phasor_beam_result found = PHASOR_BEAM_RESULT_INIT;
  beams.max_new = 4;
  refused(phasor_beam_search(r.session(), 0, ids, 1, &beams, &found, &error), error);
  phasor_hypothesis best{};
  best.struct_size = sizeof best;
  job.outputs = &best;
  job.n_best = 1;
  refused(phasor_beam_jobs_run(r.session(), &job, 1, &beams, &error), error);
}

void check_generation(const Trial& t) {
  if (t.opened.inside().descriptor.output.output != phasor::kOutputLogits)
    return check_no_generation(t);
  phasor_limits limits = limits_for(t.limits, t.in, t.whole());
  limits.logit_rows = std::max(limits.logit_rows, 4u);
  if (limits.best_rows != 0) limits.best_rows = std::max(limits.best_rows, 3u);
  if (limits.beams == 3) limits.searches = limits.sequences;
  const Running r(t.opened, limits, t.pool);
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  const Made greedy = generate(r, t, options);
  need(greedy.status == PHASOR_OK, "greedy decoding is refused");
  check_greedy(r, t, greedy.ids);
  options.lookahead = 2;
  const Made ahead = generate(r, t, options);
  need(ahead.status == PHASOR_OK && ahead.ids == greedy.ids, "lookahead gives other tokens");
  if ((limits.outputs & PHASOR_WANT_SAMPLING) != 0) {
    options = PHASOR_GENERATE_OPTIONS_INIT;
    options.temperature = 0.9f;
    options.top_k = t.choices->below(5);
    options.top_p = 0.8f;
    options.repetition_penalty = 1.2f;
    options.seed = t.choices->seed();
    need(generate(r, t, options).ids == generate(r, t, options).ids, "one seed gives two outputs");
    options = PHASOR_GENERATE_OPTIONS_INIT;
    if (phasor_generation_defaults(t.opened.model(), &options) != 0) {
      const Made advised = generate(r, t, options);  // refused where all tokens are forbidden
      need(advised.status == PHASOR_OK || options.suppressed_count != 0 ||
               options.no_repeat_ngram != 0 || options.min_new != 0 || options.bad_words_count != 0,
           "the file's own defaults are refused");
    }
  }
  if (limits.beams == 0) return;
  phasor_beam_options beams = PHASOR_BEAM_OPTIONS_INIT;
  beams.max_new = t.choices->between(1, 4);
  beams.early_stopping = t.choices->below(3);
  if (limits.searches != 0) check_searches(r, t, beams);
  phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
  phasor_error error = PHASOR_ERROR_INIT;
  need(phasor_sequence_clear(r.session(), 0) == PHASOR_OK, "clear");
  if (!t.in.sources.empty()) need(encode_source(r, t.opened, 0, t.in.sources[0]), "encode");
  const phasor_status status =
      phasor_beam_search(r.session(), 0, t.in.targets[0].ids.data(), 1, &beams, &result, &error);
  need(status, error, "beam_search");
  for (uint32_t i = 0; i < result.count; ++i) {
    phasor_hypothesis h{};
    h.struct_size = sizeof h;
    need(phasor_hypothesis_get(r.session(), i, &h) == PHASOR_OK,
         "an output of a beam search is missing");
    for (uint32_t k = 0; k < h.count; ++k)
      need(h.ids[k] < vocabulary_of(t.opened.model()), "a token out of the vocabulary");
  }
}

// ---- texts

void check_text(const Trial& t, const Running& r, uint32_t side, const std::string& text) {
  phasor_error error = PHASOR_ERROR_INIT;
  const phasor_model* const m = t.opened.model();
  const phasor::Tokenizer& tokenizer =
      *t.opened.inside().tokenizer(side == PHASOR_SOURCE ? phasor::kEncoder : phasor::kDecoder);
  std::size_t count = 0, again = 0;
  const Block bytes(text.data(), text.size());
  const char* const given = reinterpret_cast<const char*>(bytes.data());
  phasor_status status =
      phasor_text_to_ids(r.session(), side, 0, nullptr, 0, &count, given, text.size(), &error);
  if (status == PHASOR_BAD_INPUT) {  // words without an unknown; more bytes than the section says
    const bool may = tokenizer.trie != nullptr || tokenizer.model == model_of(ModelNumber::words) ||
                     tokenizer.model == model_of(ModelNumber::wordpiece) ||
                     tokenizer.model == model_of(ModelNumber::pipeline);
    return need(may && !text.empty(), "a text is refused");
  }
  need(status == (count != 0 ? PHASOR_FULL : PHASOR_OK), "the number of ids is not told");
  const Block room(count * sizeof(uint32_t));
  uint32_t* const ids = reinterpret_cast<uint32_t*>(room.data());
  status = phasor_text_to_ids(r.session(), side, 0, ids, count, &again, given, text.size(), &error);
  need(status, error, "text_to_ids");
  need(again == count, "the number of ids is another one the second time");
  std::string back;
  phasor_text state = PHASOR_TEXT_INIT;
  const auto take = [&](phasor_status (*next)(const phasor_model*, uint32_t, phasor_text*, uint32_t,
                                              char*, std::size_t, std::size_t*),
                        uint32_t id) {
    std::size_t size = 0;
    const phasor_status asked = next(m, side, &state, id, nullptr, 0, &size);
    need(asked == (size != 0 ? PHASOR_FULL : PHASOR_OK), "the bytes of a text are not told");
    const Block out(size);
    need(size == 0 || next(m, side, &state, id, reinterpret_cast<char*>(out.data()), size, &size) ==
                          PHASOR_OK,
         "a text that was told is refused");
    back.append(reinterpret_cast<const char*>(out.data()), size);
  };
  for (std::size_t i = 0; i < count; ++i) {
    need(ids[i] < tokenizer.pieces, "an id that is no piece");
    take(phasor_id_to_text, ids[i]);
  }
  take([](const phasor_model* model, uint32_t of, phasor_text* at, uint32_t, char* out,
          std::size_t capacity,
          std::size_t* size) { return phasor_text_flush(model, of, at, out, capacity, size); },
       0);
}

void check_pair(const Running& r, uint32_t side, const std::string& a, const std::string& b) {
  phasor_error error = PHASOR_ERROR_INIT;
  std::size_t count = 0;
  Ids ids(400), segments(400);
  (void)phasor_pair_to_ids(r.session(), side, ids.data(), segments.data(), ids.size(), &count,
                           a.data(), a.size(), b.data(), b.size(), &error);
}

void check_conversation(const Trial& t, const Running& r) {
  Choices* const c = t.choices;
  std::vector<std::string> contents;
  std::vector<phasor_chat_message> messages;
  for (uint32_t i = c->below(4); i > 0; --i) contents.push_back(any_input(c, c->below(6)));
  for (const std::string& content : contents) {
    const char* const role = c->of({"user", "assistant", "system", "tool"});
    messages.push_back(
        {sizeof(phasor_chat_message), role, std::strlen(role), content.data(), content.size()});
  }
  phasor_error error = PHASOR_ERROR_INIT;
  std::size_t size = 0, again = 0;
  const int open = c->chance(50) ? 1 : 0;
  const uint32_t count = static_cast<uint32_t>(messages.size());
  phasor_status status =
      phasor_chat_to_text(r.session(), open, nullptr, 0, &size, messages.data(), count, &error);
  if (status == PHASOR_BAD_INPUT)
    return;  // the template refuses, or keeps more than the limits hold
  need(status == (size != 0 ? PHASOR_FULL : PHASOR_OK), "the size of a conversation is not told");
  const Block out(size);
  status = phasor_chat_to_text(r.session(), open, reinterpret_cast<char*>(out.data()), size, &again,
                               messages.data(), count, &error);
  need(status, error, "chat_to_text");
  need(size == again, "a conversation has two sizes");
}

void check_texts(const Trial& t) {
  Choices* const c = t.choices;
  phasor_limits limits = t.limits;
  limits.sequences = limits.chunk = limits.threads = 1;
  limits.text_bytes = kMostTextBytes;
  const Running r(t.opened, limits, t.pool);
  for (const uint32_t side : {PHASOR_SOURCE, PHASOR_TARGET}) {
    const bool present = t.opened.inside().descriptor.sides[side - 1].present != 0;
    if (!present || t.opened.inside().has_tokenizer[side - 1] == 0) continue;
    const std::string text = any_input(c, c->below(12)), other = any_input(c, c->below(12));
    check_text(t, r, side, "");
    check_text(t, r, side, text);
    check_text(t, r, side, other);
    check_pair(r, side, text, other);
  }
  if (phasor_chat_available(t.opened.model()) != 0) check_conversation(t, r);
}

}  // namespace

Outcome check_properties(Choices* c, const Bytes& bytes, cli::Pool* pool) {
  const Block file(bytes.data(), bytes.size());
  const Opened opened(file);
  opened.check();
  check_questions(opened);
  const bool large = bytes.size() > 200000;
  Trial t{c,
          file,
          opened,
          pool,
          any_sequences(c, opened, large ? 5 : c->of({3u, 9u, 18u, kMostTokens})),
          {},
          {}};
  t.limits = any_limits(c, opened, t.in);
  t.longest = std::max(most_tokens(t.in.sources), most_tokens(t.in.targets));
  t.plain = run(opened, t.limits, t.in, t.whole(), pool);
  check_ways(&t);
  const bool finite = t.plain.sound();
  need(finite || t.plain.told, "an output is not a number, and the call says ok");
  if (finite) check_vectors(t, file);
  if (finite && !opened.encoder()) check_sequences(t);
  if (finite && opened.inside().descriptor.has_both()) check_states(t);
  if (finite && opened.encoder() && t.in.sources[0].embeddings.empty()) check_seen(t);
  if (finite && !opened.encoder() && !has_no_epsilon(opened)) check_generation(t);  // any token
  check_types(t);
  check_texts(t);
  return {finite, t.limits.cache_type, t.limits.outputs, t.limits.beams, t.sequences()};
}

}  // namespace generator
