#include "probe.h"

#include <string.h>

#include "../engine/exponential.h"

namespace cli {
namespace {

constexpr size_t kWindow = 64, kWindows = 2;       // of a decoder's text
constexpr size_t kMostLines = 16, kMostIds = 512;  // of any other model's, about
constexpr uint32_t kOneLine = 512;                 // most ids of a line
constexpr uint32_t kAnswer = 16;                   // most tokens of a line's target
constexpr size_t kMostText = size_t{1} << 20;      // bytes that are read of a text

// ln Σ e^x of a row.
double log_total(const float* row, size_t width) {
  double largest = 0;
  const double sum = log_sum(row, width, &largest);
  return sum + largest;
}

uint32_t longest(const vector<Sample>& samples, TokenIds Sample::* side) {
  size_t most = 1;
  for (const Sample& one : samples) most = max(most, (one.*side).size());
  return uint32_t(most);
}

}  // namespace

// Calls take(row) for each output row of each input; without `every`, of a decoder's classes only
// for the last one, which is the answer.
template <class Take>
bool Probe::run(Engine* e, bool every, Take take) const {
  const phasor_output output = output_of(e->model);
  const bool classes = output.output == PHASOR_OUTPUT_CLASSES && !every;
  string why;
  for (const Sample& one : samples_) {
    (void)phasor_sequence_clear(e->session, 0);
    phasor_item source = item_of(one.source.data(), one.source.size(), PHASOR_LOGITS_NONE);
    if (e->has_source() && !e->encode(source, &why))
      return data_error("%s: %s", e->path, why.c_str()), false;
    if (e->has_target()) {
      const size_t count = one.target.size();
      for (size_t done = 0; done < count;) {
        const size_t rows = min<size_t>(count - done, e->limits.logit_rows);
        const bool last = done + rows == count;
        const uint32_t wanted = !classes ? uint32_t{PHASOR_LOGITS_ALL}
                                : last   ? uint32_t{PHASOR_LOGITS_LAST}
                                         : uint32_t{PHASOR_LOGITS_NONE};
        if (e->step(one.target.data() + done, rows, wanted) != PHASOR_OK) return e->fail();
        for (uint32_t i = 0; i < (!classes ? rows : last); ++i)
          take(phasor_logits(e->session, i));
        done += rows;
      }
      continue;
    }
    if (output.output == PHASOR_OUTPUT_HIDDEN) {
      uint32_t rows = 0, stride = 0;
      const float* hidden = phasor_hidden(e->session, 0, &rows, &stride);
      for (uint32_t i = 0; i < rows; ++i) take(hidden + size_t{i} * stride);
    } else if (output.output == PHASOR_OUTPUT_POOLED) {
      vector<float> pooled(output.width);
      if (phasor_embedding(e->session, 0, PHASOR_POOL_MODEL, PHASOR_NORMALIZE_MODEL, pooled.data(),
                           output.width, &e->error) != PHASOR_OK)
        return e->fail();
      take(pooled.data());
    } else {
      const uint32_t count = output.pooling != 0 ? 1 : count_of(one.source);
      for (uint32_t done = 0; done < count;) {
        const uint32_t rows = min(count - done, e->limits.logit_rows);
        if (phasor_encoder_output(e->session, 0, done, rows, &e->error) != PHASOR_OK)
          return e->fail();
        for (uint32_t i = 0; i < rows; ++i) take(phasor_logits(e->session, i));
        done += rows;
      }
    }
  }
  return true;
}

phasor_limits Probe::limits(const Engine& e, uint32_t threads) const {
  phasor_limits limits =
      e.limits_for(longest(samples_, &Sample::source), longest(samples_, &Sample::target));
  const uint32_t output = output_of(e.model).output;
  const bool rows = output == PHASOR_OUTPUT_LOGITS || output == PHASOR_OUTPUT_CLASSES;
  limits.logit_rows = rows ? max(limits.chunk, 1u) : 0;
  limits.threads = threads;
  return limits;
}

bool Probe::read(Engine* e, const char* path, uint32_t threads) {
  if (path == nullptr) {
    for (uint32_t i = 0; i < phasor_vector_count(e->model); ++i) {
      const phasor_vector v = vector_at(*e, i);
      samples_.push_back(
          {{v.source, v.source + v.source_count}, {v.target, v.target + v.target_count}});
    }
    if (!samples_.empty()) return true;
    return data_error("%s: has no test vectors to measure with. TRY: --text FILE", e->path), false;
  }
  ReadFile file;
  if (!file.open(path, Load::copy, "a text")) return false;
  const string text(static_cast<const char*>(file.data()), min(file.bytes(), kMostText));
  const uint32_t most = e->source.max_positions;
  phasor_limits limits = e->limits_for(most != 0 ? min(most, kOneLine) : kOneLine, kAnswer + 2);
  limits.logit_rows = 1;
  limits.threads = threads;
  if (limits.text_bytes == 0)
    return data_error("%s: has no tokenizer for %s. TRY: without --text", e->path, path), false;
  if (!e->start(limits)) return false;
  const bool read = e->stack == PHASOR_DECODER ? read_windows(e, text) : read_lines(e, text);
  if (!read) return false;
  if (!samples_.empty()) return true;
  return data_error("%s: expected a text with a line of at least one token", path), false;
}

// Windows as far from each other as the text is long.
bool Probe::read_windows(Engine* e, const string& text) {
  string why, piece = text;
  // a text that was cut may end in half a character
  while (!piece.empty() && piece.size() == kMostText && (piece.back() & 0xC0) == 0x80)
    piece.pop_back();
  if (piece.size() == kMostText) piece.pop_back();
  TokenIds ids;
  if (!e->hold_text(piece.size(), &why) ||
      !text_ids(*e, PHASOR_TARGET, true, piece, &ids, &why))
    return data_error("--text: %s", why.c_str()), false;
  const size_t window = min(kWindow, ids.size()), most = ids.size() / max<size_t>(window, 1),
               count = min(kWindows, most);
  for (size_t i = 0; i < count; ++i) {
    const auto first = ids.begin() + static_cast<ptrdiff_t>(i * (most / count) * window);
    samples_.push_back({{}, {first, first + static_cast<ptrdiff_t>(window)}});
    if (e->target.start != PHASOR_NONE && ids[0] == e->target.start)
      samples_.back().target[0] = e->target.start;
  }
  return true;
}

bool Probe::read_lines(Engine* e, const string& text) {
  string why;
  size_t ids = 0;
  for (size_t begin = 0; begin < text.size() && samples_.size() < kMostLines && ids < kMostIds;) {
    const size_t end = min(text.find('\n', begin), text.size());
    const string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty() || (begin > text.size() && text.size() == kMostText)) continue;
    Sample one;
    if (!e->hold_text(line.size(), &why) ||
        !text_ids(*e, PHASOR_SOURCE, true, line, &one.source, &why))
      return data_error("--text: %s", why.c_str()), false;
    if (one.source.empty() || one.source.size() > e->limits.source) continue;
    if (e->has_target() && !answer(e, &one)) return false;
    ids += one.source.size();
    samples_.push_back(one);
  }
  return true;
}

