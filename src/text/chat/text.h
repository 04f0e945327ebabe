// Operations on texts that a chat program needs, as Python has them. Arrays and sizes only.
#ifndef PHASOR_TEXT_CHAT_TEXT_H_
#define PHASOR_TEXT_CHAT_TEXT_H_

#include <cstring>

#include "../../work.h"
#include "instructions.h"

namespace phasor {
namespace chat {

struct Piece {
  const unsigned char* text;
  std::size_t bytes;
};

// A text of the code's own.
inline Piece piece(const char* text) noexcept {
  std::size_t bytes = 0;  // bounded, or gcc makes a call to strlen of the loop
  while (bytes < 100 && text[bytes] != 0) ++bytes;
  return {reinterpret_cast<const unsigned char*>(text), bytes};
}

inline void copy(unsigned char* to, Piece text) noexcept {
  if (text.bytes != 0) std::memcpy(to, text.text, text.bytes);
}

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

// What is left of a program's budget. An operation takes a step, and as many as there are bytes
// that it may touch.
struct Budget {
  std::uint64_t left;
  bool over = false;

  // False when there are not so many, and from then on.
  bool take(std::uint64_t steps) noexcept {
    over = over || steps > left;
    if (!over) left -= steps;
    return !over;
  }
};

bool equal(Piece a, Piece b) noexcept;
bool starts(Piece text, Piece with) noexcept;
bool ends(Piece text, Piece with) noexcept;
int compare(Piece a, Piece b) noexcept;  // by code points: below 0, 0, above
// or kNowhere; linear in both
std::size_t find(Piece text, Piece what, std::size_t from) noexcept;
std::size_t characters(Piece text) noexcept;
// chars NULL: white space. Takes what each character costs; stops where the budget ends.
Piece strip(Piece text, const Piece* chars, std::uint32_t sides, Budget* budget) noexcept;

// str.split, part after part. separator NULL: at white space. most < 0: every place.
class Splitter {
 public:
  Splitter(Piece text, const Piece* separator, std::int64_t most) noexcept;
  bool next(Piece* part) noexcept;

 private:
  Piece rest_;
  const Piece* separator_;
  std::int64_t left_;
  bool done_ = false;
};

// With `old`, which is not empty, replaced. `out` NULL: only how many bytes that takes, kNowhere
// where they are too many.
std::size_t replace(unsigned char* out, Piece text, Piece old, Piece with) noexcept;
bool is_ascii(Piece text) noexcept;
void change_case(unsigned char* out, Piece text, std::uint32_t how) noexcept;  // of ASCII
// As json.dumps(text, ensure_ascii=False). `out` NULL: only how many bytes, or kNowhere.
std::size_t write_json(unsigned char* out, Piece text) noexcept;
constexpr std::size_t kDigits = 20;
// Somewhere in `digits`, of kDigits bytes. The value is within ±2³¹.
Piece write_number(unsigned char* digits, std::int64_t value) noexcept;

}  // namespace chat
}  // namespace phasor

#endif  // PHASOR_TEXT_CHAT_TEXT_H_
