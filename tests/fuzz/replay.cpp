// The targets over files:  fuzz_replay TARGET FILE…  or  fuzz_replay FOLDER, which has a folder for
// each target (tests/fuzz/corpus). A property that does not hold ends the program.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "target.h"

namespace {

const char* at_hand = "";  // the file

// A property that does not hold ends the program: the last line says in which file.
void say_which(int signal_number) {
  const ssize_t written = write(STDERR_FILENO, at_hand, std::strlen(at_hand));
  (void)written;
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

bool replay(const fuzz::Target& target, const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return std::fprintf(stderr, "%s: cannot be read\n", path.c_str()), false;
  std::vector<uint8_t> bytes;
  uint8_t buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) != 0;)
    bytes.insert(bytes.end(), buffer, buffer + n);
  std::fclose(file);
  bytes.shrink_to_fit();
  target.run(bytes.data(), bytes.size());
  return true;
}

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const dir = opendir(folder.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir))
    if (entry->d_name[0] != '.') names.push_back(folder + "/" + entry->d_name);
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

int main(int argc, char** argv) {
  size_t replayed = 0, failed = 0;
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGILL, SIGFPE})
    std::signal(signal_number, say_which);
  const auto all = [&](const fuzz::Target& target, const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      at_hand = file.c_str();
      ++(replay(target, file) ? replayed : failed);
    }
  };
  if (argc == 2) {
    for (size_t i = 0; const fuzz::Target* target = fuzz::target_at(i); ++i) {
      const std::vector<std::string> files = files_of(std::string(argv[1]) + "/" + target->name);
      if (files.empty()) std::printf("%s: no inputs in %s\n", target->name, argv[1]), ++failed;
      all(*target, files);
    }
  } else if (argc > 2 && fuzz::target_named(argv[1]) != nullptr) {
    all(*fuzz::target_named(argv[1]), {argv + 2, argv + argc});
  } else {
    std::fprintf(stderr, "usage: fuzz_replay TARGET FILE… | FOLDER\n");
    return 2;
  }
  std::printf("fuzz: %zu passed, %zu failed\n", replayed, failed);
  return failed == 0 ? 0 : 1;
}
