// A pattern of a tokenizer's section, put together by hand (file-format.md, TOKENIZER).
#ifndef PHASOR_TESTS_PATTERN_TABLE_H_
#define PHASOR_TESTS_PATTERN_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

struct PatternTable {
  static constexpr std::uint16_t kAccepts = 0x8000;
  enum : std::uint8_t { removed, isolated, with_previous, with_next, contiguous };
  enum : std::uint8_t { inverted = 8, bytewise = 16, first_slot = 248 };

  // Classes: of the characters of each text its place; of all others the last.
  std::vector<std::string> classes;
  // Of each state what stands behind each class, the last class, and the text's end; row 0: the
  // states that begin, by the character before.
  std::vector<std::vector<std::uint16_t>> rows;
  std::vector<std::uint8_t> marks;
  std::uint8_t behavior = isolated, slots = 0;
  std::vector<std::uint32_t> runs = {};  // beside 0x80 on, of the last class

  std::uint8_t other() const { return static_cast<std::uint8_t>(classes.size()); }

  std::vector<unsigned char> bytes() const {
    std::vector<unsigned char> out;
    const auto put = [&out](std::uint64_t value, int size) {
      for (int i = 0; i < size; ++i) out.push_back(static_cast<unsigned char>(value >> 8 * i));
    };
    put(rows.size(), 2);
    put(classes.size() + 1, 1);
    put(slots, 1);
    put(runs.size() + 1, 4);
    put(behavior, 1);
    put(other(), 3);
    for (int c = 0; c < 128; ++c) {
      std::uint8_t of = other();
      for (std::uint8_t i = 0; i < classes.size(); ++i)
        if (classes[i].find(static_cast<char>(c)) != std::string::npos) of = i;
      put(of, 1);
    }
    put(0x80u << 8 | other(), 4);
    for (const std::uint32_t run : runs) put(run, 4);
    for (const auto& row : rows)
      for (const std::uint16_t step : row) put(step, 2);
    for (const std::uint8_t mark : marks) put(mark, 1);
    while (out.size() % 4 != 0) out.push_back(0);
    return out;
  }

  // a+b: state 1 wants an a, 2 goes on, 3 has the b. Nothing is accepted before the b, so 2 has a
  // slot.
  static PatternTable a_then_b() {
    PatternTable t{{"a", "b"}, {}, {0, 0, first_slot, 0}};
    t.rows = {{1, 1, 1, 1}, {2, 0, 0, 0}, {2, 3, 0, 0}};
    t.rows.push_back({kAccepts, kAccepts, kAccepts, kAccepts});
    t.slots = 1;
    return t;
  }
  // a*b|a: behind one a a match ends, and the search goes on for a b.
  static PatternTable a_or_b() {
    PatternTable t{{"a", "b"}, {}, {0, 1, first_slot + 1, first_slot, 0}};
    t.rows = {{1, 1, 1, 1}, {2, 4, 0, 0}};
    t.rows.push_back({kAccepts | 3, kAccepts | 4, kAccepts, kAccepts});
    t.rows.push_back({3, 4, 0, 0});
    t.rows.push_back({kAccepts, kAccepts, kAccepts, kAccepts});
    t.slots = 2;
    return t;
  }
};

#endif  // PHASOR_TESTS_PATTERN_TABLE_H_
