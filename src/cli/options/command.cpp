#include "command.h"

#include <string.h>

#include "nearest.h"

namespace cli {

const Command* find_command(const string& name) {
  for (const Command* const* c = kCommands; *c != nullptr; ++c)
    if (name == (*c)->name) return *c;
  return nullptr;
}

Flag* find(const FlagGroups& groups, const string& name) {
  for (const FlagGroup& group : groups)
    for (Flag* f : group.flags)
      if (f->name == name) return f;
  return nullptr;
}

// `word` is on the command line, `name` what would be a flag's name in it.
static int unknown(const Command& c, const FlagGroups& groups, const char* word,
                   const char* name) {
  for (const Command* const* other = kCommands; *other != nullptr; ++other)
    if ((*other)->has(name))
      return usage_error("%s: not a flag of %s (phasor %s --help lists them)", name, c.name,
                         c.name);
  const char* shown = strncmp(word, "--", 2) == 0 ? name : word;
  Nearest nearest(shown);
  for (const FlagGroup& group : groups)
    for (const Flag* f : group.flags) nearest.see(f->name);
  nearest.see("--help");
  return usage_error("%s: unknown flag%s (phasor %s --help lists them)", shown,
                     nearest.hint().c_str(), c.name);
}

int parse(const Command& c, const FlagGroups& groups, CommandLine* line, int argc, char** argv) {
  bool flags = true;
  line->command = &c;
  for (int i = 0; i < argc; ++i) {
    const char* word = argv[i];
    if (flags && strcmp(word, "--") == 0) {
      flags = false;
      continue;
    }
    if (!flags || word[0] != '-' || word[1] == 0) {
      if (line->model == nullptr)
        line->model = word;
      else
        line->texts.push_back(word);
      continue;
    }
    // --name=VALUE, or -nVALUE
    const bool is_long = word[1] == '-';
    const char* behind = is_long ? word + strcspn(word, "=") : word + 2;
    const char* value = *behind == 0 ? nullptr : is_long ? behind + 1 : behind;
    const string name(word, behind);
    Flag* f = name == line->help.name || name == kHelp ? &line->help : find(groups, name);
    // -no-repeat-ngram is no -n
    const bool misses_a_dash = !is_long && find(groups, string("-") + word) != nullptr;
    if (f == nullptr || misses_a_dash || (f->takes[0] == 0 && value != nullptr && !is_long))
      return unknown(c, groups, word, misses_a_dash ? word : name.c_str());
    if (f->takes[0] == 0 && value != nullptr)
      return usage_error("%s: expected no value", name.c_str());
    const bool wanted = f->takes[0] != 0 && f->takes[0] != '[';
    if (wanted && value == nullptr && ++i < argc) value = argv[i];
    if (wanted && value == nullptr)
      return usage_error("%s: expected a value, %s", name.c_str(), f->wanted().c_str());
    f->given = f->name.c_str();
    if (const int status = f->set(value)) return status;
    if (line->help) return 0;
  }
  if (line->model == nullptr)
    return usage_error("%s: expected a model file (phasor %s --help)", c.name, c.name);
  if (!line->texts.empty() && strcmp(c.arguments, "MODEL") == 0)
    return usage_error("%s: unexpected argument %s", c.name, line->texts[0]);
  if (!line->texts.empty() && line->ids.given)
    return usage_error("--ids: expected either ids or text, not both");
  return 0;
}

}  // namespace cli
