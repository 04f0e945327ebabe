// Writes generated model number SEED to a file:  generate_driver SEED FILE.phasor
// The same number is the same file: what the property test reports can be looked at.
#include <cstdio>
#include <cstdlib>

#include "generator/model_generator.h"

int main(int count, char** words) {
  char* end = nullptr;
  const unsigned long long seed = count == 3 ? std::strtoull(words[1], &end, 10) : 0;
  if (count != 3 || end == words[1] || *end != 0) {
    std::fprintf(stderr, "usage: generate_driver SEED FILE.phasor\n");
    return 2;
  }
  const generator::Bytes bytes = generator::generate_model(seed);
  std::FILE* const file = std::fopen(words[2], "wb");
  const bool written =
      file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if ((file != nullptr && std::fclose(file) != 0) || !written) {
    std::fprintf(stderr, "generate_driver: %s cannot be written\n", words[2]);
    return 1;
  }
  return 0;
}