// What the exact weights make of a source, greedily.
bool Probe::answer(Engine* e, Sample* one) const {
  one->target.assign(1, e->start_id());
  if (e->target.forced_first != PHASOR_NONE) one->target.push_back(e->target.forced_first);
  if (output_of(e->model).output == PHASOR_OUTPUT_CLASSES) {
    one->target.insert(one->target.end(), one->source.begin(), one->source.end());
    one->target.resize(min<size_t>(one->target.size(), kAnswer));
    return true;
  }
  string why;
  phasor_item source = item_of(one->source.data(), one->source.size(), PHASOR_LOGITS_NONE);
  (void)phasor_sequence_clear(e->session, 0);
  if (!e->encode(source, &why)) return data_error("%s: %s", e->path, why.c_str()), false;
  for (size_t read = 0; one->target.size() < kAnswer;) {
    uint32_t id = 0;
    float logit = 0;
    if (e->step(one->target.data() + read, one->target.size() - read, PHASOR_LOGITS_LAST) !=
            PHASOR_OK ||
        phasor_argmax(e->session, 0, &id, &logit) != PHASOR_OK)
      return e->fail();
    if (std::find(e->target.end, e->target.end + e->target.end_count, id) !=
        e->target.end + e->target.end_count)
      return true;
    read = one->target.size();
    one->target.push_back(id);
  }
  return true;
}

