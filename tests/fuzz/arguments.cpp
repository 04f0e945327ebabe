// A command line of any words: what is refused is one line and exit status 2; what is taken has
// values within their ranges and prints nothing.
#include <algorithm>
#include <cmath>

#include "capture.h"
#include "cli/options/args.h"

namespace fuzz {
namespace {

struct Named {
  cli::Command command;
  const char* name;
};
constexpr Named kCommands[] = {
    {cli::kRun, "run"},       {cli::kTokenize, "tokenize"}, {cli::kInspect, "inspect"},
    {cli::kVerify, "verify"}, {cli::kScore, "score"},       {cli::kBench, "bench"},
    {cli::kEmbed, "embed"},   {cli::kFill, "fill"},         {cli::kClassify, "classify"},
    {cli::kChat, "chat"},     {cli::kQuantize, "quantize"}, {cli::kRank, "rank"},
    {cli::kTag, "tag"},       {cli::kAnswer, "answer"}};

void demand_ids(const cli::TokenIds& ids) {
  for (const uint32_t id : ids) demand(id != PHASOR_NONE, "a token id that stands for none");
  cli::TokenIds again;
  demand(cli::parse_ids(cli::join(ids).c_str(), &again) && again == ids,
         "ids are printed as other ids");
}

void demand_ranges(const cli::Options& o) {
  const std::pair<const cli::Real*, float> reals[] = {{&o.temperature, 1000.0f},
                                                      {&o.top_p, 1.0f},
                                                      {&o.min_p, 1.0f},
                                                      {&o.typical, 1.0f},
                                                      {&o.repeat_penalty, 100.0f},
                                                      {&o.presence_penalty, 100.0f},
                                                      {&o.frequency_penalty, 100.0f},
                                                      {&o.length_penalty, 4.0f}};
  for (const auto& real : reals)
    demand(std::fabs(real.first->value) <= real.second, "a number out of its range");
  const std::pair<const cli::Number*, uint64_t> numbers[] = {{&o.threads, 64},
                                                             {&o.beam, 256},
                                                             {&o.n_best, 256},
                                                             {&o.samples, 256},
                                                             {&o.batch, 4096},
                                                             {&o.lookahead, 64},
                                                             {&o.chunk, 1 << 16},
                                                             {&o.n, 1 << 24},
                                                             {&o.context, 1 << 24},
                                                             {&o.source, 1 << 24},
                                                             {&o.dim, 1 << 16},
                                                             {&o.top, 1 << 20},
                                                             {&o.max_answer, 1 << 24},
                                                             {&o.cache, 2},
                                                             {&o.pooling, 2},
                                                             {&o.early_stopping, 2},
                                                             {&o.renormalize, 1},
                                                             {&o.tables, 1},
                                                             {&o.emit, 2},
                                                             {&o.ram, uint64_t{1} << 60},
                                                             {&o.flash, uint64_t{1} << 60}};
  for (const auto& number : numbers)
    demand(number.first->value <= number.second, "a whole number out of its range");
  for (const cli::Ids* ids :
       {&o.ids, &o.prefix_ids, &o.target_ids, &o.segments, &o.suppress, &o.end})
    demand_ids(ids->values);
}

}  // namespace

void run_arguments(const uint8_t* data, size_t size) {
  if (size == 0) return;
  const Named& named = kCommands[data[0] % (sizeof kCommands / sizeof *kCommands)];
  // words that end with a zero, as a system gives them
  const Block text(data + 1, size - 1);
  std::string all(text.as<char>(), text.size());
  all.push_back(0);
  std::vector<char*> words;
  for (size_t at = 0; at < all.size() && words.size() < 64; at += std::strlen(&all[at]) + 1)
    words.push_back(&all[at]);
  words.push_back(nullptr);
  cli::Options options{};
  const Printed printed;
  const int status = cli::parse(&options, named.command, named.name,
                                static_cast<int>(words.size() - 1), words.data());
  demand(status == 0 || status == 2, "an exit status that is none of a command line");
  if (status != 0) return printed.demand_one_line();
  printed.demand_nothing();
  demand(options.help || options.model != nullptr, "a command without a model");
  demand_ranges(options);
}

}  // namespace fuzz
