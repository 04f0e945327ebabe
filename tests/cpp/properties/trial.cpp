#include "trial.h"

#include <algorithm>
#include <array>
#include <map>

namespace generator {
namespace {

std::string text_of(phasor_status status, const phasor_error& error) {
  return std::string(phasor_status_name(status)) + ": " + error.text;
}

void add(Bits* bits, const float* values, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t word;
    std::memcpy(&word, values + i, sizeof word);
    bits->values.push_back(word);
  }
}

// Whether the call gave its result; values that are not finite are a result too.
bool done(phasor_status status, const phasor_error& error, const char* what, Bits* bits) {
  if (status == PHASOR_NOT_FINITE) return !(bits->told = true);
  need(status, error, what);
  return true;
}

phasor_item item_of(uint32_t sequence, const Sequences::Tokens& t, uint32_t first, uint32_t count,
                    uint32_t logits) {
  phasor_item item = PHASOR_ITEM_INIT;
  item.sequence = sequence;
  item.count = count;
  item.logits = logits;
  if (!t.segments.empty()) item.segments = t.segments.data() + first;
  if (t.embeddings.empty())
    item.ids = t.ids.data() + first;
  else
    item.embeddings = t.embeddings.data() + t.embeddings.size() / t.ids.size() * first;
  return item;
}

// Whether a row of attention's weights adds up to something else than one, or zero; of merged
// attention, whose weights of the source are seen first, both together.
struct Watch {
  const phasor::Model& model;
  bool odd = false;
  std::map<std::array<uint32_t, 3>, double> of_source;  // by sequence, position and head

  bool merged(const phasor_view& v) const {
    return v.stack == phasor::kStackDecoder &&
           phasor::merges(model.kind(model.layer(phasor::kDecoder, v.layer)));
  }
  void take(const phasor_view& v, uint32_t row, uint32_t head, double sum) {
    double& others = of_source[{v.sequence, v.position + row, head}];
    const bool apart = v.what == PHASOR_SEE_CROSS_ATTENTION && merged(v);
    if (!apart && merged(v)) sum += others;
    if (apart)
      others = sum;
    else if (sum != 0 && (sum < 0.999 || sum > 1.001))
      odd = true;
  }
};

// Reads all of a view.
void look(void* user, const phasor_view* v) {
  const bool attention =
      v->what == PHASOR_SEE_SELF_ATTENTION || v->what == PHASOR_SEE_CROSS_ATTENTION;
  for (uint32_t h = 0; h < (attention ? v->heads : 1); ++h)
    for (uint32_t r = 0; r < v->rows; ++r) {
      const float* const row = v->data + h * v->head_stride + r * v->stride;
      double sum = 0;
      for (uint32_t i = 0; i < v->cols; ++i) sum += static_cast<double>(row[i]);
      if (attention) static_cast<Watch*>(user)->take(*v, r, h, sum);
    }
}

// Hidden states, output rows and vectors of an encoded sequence.
void add_encoded(const Running& r, const Opened& o, uint32_t sequence, const Way& way, Bits* bits) {
  phasor_error error = PHASOR_ERROR_INIT;
  uint32_t rows = 0, stride = 0;
  const float* const hidden = phasor_hidden(r.session(), sequence, &rows, &stride);
  need(hidden != nullptr, "an encoded sequence has no hidden states");
  const phasor::Descriptor& d = o.inside().descriptor;
  for (uint32_t i = 0; i < rows; ++i)
    add(bits, hidden + std::size_t{i} * stride, d.stacks[phasor::kEncoder].width);
  if (!o.encoder()) return;
  const uint32_t output = d.output.output, width = r.width();
  const uint32_t count = phasor::output_rows(d, rows);
  if (output == PHASOR_OUTPUT_LOGITS || output == PHASOR_OUTPUT_CLASSES)
    for (uint32_t first = 0, n; first < count; first += n) {
      n = std::min(count - first, way.step);
      const phasor_status status = phasor_encoder_output(r.session(), sequence, first, n, &error);
      if (!done(status, error, "encoder_output", bits)) return;
      for (uint32_t i = 0; i < n; ++i) add(bits, phasor_logits(r.session(), i), width);
    }
  const uint32_t most = output == PHASOR_OUTPUT_POOLED ? width : d.stacks[phasor::kEncoder].width;
  const uint32_t first =
      d.output.pooling != phasor::kPoolNone ? PHASOR_POOL_MODEL : PHASOR_POOL_MEAN;
  for (uint32_t how = first; how <= PHASOR_POOL_MAX; ++how) {
    const Block vector(most * sizeof(float));
    float* const values = reinterpret_cast<float*>(vector.data());
    const uint32_t normalize =
        how == PHASOR_POOL_LAST ? PHASOR_NORMALIZE_YES : PHASOR_NORMALIZE_MODEL;
    const phasor_status status =
        phasor_embedding(r.session(), sequence, how, normalize, values, most, &error);
    if (!done(status, error, "embedding", bits)) return;
    add(bits, values, most);
  }
}

// The sequences' targets side by side, `step` tokens of each in a call.
void step_together(const Running& r, const Sequences& in, uint32_t step, std::vector<Bits>* rows) {
  phasor_error error = PHASOR_ERROR_INIT;
  for (uint32_t first = 0;; first += step) {
    std::vector<phasor_item> items;
    for (uint32_t i = 0; i < in.targets.size(); ++i)
      if (first < in.targets[i].count()) {
        const uint32_t count = std::min(step, in.targets[i].count() - first);
        items.push_back(item_of(i, in.targets[i], first, count, PHASOR_LOGITS_ALL));
      }
    if (items.empty()) return;
    const phasor_status status =
        phasor_step(r.session(), items.data(), static_cast<uint32_t>(items.size()), &error);
    if (!done(status, error, "step", &rows->front())) return;
    uint32_t row = 0;
    for (const phasor_item& item : items)
      for (uint32_t i = 0; i < item.count; ++i)
        add(&(*rows)[item.sequence], phasor_logits(r.session(), row++), r.width());
  }
}

}  // namespace

