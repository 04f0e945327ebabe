#include "engine.h"

#include <math.h>
#include <string.h>

#include "text.h"

namespace cli {
namespace {

// Tokens that earn a copy of the weights: made on a processor that has nothing else to do, or on
// one that computes.
constexpr uint64_t kTokensWithSpare = 16, kTokensWithout = 64;
// positions, of a model that allows more: the arena should not surprise
constexpr uint32_t kMostByDefault = 2048;

bool no_memory(const char* path, const char* what, size_t bytes) {
  data_error("%s: no memory for the %s of %s bytes", path, what, grouped(bytes).c_str());
  return false;
}

uint32_t default_length(uint32_t asked, const phasor_side& side) {
  if (asked != 0) return asked;
  if (side.max_positions == 0) return 256;
  return side.max_positions < kMostByDefault ? side.max_positions : kMostByDefault;
}

}  // namespace

bool Engine::fail(const phasor_error& error) const {
  if (file.unchanged()) data_error("%s: %s", path, error.text);
  return false;
}

bool Engine::open(const Options& options) {
  if (!file.open(options.model, static_cast<Load>(options.load), "a .phasor file") ||
      !open_bytes(options.model, file.data(), file.bytes(), options.isa))
    return false;
  phasor_error error = PHASOR_ERROR_INIT;
  return !options.check || phasor_model_check(model, &error) == PHASOR_OK || fail(error);
}

bool Engine::open_bytes(const char* name, const void* data, size_t bytes, const char* isa) {
  path = name;
  phasor_error error = PHASOR_ERROR_INIT;
  if (phasor_model_size(&model_bytes, data, bytes, &error) != PHASOR_OK) return fail(error);
  if (!model_block_.allocate(model_bytes)) return no_memory(path, "model's block", model_bytes);
  phasor_open_options open = PHASOR_OPEN_OPTIONS_INIT;
  open.isa = isa;
  if (phasor_model_open(&model, model_block_.data(), model_bytes, data, bytes, &open, &error) !=
      PHASOR_OK)
    return fail(error);
  stack = phasor_model_stack(model);
  source.struct_size = target.struct_size = sizeof(phasor_side);
  if (phasor_model_side(model, PHASOR_SOURCE, &source) != PHASOR_OK) source.vocabulary = 0;
  if (phasor_model_side(model, PHASOR_TARGET, &target) != PHASOR_OK) target.vocabulary = 0;
  return true;
}

bool Engine::start(const phasor_limits& wanted) {
  limits = wanted;
  phasor_error error = PHASOR_ERROR_INIT;
  if (phasor_session_size(&arena_bytes, model, &limits, &error) != PHASOR_OK) return fail(error);
  if (!arena_.allocate(arena_bytes)) return no_memory(path, "arena", arena_bytes);
  pool_ = std::make_unique<Pool>();
  if (!pool_->start(limits.threads))
    return data_error("--threads %u: the system gives no more threads", limits.threads), false;
  const phasor_parallel parallel = pool_->parallel();
  if (phasor_session_open(&session, arena_.data(), arena_bytes, model, &limits,
                          limits.threads > 1 ? &parallel : nullptr, &error) != PHASOR_OK)
    return fail(error);
  return true;
}

void Engine::count_token() {
  ++tokens_;
  if (tokens_ == kTokensWithout || (tokens_ == kTokensWithSpare && processors() > limits.threads))
    file.much_used();
}

phasor_vector vector_at(const Engine& e, uint32_t i) {
  phasor_vector v{};
  v.struct_size = sizeof v;
  (void)phasor_vector_get(e.model, i, &v);
  return v;
}

phasor_limits limits_for_vectors(const Engine& e, const Options& o) {
  uint32_t source = 1, target = 1;
  for (uint32_t i = 0; i < phasor_vector_count(e.model); ++i) {
    const phasor_vector v = vector_at(e, i);
    if (v.source_count > source) source = v.source_count;
    if (v.target_count > target) target = v.target_count;
  }
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  (void)phasor_limits_for(e.model, e.has_source() ? source : 0, e.has_target() ? target : 0,
                          &limits);
  limits.threads = o.threads;
  return limits;
}

bool Engine::is_end(uint32_t id) const {
  for (uint32_t i = 0; i < target.end_count; ++i)
    if (target.end[i] == id) return true;
  return false;
}

uint32_t Engine::start_id() const {
  return target.decoder_start != PHASOR_NONE ? target.decoder_start : target.start;
}

phasor_limits default_limits(const Engine& e, const Options& o) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  const uint32_t source = e.has_source() ? default_length(o.source, e.source) : 0;
  const uint32_t target = e.has_target() ? default_length(o.context, e.target) : 0;
  (void)phasor_limits_for(e.model, source, target, &limits);
  limits.threads = o.threads;
  limits.cache_type = o.cache;
  limits.beams = o.beam;
  return limits;
}

