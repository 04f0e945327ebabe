// cli: --logits, --hidden, --hidden-decoder and --attention. The forward pass of one input and its
// output is repeated, token by token, with an observer: the same bits as in the generation, however
// that was cut into steps.
#pragma once
#include <vector>

#include "engine.h"
#include "npy.h"

namespace cli {

class Capture {
 public:
  // makes the files, so that one that cannot be written is known before the work
  bool open(const Options& options);
  // What a replay wrote takes its place.
  bool commit() {
    return logits_.commit() && hidden_.commit() && hidden_decoder_.commit() && attention_.commit();
  }
  bool wanted() const {
    return logits_.is_open() || hidden_.is_open() || hidden_decoder_.is_open() ||
           attention_.is_open();
  }
  bool wants_attention() const { return attention_.is_open(); }

  // source: ids of the encoder (empty for a decoder). target: what the decoder reads, from its
  // start token or the prompt's first.
  bool replay(Engine& engine, const std::vector<uint32_t>& source,
              const std::vector<uint32_t>& target);
  // An encoder's. `output` has the rows for --logits.
  bool replay_encoder(Engine& engine, const std::vector<uint32_t>& source,
                      const std::vector<uint32_t>& segments, const phasor_output& output);

 private:
  struct Stack {
    uint32_t layers = 0, rows = 0, width = 0;
    // (layers + 2, rows, width): the embedding, after each block, the stack's output
    std::vector<float> values;
  };
  static bool prepare(Stack* stack, const phasor_side& side, uint32_t count);
  static void see(void* self, const phasor_view* view);
  void keep_rows(const phasor_view& view);
  void keep_attention(const phasor_view& view);
  bool write(NpyWriter& file, const Stack& stack);
  bool write_logits(uint32_t rows, uint32_t width) {
    return !logits_.is_open() || logits_.finish({rows, width});
  }
  bool write_all(const Engine& engine);

  NpyWriter logits_, hidden_, hidden_decoder_, attention_;
  Stack encoder_, decoder_;
  uint32_t attention_kind_ = 0, attention_stack_ = 0, heads_ = 0, queries_ = 0, keys_ = 0;
  bool too_large_ = false;
  std::vector<std::vector<float>> weights_;  // per layer (heads, queries, keys)
};

}  // namespace cli
