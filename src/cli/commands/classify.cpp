// cli: `phasor classify` and `phasor rank`: classes of a text, of its tokens or of a pair.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <limits>

#include "../encoding/encoder.h"
#include "commands.h"

namespace cli {
namespace {

class Classify final : public Encoder {
 public:
  using Encoder::Encoder;

 private:
  const char* refusal() const override {
    if (output_.query_length != 0 && o_.logits == nullptr)
      return "is no classifier: its vectors are for phasor rank --late, and classify --logits";
    return output_.output != PHASOR_OUTPUT_CLASSES ? "is no classifier: it has no classes"
                                                   : nullptr;
  }
  uint32_t logit_rows() const override { return output_.pooling != 0 || decodes() ? 1 : kRows; }
  bool classifies() const override { return true; }

  // "label<TAB>score" for each class that is shown.
  string show(const float* row, Json* json) const {
    string line;
    json->open("labels", '[');
    for (const Scored& one : best(class_scores(output_, row), output_.width)) {
      const string name = label(one.index);
      line += (line.empty() ? "" : "\t") + name + format("\t%.6f", one.score);
      json->open('{').add("label", name).add("score", one.score).close('}');
    }
    json->close(']');
    return line;
  }
  bool answer(uint32_t sequence, const Text& text, string* why) override {
    Json json;
    string lines;
    json.open('{').add("line", number_);
    if (output_.pooling != 0 || decodes()) {
      if (!classes(sequence, text.ids, why)) return false;
      lines = show(phasor_logits(e_.session, 0), &json);
      return print(lines, json.close('}'));
    }
    json.open("tokens", '[');
    const auto take = [&](uint32_t place, const float* row) {
      const uint32_t id = text.ids[place];
      json.open('{').add("place", place).add("id", id).add("piece", piece(id));
      lines += format("%u\t%u\t", place, id) + piece(id) + "\t" + show(row, &json) + "\n";
      json.close('}');
    };
    return each_row(sequence, count_of(text.ids), why, take) &&
           print(lines, json.close(']').close('}'));
  }
};

// Classes that a model of inference was not trained on (Yin et al. 2019): it says whether a text
// entails a sentence with each label.
class ZeroShot final : public Encoder {
 public:
  using Encoder::Encoder;
  // The labels, between commas; 0, or the exit status.
  int read_flags() {
    const string all = o_.labels, form = form_of(o_);
    for (size_t from = 0, end = 0; end != string::npos; from = end + 1) {
      end = all.find(',', from);
      const string one = all.substr(from, end == string::npos ? end : end - from);
      const size_t first = one.find_first_not_of(' '), last = one.find_last_not_of(' ');
      if (first != string::npos) labels_.push_back(one.substr(first, last - first + 1));
    }
    if (labels_.empty())
      return usage_error("--labels: expected some, separated by commas, such as \"sport,art\"");
    if (labels_.size() > kMostLabels)
      return usage_error("--labels: %zu of them, expected at most %zu", labels_.size(),
                         kMostLabels);
    const size_t at = form.find("{}");
    if (at == string::npos || form.find_first_of("{}") != at ||
        form.find_first_of("{}", at + 2) != string::npos)
      return usage_error("--template %s: expected one {}, where a label is put", form.c_str());
    const char* flag = o_.arrays() ? "--logits, --hidden, --attention"
                                   : o_.first_given({"--ids", "--pair", "--truncate"});
    return flag != nullptr ? usage_error("%s: does not go with --labels", flag) : 0;
  }

 private:
  static constexpr size_t kMostLabels = 1024;

  static string form_of(const Options& o) {
    return o.hypothesis != nullptr ? o.hypothesis : "This example is {}.";
  }
  string sentence(const string& label) const {
    string out = form_of(o_);
    return out.replace(out.find("{}"), 2, label);
  }

