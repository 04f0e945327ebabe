// A text through the model that a section holds: added tokens, normalization, the model's own
// encoder; and ids back to text. Includes the tokenizer's own headers only; never allocates, never
// reads a byte that tokenizer_open has not placed.
#include "tokenizer.h"

#include "added.h"
#include "models.h"
#include "normalizer.h"

namespace phasor {

using namespace pieces;

// ---- Encoding ----

namespace {

// Normalized bytes of any text of `text_bytes` bytes: each byte at its worst, and prefixes.
uint64_t normalized_limit(const Tokenizer& t, uint64_t text_bytes) {
  return text_bytes * t.expansion + t.model->room;
}

// A text of the tokenizers package's models, cut at added tokens, each stretch normalized, cut
// again, encoded. False when the header's expansion is not true. `s` has the text as it is, and as
// `writable` where the normalized text goes.
bool encode_stretches(const Tokenizer& t, IdSink* out, Stretch* s) {
  const unsigned char* const text = s->text;
  unsigned char* const room = s->writable + kPrefixRoom;
  uint32_t* const origins = !wanted(s->origins) ? nullptr : s->origins + kPrefixRoom;
  AddedSplit split(t, text, s->bytes, false);
  for (AddedSplit::Stretch raw{}; split.next(&raw);) {
    if (raw.id != kNoToken) {
      out->put_whole(raw.id, text + raw.begin, raw.end - raw.begin);
      continue;
    }
    Output output{room,  s->limit - kPrefixRoom, 0,
                  false, origins,                static_cast<uint32_t>(raw.begin)};
    const uint64_t n = t.model->normalize(t, &output, text + raw.begin, raw.end - raw.begin);
    if (n == kNormalizedTooLong) return false;
    out->offsets.base = room;
    out->offsets.origins = origins;
    AddedSplit again(t, room, static_cast<size_t>(n), true);
    for (AddedSplit::Stretch part{}; again.next(&part);) {
      if (part.id != kNoToken) {
        // spaces that are merged have the place of the last of them
        constexpr uint32_t kToOne = kMergeSpaces | kMergeToSpace;
        size_t begin = part.begin;
        while ((t.flags & kToOne) == kToOne && begin + 1 < part.end && room[begin] == ' ' &&
               room[begin + 1] == ' ')
          ++begin;
        out->put_text(part.id, room + begin, part.end - begin);
        continue;
      }
      s->origins = !wanted(origins) ? nullptr : origins + part.begin;
      s->text = s->writable = room + part.begin;
      s->bytes = part.end - part.begin;
      s->first = raw.begin + part.begin == 0;
      // what is written over what lies before the stretch is taken away again
      unsigned char before[kPrefixRoom];
      std::memcpy(before, s->writable - kPrefixRoom, kPrefixRoom);
      t.model->encode(t, out, *s);
      std::memcpy(s->writable - kPrefixRoom, before, kPrefixRoom);
    }
  }
  return true;
}

// Bytes of the code that a text begins with, or 0.
size_t language_code(const unsigned char* text, size_t bytes) {
  if (bytes < 4 || text[0] != '>' || text[1] != '>') return 0;
  for (size_t at = 2; at + 1 < bytes; ++at) {
    work();
    if (text[at] == '<' && text[at + 1] == '<') return at + 2;
  }
  return 0;
}

// A whole text as one stretch.
bool encode_whole(const Tokenizer& t, IdSink* out, Stretch* s) {
  Output output{s->writable, s->limit, 0, false, s->origins,
                static_cast<uint32_t>(s->text - out->offsets.whole.text)};
  const uint64_t n = t.model->normalize(t, &output, s->text, s->bytes);
  if (n == kNormalizedTooLong) return false;
  out->offsets.base = s->writable;
  out->offsets.origins = s->origins;
  s->text = s->writable;
  s->bytes = static_cast<size_t>(n);
  t.model->encode(t, out, *s);
  return true;
}

// A text of a model with a list, cut at added tokens; a stretch may begin with a language's code,
// from >> to <<, which is a piece of the list or unknown.
bool encode_listed(const Tokenizer& t, IdSink* out, Stretch* s) {
  const unsigned char* const text = s->text;
  AddedSplit split(t, text, s->bytes, false);
  for (AddedSplit::Stretch part{}; split.next(&part);) {
    if (part.id != kNoToken) {
      out->put_whole(part.id, text + part.begin, part.end - part.begin);
      continue;
    }
    s->text = text + part.begin;
    s->bytes = part.end - part.begin;
    if ((t.flags & kLanguageCodes) != 0)
      if (const size_t bytes = language_code(s->text, s->bytes)) {
        const uint32_t id = listed_id(t, s->text, bytes);
        out->put_whole(id != kNoToken ? id : t.unknown, s->text, bytes);
        s->text += bytes;
        s->bytes -= bytes;
      }
    if (!encode_whole(t, out, s)) return false;
  }
  return true;
}

// How many u32 offsets need: an origin for each byte of the normalized text and one for its end,
// and the end of each symbol.
OffsetRoom offset_room(const Tokenizer& t, uint64_t limit) {
  if (t.model->offset_room != nullptr) return t.model->offset_room(t, limit);
  return {limit + 1, t.model->merges ? limit : 0};
}
uint64_t offset_bytes(const Tokenizer& t, uint64_t limit) {
  const OffsetRoom room = offset_room(t, limit);
  return sizeof(uint32_t) * (room.origins + room.symbols);
}

MemoryParts memory_parts(const Tokenizer& t, uint64_t text_bytes) {
  return t.model->memory == nullptr ? MemoryParts{0, 0} : t.model->memory(t, text_bytes);
}

}  // namespace

uint64_t tokenizer_scratch_bytes(const Tokenizer& t, uint64_t text_bytes, bool offsets) noexcept {
  if (t.model->least_expansion == 0) return 0;
  constexpr uint64_t kMost = 0x7FFFFFFFu;
  if (text_bytes > kMost || normalized_limit(t, text_bytes) > kMost) return ~uint64_t{0};
  const uint64_t limit = normalized_limit(t, text_bytes);
  return t.model->scratch(t, limit) + limit + (kHasOffsets && offsets ? offset_bytes(t, limit) : 0);
}

uint64_t tokenizer_memory_bytes(const Tokenizer& t, uint64_t text_bytes) noexcept {
  const MemoryParts parts = memory_parts(t, text_bytes);
  return parts.words + parts.found;
}

EncodeResult tokenizer_encode(const Tokenizer& t, uint32_t* ids, size_t capacity, const char* text,
                              size_t text_bytes, void* scratch, size_t scratch_bytes,
                              uint32_t* offsets, const TokenizerMemory& memory) noexcept {
  const uint64_t needed = tokenizer_scratch_bytes(t, text_bytes, wanted(offsets));
  if (needed > scratch_bytes) return {EncodeStatus::text_too_long, 0, 0, 0};
  MemoryParts parts{};
  if (memory.data != nullptr) parts = memory_parts(t, memory.text_bytes);
  IdSink out{t, ids, capacity, {EncodeStatus::ok, 0, 0, 0}, false, {}};
  if (parts.words != 0) out.known = KnownWords(memory);
  Stretch s{reinterpret_cast<const unsigned char*>(text),
            text_bytes,
            nullptr,
            true,
            static_cast<unsigned char*>(scratch),
            normalized_limit(t, text_bytes),
            nullptr,
            nullptr,
            {}};
  if (parts.found != 0)
    s.found = {static_cast<unsigned char*>(memory.data) + parts.words, memory.text_bytes};
  out.offsets = {offsets, {s.text, s.bytes}, s.text, nullptr, {}, !packaged(t)};
  if (t.model->least_expansion == 0) {
    t.model->encode(t, &out, s);
    return out.result;
  }
  // The normalized text takes the end of the scratch, the encoder's tables its aligned start,
  // behind what offsets take.
  s.writable = s.scratch + static_cast<size_t>(needed - s.limit);
  if (wanted(offsets)) {
    s.ends = static_cast<uint32_t*>(scratch);
    s.origins = s.ends + static_cast<size_t>(offset_room(t, s.limit).symbols);
    s.scratch += static_cast<size_t>(offset_bytes(t, s.limit));
  }
  const bool fits = t.model->encode_text        ? t.model->encode_text(t, &out, s)
                    : packaged(t)               ? encode_stretches(t, &out, &s)
                    : (t.flags & kHasList) != 0 ? encode_listed(t, &out, &s)
                                                : encode_whole(t, &out, &s);
  if (!fits) out.result = {EncodeStatus::text_too_long, 0, 0, 0};
  return out.result;
}

// ---- Pieces and decoding ----

PieceView tokenizer_piece(const Tokenizer& t, uint32_t id) noexcept {
  const Row r = row(t, id);
  return {reinterpret_cast<const char*>(t.text + r.offset()), r.length(),
          packaged(t) ? 0.0f : r.score(), r.type()};
}

bool tokenizer_gives(const Tokenizer& t, uint32_t id) noexcept {
  bool found = row(t, id).type() == PieceType::user_defined;
  for (uint32_t i = 0; i < t.added_count; ++i) found |= added_row(t, i).id() == id;
  return found;
}

uint32_t tokenizer_find(const Tokenizer& t, const char* text, size_t bytes) noexcept {
  const unsigned char* const wanted = reinterpret_cast<const unsigned char*>(text);
  const uint32_t id = find(t, wanted, bytes, true);
  return id != kNoToken ? id : find(t, wanted, bytes, false);
}

size_t token_decode(const Tokenizer& t, TokenDecoder* state, uint32_t id, char* out,
                    size_t capacity) noexcept {
  if (id >= t.ids) return kBadToken;
  TextSink sink(t, state, out, capacity);
  t.model->decode(t, &sink, row(t, id));
  return sink.finish();
}

size_t token_decode_end(const Tokenizer& t, TokenDecoder* state, char* out,
                        size_t capacity) noexcept {
  TextSink sink(t, state, out, capacity);
  if (t.model->decode_end != nullptr)
    t.model->decode_end(&sink);
  else
    sink.settle(true);
  return sink.finish();
}

size_t token_decode_capacity(const Tokenizer& t) noexcept {
  const uint64_t piece = t.longest > t.surface_bytes ? t.longest : t.surface_bytes;
  // a space, and what was held back
  const uint64_t most = piece * t.model->growth + 1 + 4 * sizeof kReplacement;
  return static_cast<size_t>(t.model->most_decoded == nullptr ? most
                                                              : t.model->most_decoded(t, most));
}

}  // namespace phasor
