// cli: a file that is read, mapped or in a block of memory; a file that is written, there whole or not at all. One line says what is wrong with a path.
#pragma once
#include <stddef.h>
#include <stdio.h>

#include <string>

#include "mapping.h"
#include "memory.h"

namespace cli {

// Where the bytes of a file are: in the system's cache, mapped, and in huge pages later (mapping.h); mapped and no more; in memory of our own; or
// there only where it makes reading them faster (memory.h).
enum class Load : unsigned { automatic, map, copy, copy_to_huge_pages };

class ReadFile {
 public:
  ReadFile() = default;
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  bool open(const char* path, Load how);  // false: a line on standard error says why
  const void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // The bytes will be read many times: of a file opened with Load::automatic they go to huge pages, meanwhile.
  void much_used();

 private:
  bool copy(int fd);

  const void* data_ = nullptr;
  size_t bytes_ = 0;
  bool automatic_ = false;
  Mapping mapping_;
  Block block_;
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
