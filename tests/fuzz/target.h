// A fuzz target: a function of bytes that ends the program where a property does not hold. The same
// functions run behind libFuzzer (fuzzer.cpp, make fuzz) and over the committed corpus (replay.cpp,
// make test).
#pragma once
#include <cstddef>
#include <cstdint>

namespace fuzz {

// What the mutator knows of an input.
enum class Shape : uint32_t {
  bytes = 0,        // nothing
  weight_file = 1,  // metadata, directory, sections; sealed again after each change
  two_parts = 2,    // parts.h: mutated one by one
  three_parts = 3,
};

struct Target {
  const char* name;
  Shape shape;
  void (*run)(const uint8_t* data, size_t size);
};

// All of them, in the order of targets.cpp; NULL past the last, or for a name that none has.
const Target* target_at(size_t index);
const Target* target_named(const char* name);

}  // namespace fuzz
