// cli: `phasor embed` and `phasor fill`.
#include "../encoding/encoder.h"
#include "../engine/exponential.h"
#include "commands.h"

namespace cli {
namespace {

class Embed final : public Encoder {
 public:
  using Encoder::Encoder;

 private:
  const char* refusal() const override {
    if (o_.sparse && (o_.pooling.given || o_.normalize || o_.no_normalize || o_.dim != 0))
      return "--sparse: goes without --pooling, --normalize, --no-normalize and --dim";
    if (!o_.sparse && o_.top != 0) return "--top: goes with --sparse";
    if (o_.sparse)
      return output_.output == PHASOR_OUTPUT_LOGITS
                 ? nullptr
                 : "--sparse: is no masked language model: it has no logits";
    if (!o_.pooling.given && output_.pooling == 0 && output_.output == PHASOR_OUTPUT_LOGITS)
      return "says nothing of pooling: choose one with --pooling mean, first or last, or --sparse";
    if (!o_.pooling.given && output_.pooling == 0)
      return "says nothing of pooling: choose one with --pooling mean, first or last";
    if (o_.normalize && o_.no_normalize)
      return "--normalize: expected either --normalize or --no-normalize, not both";
    return nullptr;
  }
  uint32_t logit_rows() const override { return o_.sparse ? kRows : 0; }
  bool prepare() override {
    const bool own = o_.sparse || output_.output == PHASOR_OUTPUT_POOLED;
    const uint32_t width = own ? output_.width : e_.source.width;
    if (o_.dim > width)
      return data_error("%s: --dim %u: the vectors have %u values", e_.path, uint32_t{o_.dim},
                        width),
             false;
    vector_.resize(o_.dim != 0 ? o_.dim : width);
    return o_.npy == nullptr || npy_.open(o_.npy);
  }
  // A weight for each token of the vocabulary: ln(1 + its largest logit), 0 where that is not above
  // 0 (SPLADE: Formal et al. 2021, "SPLADE v2").
  bool sparse(uint32_t sequence, const Text& text, string* why) {
    std::fill(vector_.begin(), vector_.end(), 0.0f);
    const auto take = [this](uint32_t, const float* row) {
      for (size_t i = 0; i < vector_.size(); ++i) vector_[i] = std::max(vector_[i], row[i]);
    };
    if (!each_row(sequence, count_of(text.ids), why, take)) return false;
    for (float& value : vector_) value = static_cast<float>(logarithm(1.0 + double{value}));
    if (npy_.is_open()) return ++rows_, npy_.append(vector_.data(), vector_.size());
    string lines;
    Json json;
    json.open('{').add("line", number_).add("tokens", text.ids.size()).open("weights", '[');
    for (const Scored& one : best({vector_.begin(), vector_.end()}, vector_.size())) {
      if (one.score == 0) break;
      json.open('{').add("id", one.index).add("piece", piece(one.index));
      json.add("weight", static_cast<float>(one.score)).close('}');
      lines += format("%u\t", one.index) + piece(one.index) + format("\t%.9g\n", one.score);
    }
    return print(lines, json.close(']').close('}'));
  }
  bool answer(uint32_t sequence, const Text& text, string* why) override {
    if (o_.sparse) return sparse(sequence, text, why);
    uint32_t pooling = PHASOR_POOL_MODEL;
    if (o_.pooling.given) pooling = PHASOR_POOL_MEAN + o_.pooling;
    const uint32_t normalize = o_.normalize      ? PHASOR_NORMALIZE_YES
                               : o_.no_normalize ? PHASOR_NORMALIZE_NO
                                                 : PHASOR_NORMALIZE_MODEL;
    if (!e_.done(phasor_embedding(e_.session, sequence, pooling, normalize, vector_.data(),
                                  count_of(vector_), &e_.error),
                 why))
      return false;
    if (!all_finite(vector_.data(), vector_.size()))
      return *why = "a value of the vector is not a number", false;
    if (npy_.is_open()) {
      ++rows_;
      return npy_.append(vector_.data(), vector_.size());
    }
    Json json;
    string line;
    json.open('{').add("line", number_).add("tokens", text.ids.size());
    json.add("embedding", vector_).close('}');
    for (const float value : vector_) line += format(line.empty() ? "%.9g" : " %.9g", value);
    return print(line, json);
  }
  bool finish() override { return !npy_.is_open() || npy_.finish({rows_, vector_.size()}); }
  bool commit() override { return npy_.commit(); }

  vector<float> vector_;
  NpyWriter npy_;
  uint64_t rows_ = 0;
};

class Fill final : public Encoder {
 public:
  using Encoder::Encoder;

 private:
  const char* refusal() const override {
    if (output_.output != PHASOR_OUTPUT_LOGITS)
      return "is no masked language model: it has no logits";
    return mask() == PHASOR_NONE ? "has no mask token: --mask ID says which one it is" : nullptr;
  }
  uint32_t mask() const { return o_.mask.given ? uint32_t(o_.mask) : e_.source.mask; }
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
};

}  // namespace

int embed(const Options& options) { return Embed(options).run(); }
int fill(const Options& options) { return Fill(options).run(); }

}  // namespace cli