  const char* refusal() const override {
    if (output_.output != PHASOR_OUTPUT_CLASSES || (output_.pooling == 0 && !decodes()))
      return "is no classifier of texts";
    return entails() == output_.width || output_.width < 2
               ? "has no class that begins with entail, which --labels asks for"
               : nullptr;
  }
  uint32_t logit_rows() const override { return 1; }
  bool classifies() const override { return true; }
  bool asks() const override { return true; }
  size_t longest_question() const override {
    size_t longest = 0;
    for (const string& one : labels_) longest = std::max(longest, sentence(one).size() + 1);
    return longest;
  }

  // The class of entailment; their number, where there is none.
  uint32_t entails() const {
    for (uint32_t i = 0; i < output_.width; ++i) {
      string name = label(i).substr(0, 6);
      for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
      if (name == "entail") return i;
    }
    return output_.width;
  }

  // The classes of a text and a sentence.
  bool ask(const string& text, const string& label, string* why) {
    const string both = text + "\t" + sentence(label);
    TokenIds ids, segments;
    size_t first = 0;
    if (!e_.hold_text(both.size(), why) ||
        !pair_ids(e_, PHASOR_SOURCE, both, text.size(), &ids, &segments, &first, why))
      return false;
    if (ids.size() > e_.limits.source)
      return *why = no_room(ids.size(), e_.limits.source, "--source"), false;
    phasor_item item = item_of(ids.data(), ids.size(), PHASOR_LOGITS_NONE);
    if (e_.stack == PHASOR_ENCODER) item.segments = segments.data();
    return e_.done(phasor_encode(e_.session, &item, 1, &e_.error), why) &&
           e_.done(phasor_sequence_status(e_.session, 0), why) && classes(0, ids, why);
  }

  // A softmax of entailment over the labels; of a label alone, or with --multi-label, against
  // contradiction.
  bool answer(uint32_t, const Text& text, string* why) override {
    const uint32_t yes = entails(), no = yes == 0 ? output_.width - 1 : 0;
    const bool each = o_.multi_label || labels_.size() == 1;
    vector<float> found;
    vector<double> scores;
    for (const string& one : labels_) {
      if (!ask(prompt_ + text.given, one, why)) return false;
      const float* row = phasor_logits(e_.session, 0);
      const float pair[] = {row[no], row[yes]};
      if (each) scores.push_back(softmax(pair, 2)[1]);
      found.push_back(row[yes]);
    }
    if (!each) scores = softmax(found.data(), count_of(found));
    string line;
    Json json;
    json.open('{').add("line", number_).open("labels", '[');
    for (const Scored& one : best(scores, scores.size())) {
      const string& name = labels_[one.index];
      line += (line.empty() ? "" : "\t") + name + format("\t%.6f", one.score);
      json.open('{').add("label", name).add("score", one.score).close('}');
    }
    return print(line, json.close(']').close('}'));
  }

  vector<string> labels_;
};

// Texts with a score, best first.
class Ranking : public Encoder {
 protected:
  using Encoder::Encoder;
  // `by`: what has the order of the scores, and has not lost its differences.
  void keep(const Text& text, double by, double score) {
    all_.push_back({by, score, number_, text.given});
    if (o_.top != 0 && all_.size() >= 2 * size_t{o_.top}) sort();
  }

 private:
  // There is no line of output whose place it would take.
  int bad(const Text& text) override { return bad_input(e_, text.where, text.error); }
  // Best first, ties in the order of the input; no more than --top.
  void sort() {
    std::sort(all_.begin(), all_.end(), [](const Ranked& a, const Ranked& b) {
      return a.by != b.by ? a.by > b.by : a.line < b.line;
    });
    if (o_.top != 0 && all_.size() > o_.top) all_.resize(o_.top);
  }
  bool finish() override {
    sort();
    for (const Ranked& one : all_) {
      Json json;
      json.open('{').add("line", one.line).add("score", one.score).add("text", one.text);
      if (!print(format("%.6f\t%" PRIu64 "\t", one.score, one.line) + one.text, json.close('}')))
        return false;
    }
    return output_flush();
  }

  struct Ranked {
    double by, score;
    uint64_t line;
    string text;
  };
  vector<Ranked> all_;
};

// Pairs of the query, which is --prompt-text with a tab behind it, and each text.
class Rank final : public Ranking {
 public:
  explicit Rank(const Options& options) : Ranking(options) {
    tab_ = strlen(options.prompt_text) - 1;
  }

