// cli: how far the outputs of changed weights are from those of the exact ones, on a few inputs.
#pragma once

#include "../engine/engine.h"

namespace cli {

// What the model reads: ids of its sides.
struct Sample {
  TokenIds source, target;
};

class Probe {
 public:
  // Inputs from a text: windows of a decoder's text, lines of any other model; what an
  // encoder-decoder makes of a line is its target. Without a path: the file's test vectors. False:
  // a line says why. `reader` is an engine of the exact weights, not started, for this alone.
  bool read(Engine* reader, const char* path, uint32_t threads);
  // The outputs of the exact weights, with which all others are compared. The engine is started.
  bool keep(Engine* exact);
  // Of an engine that is started: the mean over all output rows of logits of the Kullback-Leibler
  // divergence from the exact ones in nats, and of any other output of |row − exact|²/|exact|².
  bool measure(Engine* e, double* divergence);
  // The same by the source's outputs that the file's record has; the inputs are its test vectors.
  bool measure(Engine* e, const phasor_record& record, double* divergence) const;

  phasor_limits limits(const Engine& e, uint32_t threads) const;
  size_t rows() const { return lengths_.size(); }
  const char* unit() const { return logits_ ? "divergence" : "squared error"; }

 private:
  template <class Take>
  bool run(Engine* e, bool every, Take take) const;
  bool read_lines(Engine* e, const string& text);
  bool read_windows(Engine* e, const string& text);
  bool answer(Engine* e, Sample* sample) const;

  vector<Sample> samples_;
  bool logits_ = false;
  size_t width_ = 0;
  vector<float> exact_;     // (rows, width): probabilities, or the values
  vector<double> lengths_;  // of each row: Σ p·log p, or |exact|²
};

}  // namespace cli
