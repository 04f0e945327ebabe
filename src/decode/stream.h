// decode: the text of new tokens as it comes, cut where a stop string begins. Text that may yet
// become a stop string is held back; it is always the beginning of one, so that nothing has to be
// kept but which and how much.
#pragma once
#include "checked.h"

namespace phasor {

constexpr uint32_t kMaxStops = 64, kMaxStopBytes = 256;

enum class StreamEnd : uint32_t { none, stopped, string };  // nothing, the callback, a stop string

struct TextStream {
  Session& s_;
  const phasor_generate_options& o_;

  bool wanted() const { return o_.text != nullptr || o_.stop_count != 0; }
  // One line names what is wrong with the options.
  [[nodiscard]] phasor_status check(phasor_error* error) const noexcept;
  // Text that is there already: the first new piece may begin with a space.
  void goes_on(const uint32_t* ids, uint32_t count) noexcept;
  [[nodiscard]] StreamEnd add(uint32_t id) noexcept;
  // What is still held back.
  [[nodiscard]] StreamEnd end() noexcept;

  // A stop string and how many of its bytes have been met.
  struct Match {
    const char* string;
    uint32_t bytes;
    bool whole;
  };
  StreamEnd feed(const char* text, uint32_t bytes) noexcept;
  StreamEnd give(const char* text, uint32_t bytes, uint32_t count) noexcept;
  Match extended(const Match& held, char c) const noexcept;
  size_t capacity() const { return static_cast<size_t>(s_.plan.bytes[kPartText]); }
  char* piece() const { return reinterpret_cast<char*>(s_.text().at(0, capacity())); }

  // What the text so far leaves to be known: plain data.
  struct State {
    TokenDecoder decoder;
    Match held;  // the bytes held back are those of the stop string
  };
  State state_{};
  // Whether a state is one that texts leave, with these options' stop strings.
  bool is_sound(const State& state) const noexcept;
};

}  // namespace phasor
