// cli: a file that is read, mapped or in a block of memory; a file that is written, there whole or
// not at all. One line says what is wrong with a path.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "../host/ending.h"
#include "../host/mapping.h"
#include "../host/memory.h"
#include "text.h"

namespace cli {

// Where the bytes of a file are: mapped, with a thread that reads ahead (--load auto); mapped; in
// memory of our own; in memory of our own where that makes reading them faster (memory.h), else
// mapped.
enum class Load : unsigned { automatic, map, copy, copy_if_faster };

// A file that others may change or cut short meanwhile. Of a weight file that is mapped all but the
// weights is the program's own from the beginning, so that no such change leads the engine outside
// the file; weights that change are other numbers, and an error once it is seen; weights that are
// gone end the program with a line (ending.h). Any other file is read with Load::copy.
class ReadFile {
 public:
  ReadFile() = default;
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  ~ReadFile();
  // False: a line on standard error says why. `kind` is what the file should be: "a .phasor file".
  bool open(const char* path, Load how, const char* kind);
  const void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // A section of a weight file that the engine has opened, by its kind; 0 bytes: there is none.
  const unsigned char* section(uint32_t kind, size_t* bytes) const;
  // False: the file has changed since it was opened and is still read. A line has said so.
  bool unchanged() const;

 private:
  bool copy(int fd);
  bool map(int fd);
  bool refuse(const char* why) const;
  bool refuse_reading() const;  // why is in errno
  bool check_kind(const char* kind) const;

  string path_;
  const void* data_ = nullptr;
  size_t bytes_ = 0;
  mutable bool changed_ = false;
  int fd_ = -1;  // of a file that is mapped
  struct stat seen_{};
  Watch watch_;  // outlives the mapping's thread
  Mapping mapping_;
  Block block_;
};

// Some file that was read has changed meanwhile, so that the results are not to be trusted.
bool file_has_changed();

// Where a name begins in a path.
size_t base_of(const string& path);

// An output, written piece by piece. A regular file is made beside its place, under a name that
// nobody else has, and renamed at the end. A pipe or a device that is there already is written
// where it is, at the end and in one go.
class NewFile {
 public:
  NewFile() = default;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();  // removes what was not committed
  // Each is false when a line on standard error, which names the file, says why.
  bool open(const char* path);
  bool write(const void* data, size_t bytes);
  bool write_first(const void* data, size_t bytes);  // over the first bytes, written before
  // All is on the disk under another name; then it takes its place. A command with several outputs
  // finishes all before it commits the first.
  bool finish();
  bool commit();
  bool refuse(const char* why) const;
  bool is_open() const { return fd_ >= 0; }

 private:
  bool fail() const;  // why is in errno
  bool make();
  bool flush();
  bool direct() const { return part_.empty(); }  // written where it is

  const char* given_ = nullptr;
  string path_, part_;  // where links lead to; beside it
  string held_;         // what is not written yet
  int fd_ = -1;
};

}  // namespace cli
