// A command line of any words: what is refused is one line and exit status 2; what is taken has
// values within their ranges and prints nothing.
#include <algorithm>
#include <cstring>

#include "capture.h"
#include "cli/commands/commands.h"

namespace cli {

#define PHASOR_POINTER(name) &name##_command,
const Command* const kCommands[] = {PHASOR_COMMANDS(PHASOR_POINTER) nullptr};
#undef PHASOR_POINTER

}  // namespace cli

namespace fuzz {
namespace {

void demand_ids(const cli::TokenIds& ids) {
  for (const uint32_t id : ids) demand(id != PHASOR_NONE, "a token id that stands for none");
  cli::TokenIds again;
  demand(cli::parse_ids(cli::join(ids).c_str(), &again) && again == ids,
         "ids are printed as other ids");
}

// A value that was given is one that its flag allows.
void demand_range(const cli::Flag& f) {
  const std::string takes = f.takes;
  const auto within = [](double value, double least, double most) {
    return value >= least && (most == 0 || value <= most);
  };
  if (f.given == nullptr) return;
  if (takes.find('|') != std::string::npos) {
    const uint64_t value = static_cast<const cli::Choice&>(f).value;
    demand(value <= static_cast<uint64_t>(std::count(takes.begin(), takes.end(), '|')),
           "a choice that there is not");
  } else if (takes == "N" || takes == "[=N]" || takes == "SIZE") {
    const auto& number = static_cast<const cli::Number&>(f);
    demand(within(static_cast<double>(number.value), number.least,
                  number.most * (takes == "SIZE" ? 1 << 20 : 1)),
           "a whole number out of its range");
  } else if (takes == "X") {
    const auto& real = static_cast<const cli::Real&>(f);
    demand(within(real.value, real.least, real.most) && !(real.above && real.value == real.least),
           "a number out of its range");
  } else if (takes == "IDS" && f.name != "--bad-words") {
    demand_ids(static_cast<const cli::Ids&>(f).values);
  }
}

}  // namespace

void run_arguments(const uint8_t* data, size_t size) {
  if (size == 0) return;
  constexpr size_t kCount = sizeof cli::kCommands / sizeof *cli::kCommands - 1;
  const cli::Command& command = *cli::kCommands[data[0] % kCount];
  // words that end with a zero, as a system gives them
  const Block text(data + 1, size - 1);
  std::string all(text.as<char>(), text.size());
  all.push_back(0);
  std::vector<char*> words;
  for (size_t at = 0; at < all.size() && words.size() < 64; at += std::strlen(&all[at]) + 1)
    words.push_back(&all[at]);
  words.push_back(nullptr);
  const Printed printed;
  const int status = command.run(command, static_cast<int>(words.size() - 1), words.data());
  demand(status == 0 || status == 2, "an exit status that is none of a command line");
  if (status != 0) return printed.demand_one_line();
  printed.demand_nothing();
}

}  // namespace fuzz

namespace cli {

// The command line is read and looked at; the command itself does not run.
bool begin(const Command& command, const FlagGroups& groups, CommandLine* line, int argc,
           char** argv, int* status) {
  *status = parse(command, groups, line, argc, argv);
  if (*status != 0) return false;
  fuzz::demand(line->help || line->model != nullptr, "a command without a model");
  for (const FlagGroup& group : groups)
    for (const Flag* f : group.flags) fuzz::demand_range(*f);
  return false;
}

}  // namespace cli