void need(phasor_status status, const phasor_error& error, const std::string& what) {
  if (status != PHASOR_OK) throw Broken(what + ": " + text_of(status, error));
}

void need(bool holds, const char* what) {
  if (!holds) throw Broken(what);
}

Opened::Opened(const Block& file, const char* isa) {
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_open_options options = PHASOR_OPEN_OPTIONS_INIT;
  options.isa = isa;
  std::size_t size = 0;
  need(phasor_model_size(&size, file.data(), file.size(), &error), error, "model_size");
  const Block less(size - 1);
  phasor_status status =
      phasor_model_open(&model_, less.data(), size - 1, file.data(), file.size(), &options, &error);
  need(status == PHASOR_NO_MEMORY, "a model opens in a byte less than its size");
  memory_ = std::make_unique<Block>(size);
  status =
      phasor_model_open(&model_, memory_->data(), size, file.data(), file.size(), &options, &error);
  need(status, error, "model_open");
}

void Opened::check() const {
  phasor_error error = PHASOR_ERROR_INIT;
  need(phasor_model_check(model_, &error), error, "model_check");
}

bool Bits::sound() const {
  return !told && std::all_of(values.begin(), values.end(), phasor::is_finite_f32);
}

Running::Running(const Opened& o, const phasor_limits& wanted, cli::Pool* pool)
    : limits(wanted), width_(phasor::output_width(o.inside().descriptor)) {
  phasor_error error = PHASOR_ERROR_INIT;
  std::size_t size = 0;
  need(phasor_session_size(&size, o.model(), &limits, &error), error, "session_size");
  const phasor_parallel parallel = pool->parallel();
  const phasor_parallel* const threads = limits.threads > 1 ? &parallel : nullptr;
  const Block less(size - 1);
  phasor_status status =
      phasor_session_open(&session_, less.data(), size - 1, o.model(), &limits, threads, &error);
  need(status == PHASOR_NO_MEMORY && error.expected == size && error.found == size - 1,
       "a session opens in a byte less than its size");
  arena_ = std::make_unique<Block>(size);
  std::memset(arena_->data(), 0xAB, size);  // nothing may rest on what was there before
  status =
      phasor_session_open(&session_, arena_->data(), size, o.model(), &limits, threads, &error);
  need(status, error, "session_open");
}

