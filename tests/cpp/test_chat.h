// What the tests of chat programs share: programs put together by hand, and conversations.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "text/chat/program.h"
#include "text/chat/instructions.h"

namespace chat_tests {

using namespace phasor;
using chat::Op;

constexpr uint32_t word(Op op, uint32_t argument = 0) {
  return static_cast<uint32_t>(op) | argument << 8;
}
constexpr uint32_t label(uint32_t depth, uint32_t level) {
  return word(Op::label, depth | level << 8);
}

struct Program {
  std::vector<uint32_t> code;
  std::vector<std::string> strings;
  uint32_t slots = 0, stack = 8, flags = 0;

  std::vector<unsigned char> section() const {
    std::vector<unsigned char> out;
    std::string text;
    const auto put = [&out](uint32_t v) {
      for (int i = 0; i < 4; ++i) out.push_back(static_cast<unsigned char>(v >> (8 * i)));
    };
    for (const std::string& s : strings) text += s;
    const uint32_t header[8] = {1,
                                flags,
                                static_cast<uint32_t>(code.size()),
                                static_cast<uint32_t>(strings.size()),
                                static_cast<uint32_t>(text.size()),
                                slots,
                                stack,
                                0};
    for (const uint32_t v : header) put(v);
    for (const uint32_t v : code) put(v);
    uint32_t at = 0;
    for (const std::string& s : strings) {
      put(at);
      put(static_cast<uint32_t>(s.size()));
      at += static_cast<uint32_t>(s.size());
    }
    out.insert(out.end(), text.begin(), text.end());
    while (out.size() % 4 != 0) out.push_back(0);
    return out;
  }
};

struct Talk {
  std::vector<std::pair<std::string, std::string>> messages;
  ChatMessages view() const {
    return {this, static_cast<uint32_t>(messages.size()), [](const void* t, uint32_t i) {
              const auto& m = static_cast<const Talk*>(t)->messages[i];
              return ChatMessage{m.first.data(), m.first.size(), m.second.data(), m.second.size()};
            }};
  }
};

}  // namespace chat_tests
