// cli: `phasor tag`: what the labels of tokens name.
#include "../encoding/encoder.h"
#include "commands.h"

namespace cli {
namespace {

struct TagOptions : EncoderOptions {
  FlagGroups flags() { return {group("Input", truncate, embeddings), output(), memory()}; }
};

// Tokens of one label that follow each other are one entity (aggregation "simple" of transformers'
// pipeline): B- begins a new one, O is none.
class Tag final : public Encoder {
 public:
  using Encoder::Encoder;

 private:
  uint32_t logit_rows() const override { return kRows; }
  bool wants_places() const override { return true; }

  struct Entity {
    string label;  // without B- or I-
    Span span;
    double score;  // of all tokens
    uint32_t tokens;
  };

  bool answer(uint32_t sequence, const Text& text, string* why) override {
    size_t first = 0;
    vector<Span> spans;
    vector<Entity> found;
    if (text.vectors.empty() && !places(text, &first, &spans, why)) return false;
    for (size_t i = 0; spans.size() < text.ids.size() && !text.vectors.empty(); ++i)
      spans.push_back({i, i + 1});  // positions
    const auto take = [&](uint32_t place, const float* row) {
      if (place < first || place >= first + spans.size()) return;
      const Scored top = best(class_scores(output_, row), 1)[0];
      const string name = label(top.index), mark = name.substr(0, 2);
      const bool marked = mark == "B-" || mark == "I-";
      const string plain = marked ? name.substr(2) : name;
      const Span& span = spans[place - first];
      if (found.empty() || found.back().label != plain || mark == "B-")
        found.push_back({plain, span, 0, 0});
      found.back().span.end = span.end;
      found.back().score += top.score;
      ++found.back().tokens;
    };
    if (!each_row(sequence, count_of(text.ids), why, take)) return false;
    string lines;
    Json json;
    json.open('{').add("line", number_).open("entities", '[');
    for (const Entity& one : found) {
      if (one.label == "O") continue;
      const double score = one.score / one.tokens;
      const string place = text.vectors.empty()
                               ? stretch(text.given, one.span, &json)
                               : positions(one.span.begin, one.span.end, "", &json);
      json.add("label", one.label).add("score", score).close('}');
      lines += one.label + format("\t%.6f\t", score) + place + "\n";
    }
    return print(lines, json.close(']').close('}'));
  }
};

const char* unfit(const phasor_model* model) {
  if (const char* other = no_encoder(model)) return other;
  const phasor_output gives = output_of(model);
  return gives.output != PHASOR_OUTPUT_CLASSES || gives.pooling != 0 || gives.query_length != 0
             ? "labels no tokens: it is no classifier of them"
             : nullptr;
}

}  // namespace

const Command tag_command = command<TagOptions, run_as<Tag>>(
    "tag", "MODEL [TEXT...]", "find labeled spans in a text, such as names",
    "Prints one line for each span of tokens with the same label: label, score, first character, "
    "end, text. An empty line follows each text.",
    "phasor tag tagger.phasor \"Ada Lovelace lived in London.\"\n"
    "phasor tag tagger.phasor < lines.txt\n"
    "phasor tag tagger.phasor --json \"Ada Lovelace lived in London.\"",
    unfit, kHasOutputs);

}  // namespace cli
