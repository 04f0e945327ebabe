// Chat programs that a stranger has changed, over conversations that nobody had: a program is
// refused with a reason, or it ends within its steps, in the scratch that it has, with the same
// text each time whatever the room for it.
#include <algorithm>

#include "edit.h"
#include "generator/chat.h"
#include "generator/tokenizers.h"
#include "parts.h"
#include "text/chat/instructions.h"
#include "work_bound.h"

namespace fuzz {
namespace {

using namespace phasor;

const Bytes& generated_program(const Part& part) {
  static Bytes section, made_of;
  if (section.empty() ||
      !std::equal(part.data, part.data + part.size, made_of.begin(), made_of.end())) {
    Choices choices = part.choices();
    made_of.assign(part.data, part.data + part.size);
    section = generator::any_chat(&choices);
  }
  return section;
}

// Words anywhere; or an instruction, whose argument stays or is small.
void change(Bytes* section, Choices* c) {
  const size_t words = section->size() / 4, code = load_u32(section->data() + 8);
  for (uint32_t i = c->below(5); i > 0; --i) {
    if (c->chance(30) || code == 0) {
      edit_word(section->data(), words, c);
      continue;
    }
    uint8_t* const word =
        section->data() + chat::kHeader + 4 * c->below(static_cast<uint32_t>(code));
    const uint32_t op = c->below(static_cast<uint32_t>(chat::Op::number_of)),
                   argument = c->chance(50) ? load_u32(word) >> 8 : c->below(8);
    store_u32(word, op | argument << 8);
  }
  if (c->chance(3)) section->resize(section->size() - 4 * c->below(3));
}

struct Talk {
  std::vector<std::string> roles, contents;
  std::vector<ChatMessage> messages;
  size_t bytes = 0;
};

Talk any_talk(Choices* c) {
  Talk talk;
  for (uint32_t i = c->of({2u, 1u, 3u, 0u, 6u}); i > 0; --i) {
    talk.roles.push_back(c->chance(85) ? c->of<std::string>({"user", "assistant", "system"})
                                       : generator::any_input(c, 2));
    talk.contents.push_back(generator::any_input(c, c->below(c->chance(10) ? 60 : 7)));
  }
  for (size_t i = 0; i < talk.roles.size(); ++i) {
    talk.messages.push_back({talk.roles[i].data(), talk.roles[i].size(), talk.contents[i].data(),
                             talk.contents[i].size()});
    talk.bytes += talk.roles[i].size() + talk.contents[i].size();
  }
  return talk;
}

ChatMessage message_at(const void* messages, uint32_t index) {
  const Talk& talk = *static_cast<const Talk*>(messages);
  demand(index < talk.messages.size(), "a message that is not there");
  return talk.messages[index];
}

ChatResult rendered(const ChatProgram& program, const Talk& talk, bool prompt, const Block& out,
                    const Block& scratch) {
  const ChatMessages messages{&talk, static_cast<uint32_t>(talk.messages.size()), message_at};
  const ChatResult r = chat_render(program, out.as<char>(), out.size(), messages, prompt,
                                   scratch.as(), scratch.size());
  demand(r.status <= ChatStatus::no_room, "an answer is no status");
  if (r.status == ChatStatus::ok)
    look_at(out.as(), std::min(r.need, out.size()));
  else if (r.text_bytes != 0)
    look_at(r.text, r.text_bytes);
  return r;
}

}  // namespace

void run_chat(const uint8_t* data, size_t size) {
  const std::vector<Part> parts = split_parts(data, size, 3);
  Bytes bytes = generated_program(parts[0]);
  Choices edits = parts[1].choices(), choices = parts[2].choices();
  change(&bytes, &edits);
  const Block section(bytes.data(), bytes.size());
  ChatProgram program{};
  const char* why = nullptr;
  {
    const WorkBound bound(64 * bytes.size() + 4096, "a program takes too long to check");
    if (!chat_open(&program, section.as(), section.size(), &why)) {
      demand(why != nullptr, "a program is refused without a reason");
      return demand_line(why, 160);
    }
  }
  const Talk talk = any_talk(&choices);
  const bool prompt = choices.chance(50);
  const Block scratch(choices.of({200u, 0u, 17u, 2000u})), out(choices.of({300u, 0u, 9u})), none(0);
  const WorkBound bound(4 * chat::kStepsToAByte * (bytes.size() + talk.bytes + 64) + 8192,
                        "a conversation takes too long");
  const ChatResult first = rendered(program, talk, prompt, out, scratch),
                   second = rendered(program, talk, prompt, none, scratch);
  demand(first.status == second.status && first.line == second.line, "another answer");
  if (first.status == ChatStatus::ok) demand(first.need == second.need, "a text of another length");
}

}  // namespace fuzz
