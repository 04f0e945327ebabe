#include "engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../io/foreign.h"
#include "../io/json.h"
#include "wording.h"

namespace cli {
namespace {

bool no_memory(const char* path, const char* what, size_t bytes) {
  data_error("%s: no memory for the %s of %s bytes", path, what, grouped(bytes).c_str());
  return false;
}

uint32_t default_length(uint32_t asked, const phasor_side& side) {
  if (asked != 0) return asked;
  if (side.max_positions == 0) return 256;
  return side.max_positions < kMostByDefault ? side.max_positions : kMostByDefault;
}

// Whether the text of who computed a vector ends so.
template <size_t N>
bool author_ends(const phasor_vector& v, const char (&end)[N]) {
  return v.author_bytes >= N - 1 && !memcmp(v.author + v.author_bytes - (N - 1), end, N - 1);
}

}  // namespace

phasor_item item_of(const uint32_t* ids, size_t count, uint32_t logits) {
  phasor_item item = PHASOR_ITEM_INIT;
  item.ids = ids;
  item.count = uint32_t(count);
  item.logits = logits;
  return item;
}

bool Engine::fail() const {
  const bool damaged = error.code == PHASOR_BAD_FILE || error.code == PHASOR_BAD_CHECKSUM;
  if (file.unchanged())
    data_error("%s: %s%s", path, said().c_str(), damaged ? "; copy or convert it again" : "");
  return false;
}

bool Engine::done(phasor_status status, string* why) const {
  if (status != PHASOR_OK) *why = said();
  return status == PHASOR_OK;
}

string Engine::said() const { return worded(error.text, model); }

int Engine::fit(const CommandLine& line) const {
  const Command& c = *line.command;
  const char* why = c.unfit != nullptr ? c.unfit(model) : nullptr;
  if (why == nullptr) return 0;
  string others;
  for (const Command* const* other = kCommands; *other != nullptr; ++other) {
    const Command& o = **other;
    if (o.run != nullptr && o.unfit != nullptr && o.unfit(model) == nullptr)
      others += (others.empty() ? "; this model is for phasor " : ", ") + string(o.name);
  }
  return data_error("%s: %s%s", path, why, others.c_str());
}

bool Engine::open(const char* name, const OpenOptions& options, Load automatic) {
  const Load load = options.load != 0 ? static_cast<Load>(options.load.value) : automatic;
  string is = foreign_path(name);
  if (is.empty() && !file.open(name, load, "a .phasor file")) return false;
  if (is.empty()) is = foreign_bytes(file.data(), file.bytes());
  if (!is.empty()) return data_error("%s: %s", name, is.c_str()), false;
  return open_bytes(name, file.data(), file.bytes(), options.isa) && (!options.check || check());
}

bool Engine::check() const { return phasor_model_check(model, &error) == PHASOR_OK || fail(); }

int Engine::choose(const TextOptions& o, const char* other) {
  const char* flag = first_given(o.source_lang, o.target_lang, o.prompt, o.prompt_text);
  if (flag == nullptr) return 0;
  if (stack != PHASOR_ENCODER_DECODER)
    return usage_error("%s: for an encoder-decoder; this model is a decoder", flag);
  if (other != nullptr) return usage_error("%s: does not go with %s", flag, other);
  if (o.prompt != nullptr && o.prompt_text != nullptr)
    return usage_error("--prompt: expected either --prompt or --prompt-text, not both");
  string why;
  if (o.prompt_text != nullptr) prompt = o.prompt_text;
  if (o.prompt != nullptr && !find_prompt(model, o.prompt, &prompt, &why))
    return data_error("%s: %s", path, why.c_str());
  if (o.source_lang == nullptr && o.target_lang == nullptr) return 0;
  if (!find_languages(model, source, target, o.source_lang, o.target_lang, &languages, &why))
    return data_error("%s: %s", path, why.c_str());
  source.prefix = languages.before.data();
  source.prefix_count = count_of(languages.before);
  source.suffix = languages.behind.data();
  source.suffix_count = count_of(languages.behind);
  // what an output begins with is said where the model is opened
  if (languages.decoder_start == PHASOR_NONE && languages.forced_first == PHASOR_NONE) return 0;
  phasor_open_options open = PHASOR_OPEN_OPTIONS_INIT;
  open.isa = isa_;
  if (languages.decoder_start != PHASOR_NONE) open.decoder_start = &languages.decoder_start;
  if (languages.forced_first != PHASOR_NONE) open.forced_first = &languages.forced_first;
  if (phasor_model_open(&model, model_block_.data(), model_bytes, file.data(), file.bytes(), &open,
                        &error) != PHASOR_OK)
    return fail(), 1;
  target = sized<phasor_side>();
  (void)phasor_model_side(model, PHASOR_TARGET, &target);
  return 0;
}

bool Engine::open_bytes(const char* name, const void* data, size_t bytes, const char* isa) {
  path = name;
  isa_ = isa;
  if (phasor_model_size(&model_bytes, data, bytes, &error) != PHASOR_OK) return fail();
  if (!model_block_.allocate(model_bytes)) return no_memory(path, "model's block", model_bytes);
  phasor_open_options open = PHASOR_OPEN_OPTIONS_INIT;
  open.isa = isa;
  if (phasor_model_open(&model, model_block_.data(), model_bytes, data, bytes, &open, &error) !=
      PHASOR_OK)
    return fail();
  stack = phasor_model_stack(model);
  source = target = sized<phasor_side>();
  if (phasor_model_side(model, PHASOR_SOURCE, &source) != PHASOR_OK) source.vocabulary = 0;
  if (phasor_model_side(model, PHASOR_TARGET, &target) != PHASOR_OK) target.vocabulary = 0;
  return true;
}

phasor_limits Engine::limits_for(uint32_t source_ids, uint32_t target_ids) const {
  auto out = sized<phasor_limits>();
  (void)phasor_limits_for(model, has_source() ? source_ids : 0, has_target() ? target_ids : 0,
                          &out);
  return out;
}

bool Engine::start(const phasor_limits& wanted) {
  limits = wanted;
  if (phasor_session_size(&arena_bytes, model, &limits, &error) != PHASOR_OK) return fail();
  if (!arena_.allocate(arena_bytes)) return no_memory(path, "arena", arena_bytes);
  if (!pool_.start(limits.threads))
    return data_error("--threads %u: the system gives no more threads", limits.threads), false;
  return open_session(arena_, arena_bytes) || fail();
}

bool Engine::open_session(const Block& arena, size_t bytes) {
  const phasor_parallel parallel = pool_.parallel();
  phasor_session* opened = nullptr;
  if (phasor_session_open(&opened, arena.data(), bytes, model, &limits,
                          limits.threads > 1 ? &parallel : nullptr, &error) != PHASOR_OK)
    return false;
  session = opened;
  observe(hooks_.see, hooks_.self);
  return true;
}

void Engine::see(void* hooks, const phasor_view* view) {
  const Hooks* h = static_cast<const Hooks*>(hooks);
  h->see(h->self, view);
}

void Engine::mark(void* hooks, const uint32_t* ids, uint32_t count, uint32_t* allowed,
                  uint32_t words) {
  static_cast<const Hooks*>(hooks)->shortlist->mark(ids, count, allowed, words);
}

void Engine::use(const Shortlist* shortlist) {
  hooks_.shortlist = shortlist;
  observe(hooks_.see, hooks_.self);
}

void Engine::observe(void (*see_all)(void*, const phasor_view*), void* self) const {
  hooks_.see = see_all;
  hooks_.self = self;
  auto callbacks = sized<phasor_callbacks>();
  if (see_all != nullptr) callbacks.see = &see;
  if (hooks_.shortlist != nullptr) callbacks.shortlist = &mark;
  callbacks.user = &hooks_;
  (void)phasor_session_callbacks(session, &callbacks);
}

bool Engine::hold_text(size_t bytes, string* why) {
  const phasor_limits before = limits;
  bytes += prompt.size();
  if (bytes > limits.text_bytes) make_text_room(&limits, max(bytes, 2 * size_t{limits.text_bytes}));
  if (limits.text_bytes == before.text_bytes) return true;
  size_t need = 0;
  Block larger;
  bool done = phasor_session_size(&need, model, &limits, &error) == PHASOR_OK;
  if (!done) *why = said();
  if (done && !larger.allocate(need)) {
    *why = "no memory for the arena of " + grouped(need) + " bytes that a text of " +
           grouped(bytes) + " needs";
    done = false;
  }
  if (done && !open_session(larger, need)) *why = said(), done = false;
  if (!done) return limits = before, false;
  arena_.swap(&larger);
  arena_bytes = need;
  return true;
}

uint32_t Engine::source_count(const TokenIds& ids) const {
  if (!places.empty()) return count_of(places);
  return states.empty() ? count_of(ids) : count_of(states) / source.width;
}

phasor_status Engine::encode(const TokenIds& ids) const {
  phasor_item item = item_of(ids.data(), source_count(ids), PHASOR_LOGITS_NONE);
  if (!states.empty()) {
    item.ids = places.empty() ? nullptr : places.data();
    (places.empty() ? item.states : item.embeddings) = states.data();
  }
  return phasor_encode(session, &item, 1, &error);
}

bool Engine::encode(const phasor_item& item, string* why) const {
  return done(phasor_encode(session, &item, 1, &error), why) &&
         done(phasor_sequence_status(session, 0), why);
}

phasor_status Engine::step(const uint32_t* ids, size_t count, uint32_t logits) const {
  const phasor_item item = item_of(ids, count, logits);
  return phasor_step(session, &item, 1, &error);
}

phasor_vector vector_at(const Engine& e, uint32_t i) {
  auto v = sized<phasor_vector>();
  (void)phasor_vector_get(e.model, i, &v);
  return v;
}

const char* proof_of(const Engine& e) {
  if (phasor_vector_count(e.model) == 0) return "";
  const phasor_vector v = vector_at(e, 0);
  if (author_ends(v, "the model's own outputs")) return "against your model's outputs";
  return author_ends(v, ", short") ? "against the description, short" : "against the description";
}

phasor_limits limits_for_vectors(const Engine& e, const MemoryOptions& o) {
  uint32_t source = 1, target = 1;
  for (uint32_t i = 0; i < phasor_vector_count(e.model); ++i) {
    const phasor_vector v = vector_at(e, i);
    if (v.source_count > source) source = v.source_count;
    if (v.target_count > target) target = v.target_count;
  }
  phasor_limits limits = e.limits_for(source, target);
  limits.threads = o.threads;
  return limits;
}

uint32_t Engine::start_id() const {
  return target.decoder_start != PHASOR_NONE ? target.decoder_start : target.start;
}

phasor_limits default_limits(const Engine& e, const MemoryOptions& o) {
  phasor_limits limits =
      e.limits_for(default_length(o.source, e.source), default_length(o.context, e.target));
  limits.threads = o.threads;
  limits.cache_type = o.cache;
  limits.beams = o.beam;
  return limits;
}

int check_sides(const Engine& e, const MemoryOptions& o, const char* decoding) {
  if (o.source.given && !e.has_source())
    return usage_error("--source: this model is a decoder and has no source");
  if (decoding == nullptr) decoding = first_given(o.context, o.beam);
  if (decoding == nullptr || e.has_target()) return 0;
  return usage_error("%s: for a decoder; this model is an encoder", decoding);
}

void greedy_room(phasor_limits* limits, uint32_t rows) {
  if (limits->target == 0) return;
  limits->best_rows = rows;
  limits->logit_rows = 0;
}

void make_room_for_ids(phasor_limits* limits, const Engine& e, const MemoryOptions& o,
                       const TokenIds& ids) {
  const auto grow = [](uint32_t* limit, size_t count, const phasor_side& side) {
    if (count > *limit && count <= (side.max_positions != 0 ? side.max_positions : UINT32_MAX))
      *limit = uint32_t(count);
  };
  const size_t count = ids.size();
  if (e.has_source() && o.source == 0) grow(&limits->source, count, e.source);
  if (!e.has_source() && o.context == 0) grow(&limits->target, count + 1, e.target);
}

void make_text_room(phasor_limits* limits, size_t bytes) {
  bytes = min(bytes, LineReader::kLongest);
  if (limits->text_bytes != 0 && bytes > limits->text_bytes) limits->text_bytes = uint32_t(bytes);
}

void print_figures(const Engine& e, const char* what, uint64_t count, uint64_t tokens,
                   double seconds) {
  note("%s %s%s, %s tokens in %.3f s (%.0f tokens/s), arena %s bytes, %s, %u thread%s",
       grouped(count).c_str(), what, plural(count), grouped(tokens).c_str(), seconds,
       seconds > 0 ? double(tokens) / seconds : 0.0, grouped(e.arena_bytes).c_str(),
       phasor_model_isa(e.model), e.limits.threads, plural(e.limits.threads));
}

int bad_input(const Engine& e, const string& where, const string& error) {
  if (e.file.unchanged()) data_error("%s: %s", where.c_str(), error.c_str());
  return 1;
}

int bad_line(const Engine& e, const CommandLine& line, const string& where, uint64_t number,
             const string& error) {
  (void)bad_input(e, where, error);
  if (line.json) output(Json().open('{').add("line", number).add("error", error).close('}').str());
  output("\n");
  output_flush();
  return 1;
}

string no_room(size_t count, size_t room, const string& flags) {
  return format("%zu tokens, there is room for %zu (%s)", count, room, flags.c_str());
}

string more_room(const Engine& e, uint32_t side, const string& other) {
  const uint32_t most = e.side_of(side).max_positions,
                 room = side == PHASOR_SOURCE ? e.limits.source : e.limits.target;
  const bool may_grow = most == 0 || room < most;
  if (!may_grow) return other.empty() ? "the model has no more" : other;
  return (side == PHASOR_SOURCE ? "--source" : "--context") + (other.empty() ? "" : "; " + other);
}

const char* no_generator(const phasor_model* model) {
  if (phasor_model_stack(model) == PHASOR_ENCODER)
    return "is an encoder, expected a decoder or an encoder-decoder";
  return output_of(model).output == PHASOR_OUTPUT_CLASSES
             ? "gives classes, expected a model that gives logits"
             : nullptr;
}

phasor_output output_of(const phasor_model* model) {
  auto out = sized<phasor_output>();
  (void)phasor_model_output(model, &out);
  return out;
}

bool known_ids(const TokenIds& ids, const phasor_side& side, string* why) {
  for (const uint32_t id : ids)
    if (id >= side.vocabulary)
      return *why = format("token id %u, the vocabulary has %u", id, side.vocabulary), false;
  return true;
}

bool known_ids(const char* flag, const TokenIds& ids, const phasor_side& side) {
  string why;
  return known_ids(ids, side, &why) || (data_error("%s: %s", flag, why.c_str()), false);
}

bool all_finite(const float* values, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!isfinite(values[i])) return false;
  return true;
}

