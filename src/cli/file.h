// cli: a weight file, mapped read-only; says in one line what is wrong with a path.
#pragma once
#include <stddef.h>

namespace cli {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  bool open(const char* path);  // false: a line on standard error says why
  const void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace cli
