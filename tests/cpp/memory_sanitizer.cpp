// What the memory sanitizer must be told. The C++ library is not compiled with it: what its
// functions write to the heap counts as unwritten. Templates are ours all the same
// (library_templates.h), so these are all: the linker's --wrap leads here.
#if defined(__has_feature)
#if __has_feature(memory_sanitizer)

#include <sanitizer/msan_interface.h>

#include <cstdio>
#include <iostream>
#include <locale>

#include "cases.h"
#include "runtime/session.h"
#include "support.h"

namespace std {
struct _Rb_tree_node_base;
}

extern "C" {

// A node of a map gets its place in the tree: a color and three pointers.
void __real__ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_(
    bool left, std::_Rb_tree_node_base* node, std::_Rb_tree_node_base* parent,
    std::_Rb_tree_node_base* header);
void __wrap__ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_(
    bool left, std::_Rb_tree_node_base* node, std::_Rb_tree_node_base* parent,
    std::_Rb_tree_node_base* header) {
  __real__ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_(left, node, parent,
                                                                           header);
  __msan_unpoison(node, 4 * sizeof(void*));
}

// A locale is one pointer.
void __real__ZNSt6localeC1Ev(void* locale);
void __wrap__ZNSt6localeC1Ev(void* locale) {
  __real__ZNSt6localeC1Ev(locale);
  __msan_unpoison(locale, sizeof(void*));
}

// What all streams begin with.
void __real__ZNSt8ios_base7_M_initEv(std::ios_base* stream);
void __wrap__ZNSt8ios_base7_M_initEv(std::ios_base* stream) {
  __real__ZNSt8ios_base7_M_initEv(stream);
  __msan_unpoison(stream, sizeof *stream);
}
}

namespace {

// Digits come from the library: what is printed is written. Nothing else is.
class Printed : public std::streambuf {
 public:
  Printed() {
    __msan_scoped_disable_interceptor_checks();  // the library looks at a table of its own, once
    (void)std::use_facet<std::ctype<char>>(std::locale::classic()).widen(' ');
    __msan_scoped_enable_interceptor_checks();
    before_ = std::cout.rdbuf(this);
  }
  ~Printed() override { std::cout.rdbuf(before_); }

 private:
  int overflow(int c) override {
    const char one = static_cast<char>(c);
    return c == EOF || xsputn(&one, 1) == 1 ? 0 : EOF;
  }
  std::streamsize xsputn(const char* text, std::streamsize bytes) override {
    const std::size_t count = static_cast<std::size_t>(bytes);
    __msan_unpoison(text, count);
    return static_cast<std::streamsize>(std::fwrite(text, 1, count, stdout));
  }
  int sync() override { return std::fflush(stdout); }

  std::streambuf* before_;
};
Printed printed;

}  // namespace

// Not a test that passes: values that the call before has left in the rows in work are unwritten
// when a call begins. `make test-memory` sees that the sanitizer says so.
TEST_CASE("memory: a value of the call before" * doctest::skip()) {
  const Block file = golden_file("tiny-olmo2-f32");
  const Engine e(file, nullptr);
  const Ids ids = random_ids(1, 4, 40);
  phasor_item item = PHASOR_ITEM_INIT;
  item.ids = ids.data();
  item.count = 4;
  REQUIRE(phasor_step(e.session, &item, 1, nullptr) == PHASOR_OK);
  REQUIRE(phasor_sequence_truncate(e.session, 0, 2) == PHASOR_OK);
  const phasor::Session& s = *reinterpret_cast<const phasor::Session*>(e.session);
  CHECK(phasor::is_finite_f32(s.span<uint32_t>(phasor::kPartNormed, 0, 1)[0]));
}

#endif
#endif
