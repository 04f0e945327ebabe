// Vocabulary shortlists: a stranger's file is refused with one line, or marks tokens of the
// vocabulary, among them what every source has; the same whatever the order of the lines.
#include "cli/io/shortlist.h"

#include "support.h"

namespace fuzz {
namespace {

constexpr uint32_t kVocabulary = 40, kWords = kVocabulary / 32 + 1;

cli::Pieces pieces_of(const char* begin) {
  std::vector<std::string> all;
  for (uint32_t id = 0; id < kVocabulary; ++id)
    all.push_back(id < 26 ? std::string(1, static_cast<char>('a' + id))
                          : begin + std::to_string(id));
  return cli::Pieces(all);
}

struct Marks {
  uint32_t bits[kWords];
};
Marks marks_of(const cli::Shortlist& list, const std::vector<uint32_t>& ids) {
  Marks out{};
  list.mark(ids.data(), ids.size(), out.bits, kWords);
  for (uint32_t id = kVocabulary; id < kWords * 32; ++id)
    demand((out.bits[id / 32] >> id % 32 & 1) == 0, "a token that the vocabulary has not");
  return out;
}

}  // namespace

void run_shortlist(const uint8_t* data, size_t size) {
  if (size < 2) return;
  static const cli::Pieces source = pieces_of("s"), target = pieces_of("t");
  cli::ShortlistShape shape;
  shape.first = data[0] % 64;
  shape.best = 1 + data[1] % 8;
  shape.shared = data[1] >= 128;
  const Block exact(data + 2, size - 2);
  std::string why;
  cli::Shortlist list;
  if (!list.parse(exact.as<char>(), size - 2, source, target, shape, &why)) {
    demand(!why.empty(), "a shortlist is refused without a reason");
    return demand(why.size() < 300, "a reason that is no line");
  }
  demand(list.unknown() <= list.pieces(), "more unknown tokens than tokens");
  const Marks none = marks_of(list, {});
  std::vector<uint32_t> ids;  // a source's, which the engine has checked
  for (size_t i = 2; i < size && i < 14; ++i) ids.push_back(data[i] % kVocabulary);
  const Marks some = marks_of(list, ids);
  for (uint32_t i = 0; i < kWords; ++i)
    demand((none.bits[i] & ~some.bits[i]) == 0, "a source without what every source has");
}

}  // namespace fuzz
