// cli: the ways to store a matrix that are worth their price.
#pragma once

#include "../engine/engine.h"

namespace cli {

// One way to store a matrix.
struct Way {
  const char* type;
  uint64_t bytes;
  double harm;
  double seconds = 0;  // of its part of a token
  double price = 0;
};

// Ways on the lower convex hull of (price, harm), from the cheapest on: what a further price brings
// falls from each to the next.
vector<Way> hull(vector<Way> ways);

// Bytes of a tensor with those up to the next one.
constexpr uint64_t padded(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

// What there is for a file.
struct Room {
  uint64_t fixed;  // bytes of what is no matrix
  uint64_t exact;  // of the file in f32
  uint64_t bytes;  // that it may have; UINT64_MAX: any
  double seconds;  // that a token may take; 0: any
};
// The least that a choice has taken of each, within the room of the other.
struct Least {
  uint64_t bytes = UINT64_MAX;
  double seconds = 1e300;
};

// Chooses of each matrix's ways the one with which the sum of the harms is least within the room.
// False where the cheapest ways do not fit. *least: also of choices before.
bool allot(const vector<vector<Way>>& matrices, const Room& room, vector<Way>* chosen,
           Least* least);

}  // namespace cli
