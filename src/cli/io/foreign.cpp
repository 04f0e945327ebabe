#include "foreign.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

namespace cli {
namespace {

constexpr const char kConvert[] =
    "tools/convert.py makes a .phasor file of it (docs/guide/convert.md)";
constexpr const char kWhole[] = "give tools/convert.py the directory that it is in";
constexpr const char kSource[] = "give tools/convert.py the checkpoint that it was made from";
constexpr size_t kSearched = 4096;  // bytes in which a word is looked for

struct Kind {
  template <size_t N>
  constexpr Kind(const char (&starts)[N], const char* word, const char* what, const char* todo)
      : start(starts), bytes(N - 1), inside(word), is(what), advice(todo) {}
  const char* start;  // its first bytes; ? is any
  size_t bytes;
  const char* inside;  // a word soon behind them, or NULL
  const char* is;
  const char* advice;
};

// The first that fits.
constexpr Kind kKinds[] = {
    {"GGUF", nullptr, "is a GGUF file", kConvert},
    {"????\0\0\0\0{", nullptr, "is a file of safetensors", kConvert},
    {"PK\3\4", nullptr, "is a zip archive, such as a PyTorch checkpoint", kConvert},
    {"\x80\2", nullptr, "is a pickle, such as an old PyTorch checkpoint", kConvert},
    {"\x08?\x12", nullptr, "is an ONNX file", kSource},
    {"\n?\n?<", nullptr, "is a SentencePiece model, a tokenizer without weights", kWhole},
    {"{", "\"added_tokens\"", "is a tokenizer.json, a tokenizer without weights", kWhole},
    {"{", "\"model_type\"", "is a config.json, a configuration without weights", kWhole},
    {"{", nullptr, "is JSON", "give tools/convert.py the directory of a checkpoint"},
    {"version https://git-lfs", nullptr, "is a pointer of Git LFS, not the file that it stands for",
     "git lfs pull gets it"},
    {"\x89HDF", nullptr, "is an HDF5 file", kSource},
};

bool begins(const Kind& kind, const char* data, size_t bytes) {
  if (bytes < kind.bytes) return false;
  for (size_t i = 0; i < kind.bytes; ++i)
    if (kind.start[i] != '?' && kind.start[i] != data[i]) return false;
  return kind.inside == nullptr ||
         string(data, min(bytes, kSearched)).find(kind.inside) != string::npos;
}

// As models are named where they are published: two names with a slash between them. `where` gets
// its place.
bool is_hub_id(const string& path, size_t* slash) {
  constexpr const char kLetters[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  *slash = path.find('/');
  if (*slash == string::npos || *slash == 0 || *slash + 1 == path.size() || path[0] == '.')
    return false;
  const string rest = path.substr(*slash + 1);
  struct stat s;
  return path.find_first_not_of(kLetters) == *slash &&
         rest.find_first_not_of(kLetters) == string::npos && rest.find(".phasor") == string::npos &&
         stat(path.substr(0, *slash).c_str(), &s) != 0;
}

}  // namespace

string foreign_path(const string& path) {
  struct stat s;
  size_t slash = 0;
  if (stat(path.c_str(), &s) != 0) {
    if (errno != ENOENT || !is_hub_id(path, &slash)) return "";
    const string name = path.substr(slash + 1);
    return "no such file, and nothing is downloaded: hf download " + path + " --local-dir " + name +
           ", then tools/convert.py " + name + " -o " + name + ".phasor";
  }
  if (!S_ISDIR(s.st_mode)) return "";
  const bool has = stat((path + "/config.json").c_str(), &s) == 0;
  return string("is a directory, expected a .phasor file") +
         (has ? string("; it has config.json: ") + kConvert
              : "; tools/convert.py makes one of the directory of a checkpoint");
}

string foreign_bytes(const void* data, size_t bytes) {
  for (const Kind& kind : kKinds)
    if (begins(kind, static_cast<const char*>(data), bytes))
      return string(kind.is) + ", expected a .phasor file; " + kind.advice;
  return "";
}

}  // namespace cli
