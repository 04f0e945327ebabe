// cli: a command: its words for the help, and its function with the struct of its options.
#pragma once
#include "../../../include/phasor.h"
#include "flag.h"

namespace cli {

constexpr const char* kHelp = "-h";  // --help too
// A switch of several commands.
constexpr const char* kLines = "--lines";
constexpr const char* kLinesHelp =
    "Decoder. Each line of standard input is a text. Default: all lines are one text.";

struct Command;

// What all commands have of the command line, and flags that most of them take.
struct CommandLine {
  const Command* command = nullptr;
  const char* model = nullptr;
  vector<const char*> texts;
  InputIds ids{"--ids IDS",
               "Token ids instead of text, as 1,2,3. No ids are added. -: read one list per line "
               "of standard input."};
  Switch pair{"--pair", "Each text is a pair with a tab between the two texts."};
  Switch json{"--json", "Print results and figures as JSON."};
  Switch quiet{"--quiet",
               "Print no figures on standard error. verify: only the verdict. quantize: nothing."};
  Switch print_ids{"--print-ids", "Print token ids, separated by commas, instead of text."};
  Switch help{"--help", "Show this help."};
};

struct Command {
  const char* name;
  const char* arguments;  // "MODEL": nothing more; with OUT: a file to write
  const char* summary;
  const char* more;      // of its own help
  const char* examples;  // a line each
  // Why a model is none for it, in words for a line behind the file's name; NULL where it is one. A
  // command without the function is for every model.
  const char* (*unfit)(const phasor_model* model);
  // Returns the exit status: 0 done, 1 the model or the data is bad, 2 the command line. NULL: the
  // command is not in this build.
  int (*run)(const Command& command, int argc, char** argv);
  bool (*has)(const string& flag);
};

// The whole program's, in the order of its help; NULL is last.
extern const Command* const kCommands[];

// The command of that name, or NULL.
const Command* find_command(const string& name);

// The flag of that name, or NULL.
Flag* find(const FlagGroups& groups, const string& name);

// Reads what stands after the command. 0, or 2 after a line on standard error.
int parse(const Command& command, const FlagGroups& groups, CommandLine* line, int argc,
          char** argv);

// The same, and what goes before the command's function: its help is printed, files that are
// written have places of their own. False: it is over, with *status.
bool begin(const Command& command, const FlagGroups& groups, CommandLine* line, int argc,
           char** argv, int* status);

// The function of a command that is a class.
template <class Class, class Options>
int run_as(const Options& options) {
  return Class(options).run();
}

// Command::run of a function.
template <class Options, int (*Function)(const Options&)>
int run_with(const Command& self, int argc, char** argv) {
  Options options;
  int status = 0;
  return begin(self, options.flags(), &options, argc, argv, &status) ? Function(options) : status;
}

// A command whose options are that struct: a CommandLine whose flags() are in the order of the
// help.
template <class Options, int (*Function)(const Options&)>
constexpr Command command(const char* name, const char* arguments, const char* summary,
                          const char* more, const char* examples,
                          const char* (*unfit)(const phasor_model*) = nullptr,
                          bool in_build = true) {
  return {name,
          arguments,
          summary,
          more,
          examples,
          unfit,
          in_build ? &run_with<Options, Function> : nullptr,
          [](const string& flag) { return find(Options().flags(), flag) != nullptr; }};
}

}  // namespace cli