string piece_text(const Engine& e, uint32_t side, uint32_t id) {
  size_t bytes = 0;
  const char* text = phasor_piece(e.model, side, id, &bytes);
  return text != nullptr ? string(text, bytes) : string();
}

string shown_piece(const Engine& e, uint32_t side, uint32_t id) {
  const string piece = piece_text(e, side, id);
  string out;
  for (size_t i = 0, length = 0; i < piece.size(); i += max<size_t>(length, 1)) {
    length = utf8_length(piece.data() + i, piece.size() - i);
    const unsigned char byte = uint8_t(piece[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7F)
      out += format("<0x%02X>", byte);
    else
      out.append(piece, i, length);
  }
  return out;
}

bool split_pair(const string& texts, size_t known, size_t* tab, string* why) {
  const bool given = known != string::npos;
  *tab = given ? known : texts.find('\t');
  if (*tab == string::npos || (!given && texts.find('\t', *tab + 1) != string::npos))
    return *why = "expected two texts with one tab between them", false;
  return true;
}

bool pair_ids(const Engine& e, uint32_t side, const string& texts, size_t tab, TokenIds* ids,
              TokenIds* segments, size_t* first, string* why) {
  if (!split_pair(texts, tab, &tab, why)) return false;
  const size_t after = tab + 1;
  if (!is_utf8(texts, why) || !text_ids(e, side, false, texts.substr(0, tab), ids, why))
    return false;
  *first = ids->size();
  const phasor_status status = with_room(ids, [&](uint32_t* out, size_t capacity, size_t* count) {
    segments->resize(capacity);
    return phasor_pair_to_ids(e.session, side, out, segments->data(), capacity, count, texts.data(),
                              tab, texts.data() + after, texts.size() - after, &e.error);
  });
  segments->resize(ids->size());
  return e.done(status, why);
}

bool text_offsets(const Engine& e, uint32_t side, bool template_ids, const string& text,
                  TokenIds* ids, vector<Span>* offsets, string* why) {
  if (!is_utf8(text, why)) return false;
  ids->resize(e.limits.source + e.limits.target + 16);
  TokenIds places;
  const phasor_status status = with_room(ids, [&](uint32_t* out, size_t capacity, size_t* count) {
    places.resize(2 * capacity);
    return phasor_text_to_offsets(e.session, side, template_ids, out, places.data(), capacity,
                                  count, text.data(), text.size(), &e.error);
  });
  if (!e.done(status, why)) return false;
  offsets->clear();
  for (size_t i = 0; i < ids->size(); ++i) offsets->push_back({places[2 * i], places[2 * i + 1]});
  return true;
}

static bool plain_ids(const Engine& e, uint32_t side, bool template_ids, const string& text,
                      TokenIds* ids, string* why) {
  ids->resize(e.limits.source + e.limits.target + 16);
  const phasor_status status = with_room(ids, [&](uint32_t* out, size_t capacity, size_t* count) {
    return phasor_text_to_ids(e.session, side, template_ids, out, capacity, count, text.data(),
                              text.size(), &e.error);
  });
  return e.done(status, why);
}

bool text_ids(const Engine& e, uint32_t side, bool template_ids, const string& text, TokenIds* ids,
              string* why) {
  if (!is_utf8(text, why)) return false;
  if (side == PHASOR_SOURCE && template_ids && (e.languages.given || !e.prompt.empty())) {
    const bool own = e.languages.given;
    if (!plain_ids(e, side, !own, e.prompt + text, ids, why)) return false;
    if (!own) return true;
    ids->insert(ids->begin(), e.languages.before.begin(), e.languages.before.end());
    ids->insert(ids->end(), e.languages.behind.begin(), e.languages.behind.end());
    return true;
  }
  return plain_ids(e, side, template_ids, text, ids, why);
}

vector<uint32_t> numbers_of(const Engine& e, const string& name) {
  vector<uint32_t> out;
  auto field = sized<phasor_field>();
  for (uint32_t i = 0; phasor_field_get(e.model, i, &field) == PHASOR_OK; ++i) {
    if (name != field.name) continue;
    for (const char* at = field.value; *at >= '0' && *at <= '9';) {
      char* end = nullptr;
      out.push_back(uint32_t(strtoul(at, &end, 10)));
      at = *end == ' ' ? end + 1 : end;
    }
  }
  return out;
}

const string& Detokenizer::add(uint32_t id) {
  out_.resize(out_.capacity());
  (void)with_room(&out_, [&](char* out, size_t capacity, size_t* bytes) {
    return phasor_id_to_text(model_, side_, &state_, id, out, capacity, bytes);
  });
  return out_;
}

string text_of(const Engine& e, uint32_t side, const TokenIds& ids) {
  Detokenizer text(e, side);
  string out;
  for (const uint32_t id : ids) out += text.add(id);
  return out + text.end();
}

const string& Detokenizer::end() {
  (void)with_room(&out_, [&](char* out, size_t capacity, size_t* bytes) {
    return phasor_text_flush(model_, side_, &state_, out, capacity, bytes);
  });
  return out_;
}

}  // namespace cli
