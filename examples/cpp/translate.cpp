// Translates one text. C++17, with or without exceptions.
// Try: translate tests/golden/models/tiny-d2l-f32.phasor source7
#include <phasor.hpp>

#include <cstdio>
#include <string>

// The file in aligned memory. Empty: it cannot be read.
static phasor::Block read(const char* path) {
  std::FILE* f = std::fopen(path, "rb");
  if (f == nullptr) return {};
  std::fseek(f, 0, SEEK_END);
  phasor::Block block(static_cast<size_t>(std::ftell(f)));
  std::rewind(f);
  const bool whole = block && std::fread(block.data(), 1, block.size(), f) == block.size();
  std::fclose(f);
  return whole ? static_cast<phasor::Block&&>(block) : phasor::Block();
}

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("expected a weight file and a text\n", stderr), 2;
  const phasor::Block file = read(argv[1]);
  if (!file) return std::fprintf(stderr, "%s: cannot be read\n", argv[1]), 1;

  // From here to the end of main, the two blocks own the memory.
  const auto model = phasor::OwnedModel::open(phasor::Bytes(file));
  if (!model) return std::fprintf(stderr, "%s: %s\n", argv[1], model.error().text), 1;
  auto session = phasor::OwnedSession::open(*model, model->limits(64, 64));
  if (!session) return std::fprintf(stderr, "%s\n", session.error().text), 1;

  uint32_t ids[64], out[64];
  const auto count = session->to_ids(PHASOR_SOURCE, std::string(argv[2]), ids, 64);
  if (!count) return std::fprintf(stderr, "%s\n", count.error().text), 1;
  if (const auto encoded = session->encode({ids, *count}); !encoded)
    return std::fprintf(stderr, "%s\n", encoded.error().text), 1;
  const auto made = session->generate({}, out);
  if (!made) return std::fprintf(stderr, "%s\n", made.error().text), 1;

  phasor::TextState state;  // holds back an incomplete character
  char text[256];
  for (uint32_t i = 0; i < made->count; ++i)
    if (const auto size = model->to_text(PHASOR_TARGET, state, out[i], text, sizeof text))
      std::fwrite(text, 1, *size, stdout);
  return std::puts("") < 0;
}
