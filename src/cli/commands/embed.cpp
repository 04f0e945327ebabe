// cli: `phasor embed`: a vector for each text.
#include <inttypes.h>

#include <limits>

#include "../encoding/encoder.h"
#include "../engine/exponential.h"
#include "commands.h"

namespace cli {
namespace {

struct EmbedOptions : EncoderOptions {
  Choice pooling{"--pooling mean|first|last|max",
                 "How to pool the hidden states. Default: as the file says."};
  Switch normalize{"--normalize", "Scale vectors to length 1. Default: as the file says."};
  Switch no_normalize{"--no-normalize", "Do not scale vectors."};
  Number dim{"--dim N", "Keep only the first N values (Matryoshka embeddings), then normalize.", 1,
             65536};
  Switch sparse{"--sparse",
                "SPLADE: print weights of vocabulary tokens instead of a vector. Needs a masked "
                "language model."};
  OutputFile npy{"--npy FILE.npy",
                 "Write the vectors to one array (texts, values) instead of printing them."};
  FlagGroups flags() {
    return {group("Input", ids, segments, pair, truncate, prompt, prompt_text, embeddings),
            output(pooling, normalize, no_normalize, dim, sparse, top, npy),
            group("Arrays for NumPy", hidden, attention), memory()};
  }
};

class Embed final : public Encoder {
 public:
  explicit Embed(const EmbedOptions& options) : Encoder(options), own_(options) {}

 private:
  const char* refusal() const override {
    if (own_.sparse && (own_.pooling.given || own_.normalize || own_.no_normalize || own_.dim != 0))
      return "--sparse: goes without --pooling, --normalize, --no-normalize and --dim";
    if (!own_.sparse && o_.top != 0) return "--top: goes with --sparse";
    if (own_.sparse)
      return output_.output == PHASOR_OUTPUT_LOGITS
                 ? nullptr
                 : "--sparse: is no masked language model: it has no logits";
    if (!own_.pooling.given && output_.pooling == 0 && output_.output == PHASOR_OUTPUT_LOGITS)
      return "says nothing of pooling: choose one with --pooling mean, first, last or max, or "
             "--sparse";
    if (!own_.pooling.given && output_.pooling == 0)
      return "says nothing of pooling: choose one with --pooling mean, first, last or max";
    if (own_.normalize && own_.no_normalize)
      return "--normalize: expected either --normalize or --no-normalize, not both";
    return nullptr;
  }
  uint32_t logit_rows() const override { return own_.sparse ? kRows : 0; }
  bool prepare() override {
    const bool own = own_.sparse || output_.output == PHASOR_OUTPUT_POOLED;
    const uint32_t width = own ? output_.width : e_.source.width;
    if (own_.dim > width)
      return data_error("%s: --dim %u: the vectors have %u values", e_.path, uint32_t{own_.dim},
                        width),
             false;
    vector_.resize(own_.dim != 0 ? own_.dim : width);
    return own_.npy == nullptr || npy_.open(own_.npy);
  }
  // A weight for each token of the vocabulary: ln(1 + its largest logit), 0 where that is not above
  // 0 (SPLADE: Formal et al. 2021, "SPLADE v2").
  bool sparse(uint32_t sequence, const Text& text, string* why) {
    std::fill(vector_.begin(), vector_.end(), 0.0f);
    const auto take = [this](uint32_t, const float* row) {
      for (size_t i = 0; i < vector_.size(); ++i) vector_[i] = max(vector_[i], row[i]);
    };
    if (!each_row(sequence, count_of(text.ids), why, take)) return false;
    for (float& value : vector_) value = float(logarithm(1.0 + double{value}));
    if (npy_.is_open()) return append();
    string lines;
    Json json;
    json.open('{').add("line", number_).add("tokens", text.ids.size()).open("weights", '[');
    for (const Scored& one : best({vector_.begin(), vector_.end()}, vector_.size())) {
      if (one.score == 0) break;
      json.open('{').add("id", one.index).add("piece", piece(one.index));
      json.add("weight", float(one.score)).close('}');
      lines += format("%u\t", one.index) + piece(one.index) + format("\t%.9g\n", one.score);
    }
    return print(lines, json.close(']').close('}'));
  }
  bool answer(uint32_t sequence, const Text& text, string* why) override {
    if (own_.sparse) return sparse(sequence, text, why);
    uint32_t pooling = PHASOR_POOL_MODEL;
    if (own_.pooling.given) pooling = PHASOR_POOL_MEAN + own_.pooling;
    const uint32_t normalize = own_.normalize      ? PHASOR_NORMALIZE_YES
                               : own_.no_normalize ? PHASOR_NORMALIZE_NO
                                                   : PHASOR_NORMALIZE_MODEL;
    if (!e_.done(phasor_embedding(e_.session, sequence, pooling, normalize, vector_.data(),
                                  count_of(vector_), &e_.error),
                 why))
      return false;
    if (!all_finite(vector_.data(), vector_.size()))
      return *why = "a value of the vector is not a number", false;
    if (npy_.is_open()) return append();
    Json json;
    string line;
    json.open('{').add("line", number_).add("tokens", text.ids.size());
    json.add("embedding", vector_).close('}');
    for (const float value : vector_) line += format(line.empty() ? "%.9g" : " %.9g", value);
    return print(line, json);
  }
  // An array has a row for every text.
  int bad(const Text& text) override {
    if (!npy_.is_open()) return Encoder::bad(text);
    std::fill(vector_.begin(), vector_.end(), std::numeric_limits<float>::quiet_NaN());
    (void)bad_input(e_, text.where,
                    text.error + format(" (row %" PRIu64 " of %s is NaN)", rows_, own_.npy.value));
    (void)append();
    return 1;
  }
  bool append() { return ++rows_, npy_.append(vector_.data(), vector_.size()); }
  bool finish() override { return !npy_.is_open() || npy_.finish({rows_, vector_.size()}); }
  bool commit() override { return npy_.commit(); }

  const EmbedOptions& own_;
  vector<float> vector_;
  NpyWriter npy_;
  uint64_t rows_ = 0;
};

}  // namespace

const Command embed_command = command<EmbedOptions, run_as<Embed>>(
    "embed", "MODEL [TEXT...]", "convert texts to vectors, one per line",
    "Prints the pooled vector of each TEXT, or of each line of standard input, with spaces between "
    "values.",
    "phasor embed encoder.phasor \"A cat sits on the mat.\"\n"
    "phasor embed encoder.phasor --pooling mean --normalize < lines.txt\n"
    "phasor embed encoder.phasor --npy vectors.npy < lines.txt",
    no_encoder, kHasOutputs);

}  // namespace cli