 private:
  const char* refusal() const override {
    if (output_.query_length != 0) return "ranks by late interaction: phasor rank --late";
    return output_.output != PHASOR_OUTPUT_CLASSES || output_.pooling == 0 || output_.width != 1
               ? "does not rank: it is no classifier with one class"
               : nullptr;
  }
  uint32_t logit_rows() const override { return 1; }

  bool answer(uint32_t sequence, const Text& text, string* why) override {
    if (!rows(sequence, 0, 1, why)) return false;
    const float* row = phasor_logits(e_.session, 0);
    keep(text, *row, class_scores(output_, row)[0]);
    return true;
  }
};

// The query's vectors and each text's (MaxSim: Khattab and Zaharia 2020, equation 3).
class Late final : public Ranking {
 public:
  Late(const Options& options, const char* query) : Ranking(options), query_(query) {}

 private:
  const char* refusal() const override {
    return output_.query_length == 0 ? "--late: has no vectors for late interaction" : nullptr;
  }
  uint32_t logit_rows() const override { return kRows; }
  size_t longest_question() const override { return query_.size(); }
  uint32_t longest_text() const override {
    return std::max(output_.query_length, output_.document_length);
  }
  size_t most() const override {
    const size_t room = e_.limits.source;
    if (vectors_.empty()) return std::min<size_t>(room, output_.query_length);
    return o_.truncate ? std::min<size_t>(room, output_.document_length) : room;
  }

  // Calls `take` with each position and its vector, divided by its length (at least 1e-12, as
  // PyTorch's normalize has it).
  template <class Take>
  bool each_vector(uint32_t sequence, uint32_t count, string* why, Take take) {
    return each_row(sequence, count, why, [&](uint32_t place, const float* row) {
      double squares = 0;
      for (uint32_t i = 0; i < output_.width; ++i) squares += double{row[i]} * row[i];
      vector<double> unit(row, row + output_.width);
      for (double& value : unit) value /= std::max(sqrt(squares), 1e-12);
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
    return e_.done(phasor_encode(e_.session, &item, 1, &e_.error), why) &&
           e_.done(phasor_sequence_status(e_.session, 0), why) &&
           each_vector(0, item.count, why, take);
  }

  bool answer(uint32_t sequence, const Text& text, string* why) override {
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    vector<double> best(vectors_.size(), kNone);
    const auto take = [&](uint32_t place, const vector<double>& unit) {
      const uint32_t* const end = skipped_ + skipped_count_;
      if (std::find(skipped_, end, text.ids[place]) != end) return;
      for (size_t i = 0; i < vectors_.size(); ++i) {
        double product = 0;
        for (uint32_t k = 0; k < output_.width; ++k) product += vectors_[i][k] * unit[k];
        best[i] = std::max(best[i], product);
      }
    };
    if (!each_vector(sequence, count_of(text.ids), why, take)) return false;
    if (best[0] == kNone) return *why = "no token that counts, expected at least one", false;
    double score = 0;
    for (const double one : best) score += one;
    keep(text, score, score);
    return true;
  }

  string query_;
  vector<vector<double>> vectors_;  // of the query
  const uint32_t* skipped_ = nullptr;
  uint32_t skipped_count_ = 0;
};

}  // namespace

int classify(const Options& options) {
  if (options.labels == nullptr) {
    const char* flag = options.first_given({"--template", "--multi-label"});
    return flag != nullptr ? usage_error("%s: goes with --labels", flag) : Classify(options).run();
  }
  ZeroShot asked(options);
  const int status = asked.read_flags();
  return status != 0 ? status : asked.run();
}
int rank(const Options& options) {
  constexpr const char* kMissing = "rank: expected a query (phasor rank --help)";
  if (!options.late) return run_pairs<Rank>(options, kMissing);
  if (options.texts.empty()) return usage_error("%s", kMissing);
  Options texts = options;
  texts.texts.erase(texts.texts.begin());
  return Late(texts, options.texts[0]).run();
}

}  // namespace cli
