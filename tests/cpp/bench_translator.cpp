// The engine's side of tools/bench/translator.py: a translator that answers requests, a line each,
// with a JSON object each.
//
//   bench_translator MODEL IDS [--threads N] [--length N] [--batch N] [--beams N] [--never ID]...
//   bench_translator MODEL --tokenize TEXT     prints IDS for a file with a sentence on each line
//
// IDS: a file with a sentence's source ids on each line. Ids named with --never, and end tokens,
// are not chosen.
//
//   encode             the seconds of encoding all sentences, one at a time (MODEL may be an
//   encoder alone for this) greedy S N         the first S sentences, one at a time, encoded and
//   decoded to N tokens each: seconds and ids beam S N           the same by a search with --beams
//   beams batch N            all sentences, --batch of them together, decoded to N tokens each:
//   seconds memory             what the process holds
#include <phasor.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "bench_file.h"
#include "cli/host/pool.h"
#include "items.h"

namespace {

using bench::block;
using bench::die;
using bench::into;
using bench::memory;
using bench::now;

using Ids = std::vector<uint32_t>;

class Translator {
 public:
  explicit Translator(const char* path) {
    const void* file = bench::load(path, &bytes_);
    if (file == nullptr) die(path, "cannot be read");
    size_t need = 0;
    if (phasor_model_size(&need, file, bytes_, &error_) != PHASOR_OK ||
        phasor_model_open(&model_, block(need), need, file, bytes_, nullptr, &error_) != PHASOR_OK)
      die(path, error_.text);
    side_.struct_size = sizeof side_;
    // an encoder has none, and answers encode alone
    (void)phasor_model_side(model_, PHASOR_TARGET, &side_);
    for (uint32_t i = 0; i < side_.end_count; ++i) never.push_back(side_.end[i]);
  }

  void start(uint32_t source, uint32_t length, uint32_t sequences, uint32_t beams, uint32_t threads,
             bool text) {
    phasor_limits limits{};
    limits.struct_size = sizeof limits;
    if (phasor_limits_for(model_, source, length, &limits) != PHASOR_OK)
      die("limits", "are not the model's");
    limits.sequences = sequences_ = sequences;
    if (phasor_model_stack(model_) != PHASOR_ENCODER) limits.logit_rows = sequences;
    limits.beams = beams;
    limits.threads = threads;
    limits.text_bytes = text ? 4096 : 0;
    limits.chunk = std::max(limits.chunk, sequences);
    size_t need = 0;
    if (phasor_session_size(&need, model_, &limits, &error_) != PHASOR_OK)
      die("arena", error_.text);
    if (!pool_.start(threads)) die("threads", "the system gives no more");
    parallel_ = pool_.parallel();
    if (phasor_session_open(&session_, block(need), need, model_, &limits,
                            threads > 1 ? &parallel_ : nullptr, &error_) != PHASOR_OK)
      die("session", error_.text);
    if (!text)
      std::printf("{\"isa\": \"%s\", \"file\": %zu, \"arena\": %zu}\n", phasor_model_isa(model_),
                  bytes_, need);
  }

  void tokenize(const char* path) {
    std::ifstream text(path);
    for (std::string line; std::getline(text, line);) {
      Ids ids(4096);
      size_t count = 0;
      if (phasor_text_to_ids(session_, PHASOR_SOURCE, 1, ids.data(), ids.size(), &count,
                             line.data(), line.size(), &error_) != PHASOR_OK)
        die("text", error_.text);
      for (size_t i = 0; i < count; ++i) std::printf("%u%s", ids[i], i + 1 < count ? " " : "\n");
    }
  }

  // The sentences from `first` on, as many as there are sequences, decoded to `length` tokens each;
  // out gets those of the first one.
  void translate(const std::vector<Ids>& sentences, size_t first, size_t count, uint32_t length,
                 Ids* out) {
    std::vector<phasor_item> items(count, PHASOR_ITEM_INIT);
    for (size_t i = 0; i < count; ++i) {
      items[i].sequence = static_cast<uint32_t>(i);
      items[i].ids = sentences[first + i].data();
      items[i].count = static_cast<uint32_t>(sentences[first + i].size());
    }
    if (phasor_encode(session_, items.data(), static_cast<uint32_t>(count), &error_) != PHASOR_OK)
      die("encode", error_.text);
    if (length == 0) return;
    Ids ids(count, side_.decoder_start);
    for (size_t i = 0; i < count; ++i) {
      items[i].ids = &ids[i];
      items[i].count = 1;
      items[i].logits = PHASOR_LOGITS_LAST;
    }
    out->clear();
    for (uint32_t n = 0; n < length; ++n) {
      if (phasor_step(session_, items.data(), static_cast<uint32_t>(count), &error_) != PHASOR_OK)
        die("step", error_.text);
      for (size_t i = 0; i < count; ++i) {
        const uint32_t row = static_cast<uint32_t>(i);
        float* logits = phasor_logits(session_, row);
        for (const uint32_t x : never) logits[x] = -1e30f;
        float largest = 0;
        if (phasor_argmax(session_, row, &ids[i], &largest) != PHASOR_OK)
          die("argmax", "not finite");
      }
      out->push_back(ids[0]);
    }
  }

