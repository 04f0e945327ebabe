// text: a word of the tokenizers package's Unigram: the segmentation of the highest total score
// (Viterbi; Kudo 2018, 3.2), in the order of arithmetic and with the ties of the package, in
// double. Includes models.h only; never allocates.
#pragma once
#include "chars.h"
#include "models.h"
#include "viterbi.h"

namespace phasor::pieces {

// The score of a piece; the last one is the unknown's.
inline double score(const Tokenizer& t, uint32_t id) {
  const uint64_t bits = load_u64(t.model_data + size_t{id} * 8);
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint64_t unigram_bytes(const Tokenizer& t) { return 8 * (uint64_t{t.pieces} + 1); }

// A score is finite, and not so large that the sum of a text is not.
inline const char* check_scores(const Tokenizer& t) {
  for (uint32_t id = 0; id <= t.pieces; ++id) {
    const uint32_t high = u32_at(t.model_data, 2 * size_t{id} + 1);
    if ((high >> 20 & 0x7FF) > 1023 + 500) return "a piece's score is not finite";
  }
  return nullptr;
}

inline uint64_t unigram_scratch(const Tokenizer& t, uint64_t limit) {
  return 4 + 8 * ring_slots(t)  // f64 best, aligned to 8
         + 2 * (limit + 1);     // u16 length
}

// The segmentation of words into pieces.
struct UnigramWords {
  const Tokenizer& t;
  IdSink* out;
  double* best;      // (ring_slots) score of the best segmentation that ends here
  Walks recent;
  uint16_t* length;  // (n + 1) of its last piece; then of the piece that begins here
  static constexpr uint32_t kShort = 48;
  uint32_t ids_at[kShort];
  const unsigned char* byte_ids = nullptr;  // u32[256]: what an unknown text becomes, if all are

  UnigramWords(const Tokenizer& tokenizer, IdSink* ids, const Stretch& s)
      : t(tokenizer),
        out(ids),
        best(reinterpret_cast<double*>(s.scratch +
                                       (8 - reinterpret_cast<uintptr_t>(s.scratch) % 8) % 8)),
        recent(s.found, t.pieces),
        length(reinterpret_cast<uint16_t*>(best + ring_slots(t))) {}

  // The lengths of the pieces of the best segmentation, each where its piece begins; of a short
  // word the ids, where their pieces end.
  void segment(const unsigned char* text, uint32_t n) {
    const auto char_size = [=](uint32_t at) { return char_at(text + at, n - at).bytes; };
    const auto score_of = [this](const PrefixWalk& walk, uint32_t, double* of) {
      const uint32_t id = walk.of_model();
      if (id != kNoToken) *of = score(t, id);
      return id;
    };
    best_segmentation(t, recent, best, length, n < kShort ? ids_at : nullptr, text, n,
                      score(t, t.pieces), char_size, score_of);
  }

  // The model's piece of exactly this text, or kNoToken.
  uint32_t piece(const unsigned char* text, size_t bytes) const {
    PrefixWalk walk(t, &recent);
    for (size_t i = 0; i < bytes; ++i)
      if (!walk.step(text[i])) return kNoToken;
    for (uint32_t rank = walk.first; rank < walk.last; ++rank) {
      const Row r = row(t, sorted_id(t, rank));
      if (r.length() != bytes) break;
      if ((r.marks() & kOfModel) != 0) return sorted_id(t, rank);
    }
    return kNoToken;
  }

  // The package's token is the text, not the unknown piece's.
  void put_unknown(const unsigned char* text, size_t bytes) {
    if (t.unknown != kNoToken) return out->put_text(t.unknown, text, bytes);
    out->put_unknown(text, bytes);
  }

  // Neighbors that are unknown are one token; which may happen to be a piece, or become its bytes.
  void put(const unsigned char* text, size_t bytes) {
    out->word(text, bytes, [&] { put_segments(text, bytes); });
  }
  void put_segments(const unsigned char* text, size_t bytes) {
    const uint32_t n = static_cast<uint32_t>(bytes);
    segment(text, n);
    const auto known = [&](uint32_t at) {
      uint32_t id = n < kShort ? ids_at[at + length[at]] : kNoToken;
      if (id == kNoToken) id = piece(text + at, length[at]);
      return id != kNoToken && id != t.unknown ? id : kNoToken;
    };
    for (uint32_t at = 0; at < n;) {
      uint32_t end = at + length[at], id = known(at);
      if (id == kNoToken) {
        while (end < n && known(end) == kNoToken) end += length[end];
        id = piece(text + at, end - at);
      }
      if (id != kNoToken)
        out->put_text(id, text + at, end - at);
      else if (byte_ids == nullptr || !out->put_bytes(byte_ids, text + at, end - at))
        put_unknown(text + at, end - at);
      at = end;
    }
  }
};

}  // namespace phasor::pieces