Sequences any_sequences(Choices* c, const Opened& o, uint32_t most) {
  Sequences in;
  const phasor::Descriptor& d = o.inside().descriptor;
  const auto tokens = [&](phasor::Half which) {
    Sequences::Tokens t;
    const uint32_t allowed = phasor::longest_sequence(o.inside(), which);
    const uint32_t count = c->between(1, allowed != 0 ? std::min(allowed, most) : most);
    const uint32_t segments = d.stacks[which].segments;
    for (uint32_t i = 0; i < count; ++i) t.ids.push_back(c->below(d.sides[which].vocabulary));
    if (segments != 0 || c->chance(20))
      for (uint32_t i = 0; i < count; ++i)
        t.segments.push_back(segments != 0 ? c->below(segments) : 0);
    const uint32_t values = c->chance(15) ? count * d.stacks[which].embedding_width : 0;
    for (uint32_t i = 0; i < values; ++i)
      t.embeddings.push_back(static_cast<float>(c->below(2001)) / 1000 - 1);
    return t;
  };
  for (uint32_t i = c->of({1u, 2u, 2u, 3u}); i > 0; --i) {
    if (o.sourced()) in.sources.push_back(tokens(phasor::kEncoder));
    if (!o.encoder()) in.targets.push_back(tokens(phasor::kDecoder));
  }
  return in;
}

phasor_limits limits_for(const phasor_limits& all, const Sequences& in, const Way& way) {
  phasor_limits l = all;
  l.chunk = way.chunk;
  l.threads = way.threads;
  l.tables = way.tables;
  const std::vector<Sequences::Tokens>& last = in.targets.empty() ? in.sources : in.targets;
  uint32_t rows = 0;
  for (const Sequences::Tokens& t : last) {
    const uint32_t of_one = std::min(t.count(), way.step);
    rows = way.together && !in.targets.empty() ? rows + of_one : std::max(rows, of_one);
  }
  l.logit_rows = std::max(l.logit_rows, rows);
  return l;
}

bool encode_source(const Running& r, const Opened& o, uint32_t sequence,
                   const Sequences::Tokens& source) {
  if (!o.sourced()) return true;
  phasor_error error = PHASOR_ERROR_INIT;
  const phasor_item item = item_of(sequence, source, 0, source.count(), PHASOR_LOGITS_NONE);
  const phasor_status status = phasor_encode(r.session(), &item, 1, &error);
  if (status == PHASOR_NOT_FINITE) return false;
  need(status, error, "encode");
  return true;
}

void step_target(const Running& r, uint32_t sequence, const Sequences::Tokens& t, uint32_t first,
                 uint32_t step, Bits* bits) {
  phasor_error error = PHASOR_ERROR_INIT;
  for (uint32_t count; first < t.count() && !bits->told; first += count) {
    count = std::min(step, t.count() - first);
    const phasor_item item = item_of(sequence, t, first, count, PHASOR_LOGITS_ALL);
    if (!done(phasor_step(r.session(), &item, 1, &error), error, "step", bits)) return;
    for (uint32_t i = 0; i < count; ++i) add(bits, phasor_logits(r.session(), i), r.width());
  }
}

Bits run(const Opened& o, const phasor_limits& all, const Sequences& in, const Way& way,
         cli::Pool* pool) {
  const Running r(o, limits_for(all, in, way), pool);
  const uint32_t count = static_cast<uint32_t>(std::max(in.sources.size(), in.targets.size()));
  std::vector<Bits> bits(count);
  phasor_error error = PHASOR_ERROR_INIT;
  Watch watch{o.inside(), false, {}};
  const phasor_callbacks callbacks = {sizeof(phasor_callbacks), look, nullptr, &watch, nullptr};
  if (phasor::kHasViews && way.watched)
    need(phasor_session_callbacks(r.session(), &callbacks) == PHASOR_OK, "callbacks");
  if (o.encoder() && way.together) {
    std::vector<phasor_item> items;
    for (uint32_t i = 0; i < count; ++i)
      items.push_back(item_of(i, in.sources[i], 0, in.sources[i].count(), PHASOR_LOGITS_NONE));
    const phasor_status status = phasor_encode(r.session(), items.data(), count, &error);
    const bool encoded = done(status, error, "encode", &bits[0]);
    for (uint32_t i = 0; i < count && encoded; ++i) add_encoded(r, o, i, way, &bits[i]);
  } else {
    for (uint32_t i = 0; i < count; ++i) {
      if (!in.sources.empty()) bits[i].told = !encode_source(r, o, i, in.sources[i]);
      if (!bits[i].told && !in.sources.empty()) add_encoded(r, o, i, way, &bits[i]);
      if (!in.targets.empty() && !bits[i].told && !way.together)
        step_target(r, i, in.targets[i], 0, way.step, &bits[i]);
    }
    if (!in.targets.empty() && way.together) step_together(r, in, way.step, &bits);
  }
  need(!watch.odd, "weights of attention do not add up to one");
  Bits result;
  for (const Bits& one : bits) {
    result.told = result.told || one.told;
    result.values.insert(result.values.end(), one.values.begin(), one.values.end());
  }
  return result;
}

}  // namespace generator
