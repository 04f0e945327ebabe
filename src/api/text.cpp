// Text and conversations.
#include "../text/chat/program.h"
#include "api.h"

using namespace phasor;

namespace {

const Tokenizer* tokenizer_of(const Model& m, uint32_t side) {
  return side_of(m, side) != nullptr ? m.tokenizer(half_of_side(side)) : nullptr;
}

// Answers of the text functions: how many bytes are needed, and whether they fit.
phasor_status answer(size_t needed, size_t capacity, size_t* bytes) {
  *bytes = needed;
  return needed > capacity ? PHASOR_FULL : PHASOR_OK;
}

// The same with a line of text: "the text has 9 tokens, …".
phasor_status answer(size_t needed, size_t capacity, size_t* count, const char* what,
                     const char* unit, phasor_error* error) {
  const phasor_status status = answer(needed, capacity, count);
  if (status == PHASOR_OK) return status;
  return fail(error, status, {PHASOR_NONE, PHASOR_NONE, capacity, needed}, what, uint64_t(needed),
              unit, ", there is room for ", uint64_t(capacity));
}

// Collects the ids of texts and of what the template puts around them: counts all, writes those
// that fit.
struct IdWriter {
  Session& s;
  uint32_t* ids;
  uint32_t* segments;  // or NULL
  size_t capacity;
  const SideDescriptor* side = nullptr;
  const Tokenizer* t = nullptr;
  TokenizerMemory memory{};
  size_t n = 0;
  uint32_t* offsets = nullptr;  // (2 · capacity)

  phasor_status open(uint32_t which, phasor_error* error) {
    side = side_of(*s.model.pointer, which);
    t = tokenizer_of(*s.model.pointer, which);
    if (t == nullptr) return bad_input(error, "the model has no tokenizer for this side: give ids");
    memory = s.words_of(half_of_side(which));
    return PHASOR_OK;
  }
  void mark(size_t first, uint32_t segment) {
    for (size_t i = first; segments != nullptr && i < n && i < capacity; ++i) segments[i] = segment;
  }
  void put(const Array& a, uint32_t segment) {
    const size_t first = n;
    for (uint32_t i = 0; i < a.count; ++i, ++n) {
      if (n >= capacity) continue;
      ids[n] = load_u32(s.model->at(a.offset + 4u * i));
      if (offsets != nullptr) offsets[2 * n] = offsets[2 * n + 1] = 0;
    }
    mark(first, segment);
  }
  phasor_status encode(const char* text, size_t bytes, uint32_t segment, phasor_error* error) {
    const uint64_t limit = s.plan.text_bytes, scratch = s.plan.bytes[kPartText];
    if (bytes > limit)
      return bad_input(error, {limit, bytes}, "a text of ", uint64_t(bytes),
                       " bytes, the limits hold ", limit);
    const size_t first = n;
    const size_t written = n < capacity ? n : capacity;
    const FpMode mode;
    const EncodeResult r = tokenizer_encode(
        *t, capacity == 0 ? nullptr : ids + written, capacity - written, text, bytes,
        s.text().at(0, scratch), static_cast<size_t>(scratch),
        offsets == nullptr ? nullptr : offsets + 2 * written, memory);
    if (r.status == EncodeStatus::no_offsets)
      return bad_input(error, "the text has no offsets: the tokenizer leaves out a character of a "
                              "word, or adds bytes to one");
    if (r.status == EncodeStatus::unknown_word)
      return bad_input(error, {0, r.offset}, "the word at byte ", uint64_t(r.offset),
                       " is not in the word list, which has no unknown");
    if (r.status != EncodeStatus::ok)
      return bad_input(error, {limit, bytes}, "a text of ", uint64_t(bytes),
                       " bytes is too long for the limits");
    n += r.count;
    mark(first, segment);
    return PHASOR_OK;
  }
  // One text, and what the template puts around it.
  phasor_status write(uint32_t which, bool template_ids, size_t* count, const char* text,
                      size_t bytes, phasor_error* error) {
    phasor_status status = open(which, error);
    if (status != PHASOR_OK) return status;
    if (template_ids) put(side->prefix, 0);
    status = encode(text, bytes, 0, error);
    if (status != PHASOR_OK) return status;
    if (template_ids) put(side->suffix, 0);
    return finish(count, error);
  }
  phasor_status finish(size_t* count, phasor_error* error) const {
    return answer(n, capacity, count, "the text has ", " tokens", error);
  }
};

// The file's chat program; false where it has none. Open has checked it.
bool chat_of(const Model& m, ChatProgram* out) {
  const Section s = m.file().sections[kSectionChat];
  const char* why = nullptr;
  return kHasChat && s.bytes != 0 &&
         chat_open(out, m.at(s.offset), static_cast<size_t>(s.bytes), &why);
}

using Messages = Given<phasor_chat_message>;

ChatMessage message_at(const void* messages, uint32_t index) {
  const phasor_chat_message m = (*static_cast<const Messages*>(messages))[index];
  return {m.role, m.role_bytes, m.content, m.content_bytes};
}

// Why a conversation was not rendered.
phasor_status chat_error(const ChatResult& r, uint64_t text_bytes, phasor_error* error) {
  if (r.status == ChatStatus::no_room)
    return fail(error, PHASOR_BAD_INPUT, {kSectionChat, PHASOR_NONE, 0, text_bytes},
                "chat template, line ", r.line,
                ": the texts that it keeps are too long for the limits (text_bytes ", text_bytes,
                ")");
  char text[sizeof error->text];
  size_t n = r.text_bytes < sizeof text ? r.text_bytes : sizeof text - 1;
  if (n != 0) memcpy(text, r.text, n);
  // no half a character
  while (n < r.text_bytes && n > 0 && (static_cast<unsigned char>(r.text[n]) & 0xC0) == 0x80) --n;
  text[n] = 0;
  for (size_t i = 0; i < n; ++i)  // one line, whatever the template says
    if (static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7F) text[i] = ' ';
  return fail(error, PHASOR_BAD_INPUT, {kSectionChat, PHASOR_NONE, 0, 0}, "chat template, line ",
              r.line, ": ", static_cast<const char*>(text));
}

// A caller's decoder of ids, and what becomes of it.
struct Stream {
  phasor_text given = PHASOR_TEXT_INIT;
  TokenDecoder decoder{};

