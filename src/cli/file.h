// cli: a file that is read, mapped or in a block of memory; a file that is written, there whole or
// not at all. One line says what is wrong with a path.
#pragma once
#include <stddef.h>
#include <sys/stat.h>

#include <string>

#include "args.h"
#include "ending.h"
#include "mapping.h"
#include "memory.h"

namespace cli {

// Where the bytes of a file are: in the system's cache, mapped, and in huge pages later
// (mapping.h); mapped and no more; in memory of our own; or there only where it makes reading them
// faster (memory.h).
enum class Load : unsigned { automatic, map, copy, copy_to_huge_pages };

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
  // The bytes will be read many times: of a file opened with Load::automatic they go to huge pages,
  // meanwhile.
  void much_used();
  // False: the file has changed since it was opened and is still read. A line has said so.
  bool unchanged() const;

 private:
  bool copy(int fd);
  bool map(int fd);
  bool refuse(const char* why) const;
  bool check_kind(const struct stat& s, const char* kind) const;

  std::string path_;
  const void* data_ = nullptr;
  size_t bytes_ = 0;
  bool automatic_ = false;
  mutable bool changed_ = false;
  int fd_ = -1;  // of a file that is mapped
  struct stat seen_{};
  Watch watch_;  // outlives the mapping's threads
  Mapping mapping_;
  Block block_;
};

// Some file that was read has changed meanwhile, so that the results are not to be trusted.
bool file_has_changed();

// False, and a line on standard error, where an output names a file that is an input, another
// output or a standard stream.
bool check_places(const Options& options, Command command);

// Where an output goes. A regular file is made beside its place, under a name that nobody else has,
// and renamed at the end. A pipe or a device that is there already is written where it is, at the
// end.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place();  // removes what was not committed
  // Each is false when a line on standard error, which names the file, says why.
  bool open(const char* path);
  bool write(const void* data, size_t bytes);
  bool write_first(const void* data, size_t bytes);  // over the first bytes of the file
  bool finish();                                     // all is written and on the disk
  bool commit();                                     // after that: the file takes its place
  bool refuse(const char* why) const;
  bool fail() const;  // why is in errno
  bool direct() const { return part_.empty(); }
  int fd() const { return fd_; }
  const char* path() const { return given_; }

 private:
  bool find(const char* path);
  bool make();

  const char* given_ = nullptr;
  std::string path_, part_;  // where links lead to; beside it
  int fd_ = -1;
};

// An output that is written piece by piece.
class NewFile {
 public:
  // Each is false when a line on standard error, which names the file, says why.
  bool open(const char* path);
  bool write(const void* data, size_t bytes);
  bool write_first(const void* data,
                   size_t bytes);  // over the first bytes, which were written before
  // All is on the disk under another name; then it takes its place. A command with several outputs
  // finishes all before it commits the first.
  bool finish();
  bool commit();
  bool refuse(const char* why) const { return place_.refuse(why); }
  bool is_open() const { return place_.fd() >= 0; }

 private:
  bool flush();
  Place place_;
  std::string held_;  // all of it, for a pipe
};

// An output of a size that is known, as memory.
class NewMapping {
 public:
  NewMapping() = default;
  NewMapping(const NewMapping&) = delete;
  NewMapping& operator=(const NewMapping&) = delete;
  ~NewMapping();
  // Each is false when a line on standard error, which names the file, says why. The space is taken
  // at once: a full disk is an error here.
  bool open(const char* path, size_t bytes);
  bool commit();
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  Place place_;
  Watch watch_;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace cli
