// cli: `phasor rank`: texts by how well they answer a query.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <limits>

#include "../encoding/encoder.h"
#include "commands.h"

namespace cli {
namespace {

struct RankOptions : EncoderOptions {
  Switch late{"--late",
              "Late interaction (ColBERT): for each query vector take the best dot product with a "
              "text vector, and add them up."};
  Switch in_order{"--in-order",
                  "Print each text as soon as it is scored, in input order. Default: sort when the "
                  "input ends."};
  FlagGroups flags() { return {group("Input", truncate), output(late, in_order, top), memory()}; }
};

// Texts with a score: best first, or with --in-order a line for each line.
class Ranking : public Encoder {
 public:
  int run() {
    if (own_.in_order && o_.top != 0)
      return usage_error("--top: does not go with --in-order, which answers every text");
    return Encoder::run();
  }

 protected:
  explicit Ranking(const RankOptions& options) : Encoder(options), own_(options) {}
  Ranking(const RankOptions& options, const char* query) : Encoder(options, query), own_(options) {}
  // `by`: what has the order of the scores, and has not lost its differences.
  bool keep(const Text& text, double by, double score) {
    const Ranked one{by, score, number_, text.given};
    if (own_.in_order) return write(one);
    all_.push_back(one);
    if (o_.top != 0 && all_.size() >= 2 * size_t{o_.top}) sort();
    return true;
  }

 private:
  struct Ranked {
    double by, score;
    uint64_t line;
    string text;
  };

  // Sorted, there is no line of output whose place it would take.
  int bad(const Text& text) override {
    return own_.in_order ? Encoder::bad(text) : bad_input(e_, text.where, text.error);
  }
  bool write(const Ranked& one) const {
    Json json;
    json.open('{').add("line", one.line).add("score", one.score).add("text", one.text);
    return print(format("%.6f\t%" PRIu64 "\t", one.score, one.line) + one.text, json.close('}'));
  }
  // Best first, ties in the order of the input; no more than --top.
  void sort() {
    std::sort(all_.begin(), all_.end(), [](const Ranked& a, const Ranked& b) {
      return a.by != b.by ? a.by > b.by : a.line < b.line;
    });
    if (o_.top != 0 && all_.size() > o_.top) all_.resize(o_.top);
  }
  bool finish() override {
    sort();
    for (const Ranked& one : all_)
      if (!write(one)) return false;
    return output_flush();
  }

  const RankOptions& own_;
  vector<Ranked> all_;
};

// Pairs of the query and each text.
class Rank final : public Ranking {
 public:
  Rank(const RankOptions& options, const char* query) : Ranking(options, query) {}

 private:
  const char* refusal() const override {
    return output_.query_length != 0 ? "ranks by late interaction: phasor rank --late" : nullptr;
  }
  uint32_t logit_rows() const override { return 1; }

  bool answer(uint32_t sequence, const Text& text, string* why) override {
    if (!rows(sequence, 0, 1, why)) return false;
    const float* row = phasor_logits(e_.session, 0);
    return keep(text, *row, class_scores(output_, row)[0]);
  }
};

// The query's vectors and each text's (MaxSim: Khattab and Zaharia 2020, equation 3).
class Late final : public Ranking {
 public:
  Late(const RankOptions& options, const char* query) : Ranking(options), query_(query) {}

 private:
  const char* refusal() const override {
    return output_.query_length == 0 ? "--late: has no vectors for late interaction" : nullptr;
  }
  uint32_t logit_rows() const override { return kRows; }
  size_t longest_question() const override { return query_.size(); }
  uint32_t longest_text() const override {
    return max(output_.query_length, output_.document_length);
  }
  size_t most() const override {
    const size_t room = e_.limits.source;
    if (vectors_.empty()) return min<size_t>(room, output_.query_length);
    return o_.truncate ? min<size_t>(room, output_.document_length) : room;
  }