bool Probe::keep(Engine* e) {
  const phasor_output output = output_of(e->model);
  logits_ = output.output == PHASOR_OUTPUT_LOGITS;
  width_ = output.output == PHASOR_OUTPUT_HIDDEN ? e->source.width : output.width;
  bool finite = true;
  const bool done = run(e, false, [&](const float* row) {
    finite = finite && all_finite(row, width_);
    if (!finite) return;
    double length = 0;
    if (logits_) {
      const double sum = log_total(row, width_);
      for (size_t i = 0; i < width_; ++i) {
        const double p = exponential(row[i] - sum);
        length += p * (row[i] - sum);
        exact_.push_back(float(p));
      }
    } else {
      for (size_t i = 0; i < width_; ++i) length += double{row[i]} * row[i];
      exact_.insert(exact_.end(), row, row + width_);
    }
    lengths_.push_back(length);
  });
  if (!done || finite) return done;
  return data_error("%s: a value of the exact weights' output is not a number", e->path), false;
}

bool Probe::measure(Engine* e, double* divergence) {
  size_t at = 0;
  double total = 0;
  bool finite = true;
  const bool done = run(e, false, [&](const float* row) {
    const float* exact = exact_.data() + at * width_;
    finite = finite && all_finite(row, width_);
    if (!finite) return;
    if (logits_) {
      double mean = 0;
      const double sum = log_total(row, width_);
      for (size_t i = 0; i < width_; ++i) mean += double{exact[i]} * (row[i] - sum);
      total += max(0.0, lengths_[at] - mean);
    } else {
      double square = 0;
      for (size_t i = 0; i < width_; ++i) {
        const double off = double{row[i]} - exact[i];
        square += off * off;
      }
      total += lengths_[at] > 0 ? square / lengths_[at] : square;
    }
    ++at;
  });
  *divergence = finite ? total / double(lengths_.size()) : exponential(710);
  return done;
}

namespace {

// p·ln(p/q) − p + q, whose sum over shares that are 1 together is the divergence; each is at least
// 0, so what rounding takes from the shares counts only in its square.
double term(double log_p, double q) {
  const double p = exponential(log_p);
  return max(0.0, p * (log_p - logarithm(max(q, 1e-300))) - p + q);
}

// Of a row and what the source's row has: logarithms of probabilities at `places` (samples), which
// ascend, and of all other places together.
double divergence_of(const float* row, size_t width, const uint32_t* places, const float* source,
                     size_t samples) {
  double rest = 0;
  const double sum = log_total(row, width);
  for (size_t i = 0, k = 0; i < width; ++i)
    if (k < samples && places[k] == i)
      ++k;
    else
      rest += exponential(row[i] - sum);
  double out = term(source[samples], rest);
  for (size_t k = 0; k < samples; ++k) out += term(source[k], exponential(row[places[k]] - sum));
  return out;
}

double error_of(const float* row, const uint32_t* places, const float* source, size_t samples) {
  double square = 0, length = 0;
  for (size_t k = 0; k < samples; ++k) {
    const double off = double{row[places[k]]} - source[k];
    square += off * off;
    length += double{source[k]} * source[k];
  }
  return length > 0 ? square / length : square;
}

}  // namespace

bool Probe::measure(Engine* e, const phasor_record& record, double* divergence) const {
  const phasor_output output = output_of(e->model);
  const bool logits = output.output == PHASOR_OUTPUT_LOGITS;
  const size_t samples = record.samples, width = output.width;
  vector<float> source(samples + 1);
  size_t at = 0;
  double total = 0;
  const bool done = run(e, true, [&](const float* row) {
    if (at == record.rows) return;  // never: the file's rows are those of its vectors
    const uint32_t* places = record.outputs + at++ * (2 * samples + 1);
    memcpy(source.data(), places + samples, (samples + 1) * sizeof(float));
    total += logits ? divergence_of(row, width, places, source.data(), samples)
                    : error_of(row, places, source.data(), samples);
  });
  *divergence = total / max(record.rows, 1u);
  return done && at == record.rows;
}

}  // namespace cli
