// cli: a file that is read, mapped; a file that is written, there whole or not at all. One line says what is wrong with a path.
#pragma once
#include <stddef.h>
#include <stdio.h>

#include <string>

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

// Written beside its place and renamed at the end.
class NewFile {
 public:
  NewFile() = default;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // removes what was not committed
  // Each is false when a line on standard error, which names the file, says why.
  bool open(const char* path);
  bool write(const void* data, size_t bytes);
  bool rewind();
  bool commit();
  bool refuse(const char* why) const;
  bool is_open() const { return file_ != nullptr; }

 private:
  std::string path_, part_;
  FILE* file_ = nullptr;
};

// The same, of a size that is known, as memory.
class NewMapping {
 public:
  NewMapping() = default;
  NewMapping(const NewMapping&) = delete;
  NewMapping& operator=(const NewMapping&) = delete;
  ~NewMapping();  // removes what was not committed
  // Each is false when a line on standard error, which names the file, says why. The space is taken at once: a full disk is an error here.
  bool open(const char* path, size_t bytes);
  bool commit();
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::string path_, part_;
  int fd_ = -1;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace cli
