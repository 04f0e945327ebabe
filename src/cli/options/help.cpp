#include "help.h"

#include <string.h>

namespace cli {
namespace {

constexpr size_t kColumns = 100, kFlag = 25, kName = 9, kArguments = 25;

size_t columns_of(const string& text) {
  size_t count = 0;
  for (const char c : text) count += (c & 0xC0) != 0x80 ? 1 : 0;
  return count;
}

// `first`, then the text from column `indent` on, in as many lines as it needs.
string wrapped(const string& first, size_t indent, const string& text) {
  string out, line = first;
  size_t column = columns_of(first);
  const auto next_line = [&] {
    out += line + "\n";
    line = "";
    column = 0;
  };
  const auto go_to = [&](size_t to) {
    line.append(to - min(to, column), ' ');
    column = max(column, to);
  };
  if (column + 2 > indent && column != 0) next_line();
  go_to(indent);
  for (size_t from = 0, end = 0; from < text.size(); from = end + 1) {
    end = min(text.find(' ', from), text.size());
    const string word = text.substr(from, end - from);
    if (column != indent && column + 1 + columns_of(word) > kColumns) next_line(), go_to(indent);
    if (column != indent) line += ' ', ++column;
    line += word;
    column += columns_of(word);
  }
  return out + line + "\n";
}

void print_flag(const string& spec, const char* help) {
  output(wrapped("  " + spec, 2 + kFlag + 2, help));
}

void print_row(const char* name, const char* arguments, const char* summary) {
  const string first = format("  %-*s %s", int(kName), name, arguments);
  output(wrapped(first, 2 + kName + 1 + kArguments + 2, summary));
}

// Lines of a text, as commands.
void print_examples(const char* lines) {
  for (const char* at = lines; *at != 0;) {
    const size_t length = strcspn(at, "\n");
    output("  $ " + string(at, length) + "\n");
    at += length + (at[length] != 0 ? 1 : 0);
  }
}

}  // namespace

void print_help() {
  output("phasor COMMAND MODEL [ARGUMENTS]: run Transformer models\n\n");
  for (const Command* const* c = kCommands; *c != nullptr; ++c)
    if ((*c)->run != nullptr) print_row((*c)->name, (*c)->arguments, (*c)->summary);
  print_row("help", "[COMMAND]", "show the flags of a command, with examples");
  print_row("version", "", "show the version and the instruction sets that run here");
  output("\nExamples\n");
  print_examples(
      "phasor run translator.phasor \"A cat sits on the mat.\"\n"
      "phasor chat language.phasor\n"
      "phasor help run");
  output("\nExit status: 0 success, 1 invalid model or data, 2 invalid command line.\n");
}

void print_help(const Command& c, const FlagGroups& groups, const CommandLine& line) {
  output(wrapped("", 0, format("phasor %s %s: %s", c.name, c.arguments, c.summary)));
  if (c.more[0] != 0) output(wrapped("", 0, c.more));
  output("\nExamples\n");
  print_examples(c.examples);
  for (const FlagGroup& group : groups) {
    output(format("\n%s\n", group.title));
    for (const Flag* f : group.flags) print_flag(f->spec, f->help);
  }
  output("\n");
  print_flag(string(kHelp) + ", " + line.help.spec, line.help.help);
}

}  // namespace cli
