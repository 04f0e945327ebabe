// The tile instructions of AMX as plain C++, after Intel's SDM: volume 1, chapter 18, and the pages
// of volume 2A and 2B. What each does to the tiles and to memory: the same bytes are read and
// written, so that sanitizers see what they cannot see in the instructions.
#pragma once
#include <cstdint>
#include <cstring>

namespace tile_twin {

constexpr unsigned kTiles = 8, kMostRows = 16, kMostBytes = 64;  // of palette 1

// The tiles of a thread. Each function is an instruction; false: where the processor raises #UD or,
// of `configure`, #GP.
class Tiles {
 public:
  // ldtilecfg: 64 bytes. Configured tiles are zeros; palette 0 releases all.
  bool configure(const void* from) {
    unsigned char c[64];
    std::memcpy(c, from, sizeof c);
    if (c[0] == 0) return release();
    if (c[0] != 1) return false;
    for (unsigned i = 2; i < 16; ++i)
      if (c[i] != 0) return false;
    for (unsigned t = 0; t < 16; ++t) {
      const unsigned bytes = c[16 + 2 * t] | static_cast<unsigned>(c[17 + 2 * t]) << 8,
                     rows = c[48 + t];
      if (t >= kTiles ? bytes != 0 || rows != 0 : bytes > kMostBytes || rows > kMostRows)
        return false;
      if ((bytes == 0) != (rows == 0)) return false;
    }
    for (unsigned t = 0; t < kTiles; ++t) {
      tiles_[t] = {};
      tiles_[t].bytes = c[16 + 2 * t];
      tiles_[t].rows = c[48 + t];
    }
    start_ = c[1];
    return configured_ = true;
  }
  // tilerelease
  bool release() {
    *this = {};
    return true;
  }
  bool zero(unsigned t) {
    if (!is_tile(t)) return false;
    std::memset(tiles_[t].value, 0, sizeof tiles_[t].value);
    start_ = 0;
    return true;
  }
  // tileloadd: rows `stride` bytes apart. Row start_ is the first, after a page fault; rows and
  // bytes that the tile does not have become zeros.
  bool load(unsigned t, const void* from, int64_t stride) {
    if (!is_tile(t)) return false;
    Tile& tile = tiles_[t];
    if (start_ == 0) std::memset(tile.value, 0, sizeof tile.value);
    for (unsigned r = start_; r < tile.rows; ++r)
      std::memcpy(tile.value[r], static_cast<const unsigned char*>(from) + r * stride, tile.bytes);
    start_ = 0;
    return true;
  }
  // tilestored
  bool store(unsigned t, void* to, int64_t stride) {
    if (!is_tile(t)) return false;
    const Tile& tile = tiles_[t];
    for (unsigned r = start_; r < tile.rows; ++r)
      std::memcpy(static_cast<unsigned char*>(to) + r * stride, tile.value[r], tile.bytes);
    start_ = 0;
    return true;
  }
  // tdpbssd: c (M, N) of int32 += a (M, 4·K) times b (K, 4·N), both of int8; a row of b has four
  // values of each column side by side. Sums wrap.
  bool dot(unsigned c, unsigned a, unsigned b) {
    if (!is_tile(c) || !is_tile(a) || !is_tile(b) || c == a || a == b || c == b) return false;
    Tile &sum = tiles_[c], &left = tiles_[a], &right = tiles_[b];
    if (sum.bytes % 4 != 0 || left.bytes % 4 != 0 || right.bytes % 4 != 0 ||
        sum.rows != left.rows || left.bytes / 4 != right.rows || sum.bytes != right.bytes)
      return false;
    for (unsigned m = 0; m < sum.rows; ++m)
      for (unsigned n = 0; n < sum.bytes / 4u; ++n) {
        uint32_t total;
        std::memcpy(&total, sum.value[m] + 4 * n, 4);
        for (unsigned k = 0; k < left.bytes; ++k)
          total += static_cast<uint32_t>(static_cast<int8_t>(left.value[m][k]) *
                                         static_cast<int8_t>(right.value[k / 4][4 * n + k % 4]));
        std::memcpy(sum.value[m] + 4 * n, &total, 4);
      }
    start_ = 0;
    return true;
  }
  bool configured() const { return configured_; }

 private:
  struct Tile {
    unsigned char rows, bytes;
    unsigned char value[kMostRows][kMostBytes];
  };
  bool is_tile(unsigned t) const { return configured_ && t < kTiles && tiles_[t].rows != 0; }
  Tile tiles_[kTiles] = {};
  unsigned start_ = 0;
  bool configured_ = false;
};

}  // namespace tile_twin
