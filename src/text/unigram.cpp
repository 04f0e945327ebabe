// The unigram model: the segmentation of the highest total score (Viterbi; Kudo 2018, 3.2), in the
// order of arithmetic and with the ties of the SentencePiece package. Never allocates.
#include "sentencepiece.h"
#include "viterbi.h"

namespace phasor::pieces {
namespace {

constexpr float kFloatMax = 3.40282346638528859812e+38f;

const char* check(Tokenizer* t, SectionReader* s) {
  if (const char* const wrong = check_sentencepiece(t, s)) return wrong;
  float lowest = kFloatMax;
  for (uint32_t id = 0; id < t->pieces; ++id) {
    const Row r = row(*t, id);
    const float score = r.score();
    if (r.type() == PieceType::normal && score < lowest) lowest = score;
  }
  t->lowest_score = lowest;
  return lowest == kFloatMax ? "a unigram model has no normal piece" : nullptr;
}

uint64_t scratch(const Tokenizer& t, uint64_t limit) {
  return 4 * ring_slots(t)       // f32 best score of a segmentation that ends here
         + 2 * (limit + 1);      // u16 length of its last piece
}

void encode(const Tokenizer& t, IdSink* out, const Stretch& s) {
  const unsigned char* const text = s.text;
  const uint32_t n = static_cast<uint32_t>(s.bytes);
  if (n == 0) return;
  const Walks recent(s.found, t.pieces);
  uint16_t* const length =
      reinterpret_cast<uint16_t*>(s.scratch + 4 * static_cast<size_t>(ring_slots(t)));
  const auto char_size = [=](uint32_t at) {
    const uint32_t bytes = static_cast<uint32_t>(char_bytes(text[at]));
    return bytes < n - at ? bytes : n - at;
  };
  const auto score = [&t](const PrefixWalk& walk, uint32_t bytes, float* of) {
    const uint32_t id = walk.here();
    if (id == kNoToken) return id;
    const PieceType type = row(t, id).type();
    // A user-defined piece has a score by its length in place of its own, above what
    // log-probabilities can reach.
    *of = type == PieceType::user_defined
              ? static_cast<float>(0.1 * static_cast<double>(bytes) - 0.1)
              : row(t, id).score();
    return type != PieceType::unused ? id : kNoToken;
  };
  best_segmentation(t, recent, reinterpret_cast<float*>(s.scratch), length, nullptr, text, n,
                    t.lowest_score - 10.0f, char_size, score);
  for (uint32_t at = 0; at < n; at += length[at]) {
    const uint32_t id = find(t, text + at, length[at], false);
    if (id == kNoToken || row(t, id).type() == PieceType::unused)
      out->unknown(text + at, length[at]);
    else
      out->piece(id, text + at, length[at]);
  }
  out->settle();
}

}  // namespace

extern constexpr TokenizerModel kUnigram = [] {
  TokenizerModel m{};
  m.same = Same::one_reserved;
  m.flags = kSentencePieceFlags;
  m.types = kListedTypes;
  m.check = check;
  m.scratch = scratch;
  m.memory = only_walks;
  m.normalize = normalize_sentencepiece;
  m.encode = encode;
  m.decode = decode_sentencepiece;
  return m;
}();

}  // namespace phasor::pieces
