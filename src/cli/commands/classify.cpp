// cli: `phasor classify`: classes of a text or of its tokens.
#include "../encoding/encoder.h"
#include "commands.h"

namespace cli {
namespace {

struct ClassifyOptions : EncoderOptions {
  Word labels{"--labels TEXTS",
              "Zero-shot classification with your own labels, as a,b,c. Needs a natural language "
              "inference model."};
  Word hypothesis{"--template TEXT",
                  "Needs --labels. Sentence to test for each label, with {} for the label. "
                  "Default: \"This example is {}.\"",
                  "This example is {}."};
  Switch multi_label{"--multi-label", "Needs --labels. Score each label independently."};
  FlagGroups flags() {
    return {group("Input", ids, segments, pair, truncate, embeddings),
            group("Classes of your own", labels, hypothesis, multi_label), output(top),
            group("Arrays for NumPy", logits, hidden, attention), memory()};
  }
};

class Classify final : public Encoder {
 public:
  using Encoder::Encoder;

 private:
  const char* refusal() const override {
    return output_.query_length != 0 && o_.logits == nullptr
               ? "is no classifier: its vectors are for phasor rank --late, and classify --logits"
               : nullptr;
  }
  uint32_t logit_rows() const override { return output_.pooling != 0 || decodes() ? 1 : kRows; }

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
      json.open('{').add("place", place);
      if (id != PHASOR_NONE) json.add("id", id).add("piece", piece(id));
      lines += format("%u\t", place) + (id != PHASOR_NONE ? to_string(id) : string("-")) + "\t" +
               piece(id) + "\t" + show(row, &json) + "\n";
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
  explicit ZeroShot(const ClassifyOptions& options) : Encoder(options), own_(options) {}
  // The labels, between commas; 0, or the exit status.
  int read_flags() {
    const string all = own_.labels.value, form = own_.hypothesis.value;
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
    const char* flag =
        o_.arrays() ? kArrays : first_given(o_.ids, o_.pair, o_.truncate, o_.embeddings);
    return flag != nullptr ? usage_error("%s: does not go with --labels", flag) : 0;
  }

 private:
  static constexpr size_t kMostLabels = 1024;

  string sentence(const string& label) const {
    string out = own_.hypothesis.value;
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
  bool asks() const override { return true; }
  size_t longest_question() const override {
    size_t longest = 0;
    for (const string& one : labels_) longest = max(longest, sentence(one).size() + 1);
    return longest;
  }

  // The class of entailment; their number, where there is none.
  uint32_t entails() const {
    for (uint32_t i = 0; i < output_.width; ++i) {
      string name = label(i).substr(0, 6);
      for (char& c : name) c = char(c >= 'A' && c <= 'Z' ? c + 32 : c);
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
      return *why = no_room(ids.size(), e_.limits.source, more_room(e_, PHASOR_SOURCE, "")), false;
    phasor_item item = item_of(ids.data(), ids.size(), PHASOR_LOGITS_NONE);
    if (e_.stack == PHASOR_ENCODER) item.segments = segments.data();
    return e_.encode(item, why) && classes(0, ids, why);
  }

  // A softmax of entailment over the labels; of a label alone, or with --multi-label, against
  // contradiction.
  bool answer(uint32_t, const Text& text, string* why) override {
    const uint32_t yes = entails(), no = yes == 0 ? output_.width - 1 : 0;
    const bool each = own_.multi_label || labels_.size() == 1;
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

  const ClassifyOptions& own_;
  vector<string> labels_;
};

int classify(const ClassifyOptions& options) {
  if (options.labels == nullptr) {
    const char* flag = first_given(options.hypothesis, options.multi_label);
    return flag != nullptr ? usage_error("%s: goes with --labels", flag) : Classify(options).run();
  }
  ZeroShot asked(options);
  const int status = asked.read_flags();
  return status != 0 ? status : asked.run();
}

// An encoder-decoder with classes is one too: its decoder gives them.
const char* unfit(const phasor_model* model) {
  const bool classes = output_of(model).output == PHASOR_OUTPUT_CLASSES;
  const char* other = no_encoder(model);
  if (other != nullptr && !(classes && phasor_model_stack(model) == PHASOR_ENCODER_DECODER))
    return other;
  return classes ? nullptr : "is no classifier: it has no classes";
}

}  // namespace

const Command classify_command = command<ClassifyOptions, classify>(
    "classify", "MODEL [TEXT...]", "classify texts: labels with scores",
    "Prints one line for each text: labels and scores, best first. A model that labels tokens "
    "prints one line for each token, and an empty line after each text.",
    "phasor classify classifier.phasor \"What a good film.\"\n"
    "phasor classify classifier.phasor --top 1 < lines.txt\n"
    "phasor classify inference.phasor --labels \"sport, art\" \"The match ended two to one.\"",
    unfit, kHasOutputs);

}  // namespace cli
