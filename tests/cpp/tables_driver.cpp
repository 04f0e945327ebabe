// The engine's tables as lines, for the test that compares them with the converter's and with
// docs/reference/file-format.md:
//   tables_driver               the fields of the descriptor
//   tables_driver FILE.phasor   the rows of the tensors' table with this model's values
#include <cstdio>
#include <vector>

#include "format/tensors.h"

namespace {

using namespace phasor;

int print_fields() {
  uint32_t count = 0;
  const Field* const fields = descriptor_fields(&count);
  for (uint32_t i = 0; i < count; ++i) {
    const Field& f = fields[i];
    std::printf("%u\t%u\t%u\t%s\t%u\t%u\t%u\t%s\n", f.scope, f.number, f.type, f.name, f.needed,
                f.low, f.high, f.choices != nullptr ? f.choices : "");
  }
  return 0;
}

void print_role(void*, const Role& r) {
  std::printf("%u\t%u\t%u\t%u\t%s\t%u\t%u\t%u\t%u\n", r.key, r.there, r.layouts, r.types, r.name,
              r.cols, r.parts[0], r.parts[1], r.parts[2]);
}

int print_roles(const char* path) {
  std::vector<unsigned char> bytes;
  std::FILE* const in = std::fopen(path, "rb");
  if (in == nullptr) return 2;
  unsigned char block[4096];
  for (std::size_t n; (n = std::fread(block, 1, sizeof block, in)) != 0;)
    bytes.insert(bytes.end(), block, block + n);
  std::fclose(in);
  phasor_error error{};
  error.struct_size = sizeof error;
  File file{};
  Descriptor d{};
  phasor_status status = open_file(&file, bytes.data(), bytes.size(), &error);
  if (status == PHASOR_OK) status = read_descriptor(&d, nullptr, file, &error);
  std::vector<KindDescriptor> kinds(d.kinds);
  if (status == PHASOR_OK) status = read_descriptor(&d, kinds.data(), file, &error);
  if (status == PHASOR_OK) each_role(file, d, kinds.data(), print_role, nullptr);
  if (status != PHASOR_OK) std::fprintf(stderr, "%s: %s\n", path, error.text);
  return status == PHASOR_OK ? 0 : 1;
}

}  // namespace

int main(int count, char** words) { return count == 2 ? print_roles(words[1]) : print_fields(); }
