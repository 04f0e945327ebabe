// The filters of a decoded text. Includes the tokenizer's own headers only; never allocates.
#include "filters.h"

namespace phasor::pieces {
namespace {

bool is_filter(StepRow row) {
  return row.kind() == StepKind::filter_text || row.kind() == StepKind::filter_ends;
}

// A text that becomes another; and of each of its beginnings the longest end that it begins with.
struct TextRow {
  StepRow row;

  uint32_t bytes() const { return row.u32(0); }
  const unsigned char* text() const { return row.part() + 8; }
  uint32_t border(uint32_t of) const { return text()[bytes() + of - 1]; }
  Span to() const { return {text() + 2 * size_t{bytes()}, row.u32(1)}; }
  uint64_t size() const { return 8 + (2 * uint64_t{bytes()} + row.u32(1) + 3) / 4 * 4; }
};

// A character of ASCII that goes at the ends, at most so often; behind it as many of it as the end
// may hold back.
struct EndsRow {
  StepRow row;

  uint32_t start() const { return row.u32(0); }
  uint32_t stop() const { return row.u32(1); }
  unsigned char sign() const { return static_cast<unsigned char>(row.u32(2)); }
  Span held(uint32_t count) const { return {row.part() + 12, count}; }
  uint64_t size() const { return 12 + (uint64_t{stop()} + 3) / 4 * 4; }
};

StepRow first_filter(const Tokenizer& t) {
  StepRow row = steps_of(t);
  while (row.kind() != StepKind::spelled) row = row.next();
  return row.next();
}

const unsigned char* end_of(const Tokenizer& t) { return steps_of(t).p + t.pipeline.steps_bytes; }

// A text on its way: what is left of it, and the filter that it goes through next.
struct Part {
  Span left;
  StepRow row;
  uint32_t filter;
};

// The parts that wait, the first one on top: of each filter the rest of its text, and two that it
// has given.
struct Parts {
  Part of[1 + 2 * kMostFilters];
  uint32_t n = 0;

  void push(Span text, StepRow row, uint32_t filter) {
    if (text.bytes != 0) of[n++] = {text, row, filter};
  }
};

// One byte through a filter: what goes out, first and then.
void step(StepRow row, unsigned char* state, Span byte, Span out[2]) {
  uint32_t at = *state;
  if (row.kind() == StepKind::filter_text) {
    const TextRow r{row};
    if (at >= r.bytes()) at = 0;  // a state that was never set
    const uint32_t before = at;
    while (at > 0 && r.text()[at] != *byte.text) at = r.border(at);
    out[0] = {r.text(), before - at};
    if (r.text()[at] != *byte.text)
      out[1] = byte;
    else if (++at == r.bytes()) {
      out[1] = r.to();
      at = 0;
    }
  } else {
    const EndsRow r{row};
    const bool same = *byte.text == r.sign();
    const uint32_t first = r.start() + 1;  // states from here on: how many are held
    if (at > r.start() + 1 + r.stop()) at = 0;
    if (at < r.start() && same) {
      ++at;
    } else {
      if (at < first) at = first;
      if (!same) {
        out[0] = r.held(at - first);
        at = first;
      }
      if (same && at - first < r.stop())
        ++at;
      else
        out[1] = byte;
    }
  }
  *state = static_cast<unsigned char>(at);
}

void run(TextSink* sink, Parts* parts) {
  const unsigned char* const end = end_of(sink->t);
  while (parts->n > 0) {
    work();
    Part& top = parts->of[parts->n - 1];
    if (top.left.bytes == 0) {
      --parts->n;
      continue;
    }
    if (top.row.p == end) {
      sink->write(top.left);
      --parts->n;
      continue;
    }
    const Span byte{top.left.text++, 1};
    --top.left.bytes;
    Span out[2] = {};
    step(top.row, &sink->state.filters[top.filter], byte, out);
    const StepRow next = top.row.next();
    const uint32_t filter = top.filter + 1;
    parts->push(out[1], next, filter);
    parts->push(out[0], next, filter);
  }
}

}  // namespace

const char* check_filters(const Tokenizer& t, uint32_t most) {
  uint32_t count = 0;
  for (StepRow row = first_filter(t); row.p != end_of(t); row = row.next()) {
    const uint64_t bytes = row.bytes() - 8;
    if (++count > most) return "too many filters";
    if (!is_filter(row)) return "a step behind the decoder";
    if (row.kind() == StepKind::filter_text) {
      const TextRow r{row};
      if (bytes < 8 || r.bytes() == 0 || r.bytes() > 255 || r.size() != bytes)
        return "a filter's size is wrong";
      for (uint32_t of = 1; of <= r.bytes(); ++of)
        if (r.border(of) >= of) return "a filter's text does not go back";
    } else {
      const EndsRow r{row};
      if (bytes < 12 || r.start() > 127 || r.stop() > 127 || r.size() != bytes)
        return "a filter's size is wrong";
      if (r.row.u32(2) > 127) return "a filter's character is none of ASCII";
    }
  }
  return filtered_bytes(t, 1) > 1u << 12 ? "a decoder that makes too much of a piece" : nullptr;
}

uint64_t filtered_bytes(const Tokenizer& t, uint64_t bytes) {
  for (StepRow row = first_filter(t); row.p != end_of(t); row = row.next()) {
    if (row.kind() == StepKind::filter_text) {
      const TextRow r{row};
      const uint64_t to = r.to().bytes, factor = (to + r.bytes() - 1) / r.bytes();
      bytes = (bytes + r.bytes()) * (factor > 1 ? factor : 1);
    } else {
      bytes += EndsRow{row}.stop();
    }
  }
  return bytes;
}

void put_filtered(TextSink* sink, Span text) {
  Parts parts;
  parts.push(text, first_filter(sink->t), 0);
  run(sink, &parts);
}

void end_filters(TextSink* sink) {
  uint32_t filter = 0;
  for (StepRow row = first_filter(sink->t); row.p != end_of(sink->t); row = row.next(), ++filter) {
    unsigned char& state = sink->state.filters[filter];
    Parts parts;
    if (row.kind() == StepKind::filter_text && state < TextRow{row}.bytes())
      parts.push({TextRow{row}.text(), state}, row.next(), filter + 1);
    state = 0;
    run(sink, &parts);
  }
}

}  // namespace phasor::pieces
