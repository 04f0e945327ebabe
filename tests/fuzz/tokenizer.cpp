// Sections of tokenizers that a stranger has changed, and texts that are no text: a section is
// refused with a reason, or every text has ids of its vocabulary, the same each time, in scratch of
// exactly the size that is said; every id has its piece and its text; and the work is bounded.
#include <algorithm>

#include "edit.h"
#include "generator/tokenizers.h"
#include "parts.h"
#include "text/tokenizer.h"
#include "work_bound.h"

namespace fuzz {
namespace {

using namespace phasor;

const Bytes& generated_section(const Part& part) {
  static Bytes section, made_of;
  if (section.empty() ||
      !std::equal(part.data, part.data + part.size, made_of.begin(), made_of.end())) {
    Choices choices = part.choices();
    made_of.assign(part.data, part.data + part.size);
    section = generator::any_tokenizer(&choices).bytes;
  }
  return section;
}

constexpr size_t kHeader = 128;

void change(Bytes* section, Choices* c) {
  for (uint32_t i = c->below(4); i > 0; --i) {
    const size_t words = section->size() / 4;
    edit_word(section->data(), c->chance(30) ? std::min(words, kHeader / 4) : words, c);
  }
  if (c->chance(3))
    section->resize(section->size() - std::min<size_t>(section->size(), c->below(64)));
}

struct Text {
  const char* text;
  size_t bytes;
};

// The same ids with offsets, each inside of the text.
void placed(const Tokenizer& t, const Text& text, const uint32_t* ids, size_t count) {
  const uint64_t need = tokenizer_scratch_bytes(t, text.bytes, true);
  if (need > 1u << 22) return;
  const Block scratch(static_cast<size_t>(need)), again(count * 4), offsets(count * 8);
  const EncodeResult r =
      tokenizer_encode(t, again.as<uint32_t>(), count, text.text, text.bytes, scratch.as(),
                       scratch.size(), count == 0 ? nullptr : offsets.as<uint32_t>());
  demand(r.count == count, "offsets change the ids");
  if (r.status == EncodeStatus::no_offsets) return;
  const uint32_t* const all = offsets.as<uint32_t>();
  for (size_t i = 0; i < count; ++i) {
    demand(again.as<uint32_t>()[i] == ids[i], "offsets change the ids");
    demand(all[2 * i] <= all[2 * i + 1] && all[2 * i + 1] <= text.bytes,
           "a token that is not in the text");
  }
}

// What a session remembers of the texts of a tokenizer; 8 … 4,096 bytes of text each.
struct Memory {
  uint64_t texts;
  Block block;

