// cli: --logits, --hidden, --hidden-decoder and --attention. The forward pass of one input and its
// output is repeated, token by token, with an observer: the same bits as in the generation, however
// that was cut into steps.
#pragma once

#include "../io/npy.h"
#include "engine.h"

namespace cli {

// Files of arrays.
struct ArrayOptions {
  OutputFile logits{"--logits FILE.npy",
                    "Write the logits of each position: (positions, vocabulary)."};
  OutputFile hidden{"--hidden FILE.npy",
                    "Write the residuals of the encoder or of a decoder-only model: (layers + 2, "
                    "positions, width)."};
  OutputFile hidden_decoder{"--hidden-decoder FILE.npy",
                            "Write the residuals of the decoder of an encoder-decoder."};
  OutputFile attention{"--attention FILE.npy",
                       "Write attention weights: (layers, heads, queries, keys). Encoder-decoder: "
                       "cross-attention. Else self-attention."};
  // These are of one whole pass.
  bool arrays() const { return logits || hidden || hidden_decoder || attention; }
};
constexpr const char* kArrays = "--logits, --hidden, --attention";

class Capture {
 public:
  // makes the files, so that one that cannot be written is known before the work
  bool open(const ArrayOptions& options);
  // What a replay wrote takes its place.
  bool commit();
  bool wanted() const;
  bool wants_attention() const { return attention_.is_open(); }

  // source: ids of the encoder (empty for a decoder). target: what the decoder reads, from its
  // start token or the prompt's first.
  bool replay(Engine& engine, const TokenIds& source, const TokenIds& target);
  // An encoder's. `output` has the rows for --logits.
  bool replay_encoder(Engine& engine, const TokenIds& source, const TokenIds& segments,
                      const phasor_output& output);

 private:
  struct Stack {
    uint32_t layers = 0, rows = 0, width = 0;
    // (layers + 2, rows, width): the embedding, after each block, the stack's output
    vector<float> values;
  };
  static void see(void* self, const phasor_view* view);
  void begin(const Engine& engine, uint32_t kind, uint32_t queries, uint32_t keys);
  void keep_rows(const phasor_view& view);
  void keep_attention(const phasor_view& view);
  bool encode(const Engine& engine, const TokenIds& source, const TokenIds& segments);
  bool append_logits(const Engine& engine, uint32_t rows, uint32_t width);
  // After the last pass: writes all, of logits `rows` of `width`.
  bool end(const Engine& engine, uint32_t rows, uint32_t width);

  NpyWriter files_[4];  // of ArrayOptions, in their order
  NpyWriter &logits_ = files_[0], &hidden_ = files_[1], &hidden_decoder_ = files_[2],
            &attention_ = files_[3];
  Stack encoder_, decoder_;
  // attention: self or cross, of which stack; the shape
  uint32_t attention_kind_ = 0, attention_stack_ = 0, heads_ = 0, queries_ = 0, keys_ = 0;
  bool too_large_ = false;         // for this machine
  vector<vector<float>> weights_;  // per layer (heads, queries, keys)
};

}  // namespace cli
