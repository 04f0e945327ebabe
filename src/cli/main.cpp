// cli: the program. Everything that it does goes through include/phasor.h.
#include <string.h>

#include "../../include/phasor.h"
#include "commands/commands.h"
#include "io/file.h"

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

void print_help() {
  output(
      "phasor COMMAND MODEL [ARGUMENTS]: a Transformer from one flat file, in one block of "
      "memory\n\n");
  for (const Command* const* c = kCommands; *c != nullptr; ++c)
    if ((*c)->run != nullptr)
      output(format("  %-9s %-18s %s\n", (*c)->name, (*c)->arguments, (*c)->summary));
  output(
      "\nphasor COMMAND --help has a command's flags; phasor --version the version and the "
      "instruction sets that run here.\n"
      "Exit status: 0 done, 1 the model or the data is bad, 2 the command line is wrong.\n");
}

int dispatch(int argc, char** argv) {
  if (argc < 2) return usage_error("expected a command (phasor --help lists them)");
  const char* name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
    return print_help(), 0;
  if (strcmp(name, "--version") == 0) return print_version(), 0;
  for (const Command* const* c = kCommands; *c != nullptr; ++c) {
    if (strcmp((*c)->name, name) != 0) continue;
    if ((*c)->run == nullptr) return usage_error("%s: not in this build (PHASOR_ONLY)", name);
    const int status = (*c)->run(**c, argc - 2, argv + 2);
    return status == 0 && file_has_changed() ? 1 : status;
  }
  return usage_error("%s: unknown command (phasor --help lists them)", name);
}

}  // namespace
}  // namespace cli

int main(int argc, char** argv) {
  cli::prepare_process();
  phasor_request_amx();
  const int status = cli::dispatch(argc, argv);
  return cli::output_close() || status != 0 ? status : 1;
}
