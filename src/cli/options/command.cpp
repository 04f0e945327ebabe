#include "command.h"

#include <string.h>

namespace cli {

Flag* find(const FlagGroups& groups, const string& name) {
  for (const FlagGroup& group : groups)
    for (Flag* f : group.flags)
      if (f->name == name) return f;
  return nullptr;
}

static int unknown(const Command& c, const char* name) {
  for (const Command* const* other = kCommands; *other != nullptr; ++other)
    if ((*other)->has(name))
      return usage_error("%s: not a flag of %s (phasor %s --help lists them)", name, c.name,
                         c.name);
  return usage_error("%s: unknown flag (phasor %s --help lists them)", name, c.name);
}

int parse(const Command& c, const FlagGroups& groups, CommandLine* line, int argc, char** argv) {
  bool flags = true;
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
    const char* equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : nullptr;
    const string name(word, equals != nullptr ? equals : word + strlen(word));
    Flag* f = name == line->help.name ? &line->help : find(groups, name);
    if (f == nullptr) return unknown(c, name.c_str());
    if (f->takes[0] == 0 && equals != nullptr)
      return usage_error("%s: expected no value", name.c_str());
    const char* value = equals != nullptr ? equals + 1 : nullptr;
    const bool wanted = f->takes[0] != 0 && f->takes[0] != '[';
    if (wanted && value == nullptr && ++i < argc) value = argv[i];
    if (wanted && value == nullptr)
      return usage_error("%s: expected a value, %s", name.c_str(), f->takes);
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
