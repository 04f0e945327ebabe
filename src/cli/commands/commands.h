// cli: the commands in the order of `phasor --help`. A command is a row here and a file of its name
// in this folder, which defines NAME_command.
#pragma once
#include "../options/command.h"

#define PHASOR_COMMANDS(ROW) \
  ROW(run)                   \
  ROW(embed)                 \
  ROW(fill)                  \
  ROW(classify)              \
  ROW(tag)                   \
  ROW(answer)                \
  ROW(rank)                  \
  ROW(chat)                  \
  ROW(tokenize)              \
  ROW(inspect)               \
  ROW(verify)                \
  ROW(score)                 \
  ROW(bench)                 \
  ROW(quantize)

namespace cli {

#define PHASOR_DECLARE(name) extern const Command name##_command;
PHASOR_COMMANDS(PHASOR_DECLARE)

}  // namespace cli