  // One sentence by beam search; what may not come shares its probability out, as it does in
  // CTranslate2.
  void search(const Ids& sentence, uint32_t length, Ids* out) {
    const phasor_item item =
        item_of(0, static_cast<uint32_t>(sentence.size()), PHASOR_LOGITS_NONE, sentence.data());
    if (phasor_encode(session_, &item, 1, &error_) != PHASOR_OK) die("encode", error_.text);
    phasor_beam_options options = PHASOR_BEAM_OPTIONS_INIT;
    phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
    phasor_hypothesis best{};
    best.struct_size = sizeof best;
    options.max_new = length;
    options.user = this;
    options.logits = [](void* self, float* logits, uint32_t, const uint32_t*, uint32_t) {
      for (const uint32_t x : static_cast<Translator*>(self)->never)
        logits[x] = -std::numeric_limits<float>::infinity();
      return 0;
    };
    if (phasor_beam_search(session_, 0, nullptr, 0, &options, &result, &error_) != PHASOR_OK)
      die("search", error_.text);
    if (phasor_hypothesis_get(session_, 0, &best) != PHASOR_OK) die("search", "found nothing");
    out->assign(best.ids, best.ids + best.count);
  }

  uint32_t sequences() const { return sequences_; }
  Ids never;

 private:
  phasor_error error_ = PHASOR_ERROR_INIT;
  phasor_model* model_ = nullptr;
  phasor_session* session_ = nullptr;
  phasor_side side_{};
  cli::Pool pool_;
  phasor_parallel parallel_{};
  uint32_t sequences_ = 1;
  size_t bytes_ = 0;
};

std::vector<Ids> read_sentences(const char* path) {
  std::vector<Ids> out;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    Ids ids;
    for (uint32_t id; words >> id;) ids.push_back(id);
    if (!ids.empty()) out.push_back(ids);
  }
  if (out.empty()) die(path, "no sentences");
  return out;
}

void answer(Translator& t, const std::vector<Ids>& sentences, const char* line) {
  unsigned count = 0, length = 0;
  std::vector<Ids> out;
  Ids ids;
  const double start = now();
  if (std::sscanf(line, "greedy %u %u", &count, &length) == 2) {
    for (size_t s = 0; s < count && s < sentences.size(); ++s)
      t.translate(sentences, s, 1, length, &ids), out.push_back(ids);
  } else if (std::sscanf(line, "beam %u %u", &count, &length) == 2) {
    for (size_t s = 0; s < count && s < sentences.size(); ++s)
      t.search(sentences[s], length, &ids), out.push_back(ids);
  } else if (std::sscanf(line, "batch %u", &length) == 1) {
    for (size_t s = 0; s < sentences.size(); s += t.sequences())
      t.translate(sentences, s, std::min<size_t>(t.sequences(), sentences.size() - s), length,
                  &ids);
  } else if (std::strncmp(line, "encode", 6) == 0) {
    for (size_t s = 0; s < sentences.size(); ++s) t.translate(sentences, s, 1, 0, &ids);
  } else if (std::strncmp(line, "memory", 6) == 0) {
    std::printf("{\"rss\": %llu, \"peak\": %llu}\n", memory("VmRSS:"), memory("VmHWM:"));
    return;
  } else {
    die(line, "unknown request");
  }
  std::printf("{\"seconds\": %.9g, \"ids\": [", now() - start);
  for (size_t s = 0; s < out.size(); ++s) {
    std::printf("%s[", s != 0 ? ", " : "");
    for (size_t i = 0; i < out[s].size(); ++i) std::printf("%s%u", i != 0 ? ", " : "", out[s][i]);
    std::printf("]");
  }
  std::printf("]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  phasor_request_amx();
  if (argc < 3) die("arguments", "expected MODEL IDS, or MODEL --tokenize TEXT");
  Translator t(argv[1]);
  if (std::strcmp(argv[2], "--tokenize") == 0) {
    if (argc < 4) die("--tokenize", "expected a file");
    t.start(0, 4, 1, 0, 1, true);
    t.tokenize(argv[3]);
    return 0;
  }
  uint32_t threads = 1, length = 32, batch = 1, beams = 0;
  bench::read_flags(argc, argv, 3,
                    {{"--threads", into(&threads)},
                     {"--length", into(&length)},
                     {"--batch", into(&batch)},
                     {"--beams", into(&beams)},
                     {"--never", [&](const char* id) { t.never.push_back(bench::number(id)); }}});
  const std::vector<Ids> sentences = read_sentences(argv[2]);
  size_t longest = 0;
  for (const Ids& s : sentences) longest = std::max(longest, s.size());
  t.start(static_cast<uint32_t>(longest), length + 1, batch, beams, threads, false);
  std::fflush(stdout);
  char line[128];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    answer(t, sentences, line);
    std::fflush(stdout);
  }
}
