// cli: a flag is a member of an options struct: its name and value as the help shows them, its
// help, its range, and what the command line gave it. A command lists the flags that it takes.
#pragma once
#include <stdint.h>

#include "../io/text.h"

namespace cli {

enum class File { none, input, output };

struct Flag {
  // "--name": without a value; "--name N": with one; "--name a|b": one of these; "--name[=N]",
  // "--name[=a|b]": it may be left out.
  Flag(const char* words, const char* text);
  // Takes a value, NULL where there is none, when `given` is set. 0, or 2 after a line on standard
  // error.
  virtual int set(const char*) { return 0; }
  // What its value is, in an error.
  virtual string wanted() const { return takes; }

  const char* spec;
  const char* help;
  string name;        // "--name"
  const char* takes;  // "", "N", "a|b", "[=N]"
  File file = File::none;
  const char* given = nullptr;  // the name, where the flag was given: else the value is the default

 protected:
  ~Flag() = default;
  // "--name VALUE: expected …"; 2.
  int refuse(const char* value, const string& hint = "") const;
};

struct Switch : Flag {
  using Flag::Flag;
  operator bool() const { return given != nullptr; }
};
struct Word : Flag {
  Word(const char* words, const char* text, const char* by_default = nullptr)
      : Flag(words, text), value(by_default) {}
  int set(const char* text) override;
  operator const char*() const { return value; }
  const char* value;
};
struct IsaName : Word {  // a level that runs here
  using Word::Word;
  int set(const char* text) override;
  string wanted() const override;
};
struct InputFile : Word {
  InputFile(const char* words, const char* text) : Word(words, text) { file = File::input; }
};
struct OutputFile : Word {
  OutputFile(const char* words, const char* text) : Word(words, text) { file = File::output; }
};
struct Words : Flag {
  using Flag::Flag;
  int set(const char* text) override;
  vector<const char*> values;
};

constexpr double kMost = 1 << 24;

// From the least to the most that a value may be; a most of 0: any.
struct Number : Flag {
  Number(const char* words, const char* text, double from = 1, double to = kMost,
         uint64_t by_default = 0)
      : Flag(words, text), least(from), most(to), value(by_default) {}
  int set(const char* text) override;
  string wanted() const override;
  operator uint32_t() const { return uint32_t(value); }
  double least, most;
  uint64_t value;
};
// The place of a word among those that there are.
struct Choice : Number {
  using Number::Number;
  int set(const char* text) override;
  string wanted() const override;
  string choice(uint64_t place) const;  // "?" where there is none
  const char* word = nullptr;
};
// `beyond`: not the least itself.
struct Real : Flag {
  Real(const char* words, const char* text, double from, double to, bool beyond = false)
      : Flag(words, text), least(from), most(to), above(beyond) {}
  int set(const char* text) override;
  string wanted() const override;
  double least, most;
  bool above;
  float value = 0;
};

struct Ids : Flag {
  using Flag::Flag;
  int set(const char* text) override;
  string wanted() const override;
  TokenIds values;
};
struct IdLists : Ids {  // may be given several times; of each list its length, then its ids
  using Ids::Ids;
  int set(const char* text) override;
};
struct InputIds : Ids {
  using Ids::Ids;
  int set(const char* text) override;
  bool from_input = false;  // "-": one list a line of standard input
};

// Under a title in the help.
struct FlagGroup {
  const char* title;
  vector<Flag*> flags;
};
using FlagGroups = vector<FlagGroup>;

template <class... Flags>
FlagGroup group(const char* title, Flags&... flags) {
  return {title, {&flags...}};
}

// The name of the first of these that was given, or NULL.
template <class... Flags>
const char* first_given(const Flags&... flags) {
  const char* first = nullptr;
  ((first = first != nullptr ? first : flags.given), ...);
  return first;
}

}  // namespace cli
