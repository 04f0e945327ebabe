// Runs the tokenizer on many texts, for tests in other languages.
//   tokenizer_driver SECTION encode   in: {u32 bytes, text}…    out: {u32 status, u32 count, u32
//   ids[count]}… tokenizer_driver SECTION decode   in: {u32 count, u32 ids}… out: {u32 bytes,
//   text}…, streamed id by id tokenizer_driver SECTION time     in as encode              out:
//   seconds, as text, for each tokenizer_driver SECTION offsets  in as encode              out:
//   {u32 status, u32 count, u32 begin and end of each}…
// Numbers are little-endian. Every text gets a scratch of exactly the size that is asked for, in a
// block of its own; all of them have the memory of one session.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace {

bool read_u32(std::uint32_t* value) { return std::fread(value, 4, 1, stdin) == 1; }
void write_u32(std::uint32_t value) { std::fwrite(&value, 4, 1, stdout); }

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "tokenizer_driver: %s\n", what);
  std::exit(1);
}

struct Encoded {
  phasor::EncodeResult result;
  std::vector<std::uint32_t> ids, offsets;
  double seconds;
};

Encoded encode(const phasor::Tokenizer& tokenizer, const phasor::TokenizerMemory& memory,
               const std::string& text, bool offsets) {
  const std::size_t scratch_bytes =
      static_cast<std::size_t>(tokenizer_scratch_bytes(tokenizer, text.size(), offsets));
  void* const scratch = std::malloc(scratch_bytes);
  char* const copy = static_cast<char*>(std::malloc(text.size()));  // no terminator behind it
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  Encoded out{};
  const std::clock_t start = std::clock();  // the processor's: others may have the machine
  out.ids.resize(text.size() + 8);
  for (;;) {
    if (offsets) out.offsets.resize(2 * out.ids.size());
    out.result =
        tokenizer_encode(tokenizer, out.ids.data(), out.ids.size(), copy, text.size(), scratch,
                         scratch_bytes, offsets ? out.offsets.data() : nullptr, memory);
    if (out.result.count <= out.ids.size()) break;
    out.ids.resize(out.result.count);
  }
  const std::size_t count = out.result.count;
  out.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  out.ids.resize(count);
  out.offsets.resize(offsets ? 2 * count : 0);
  std::free(copy);
  std::free(scratch);
  return out;
}

std::string decode(const phasor::Tokenizer& tokenizer, const std::vector<std::uint32_t>& ids) {
  std::string text;
  std::vector<char> piece(token_decode_capacity(tokenizer));
  phasor::TokenDecoder state{};
  for (const std::uint32_t id : ids) {
    const std::size_t bytes = token_decode(tokenizer, &state, id, piece.data(), piece.size());
    if (bytes > piece.size())
      fail(bytes == phasor::kBadToken ? "bad id" : "token_decode_capacity is too small");
    text.append(piece.data(), bytes);
  }
  const std::size_t bytes = token_decode_end(tokenizer, &state, piece.data(), piece.size());
  return text.append(piece.data(), bytes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("usage: tokenizer_driver SECTION encode|decode|time|offsets");
  std::FILE* const file = std::fopen(argv[1], "rb");
  if (file == nullptr) fail("cannot open the section");
  std::vector<unsigned char> section;
  for (int c; (c = std::fgetc(file)) != EOF;) section.push_back(static_cast<unsigned char>(c));
  std::fclose(file);

  phasor::Tokenizer tokenizer;
  const char* why = nullptr;
  if (!tokenizer_open(&tokenizer, section.data(), section.size(), &why)) fail(why);
  const std::string mode = argv[2];
  constexpr std::uint64_t kTexts = 4096;
  std::vector<std::uint64_t> room(
      static_cast<std::size_t>(tokenizer_memory_bytes(tokenizer, kTexts) / 8));
  const phasor::TokenizerMemory memory{room.empty() ? nullptr : room.data(), kTexts};
  std::uint32_t size = 0;
  while (read_u32(&size)) {
    if (mode == "decode") {
      std::vector<std::uint32_t> ids(size);
      if (size > 0 && std::fread(ids.data(), 4, size, stdin) != size) fail("input is cut off");
      const std::string text = decode(tokenizer, ids);
      write_u32(static_cast<std::uint32_t>(text.size()));
      std::fwrite(text.data(), 1, text.size(), stdout);
    } else {
      std::string text(size, '\0');
      if (size > 0 && std::fread(&text[0], 1, size, stdin) != size) fail("input is cut off");
      const Encoded encoded = encode(tokenizer, memory, text, mode == "offsets");
      if (mode == "time") {
        std::printf("%.6f\n", encoded.seconds);
        continue;
      }
      write_u32(static_cast<std::uint32_t>(encoded.result.status));
      const std::vector<std::uint32_t>& numbers = mode == "offsets" ? encoded.offsets : encoded.ids;
      write_u32(static_cast<std::uint32_t>(numbers.size()));
      std::fwrite(numbers.data(), 4, numbers.size(), stdout);
    }
  }
  return 0;
}
