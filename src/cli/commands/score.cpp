// cli: `phasor score`. The log-probability of a text, whole or in windows, or of a target given a
// source; log-softmax in double, in vocabulary order.
#include <inttypes.h>
#include <string.h>

#include "../engine/engine.h"
#include "../engine/exponential.h"
#include "../io/json.h"
#include "../options/input.h"
#include "commands.h"

namespace cli {
namespace {

struct ScoreOptions : CommandLine, OpenOptions, MemoryOptions, TextOptions {
  Word target{"--target TEXT", "Encoder-decoder. Score this target; its end token is added."};
  Ids target_ids{"--target-ids IDS", "Score these target ids, without adding any."};
  Switch lines{kLines, kLinesHelp};
  Number stride{"--stride N",
                "Decoder. Score a text of any length in windows of --context tokens. Each window "
                "begins N tokens after the previous one."};
  Switch blocks{
      "--blocks",
      "Decoder. Score the second half of consecutive windows, as llama.cpp's perplexity does."};
  FlagGroups flags() {
    return {group("Input", ids, lines, target, target_ids, source_lang, target_lang, prompt,
                  prompt_text),
            group("Windows", stride, blocks), group("Output", json, quiet),
            group("Memory and speed", context, source, cache, threads, isa, load, check)};
  }
};

double log_probability(const float* logits, uint32_t vocabulary, uint32_t id) {
  double largest = 0;
  const double sum = log_sum(logits, vocabulary, &largest);
  return logits[id] - largest - sum;
}

struct Scored {
  double log_probability = 0;
  uint64_t tokens = 0;
};

// Steps over ids[0 … count − 1] of an empty sequence and scores those from `first` on (at least 1),
// each given all before it.
bool score_ids(Engine& e, const uint32_t* ids, size_t count, size_t first, Scored* out,
               string* why) {
  const uint32_t vocabulary = e.target.vocabulary;
  for (size_t done = 0; done + 1 < count;) {
    const bool silent = done + 1 < first;  // these rows' logits are for tokens that are only read
    const size_t left = (silent ? first : count) - 1 - done,
                 rows = silent ? left : min<size_t>(left, e.limits.logit_rows);
    if (!e.done(e.step(ids + done, rows, silent ? PHASOR_LOGITS_NONE : PHASOR_LOGITS_ALL), why))
      return false;
    for (uint32_t row = 0; row < rows && !silent; ++row) {
      const float* logits = phasor_logits(e.session, row);
      if (!all_finite(logits, vocabulary)) return *why = "a logit is not a number", false;
      out->log_probability += log_probability(logits, vocabulary, ids[done + row + 1]);
      ++out->tokens;
    }
    done += rows;
  }
  return true;
}

// One window of a text: ids[begin … end − 1], scored from ids[first] on.
bool score_window(Engine& e, const TokenIds& ids, size_t begin, size_t end, size_t first,
                  Scored* out, string* why) {
  (void)phasor_sequence_clear(e.session, 0);
  return score_ids(e, ids.data() + begin, end - begin, first - begin, out, why);
}

// Windows of --context tokens, `stride` apart. A token is scored in the first window that has it,
// but for a window's very first.
bool score_windows(Engine& e, const TokenIds& ids, uint32_t stride, size_t first, Scored* out,
                   string* why) {
  for (size_t begin = 0, scored = first; scored < ids.size(); begin += stride) {
    const size_t end = min(ids.size(), begin + e.limits.target);
    if (!score_window(e, ids, begin, end, max(scored, begin + 1), out, why)) return false;
    scored = end;
  }
  return true;
}

// As llama.cpp's perplexity: whole windows, one after the other; of each the second half is scored.
// A text that begins with the start token gives each window one, in place of its first.
bool score_blocks(Engine& e, TokenIds ids, Scored* out, string* why) {
  const size_t window = e.limits.target;
  if (ids.size() < window)
    return *why = format("%zu tokens, expected at least one window of %zu (--context)", ids.size(),
                         window),
           false;
  const bool starts = e.target.start != PHASOR_NONE && ids[0] == e.target.start;
  for (size_t begin = 0; begin + window <= ids.size(); begin += window) {
    if (starts) ids[begin] = e.target.start;
    if (!score_window(e, ids, begin, begin + window, begin + window / 2 + 1, out, why))
      return false;
  }
  return true;
}

// The decoder's ids: the prompt itself, or the start token and the given target; the first that is
// scored. A text stands behind the token that an output begins with, such as a language.
bool target_of(const Engine& e, const ScoreOptions& o, const TokenIds& ids, TokenIds* target,
               size_t* first, string* why) {
  *target = ids;
  *first = 1;
  if (e.has_source()) {
    TokenIds given = o.target_ids.values;
    if (o.target != nullptr) {
      if (!text_ids(e, PHASOR_TARGET, false, o.target.value, &given, why)) return false;
      if (e.target.end_count != 0) given.push_back(e.target.end[0]);
      if (e.target.forced_first != PHASOR_NONE) {
        given.insert(given.begin(), e.target.forced_first);
        *first = 2;
      }
    }
    target->assign(1, e.start_id());
    target->insert(target->end(), given.begin(), given.end());
  }
  if (target->size() <= *first)
    return *why = "nothing to score: expected at least two tokens (the first one has no score)",
           false;
  return known_ids(*target, e.target, why);
}

bool score_input(Engine& e, const ScoreOptions& o, const Input& input, Scored* out, string* why) {
  TokenIds ids = input.ids, target;
  size_t first = 1;
  *why = input.error;
  if (!why->empty()) return false;
  if (!input.is_ids && !e.hold_text(input.text.size(), why)) return false;
  if (!input.is_ids && !text_ids(e, e.input_side(), true, input.text, &ids, why)) return false;
  if (!target_of(e, o, ids, &target, &first, why)) return false;
  (void)phasor_sequence_clear(e.session, 0);
  if (e.has_source() && !e.done(e.encode(ids), why)) return false;
  if (o.blocks) return score_blocks(e, target, out, why);
  if (o.stride != 0) return score_windows(e, target, o.stride, first, out, why);
  if (target.size() - 1 <= e.limits.target)
    return score_ids(e, target.data(), target.size(), first, out, why);
  *why = no_room(target.size(), e.limits.target,
                 more_room(e, PHASOR_TARGET,
                           e.has_source() ? "" : "--stride scores a longer text in windows"));
  return false;
}

double perplexity(const Scored& s) { return exponential(-s.log_probability / double(s.tokens)); }

void print(const ScoreOptions& o, const Scored& s) {
  if (o.json)
    output(Json()
               .open('{')
               .add("log_probability", s.log_probability)
               .add("nll", -s.log_probability)
               .add("perplexity", perplexity(s))
               .add("tokens", s.tokens)
               .close('}')
               .str() +
           "\n");
  else
    output(format("log-probability %.6f, nll %.6f, perplexity %.6g, %" PRIu64 " tokens\n",
                  s.log_probability, -s.log_probability, perplexity(s), s.tokens));
}

int check_options(const Engine& e, const ScoreOptions& o) {
  const bool has_target = o.target != nullptr || o.target_ids.given;
  if (e.has_source() != has_target || (o.target != nullptr && o.target_ids.given))
    return usage_error(
        e.has_source()
            ? "score: expected one of --target and --target-ids, the model is an encoder-decoder"
            : "--target: for an encoder-decoder; this model is a decoder");
  if (e.has_source() && (o.stride != 0 || o.blocks || o.lines))
    return usage_error(
        "--stride, --blocks, --lines: for a decoder; this model is an encoder-decoder");
  if (o.stride != 0 && o.blocks) return usage_error("--stride, --blocks: expected one of them");
  return 0;
}

int score(const ScoreOptions& o) {
  Engine e;
  if (!e.open(o.model, o, Load::copy_if_faster)) return 1;
  if (const int wrong = e.fit(o)) return wrong;
  if (const int status = check_options(e, o)) return status;
  if (const int status = check_sides(e, o)) return status;
  if (const int status = e.choose(o, o.ids.given)) return status;
  phasor_limits limits = default_limits(e, o);
  if (o.stride > limits.target)
    return usage_error("--stride %" PRIu64 ": expected at most the window, %u (--context)",
                       o.stride.value, limits.target);
  limits.logit_rows = limits.chunk;
  make_text_room(&limits, longest_argument(o));
  make_text_room(&limits, o.target != nullptr ? strlen(o.target) : 0);
  // A text on standard input may be long: it is read before the arena is made.
  const bool one = e.stack == PHASOR_DECODER && !o.lines,
             whole = one && o.texts.empty() && !o.ids.given;
  Inputs inputs(o, one, LineReader::kLongest);
  Input input;
  bool there = inputs.next(&input);
  if (whole) make_text_room(&limits, input.text.size());
  if (!e.start(limits)) return 1;
  int status = 0;
  Scored total;
  uint64_t number = 0;
  const double start = now();
  for (; there && e.going_on(); there = inputs.next(&input)) {
    Scored scored;
    string why;
    if (score_input(e, o, input, &scored, &why)) {
      print(o, scored);
      total.log_probability += scored.log_probability;
      total.tokens += scored.tokens;
      ++number;
    } else {
      status = data_error("%s: %s", input.where.c_str(), why.c_str());
      output("\n");
    }
    output_flush();
  }
  if (inputs.failed() || !e.going_on()) return 1;
  if (status == 0 && !o.quiet && number != 0) {
    print_figures(e, "text", number, total.tokens, now() - start);
    if (number > 1)
      note("in all: nll %.6f, perplexity %.6g, %s tokens", -total.log_probability,
           perplexity(total), grouped(total.tokens).c_str());
  }
  return status;
}

}  // namespace

const Command score_command = command<ScoreOptions, score>(
    "score", "MODEL [TEXT...]", "compute the log-probability and perplexity of texts",
    "Prints one line for each TEXT or line: natural logarithm of the probability, perplexity, "
    "number of tokens. For a decoder, standard input is one text; with --lines, each line is a "
    "text. --stride and --blocks score a text of any length.",
    "phasor score language.phasor \"A cat sits on the mat.\"\n"
    "phasor score language.phasor --context 512 --stride 256 < text.txt\n"
    "phasor score translator.phasor \"A cat.\" --target \"Eine Katze.\"",
    no_generator);

}  // namespace cli
