// cli: the program's commands, and which function each is. Everything the program does goes through
// include/phasor.h.
#include <stdio.h>
#include <string.h>

#include "../../include/phasor.h"
#include "commands/commands.h"
#include "io/file.h"
#include "io/text.h"

namespace {

using namespace cli;

struct Entry {
  const char* name;
  const char* arguments;
  const char* summary;
  const char* more;  // of its own help
  Command command;
  int (*function)(const Options&);  // NULL: the build leaves out what it needs
};

#ifdef PHASOR_WITHOUT_OUTPUTS  // the word `outputs` is not among those of PHASOR_ONLY
constexpr bool kHasOutputs = false;
#else
constexpr bool kHasOutputs = true;
#endif

constexpr Entry kCommands[] = {
    {"run", "MODEL [TEXT...]", "decoder: continues the text; encoder-decoder: transforms each line",
     "Each TEXT is a line; without one, standard input is read: line by line for an "
     "encoder-decoder, whole for a decoder.\n"
     "One line of output a line of input, an empty one for an empty or a bad line. Greedy unless "
     "told otherwise. --logits, --hidden and --attention\n"
     "take one line of input; docs/cli.md says what the files hold.",
     kRun, run},
    {"embed", "MODEL [TEXT...]", "encoder: one vector a line",
     "Each TEXT, or each line of standard input: its pooled vector, values separated by spaces.",
     kEmbed, kHasOutputs ? embed : nullptr},
    {"fill", "MODEL [TEXT...]", "masked language model: the best tokens for each mask",
     "For each mask in the text: place, id, piece, probability, a line each, best first; an empty "
     "line after each text.",
     kFill, kHasOutputs ? fill : nullptr},
    {"classify", "MODEL [TEXT...]", "labels with scores",
     "A line for each text: label and score, best first. A model that labels tokens gives a line "
     "for each token, and an empty one after each text.",
     kClassify, kHasOutputs ? classify : nullptr},
    {"tag", "MODEL [TEXT...]", "what the labels of tokens name: label, score, place and text",
     "A line for each stretch of tokens of one label: label, score, first character, the one "
     "behind "
     "the last, text; an empty line after each text.",
     kTag, kHasOutputs ? tag : nullptr},
    {"answer", "MODEL QUESTION [TEXT...]", "the stretch of a text that answers a question",
     "In each TEXT, or each line of standard input, the model marks where the answer begins and "
     "ends: score, first character, the one behind the\nlast, text; an empty line after each text.",
     kAnswer, kHasOutputs ? answer : nullptr},
    {"rank", "MODEL QUERY [TEXT...]", "texts by how well they answer a query, best first",
     "The model scores the query with each TEXT, or each line of standard input (a cross-encoder; "
     "--late: ColBERT): score, line and text, best first.",
     kRank, kHasOutputs ? rank : nullptr},
    {"chat", "MODEL", "a conversation, with the model's own template",
     "Each line of standard input is a message, each answer ends with an empty line. Tokens are "
     "chosen as the file recommends, and greedily where\n"
     "it says nothing. /reset forgets the conversation, /quit ends. A full context loses its "
     "oldest messages, but not the system message.",
     kChat, chat},
    {"tokenize", "MODEL [TEXT...]", "ids and pieces; --decode back",
     "Each TEXT, or each line of standard input: its ids, with the tokens that the model puts "
     "around a text, and their pieces.",
     kTokenize, tokenize},
    {"inspect", "MODEL", "the descriptor, tensors, sizes, and the arena, part by part", "",
     kInspect, inspect},
    {"verify", "MODEL", "structure, checksums, finite weights, and the file's own test vectors",
     "Exit status 1 when the file is damaged or a test vector gives something else.", kVerify,
     verify},
    {"score", "MODEL [TEXT...]",
     "log-probability and perplexity of text; of a target given a source",
     "A line of output for each TEXT or line: the natural logarithm of the probability, the "
     "perplexity, the tokens scored. A decoder's standard\n"
     "input is one text; --stride and --blocks score one of any length.",
     kScore, score},
    {"bench", "MODEL",
     "encoder, prefill and decode: tokens/s, their share of what this machine can do, memory, "
     "start-up",
     "Measures this machine's read bandwidth and peak arithmetic itself; asks the system to forget "
     "the file's pages, for a cold start.",
     kBench, bench},
    {"quantize", "IN OUT --type TYPE", "another type of the same model",
     "The bytes that the converter writes with that --type. What is quantized already becomes f32 "
     "and nothing else. OUT is written whole or not at all.",
     kQuantize, quantize},
};

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
  for (const Entry& e : kCommands)
    if (e.function != nullptr) output(format("  %-9s %-18s %s\n", e.name, e.arguments, e.summary));
  output(
      "\nphasor COMMAND --help has a command's flags; phasor --version the version and the "
      "instruction sets that run here.\n"
      "Exit status: 0 done, 1 the model or the data is bad, 2 the command line is wrong.\n");
}

void print_command_help(const Entry& e) {
  output(format("phasor %s %s: %s\n", e.name, e.arguments, e.summary));
  if (e.more[0] != 0) output(format("%s\n", e.more));
  output("\n");
  print_flags(e.command);
}

int dispatch(int argc, char** argv) {
  if (argc < 2) return usage_error("expected a command (phasor --help lists them)");
  const char* name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
    return print_help(), 0;
  if (strcmp(name, "--version") == 0) return print_version(), 0;
  for (const Entry& e : kCommands) {
    if (strcmp(e.name, name) != 0) continue;
    if (e.function == nullptr) return usage_error("%s: not in this build (PHASOR_ONLY)", name);
    Options options{};
    const int status = parse(&options, e.command, name, argc - 2, argv + 2);
    if (status != 0) return status;
    if (options.help) return print_command_help(e), 0;
    if (!check_places(options, e.command)) return 1;
    const int done = e.function(options);
    return done == 0 && file_has_changed() ? 1 : done;
  }
  return usage_error("%s: unknown command (phasor --help lists them)", name);
}

}  // namespace

int main(int argc, char** argv) {
  prepare_process();
  phasor_request_amx();
  const int status = dispatch(argc, argv);
  return output_close() || status != 0 ? status : 1;
}
