// Any text through the normalizers and the pre-tokenizer's steps of real tokenizers: a normalized
// text is as long as is said at most, or does not fit and is refused; Unicode's composition of a
// composed text is itself; words are not empty and make up the text.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "model_numbers.h"
#include "support.h"
#include "text/normalizer.h"
#include "text/pretokenizer.h"
#include "work_bound.h"

namespace fuzz {
namespace {

using namespace phasor;

struct Golden {
  Bytes section;
  Tokenizer t;
};

// The tokenizers of tests/golden, as they are in files; run from the repository's root.
const std::vector<std::unique_ptr<Golden>>& goldens() {
  static const std::vector<std::unique_ptr<Golden>> all = [] {
    std::vector<std::unique_ptr<Golden>> made;
    for (const char* name : {"composed", "unigram", "wordpiece", "metaspace", "bytelevel", "bpe",
                             "characters", "merged"}) {
      const std::string path = std::string("tests/golden/tokenizers/") + name + ".bin";
      std::FILE* const file = std::fopen(path.c_str(), "rb");
      demand(file != nullptr, "no golden tokenizers: run from the repository's root");
      auto golden = std::make_unique<Golden>();
      uint8_t buffer[4096];
      for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) != 0;)
        golden->section.insert(golden->section.end(), buffer, buffer + n);
      std::fclose(file);
      const char* why = nullptr;
      demand(tokenizer_open(&golden->t, golden->section.data(), golden->section.size(), &why),
             "a golden tokenizer does not open");
      made.push_back(std::move(golden));
    }
    return made;
  }();
  return all;
}

struct Text {
  const uint8_t* text;
  size_t bytes;
};

// Into `out`, with an origin for each byte that fits and one more, or without origins.
uint64_t normalize(const Tokenizer& t, const Block& out, const Text& text, bool origins) {
  const std::unique_ptr<uint32_t[]> numbers(origins ? new uint32_t[out.size() + 1] : nullptr);
  pieces::Output output{out.as(), out.size(), 0, false, numbers.get()};
  const uint64_t n = t.model->normalize(t, &output, text.text, text.bytes);
  for (size_t i = 0; origins && n <= out.size() && i < n; ++i)
    demand((numbers[i] & ~pieces::kEmpty) <= text.bytes, "an origin outside the text");
  return n;
}

Bytes normalized(const Tokenizer& t, const Text& text) {
  const size_t limit = text.bytes * t.expansion + t.model->room;
  const WorkBound bound(2 * encode_bound(t, text.bytes), "a text takes too long to normalize");
  const Block out(limit), again(limit);
  const uint64_t n = normalize(t, out, text, false);
  demand(n <= limit, "a text of a golden tokenizer does not fit");
  demand(normalize(t, again, text, true) == n && std::equal(out.as(), out.as() + n, again.as()),
         "origins change the text");
  if (n != 0) {
    const Block less(static_cast<size_t>(n) - 1);
    const uint64_t cut = normalize(t, less, text, true);
    demand(cut == pieces::kNormalizedTooLong || cut <= n - 1, "more than there is room for");
  }
  look_at(out.as(), static_cast<size_t>(n));
  return Bytes(out.as(), out.as() + n);
}

void cut_words(const Golden& golden, const uint8_t* steps, const Text& text) {
  Tokenizer t = golden.t;
  t.rule = pieces::known_step(steps[0]) ? steps[0] : 1 + steps[0] % (pieces::kStepsEnd - 1);
  for (size_t i = 0; i < sizeof t.more_steps; ++i)
    t.more_steps[i] = i < 2 && pieces::known_step(steps[1 + i]) ? steps[1 + i] : 0;
  if (t.more_steps[0] == 0) t.more_steps[1] = 0;
  const WorkBound bound(4096 + 200 * text.bytes, "a text takes too long to cut");
  pieces::Words words(t, text.text, text.bytes, nullptr, nullptr);
  size_t at = 0;
  for (size_t begin = 0, end = 0; words.next(&begin, &end); at = end) {
    demand(begin == at, "a word that does not begin where the one before ended");
    demand(end > at && end <= text.bytes, "a word that is empty, or not in the text");
  }
  demand(at == text.bytes, "words that are not the whole text");
}

}  // namespace

void run_normalizer(const uint8_t* data, size_t size) {
  constexpr size_t kHead = 4, kMost = 1024;
  if (size < kHead) return;
  const Block text(data + kHead, std::min(size - kHead, kMost));
  const Text given{text.as(), text.size()};
  const std::vector<std::unique_ptr<Golden>>& all = goldens();
  const Golden& golden = *all[data[0] % all.size()];
  if (golden.t.model->normalize != nullptr) {
    const Bytes once = normalized(golden.t, given);
    if ((golden.t.flags & pieces::kCompose) != 0 &&
        golden.t.model == model_of(ModelNumber::byte_bpe))
      demand(normalized(golden.t, {once.data(), once.size()}) == once,
             "a composed text is composed again");
  }
  if (golden.t.runs != nullptr) cut_words(golden, data + 1, given);
}

}  // namespace fuzz
