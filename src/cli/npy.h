// cli: arrays of f32 in NumPy's file format (version 1.0). A file is there whole or not at all: it is written beside its place
// and renamed at the end.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <string>
#include <vector>

namespace cli {

class NpyWriter {
 public:
  NpyWriter() = default;
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;
  ~NpyWriter();                        // removes what was not committed
  // Each is false when a line on standard error, which names the flag's file, says why.
  bool open(const char* path);
  bool append(const float* values, size_t count);
  bool commit(const std::vector<uint64_t>& shape);
  bool is_open() const { return file_ != nullptr; }

 private:
  bool refuse(const char* why);
  std::string path_, part_;
  FILE* file_ = nullptr;
};

}  // namespace cli
