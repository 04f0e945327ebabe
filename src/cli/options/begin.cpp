// cli: what goes before a command's function: its help, and a place of its own for every file that
// is written.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../io/file.h"
#include "help.h"

namespace cli {
namespace {

// What a path, or a descriptor, leads to: a file that is there, or a name in a folder.
struct Target {
  const char* what;
  const char* path;  // NULL: a standard stream
  bool output;
  bool known;
  struct stat s;
  string name;
};

// False: the system does not say; why is in errno. What is not there is an error of who opens it.
bool find_target(Target* t) {
  t->known = stat(t->path, &t->s) == 0;
  if (t->known || errno != ENOENT) return t->known;
  const string path = t->path;
  const size_t base = base_of(path);
  t->name = path.substr(base);
  t->known = stat(base == 0 ? "." : path.substr(0, base).c_str(), &t->s) == 0;
  return t->known || errno == ENOENT;
}

bool same(const Target& a, const Target& b) {
  const bool one = a.known && b.known && a.s.st_dev == b.s.st_dev && a.s.st_ino == b.s.st_ino &&
                   a.name == b.name;
  return one && !S_ISCHR(a.s.st_mode);  // /dev/null may be all of them
}

// False, and a line on standard error, where an output names a file that is an input, another
// output or a standard stream.
bool check_places(const Command& c, const FlagGroups& groups, const CommandLine& line) {
  vector<Target> all;
  bool found = true;
  const auto add = [&](const char* what, const char* path, bool output) {
    if (!found) return;
    all.push_back({what, path, output, false, {}, ""});
    found = find_target(&all.back());
    if (!found) data_error("%s: %s%s", path, output ? "cannot be written: " : "", strerror(errno));
    if (!found || !output || (path[0] != 0 && strcmp(path, "-") != 0)) return;
    data_error("%s \"%s\": expected the name of a file (standard output has the results)", what,
               path);
    found = false;
  };
  const auto add_flags = [&](File file) {
    for (const FlagGroup& group : groups)
      for (const Flag* f : group.flags)
        if (f->file == file && f->given)
          add(f->given, *static_cast<const Word*>(f), file == File::output);
  };
  add("the model", line.model, false);
  add_flags(File::input);
  if (strstr(c.arguments, "OUT") != nullptr && !line.texts.empty()) add("OUT", line.texts[0], true);
  add_flags(File::output);
  if (!found) return false;
  constexpr const char* kStreams[] = {"standard input", "standard output", "standard error"};
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    all.push_back({kStreams[fd], nullptr, fd != STDIN_FILENO, false, {}, ""});
    all.back().known = fstat(fd, &all.back().s) == 0;
    // A stream without a status: node's, in WebAssembly.
    if (!all.back().known && errno != ENOENT)
      return data_error("%s: %s", kStreams[fd], strerror(errno)), false;
  }
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = i + 1; k < all.size() && all[i].path != nullptr; ++k)
      if ((all[i].output || all[k].output) && same(all[i], all[k]))
        return data_error("%s: is both %s and %s, expected a file of its own for what is written",
                          all[i].path, all[i].what, all[k].what),
               false;
  return true;
}

}  // namespace

bool begin(const Command& c, const FlagGroups& groups, CommandLine* line, int argc, char** argv,
           int* status) {
  *status = parse(c, groups, line, argc, argv);
  if (*status != 0) return false;
  if (line->help) return print_help(c, groups, *line), false;
  if (check_places(c, groups, *line)) return true;
  *status = 1;
  return false;
}

}  // namespace cli
