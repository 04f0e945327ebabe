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

// What each unit of price brings from a to b, which costs more.
double gain(const Way& a, const Way& b);

// Ways on the lower convex hull of (price, harm), from the cheapest on: what a further price brings
// falls from each to the next.
vector<Way> hull(vector<Way> ways);

}  // namespace cli