  // Calls `take` with each position and its vector, divided by its length (at least 1e-12, as
  // PyTorch's normalize has it).
  template <class Take>
  bool each_vector(uint32_t sequence, uint32_t count, string* why, Take take) {
    return each_row(sequence, count, why, [&](uint32_t place, const float* row) {
      double squares = 0;
      for (uint32_t i = 0; i < output_.width; ++i) squares += double{row[i]} * row[i];
      vector<double> unit(row, row + output_.width);
      for (double& value : unit) value /= max(sqrt(squares), 1e-12);
      take(place, unit);
    });
  }

  bool prepare() override {
    Text text;
    string* why = &text.error;
    marker_ = output_.query_marker;
    if (!read_query(&text, why)) return data_error("the query: %s", why->c_str()), false;
    marker_ = output_.document_marker;
    skipped_ = phasor_skipped(e_.model, &skipped_count_);
    return true;
  }
  bool read_query(Text* text, string* why) {
    Input input;
    input.text = query_;
    if (!read(input, text)) return false;
    phasor_item item = item_of(text->ids.data(), text->ids.size(), PHASOR_LOGITS_NONE);
    if (output_.expansion == PHASOR_EXPANSION_HIDDEN) item.seen = item.count;
    if (output_.expansion != PHASOR_EXPANSION_NONE)
      text->ids.resize(output_.query_length, e_.source.mask);
    item.ids = text->ids.data();
    item.count = count_of(text->ids);
    const auto take = [this](uint32_t, vector<double>& unit) { vectors_.push_back(unit); };
    return e_.encode(item, why) && each_vector(0, item.count, why, take);
  }

  bool answer(uint32_t sequence, const Text& text, string* why) override {
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    vector<double> best(vectors_.size(), kNone);
    const auto take = [&](uint32_t place, const vector<double>& unit) {
      if (has(skipped_, skipped_count_, text.ids[place])) return;
      for (size_t i = 0; i < vectors_.size(); ++i) {
        double product = 0;
        for (uint32_t k = 0; k < output_.width; ++k) product += vectors_[i][k] * unit[k];
        best[i] = max(best[i], product);
      }
    };
    if (!each_vector(sequence, count_of(text.ids), why, take)) return false;
    if (best[0] == kNone) return *why = "no token that counts, expected at least one", false;
    double score = 0;
    for (const double one : best) score += one;
    return keep(text, score, score);
  }

  string query_;
  vector<vector<double>> vectors_;  // of the query
  const uint32_t* skipped_ = nullptr;
  uint32_t skipped_count_ = 0;
};

const char* unfit(const phasor_model* model) {
  if (const char* other = no_encoder(model)) return other;
  const phasor_output gives = output_of(model);
  if (gives.query_length != 0) return nullptr;
  return gives.output != PHASOR_OUTPUT_CLASSES || gives.pooling == 0 || gives.width != 1
             ? "does not rank: it is no classifier with one class, and has no vectors for late "
               "interaction"
             : nullptr;
}

int rank(const RankOptions& options) {
  constexpr const char* kMissing = "rank: expected a query (phasor rank --help)";
  return options.late ? run_query<Late>(options, kMissing) : run_query<Rank>(options, kMissing);
}

}  // namespace

const Command rank_command = command<RankOptions, rank>(
    "rank", "MODEL QUERY [TEXT...]", "sort texts by how well they answer a query",
    "Scores the query with each TEXT, or each line of standard input. Prints score, line number "
    "and text, best first. Needs a cross-encoder; with --late, a ColBERT model.",
    "phasor rank ranker.phasor \"where do cats sit\" \"A cat sits on the mat.\" \"Dogs bark.\"\n"
    "phasor rank ranker.phasor --top 10 \"where do cats sit\" < lines.txt\n"
    "phasor rank vectors.phasor --late \"where do cats sit\" < lines.txt\n"
    "tail -f log.txt | phasor rank ranker.phasor --in-order \"disk failure\"",
    unfit, kHasOutputs);

}  // namespace cli
