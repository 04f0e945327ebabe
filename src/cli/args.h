// cli: the command line as a struct. One table in args.cpp has every flag, its commands and its
// help.
#pragma once
#include <stdint.h>

#include <vector>

namespace cli {

enum Command : uint32_t {
  kRun = 1,
  kTokenize = 2,
  kInspect = 4,
  kVerify = 8,
  kScore = 16,
  kBench = 32,
  kEmbed = 64,
  kFill = 128,
  kClassify = 256,
  kChat = 512,
  kQuantize = 1024
};

struct Ids {
  bool given = false;
  bool from_input = false;  // "-": one list a line of standard input
  std::vector<uint32_t> values;
};

// Numbers for which it matters whether they were given.
struct Real {
  bool given = false;
  float value = 0;
};
struct Number {
  bool given = false;
  uint64_t value = 0;
};

struct Options {
  const char* model = nullptr;
  std::vector<const char*> texts;
  Ids ids, prefix_ids, target_ids, segments;
  const char* prefix = nullptr;
  const char* target = nullptr;
  const char* isa = nullptr;
  const char* logits = nullptr;
  const char* hidden = nullptr;
  const char* hidden_decoder = nullptr;
  const char* attention = nullptr;
  const char* pooling = nullptr;
  const char* prompt = nullptr;
  const char* prompt_text = nullptr;
  const char* npy = nullptr;
  const char* save_state = nullptr;
  const char* load_state = nullptr;
  const char* system = nullptr;
  std::vector<const char*> stop;
  Ids suppress, end;
  Real temperature, top_p, min_p, typical, repeat_penalty, presence_penalty, frequency_penalty,
      length_penalty;
  Number seed, top_k, no_repeat_ngram, min_new, keep, lookahead;
  bool sample = false, greedy = false, print_prompt = false;
  const char* type = nullptr;
  const char* output_type = nullptr;
  const char* moments = nullptr;
  const char* ram = nullptr;
  const char* flash = nullptr;
  const char* emit = nullptr;
  const char* tables = nullptr;
  uint32_t n = 0;        // 0: as many as the context holds
  uint32_t context = 0;  // 0: the default
  uint32_t source = 0;   // 0: the default
  uint32_t threads = 1;
  uint32_t reps = 5;
  uint32_t length = 0;  // 0: the default
  uint32_t chunk = 0;   // 0: the default
  Number text_bytes;
  uint32_t dim = 0;             // 0: all
  uint32_t batch = 0;           // 0: the default
  uint32_t top = 0;             // 0: all, or 5
  uint32_t stride = 0;          // 0: no windows
  uint32_t cache = 0;           // PHASOR_CACHE_…
  uint32_t load = 0;            // Load
  uint32_t beam = 0;            // 0: no search
  uint32_t n_best = 0;          // 0: the best, without its score
  uint32_t early_stopping = 0;  // PHASOR_EARLY_…
  bool print_ids = false, decode = false, check = false, json = false, quiet = false;
  bool blocks = false, pair = false, truncate = false, normalise = false, no_normalise = false;
  bool help = false;
};

// Reads what stands after the command. 0, or 2 when a line on standard error says what is wrong.
int parse(Options* out, Command command, const char* name, int argc, char** argv);

// "1,2,3"; an empty text is an empty list. False when it is not that.
bool parse_ids(const char* text, std::vector<uint32_t>* ids);

// The flags of a command, a line each.
void print_flags(Command command);

// "phasor: " and a line on standard error; returns 2 (the command line) or 1 (the model or the
// data).
__attribute__((format(printf, 1, 2))) int usage_error(const char* format, ...);
__attribute__((format(printf, 1, 2))) int data_error(const char* format, ...);

}  // namespace cli
