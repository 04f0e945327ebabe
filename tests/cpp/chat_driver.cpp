// Runs a chat program on many conversations, for tests in other languages.
//   chat_driver SECTION   in: {u32 add_generation_prompt, u32 count, {u32 bytes, role, u32 bytes,
//   content}…}…
//                         out: {u32 status, u32 line, u32 bytes, text}…; a section that is refused
//                         is a line on standard error
// Numbers are little-endian. Each conversation is rendered twice: to learn the size, then into
// exactly that much, and both must agree.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "text/chat/program.h"

namespace {

bool read_u32(std::uint32_t* value) { return std::fread(value, 4, 1, stdin) == 1; }
void write_u32(std::uint32_t value) { std::fwrite(&value, 4, 1, stdout); }

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "chat_driver: %s\n", what);
  std::exit(1);
}

std::string read_text() {
  std::uint32_t bytes = 0;
  if (!read_u32(&bytes)) fail("the input is cut off");
  std::string text(bytes, 0);
  if (bytes != 0 && std::fread(&text[0], 1, bytes, stdin) != bytes) fail("the input is cut off");
  return text;
}

void render(const phasor::ChatProgram& program, bool prompt,
            const std::vector<std::string>& texts) {
  std::vector<phasor::ChatMessage> messages;
  std::size_t total = 0;
  for (std::size_t i = 0; i < texts.size(); i += 2) {
    messages.push_back(
        {texts[i].data(), texts[i].size(), texts[i + 1].data(), texts[i + 1].size()});
    total += texts[i].size() + texts[i + 1].size();
  }
  std::vector<char> scratch(8 * total + 65536);
  const phasor::ChatMessages view{
      messages.data(), static_cast<std::uint32_t>(messages.size()),
      [](const void* m, std::uint32_t i) { return static_cast<const phasor::ChatMessage*>(m)[i]; }};
  phasor::ChatResult r =
      phasor::chat_render(program, nullptr, 0, view, prompt, scratch.data(), scratch.size());
  std::string out = r.text == nullptr ? std::string() : std::string(r.text, r.text_bytes);
  if (r.status == phasor::ChatStatus::ok) {
    out.assign(r.need, 0);
    r = phasor::chat_render(program, &out[0], out.size(), view, prompt, scratch.data(),
                            scratch.size());
    if (r.need != out.size()) fail("two runs ask for different sizes");
  }
  write_u32(static_cast<std::uint32_t>(r.status));
  write_u32(r.line);
  write_u32(static_cast<std::uint32_t>(out.size()));
  std::fwrite(out.data(), 1, out.size(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) fail("expected a section");
  std::FILE* const f = std::fopen(argv[1], "rb");
  if (f == nullptr) fail("the section cannot be read");
  std::vector<unsigned char> section;
  for (int c; (c = std::getc(f)) != EOF;) section.push_back(static_cast<unsigned char>(c));
  std::fclose(f);
  phasor::ChatProgram program{};
  const char* why = nullptr;
  if (!phasor::chat_open(&program, section.data(), section.size(), &why)) fail(why);
  for (std::uint32_t prompt = 0, count = 0; read_u32(&prompt) && read_u32(&count);) {
    std::vector<std::string> texts;
    for (std::uint32_t i = 0; i < 2 * count; ++i) texts.push_back(read_text());
    render(program, prompt != 0, texts);
  }
  return 0;
}