void greedy_room(phasor_limits* limits, uint32_t rows) {
  if (limits->target == 0) return;
  limits->best_rows = rows;
  limits->logit_rows = 0;
}

uint32_t room_for(uint32_t limit, size_t count, const phasor_side& side) {
  if (count <= limit || count > UINT32_MAX) return limit;
  const uint32_t wanted = static_cast<uint32_t>(count);
  return side.max_positions == 0 || wanted <= side.max_positions ? wanted : limit;
}

void make_text_room(phasor_limits* limits, size_t bytes) {
  if (limits->text_bytes != 0 && bytes > limits->text_bytes && bytes <= LineReader::kLongest)
    limits->text_bytes = static_cast<uint32_t>(bytes);
}

void print_figures(const Engine& e, const char* what, uint64_t count, uint64_t tokens,
                   double seconds) {
  fprintf(stderr,
          "phasor: %s %s%s, %s tokens in %.3f s (%.0f tokens/s), arena %s bytes, %s, %u thread%s\n",
          grouped(count).c_str(), what, count == 1 ? "" : "s", grouped(tokens).c_str(), seconds,
          seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0, grouped(e.arena_bytes).c_str(),
          phasor_model_isa(e.model), e.limits.threads, e.limits.threads == 1 ? "" : "s");
}

bool all_finite(const float* values, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!isfinite(values[i])) return false;
  return true;
}

std::string piece_text(const Engine& e, uint32_t side, uint32_t id) {
  size_t bytes = 0;
  const char* text = phasor_piece(e.model, side, id, &bytes);
  return text != nullptr ? std::string(text, bytes) : std::string();
}

bool pair_ids(const Engine& e, uint32_t side, const std::string& texts, std::vector<uint32_t>* ids,
              std::vector<uint32_t>* segments, size_t* first, std::string* why) {
  const size_t tab = texts.find('\t'), after = tab + 1;
  if (tab == std::string::npos || texts.find('\t', after) != std::string::npos)
    return *why = "expected two texts with one tab between them", false;
  const char* second = texts.data() + after;
  const size_t bad = utf8_end(second, texts.size() - after);
  if (bad < texts.size() - after)
    return *why = "invalid UTF-8 at byte " + std::to_string(after + bad), false;
  if (!text_ids(e, side, false, texts.data(), tab, ids, why)) return false;
  *first = ids->size();
  phasor_error error = PHASOR_ERROR_INIT;
  size_t count = 0;
  phasor_status status =
      phasor_pair_to_ids(e.session, side, nullptr, nullptr, 0, &count, texts.data(), tab, second,
                         texts.size() - after, &error);
  if (status == PHASOR_OK || status == PHASOR_FULL) {
    ids->resize(count);
    segments->resize(count);
    status = phasor_pair_to_ids(e.session, side, ids->data(), segments->data(), count, &count,
                                texts.data(), tab, second, texts.size() - after, &error);
  }
  if (status != PHASOR_OK) *why = error.text;
  return status == PHASOR_OK;
}

bool text_ids(const Engine& e, uint32_t side, bool template_ids, const char* text, size_t bytes,
              std::vector<uint32_t>* ids, std::string* why) {
  const size_t bad = utf8_end(text, bytes);
  if (bad < bytes) {
    char line[80];
    snprintf(line, sizeof line, "invalid UTF-8 at byte %zu (0x%02X)", bad,
             static_cast<unsigned>(static_cast<unsigned char>(text[bad])));
    *why = line;
    return false;
  }
  phasor_error error = PHASOR_ERROR_INIT;
  size_t count = 0;
  ids->resize(e.limits.source + e.limits.target + 16);
  phasor_status status = phasor_text_to_ids(e.session, side, template_ids, ids->data(), ids->size(),
                                            &count, text, bytes, &error);
  if (status == PHASOR_FULL) {  // longer than any use of it here, but the caller says so better
    ids->resize(count);
    status = phasor_text_to_ids(e.session, side, template_ids, ids->data(), ids->size(), &count,
                                text, bytes, &error);
  }
  ids->resize(status == PHASOR_OK ? count : 0);
  if (status != PHASOR_OK) *why = error.text;
  return status == PHASOR_OK;
}

const std::string& Detokenizer::add(uint32_t id) {
  size_t bytes = 0;
  out_.resize(out_.capacity());
  phasor_status status =
      phasor_id_to_text(model_, side_, &state_, id, &out_[0], out_.size(), &bytes);
  if (status == PHASOR_FULL) {
    out_.resize(bytes);
    status = phasor_id_to_text(model_, side_, &state_, id, &out_[0], out_.size(), &bytes);
  }
  out_.resize(status == PHASOR_OK ? bytes : 0);
  return out_;
}

const std::string& Detokenizer::end() {
  size_t bytes = 0;
  out_.resize(64);
  if (phasor_text_flush(model_, side_, &state_, &out_[0], out_.size(), &bytes) != PHASOR_OK)
    bytes = 0;
  out_.resize(bytes);
  return out_;
}

}  // namespace cli
