// cli: the program. Everything that it does goes through include/phasor.h.
#include <string.h>

#include "../../include/phasor.h"
#include "commands/commands.h"
#include "io/file.h"
#include "options/help.h"
#include "options/nearest.h"

namespace cli {

#define PHASOR_POINTER(name) &name##_command,
const Command* const kCommands[] = {PHASOR_COMMANDS(PHASOR_POINTER) nullptr};

namespace {

void print_version() {
  const uint32_t v = phasor_version();
  output(format("phasor %u.%u.%u, numerics %u, format %u, levels", v >> 16, v >> 8 & 255, v & 255,
                phasor_numerics(), phasor_format_max()));
  for (uint32_t i = 0; phasor_isa_name(i) != nullptr; ++i)
    output(format(" %s", phasor_isa_name(i)));
  output("\n");
}

int unknown(const char* name) {
  Nearest nearest(name);
  for (const Command* const* c = kCommands; *c != nullptr; ++c) nearest.see((*c)->name);
  nearest.see("help");
  nearest.see("version");
  return usage_error("%s: unknown command%s (phasor --help lists them)", name,
                     nearest.hint().c_str());
}

int dispatch(int argc, char** argv) {
  if (argc < 2) return usage_error("expected a command (phasor --help lists them)");
  const string word = argv[1];
  if (word == "version" || word == "--version") return print_version(), 0;
  // `help COMMAND` is `COMMAND --help`
  const bool help = word == "help" || word == "--help" || word == kHelp;
  if (help && (argc < 3 || argv[2][0] == '-')) return print_help(), 0;
  const char* name = argv[help ? 2 : 1];
  if (help && (strcmp(name, "help") == 0 || strcmp(name, "version") == 0))
    return print_help(), 0;
  const Command* c = find_command(name);
  if (c == nullptr) return unknown(name);
  if (c->run == nullptr) return usage_error("%s: not in this build (PHASOR_ONLY)", name);
  char flag[] = "--help";
  char* only[] = {flag};
  const int status = help ? c->run(*c, 1, only) : c->run(*c, argc - 2, argv + 2);
  return status == 0 && file_has_changed() ? 1 : status;
}

}  // namespace
}  // namespace cli

int main(int argc, char** argv) {
  cli::prepare_process();
  phasor_request_amx();
  const int status = cli::dispatch(argc, argv);
  return cli::output_close() || status != 0 ? status : 1;
}
