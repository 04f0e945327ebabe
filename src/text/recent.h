// text: what searches of one text have found, for those that look for the same again. Includes
// pieces.h only; never allocates.
#pragma once
#include "../work.h"
#include "pieces.h"

namespace phasor::pieces {

// A place of the table holds what was found last of all keys that fall on it.
template <class Value>
struct Recent {
  struct Place {
    uint32_t a, b;  // the key; a is no kNoToken
    Value value;
  };

  // Of few things to find there is no table, and of a short text a small one, so that it takes
  // little beside the section and the text.
  static uint64_t bytes(uint32_t things, uint64_t text_bytes) {
    const uint32_t bits = bits_of(things, text_bytes);
    return bits == 0 ? 0 : uint64_t{sizeof(Place)} << bits;
  }

  Recent(unsigned char* scratch, uint32_t things, uint64_t text_bytes)
      : places_(reinterpret_cast<Place*>(scratch)), bits_(bits_of(things, text_bytes)) {
    if (bits_ == 0) return;
    work(uint64_t{1} << bits_);
    std::memset(scratch, 0xFF, sizeof(Place) << bits_);
  }
  // What lies behind the table.
  unsigned char* behind() const {
    return reinterpret_cast<unsigned char*>(places_) + (bits_ == 0 ? 0 : sizeof(Place) << bits_);
  }

  // What `search` finds for a key.
  template <class Search>
  Value get(uint32_t a, uint32_t b, Search search) const {
    if (bits_ == 0) return search();
    work();
    Place& place = places_[((a ^ (b << 16 | b >> 16)) * 0x9E3779B1u) >> (32 - bits_)];
    if (place.a != a || place.b != b) place = {a, b, search()};
    return place.value;
  }

 private:
  static constexpr uint32_t kMostBits = 10;
  static constexpr uint32_t kThings = 11;  // for each place, at least: some 35 bytes each

  static uint32_t bits_of(uint32_t things, uint64_t text_bytes) {
    uint32_t bits = 0;
    while (bits < kMostBits && things / kThings >> bits > 1 && text_bytes >> bits > 1) ++bits;
    return bits;
  }

  Place* places_;  // (1 << bits), of no bits none
  uint32_t bits_;
};

}  // namespace phasor::pieces
