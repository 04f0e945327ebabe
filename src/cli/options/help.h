// cli: what --help prints, within 100 columns.
#pragma once
#include "command.h"

namespace cli {

// The commands, and what goes for all of them.
void print_help();
// One command: what it does, examples, its flags in their groups.
void print_help(const Command& command, const FlagGroups& groups, const CommandLine& line);

}  // namespace cli
