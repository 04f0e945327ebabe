// The targets behind libFuzzer: one program, which is the target that its own name says
// (build/fuzz/chat is a link to it). Inputs are mutated where their structure is (target.h).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "edit.h"
#include "generator/model_generator.h"
#include "parts.h"
#include "target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

const fuzz::Target* target;

// One part of several: as libFuzzer does it, or in the place of another's.
size_t mutate_parts(uint8_t* data, size_t size, size_t most, uint32_t count,
                    fuzz::Choices* choices) {
  std::vector<fuzz::Bytes> parts;
  size_t all = 2 * (count - 1);
  for (const fuzz::Part& part : fuzz::split_parts(data, size, count)) {
    parts.emplace_back(part.data, part.data + part.size);
    all += part.size;
  }
  // seldom the first one, of which much is made that is kept for the others (models.h)
  fuzz::Bytes& part = parts[choices->chance(12) ? 0 : choices->between(1, count - 1)];
  const size_t before = part.size(), room = most > all ? most - all : 0;
  part.resize(std::min<size_t>(before + std::min<size_t>(room, 64), 0xFFFF));
  part.resize(LLVMFuzzerMutate(part.data(), std::min(before, part.size()),
                               std::max<size_t>(part.size(), 1)));
  const fuzz::Bytes joined = fuzz::join_parts(parts);
  const size_t n = std::min(joined.size(), most);
  std::copy_n(joined.begin(), n, data);
  return n;
}

// A weight file: where its structure is, or anywhere; now and then a new one.
size_t mutate_file(uint8_t* data, size_t size, size_t most, fuzz::Choices* choices) {
  if (choices->chance(15)) {
    size = LLVMFuzzerMutate(data, size, most);
    if (choices->chance(50)) fuzz::seal(data, size);
    return size;
  }
  fuzz::Bytes file(data, data + size);
  if (size < 64 || choices->chance(1)) file = generator::generate_model(choices);
  if (file.size() > most) return size;
  if (choices->chance(90)) fuzz::edit_file(&file, choices);
  if (file.size() > most) file.resize(most);
  std::copy(file.begin(), file.end(), data);
  return file.size();
}

}  // namespace

// Called by what is not instrumented: its arguments only look as if nobody had written them.
__attribute__((no_sanitize("memory"))) extern "C" int LLVMFuzzerInitialize(int* /*argc*/,
                                                                           char*** argv) {
  const char* const path = (*argv)[0];
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash != nullptr ? slash + 1 : path;
  target = fuzz::target_named(name);
  if (target != nullptr) return 0;
  std::fprintf(stderr, "%s: no such target; the program's name says which\n", name);
  std::exit(1);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  target->run(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most,
                                          unsigned int seed) {
  fuzz::Choices choices(seed);
  switch (target->shape) {
    case fuzz::Shape::bytes:
      return LLVMFuzzerMutate(data, size, most);
    case fuzz::Shape::weight_file:
      return mutate_file(data, size, most, &choices);
    default:
      return mutate_parts(data, size, most, static_cast<uint32_t>(target->shape), &choices);
  }
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
// Blocks live for one input: little has to be remembered of those that are gone.
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=8:malloc_context_size=1:detect_leaks=0:allocator_may_return_null=1";
}
#endif
#if __has_feature(memory_sanitizer)
// The standard library is not instrumented: only blocks of our own begin as unwritten (support.h).
extern "C" const char* __msan_default_options() { return "poison_in_malloc=0:poison_in_free=0"; }
#endif
#endif
