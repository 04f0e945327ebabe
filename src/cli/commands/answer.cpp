// cli: `phasor answer`: the stretch of a text that answers a question.
#include <string.h>

#include <limits>

#include "../encoding/encoder.h"
#include "commands.h"

namespace cli {
namespace {

struct AnswerOptions : EncoderOptions {
  Number max_answer{"--max-answer N", "Longest answer, in tokens. Default: 15.", 1, kMost, 15};
  Switch null_answer{"--null", "Allow \"no answer\" (SQuAD 2.0), printed as an empty text."};
  FlagGroups flags() {
    return {group("Input", truncate), output(max_answer, null_answer, top), memory()};
  }
};

class Answer final : public Encoder {
 public:
  Answer(const AnswerOptions& options, const char* query)
      : Encoder(options, query), own_(options) {}

 private:
  uint32_t logit_rows() const override { return kRows; }
  bool wants_places() const override { return true; }

  // Softmax over the text's tokens and the first one of all, which stands for "no answer".
  vector<double> chances(const vector<float>& logits, size_t first, size_t count) const {
    vector<float> some{e_.source.prefix_count != 0 ? logits[0]
                                                   : -std::numeric_limits<float>::infinity()};
    some.insert(some.end(), logits.data() + first, logits.data() + first + count);
    return softmax(some.data(), count_of(some));
  }

  struct Found {
    size_t first, last;  // tokens of the text
    double score;
  };
  // Best first, ties to the first; no more than `most`.
  vector<Found> spans_of(const vector<double>& start, const vector<double>& end,
                         size_t most) const {
    vector<Found> all;
    const auto better = [](const Found& a, const Found& b) {
      if (a.score != b.score) return a.score > b.score;
      return a.first != b.first ? a.first < b.first : a.last < b.last;
    };
    const auto keep = [&] {
      std::sort(all.begin(), all.end(), better);
      if (all.size() > most) all.resize(most);
    };
    for (size_t s = 1; s < start.size(); ++s) {
      for (size_t e = s; e < end.size() && e - s < own_.max_answer; ++e)
        all.push_back({s - 1, e - 1, start[s] * end[e]});
      if (all.size() > most + kMostSpans) keep();
    }
    keep();
    return all;
  }

  bool answer(uint32_t sequence, const Text& text, string* why) override {
    size_t first = 0;
    vector<Span> spans;
    vector<float> starts, ends;
    if (text.last == 0) return *why = "no tokens in the text, expected at least one", false;
    if (!places(text, &first, &spans, why)) return false;
    const auto take = [&](uint32_t, const float* row) {
      starts.push_back(row[0]);
      ends.push_back(row[1]);
    };
    if (!each_row(sequence, count_of(text.ids), why, take)) return false;
    const vector<double> start = chances(starts, first, spans.size());
    const vector<double> end = chances(ends, first, spans.size());
    const size_t most = o_.top != 0 ? size_t{o_.top} : 1;
    vector<Found> found = spans_of(start, end, most);
    if (own_.null_answer) {
      const double none = start[0] * end[0];
      const auto at = std::find_if(found.begin(), found.end(),
                                   [none](const Found& one) { return one.score < none; });
      found.insert(at, {spans.size(), spans.size(), none});
      if (found.size() > most) found.resize(most);
    }
    string lines;
    Json json;
    json.open('{').add("line", number_).open("answers", '[');
    for (const Found& one : found) {
      const bool none = one.first == spans.size();
      const Span span = none ? Span{0, 0} : Span{spans[one.first].begin, spans[one.last].end};
      const string place = stretch(text.given, span, &json);
      json.add("score", one.score).close('}');
      lines += format("%.6f\t", one.score) + place + "\n";
    }
    return print(lines, json.close(']').close('}'));
  }

  const AnswerOptions& own_;
  static constexpr size_t kMostSpans = 1 << 12;  // between two sorts
};

const char* unfit(const phasor_model* model) {
  if (const char* other = no_encoder(model)) return other;
  const phasor_output gives = output_of(model);
  return gives.output != PHASOR_OUTPUT_CLASSES || gives.pooling != 0 || gives.width != 2 ||
                 label_of(model, 0) != "start" || label_of(model, 1) != "end"
             ? "answers no questions: it has no classes start and end"
             : nullptr;
}

int answer(const AnswerOptions& options) {
  return run_query<Answer>(options, "answer: expected a question (phasor answer --help)");
}

}  // namespace

const Command answer_command = command<AnswerOptions, answer>(
    "answer", "MODEL QUESTION [TEXT...]", "find the answer to a question in a text",
    "Searches each TEXT, or each line of standard input. Prints score, first character, end, and "
    "text of each answer, and an empty line after each text.",
    "phasor answer reader.phasor \"Who sits on the mat?\" \"A cat sits on the mat.\"\n"
    "phasor answer reader.phasor \"Who sits on the mat?\" < lines.txt\n"
    "phasor answer reader.phasor --top 3 --null \"Who sits on the mat?\" < lines.txt",
    unfit, kHasOutputs);

}  // namespace cli
