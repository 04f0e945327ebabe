// cli: `phasor fill`: the best tokens for each mask.
#include "../encoding/encoder.h"
#include "commands.h"

namespace cli {
namespace {

struct FillOptions : EncoderOptions {
  Number mask{"--mask ID", "Id of the mask token. Default: as the file says.", 0, kMost};
  FlagGroups flags() {
    return {group("Input", ids, segments, pair, truncate, mask), output(top),
            group("Arrays for NumPy", logits, hidden, attention), memory()};
  }
};

class Fill final : public Encoder {
 public:
  explicit Fill(const FillOptions& options) : Encoder(options), mask_(options.mask) {}

 private:
  const char* refusal() const override {
    return mask() == PHASOR_NONE ? "has no mask token: --mask ID says which one it is" : nullptr;
  }
  uint32_t mask() const { return mask_.given ? uint32_t{mask_} : e_.source.mask; }
  uint32_t logit_rows() const override { return 1; }
  bool answer(uint32_t sequence, const Text& text, string* why) override {
    string lines;
    Json json;
    json.open('{').add("line", number_).open("masks", '[');
    bool any = false;
    for (uint32_t place = 0; place < text.ids.size(); ++place) {
      if (text.ids[place] != mask()) continue;
      any = true;
      if (!rows(sequence, place, 1, why)) return false;
      json.open('{').add("place", place).open("best", '[');
      for (const Scored& one : best(softmax(phasor_logits(e_.session, 0), output_.width), 5)) {
        lines +=
            format("%u\t%u\t", place, one.index) + piece(one.index) + format("\t%.6f\n", one.score);
        json.open('{').add("id", one.index).add("piece", piece(one.index));
        json.add("probability", one.score).close('}');
      }
      json.close(']').close('}');
    }
    if (!any) return *why = "no mask token (" + piece(mask()) + ") in the text", false;
    return print(lines, json.close(']').close('}'));
  }

  const Number& mask_;
};

const char* unfit(const phasor_model* model) {
  if (const char* other = no_encoder(model)) return other;
  return output_of(model).output != PHASOR_OUTPUT_LOGITS
             ? "is no masked language model: it has no logits"
             : nullptr;
}

}  // namespace

const Command fill_command = command<FillOptions, run_as<Fill>>(
    "fill", "MODEL [TEXT...]", "predict the masked tokens of a text",
    "Prints the best tokens for each mask: position, id, piece and probability, one per line. An "
    "empty line follows each text.",
    "phasor fill masked.phasor \"A cat sits on the [MASK].\"\n"
    "phasor fill masked.phasor --top 1 < lines.txt\n"
    "phasor fill masked.phasor --json \"The [MASK] sits on the mat.\"",
    unfit, kHasOutputs);

}  // namespace cli