  Memory(const Tokenizer& t, uint64_t text_bytes)
      : texts(text_bytes), block(static_cast<size_t>(tokenizer_memory_bytes(t, text_bytes))) {
    if (block.size() != 0) std::memset(block.as(), 0, block.size());
  }
  TokenizerMemory get() const { return {block.as<void>(), texts}; }
};

std::vector<uint32_t> encoded(const Tokenizer& t, const Memory& memory, const Text& text) {
  const uint64_t need = tokenizer_scratch_bytes(t, text.bytes);
  if (need > 1u << 22) return {};
  const Block scratch(static_cast<size_t>(need));
  const WorkBound bound(encode_bound(t, text.bytes), "a text takes too long");
  uint32_t few[2];
  const EncodeResult counted =
      tokenizer_encode(t, few, 2, text.text, text.bytes, scratch.as(), scratch.size());
  if (need != 0)
    demand(tokenizer_encode(t, few, 2, text.text, text.bytes, scratch.as(), scratch.size() - 1)
                   .status == EncodeStatus::text_too_long,
           "a text is encoded in a byte less than its scratch");
  if (counted.status == EncodeStatus::unknown_word) {
    demand(counted.offset <= text.bytes && counted.bytes <= text.bytes - counted.offset,
           "an unknown word that is not in the text");
    return {};
  }
  if (counted.status != EncodeStatus::ok) return {};
  const Block ids(counted.count * 4);
  const EncodeResult r = tokenizer_encode(t, ids.as<uint32_t>(), counted.count, text.text,
                                          text.bytes, scratch.as(), scratch.size());
  demand(r.status == EncodeStatus::ok && r.count == counted.count, "a text has other ids");
  const uint32_t* const all = ids.as<uint32_t>();
  for (size_t i = 0; i < r.count; ++i) {
    demand(all[i] < t.ids, "an id outside of the vocabulary");
    demand(i >= 2 || all[i] == few[i], "a text has other ids");
  }
  placed(t, text, all, r.count);
  const Block known(r.count * 4);
  for (int time = 0; time < 2; ++time) {
    const EncodeResult again =
        tokenizer_encode(t, known.as<uint32_t>(), r.count, text.text, text.bytes, scratch.as(),
                         scratch.size(), nullptr, memory.get());
    demand(again.status == r.status && again.count == r.count &&
               std::equal(all, all + r.count, known.as<uint32_t>()),
           "what is remembered changes the ids");
  }
  return std::vector<uint32_t>(all, all + r.count);
}

// Each id with less room than it needs, then with as much; the second time into plenty.
Bytes decoded(const Tokenizer& t, const std::vector<uint32_t>& ids) {
  Bytes text;
  const size_t most = token_decode_capacity(t);
  TokenDecoder state{}, other{};
  const auto take = [&](auto decode) {
    char none;
    const size_t needed = decode(&state, &none, 0);
    demand(needed <= most, "an id has more text than is said");
    const Block exact(needed), whole(most);
    if (needed != 0) demand(decode(&state, exact.as<char>(), needed) == needed, "other text");
    demand(decode(&other, whole.as<char>(), most) == needed, "other text");
    demand(std::memcmp(exact.as(), whole.as(), needed) == 0, "other text");
    text.insert(text.end(), exact.as(), exact.as() + needed);
  };
  for (const uint32_t id : ids) {
    const PieceView piece = tokenizer_piece(t, id);
    look_at(piece.text, piece.bytes);
    demand(tokenizer_find(t, piece.text, piece.bytes) < t.ids, "a piece is not found");
    take([&](TokenDecoder* s, char* out, size_t n) { return token_decode(t, s, id, out, n); });
  }
  take([&](TokenDecoder* s, char* out, size_t n) { return token_decode_end(t, s, out, n); });
  demand(token_decode(t, &state, t.ids, nullptr, 0) == kBadToken, "an id too many");
  return text;
}

}  // namespace

void run_tokenizer(const uint8_t* data, size_t size) {
  const std::vector<Part> parts = split_parts(data, size, 3);
  Bytes bytes = generated_section(parts[0]);
  Choices choices = parts[1].choices();
  change(&bytes, &choices);
  const Block section(bytes.data(), bytes.size());
  Tokenizer t;
  const char* why = nullptr;
  {
    const WorkBound bound(64 * bytes.size() + 4096, "a section takes too long");
    if (!tokenizer_open(&t, section.as(), section.size(), &why)) {
      demand(why != nullptr, "a section is refused without a reason");
      return demand_line(why, 160);
    }
  }
  const size_t most = std::min<size_t>(parts[2].size, 2000);
  const Block text(parts[2].data, most);
  const Memory memory(t, choices.chance(50) ? 4096 : 8u << choices.below(9));
  const std::vector<uint32_t> ids = encoded(t, memory, {text.as<char>(), most});
  const Bytes again = decoded(t, ids);
  const char* const decoded_text = reinterpret_cast<const char*>(again.data());
  (void)encoded(t, memory, {decoded_text, std::min<size_t>(again.size(), 4000)});
  std::vector<uint32_t> any(std::min<size_t>(most, 16));
  for (size_t i = 0; i < any.size(); ++i) any[i] = parts[2].data[i] % t.ids;
  (void)decoded(t, any);
}

}  // namespace fuzz
