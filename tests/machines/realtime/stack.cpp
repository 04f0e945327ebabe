// How deep the stack goes: the walk with one thread, where before each call the stack below it is
// painted, and afterwards the deepest word that has changed is looked for. Built and run by `make
// test-stack`, here and under emulation.
//
//   stack MODEL…         NAME BYTES for each function: the deepest at any level, on any model; what
//   the test itself takes (a frame or two) is in it
#include "walk.h"

namespace {

constexpr size_t kDepth = 64 << 10;  // several times what tools/make/stack.py finds
constexpr size_t kOwn = 256;         // what paint itself may take
constexpr uint32_t kPaint = 0xA5A5C3C3;

std::map<std::string, size_t> deepest;
bool too_deep = false;

using Word = volatile uint32_t;

inline Word* end_below(void* frame) {
  return reinterpret_cast<Word*>((reinterpret_cast<uintptr_t>(frame) - kOwn) / sizeof(Word) *
                                 sizeof(Word));
}

[[gnu::noinline]] void paint() {
  Word* end = end_below(__builtin_frame_address(0));
  for (Word* p = end - kDepth / sizeof(Word); p != end; ++p) *p = kPaint;
}

// Where the paint ends; called from the frame that called paint.
[[gnu::noinline]] uintptr_t lowest() {
  Word* end = end_below(__builtin_frame_address(0));
  Word* p = end - kDepth / sizeof(Word);
  too_deep = too_deep || *p != kPaint;
  while (p != end && *p == kPaint) ++p;
  return reinterpret_cast<uintptr_t>(p);
}

[[gnu::noinline]] void record(const std::string& name, size_t bytes) {
  size_t& most = deepest[name];
  if (bytes > most) most = bytes;
}

template <class F>
[[gnu::noinline]] phasor_status around(const std::string& name, F call) {
  paint();
  const phasor_status status = call();
  const uintptr_t reached = lowest();
  record(name, reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - reached);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  phasor_request_amx();
  if (argc < 2) return std::fprintf(stderr, "usage: stack MODEL...\n"), 2;
  for (uint32_t k = 0; phasor_isa_name(k) != nullptr; ++k) {
    std::printf("isa %s\n", phasor_isa_name(k));
    for (int i = 1; i < argc; ++i)
      walk(Opened(argv[i], phasor_isa_name(k), 1, PHASOR_CACHE_F32, nullptr));
  }
  for (const auto& [name, bytes] : deepest) std::printf("%s %zu\n", name.c_str(), bytes);
  if (too_deep) std::printf("FAIL deeper than %zu bytes\n", kDepth);
  return failures != 0 || too_deep;
}