  bool open(const phasor_text* text) {
    if (read_options(&given, text, "phasor_text", nullptr) != PHASOR_OK) return false;
    memcpy(&decoder, given.state, sizeof decoder);
    return true;
  }
  void close(phasor_text* text) {
    memcpy(given.state, &decoder, sizeof decoder);
    (void)write_result(text, given);
  }
};
static_assert(sizeof(TokenDecoder) <= sizeof phasor_text{}.state, "it keeps a decoder's state");

}  // namespace

extern "C" {

// ------------------------------------------------------------------ text

phasor_status phasor_text_to_ids(phasor_session* session, uint32_t side, int template_ids,
                                 uint32_t* ids, size_t capacity, size_t* count, const char* text,
                                 size_t bytes, phasor_error* error) {
  const Call call(session, count);
  IdWriter w{*session, ids, nullptr, capacity};
  return w.write(side, template_ids != 0, count, text, bytes, error);
}

phasor_status phasor_text_to_offsets(phasor_session* session, uint32_t side, int template_ids,
                                     uint32_t* ids, uint32_t* offsets, size_t capacity,
                                     size_t* count, const char* text, size_t bytes,
                                     phasor_error* error) {
  const Call call(session, count);
  if (!kHasOffsets || (session->plan.outputs & PHASOR_WANT_OFFSETS) == 0)
    return fail(error, PHASOR_BAD_LIMITS, {},
                "offsets need PHASOR_WANT_OFFSETS in limits.outputs");
  uint32_t none[2];  // a text whose tokens are only counted
  IdWriter w{*session, ids, nullptr, capacity};
  w.offsets = capacity == 0 ? none : offsets;
  return w.write(side, template_ids != 0, count, text, bytes, error);
}

phasor_status phasor_pair_to_ids(phasor_session* session, uint32_t side, uint32_t* ids,
                                 uint32_t* segments, size_t capacity, size_t* count,
                                 const char* first, size_t first_bytes, const char* second,
                                 size_t second_bytes, phasor_error* error) {
  const Call call(session, count);
  IdWriter w{*session, ids, segments, capacity};
  phasor_status status = w.open(side, error);
  if (status != PHASOR_OK) return status;
  const SideDescriptor& s = *w.side;
  if (s.pair.count == 0) return bad_input(error, "the model has no template for two texts");
  w.put(s.prefix, 0);
  status = w.encode(first, first_bytes, 0, error);
  if (status != PHASOR_OK) return status;
  w.put(s.pair, 0);
  status = w.encode(second, second_bytes, s.pair_segment, error);
  if (status != PHASOR_OK) return status;
  w.put(s.suffix, s.pair_segment);
  return w.finish(count, error);
}

phasor_status phasor_id_to_text(const phasor_model* model, uint32_t side, phasor_text* text,
                                uint32_t id, char* out, size_t capacity, size_t* bytes) {
  required(model, text, bytes);
  const Tokenizer* t = tokenizer_of(*model, side);
  Stream stream;
  if (t == nullptr || !stream.open(text)) return PHASOR_BAD_INPUT;
  const size_t needed = token_decode(*t, &stream.decoder, id, out, capacity);
  if (needed == kBadToken) return PHASOR_BAD_INPUT;
  stream.close(text);
  return answer(needed, capacity, bytes);
}

phasor_status phasor_text_flush(const phasor_model* model, uint32_t side, phasor_text* text,
                                char* out, size_t capacity, size_t* bytes) {
  Stream stream;
  required(model, text, bytes);
  if (tokenizer_of(*model, side) == nullptr || !stream.open(text)) return PHASOR_BAD_INPUT;
  const size_t needed =
      token_decode_end(*tokenizer_of(*model, side), &stream.decoder, out, capacity);
  stream.close(text);
  return answer(needed, capacity, bytes);
}

const char* phasor_piece(const phasor_model* model, uint32_t side, uint32_t id, size_t* bytes) {
  required(model, bytes);
  const Tokenizer* t = tokenizer_of(*model, side);
  if (t == nullptr || id >= t->ids) return nullptr;
  const PieceView piece = tokenizer_piece(*t, id);
  *bytes = piece.bytes;
  return piece.text;
}

uint32_t phasor_piece_flags(const phasor_model* model, uint32_t side, uint32_t id) {
  required(model);
  const Tokenizer* t = tokenizer_of(*model, side);
  if (t == nullptr || id >= t->ids) return 0;
  const bool special = tokenizer_piece(*t, id).type == PieceType::control;
  return (tokenizer_gives(*t, id) ? PHASOR_PIECE_ADDED : 0) | (special ? PHASOR_PIECE_SPECIAL : 0);
}

// ------------------------------------------------------------------ conversations

int phasor_chat_available(const phasor_model* model) {
  ChatProgram program{};
  required(model);
  return chat_of(*model, &program) ? 1 : 0;
}

phasor_status phasor_chat_to_text(phasor_session* session, int add_generation_prompt, char* out,
                                  size_t capacity, size_t* bytes,
                                  const phasor_chat_message* messages, uint32_t count,
                                  phasor_error* error) {
  const Call call(session, bytes);
  const Model& m = *session->model.pointer;
  const uint64_t scratch = session->plan.bytes[kPartText];
  ChatProgram program{};
  if (!chat_of(m, &program))
    return fail(error, PHASOR_UNSUPPORTED, {kSectionChat, PHASOR_NONE, 0, 0},
                !kHasChat && m.file().sections[kSectionChat].bytes != 0
                    ? "the file has a chat program, this engine is built without them (PHASOR_ONLY)"
                    : "the file has no chat program");
  const Messages given(messages);
  const phasor_status status = given.check("phasor_chat_message", count, error);
  if (status != PHASOR_OK) return status;
  const ChatResult r =
      chat_render(program, out, capacity, {&given, count, message_at}, add_generation_prompt != 0,
                  session->text().at(0, scratch), static_cast<size_t>(scratch));
  if (r.status != ChatStatus::ok) return chat_error(r, session->plan.text_bytes, error);
  return answer(r.need, capacity, bytes, "the conversation has ", " bytes", error);
}

}  // extern "C"
