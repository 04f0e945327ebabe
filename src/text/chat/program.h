// Chat programs: what a chat template became at conversion, run over the messages of a
// conversation. file-format.md (CHAT) has the section byte by byte, and every operation.
//
// Nothing here allocates, recurses, throws or keeps state: `chat_open` checks a section once,
// completely and in linear time; after that no jump, index or stack can go wrong, and only loops
// over messages repeat, at most two in one another. Includes nothing but two freestanding headers.
// Never does I/O.
#ifndef PHASOR_TEXT_CHAT_PROGRAM_H_
#define PHASOR_TEXT_CHAT_PROGRAM_H_

#include <cstddef>
#include <cstdint>

namespace phasor {

// A checked view of a chat section. Plain data.
struct ChatProgram {
  const unsigned char* code;     // (instructions) u32
  const unsigned char* strings;  // (string_count, 2) u32 offset and length
  const unsigned char* text;     // (text_bytes)
  std::uint32_t flags;           // bit 0: the roles are system, user and assistant only
  std::uint32_t instructions, string_count, text_bytes;
  std::uint32_t slots;  // variables
};

struct ChatMessage {
  const char* role;
  std::size_t role_bytes;
  const char* content;
  std::size_t content_bytes;
};

// The messages of a conversation, wherever the caller keeps them.
struct ChatMessages {
  const void* messages;
  std::uint32_t count;
  ChatMessage (*at)(const void* messages, std::uint32_t index);
};

// Checks a whole section and binds it; else false, with `*why` set to a static text. `section` must
// outlive `*out`.
[[nodiscard]] bool chat_open(ChatProgram* out, const unsigned char* section, std::size_t bytes,
                             const char** why) noexcept;

enum class ChatStatus : std::uint32_t {
  ok = 0,
  raised = 1,   // the template says no: raise_exception
  failed = 2,   // an operation on a value that it is not for
  no_room = 3,  // the scratch is too small for the texts that the template keeps
};

struct ChatResult {
  ChatStatus status;
  std::uint32_t line;  // of the template, 0 where there is none
  // raised, failed: why; in the section, the messages, the scratch, or static
  const char* text;
  std::size_t text_bytes;
  // ok: bytes of the whole text; the first `capacity` of them were written
  std::size_t need;
};

// Renders a conversation. `out` may be null when `capacity` is 0. `scratch` needs no alignment;
// texts that the template puts together and keeps lie there, and what no variable has any more is
// given back.
[[nodiscard]] ChatResult chat_render(const ChatProgram& program, char* out, std::size_t capacity,
                                     const ChatMessages& messages, bool add_generation_prompt,
                                     void* scratch, std::size_t scratch_bytes) noexcept;

}  // namespace phasor

#endif  // PHASOR_TEXT_CHAT_PROGRAM_H_
