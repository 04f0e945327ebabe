// cli: `phasor run`. Generation for each input, greedy unless told otherwise.
#include <string.h>
#include <unistd.h>

#include "../engine/vectors.h"
#include "../generation/runner.h"
#include "../generation/sampling.h"
#include "../io/npy.h"
#include "commands.h"

namespace cli {
namespace {

// Without --batch: lines side by side, and bytes of the arena that has room for them.
constexpr uint32_t kMostLines = 16;
constexpr size_t kMostBytes = size_t{256} << 20;

}  // namespace

int Runner::run() {
  if (const int wrong = check_generation(o)) return wrong;
  if (const int wrong = check_beams(o)) return wrong;
  if (const int wrong = aligner.check_flags()) return wrong;
  if (const int wrong = check_batch()) return wrong;
  if (const char* needs = first_given(o.shortlist_first, o.shortlist_best);
      needs != nullptr && o.shortlist == nullptr)
    return usage_error("%s: needs --shortlist", needs);
  if (!e.open(o.model, o)) return 1;
  if (const int wrong = e.fit(o)) return wrong;
  if (const int wrong = check_options()) return wrong;
  if (const int wrong = aligner.check()) return wrong;
  if (const int wrong = e.choose(o, o.ids.given)) return wrong;
  if (!load_shortlist() || !load_states() || !capture.open(o) || !start() || !make_prefix() ||
      !generate_options(o, e, &end_ids, &options))
    return 1;
  if (o.save_state != nullptr && !state.open(o.save_state)) return 1;
  options.forced = prefix_.data();
  options.forced_count = count_of(prefix_);
  capacity = options.max_new != 0 && (options.max_new < e.limits.target || o.keep.given)
                 ? options.max_new
                 : e.limits.target;
  if (!has_room_for_prefix()) return 1;
  if (options.temperature > 0) seed = first_seed(o, o.quiet);
  Inputs inputs(o, e.stack == PHASOR_DECODER && !o.lines, LineReader::kLongest, o.embeddings.given);
  if (batch > 1)
    side_by_side(this, &inputs);
  else if (const int wrong = in_turn(this, &inputs))
    return wrong;
  progress("");
  if (inputs.failed() || !e.going_on()) return 1;
  if (status == 0 && !o.quiet) figures();
  return status;
}

int Runner::check_options() const {
  if (o.prefix != nullptr && o.prefix_ids.given)
    return usage_error("--prefix: expected either --prefix or --prefix-ids, not both");
  if (o.hidden_decoder != nullptr && e.stack == PHASOR_DECODER)
    return usage_error(
        "--hidden-decoder: for an encoder-decoder; this model is a decoder, --hidden has its "
        "residuals");
  if ((o.save_state != nullptr || o.load_state != nullptr) && e.has_source())
    return usage_error(
        "--save-state, --load-state: for a decoder; this model is an encoder-decoder");
  if (o.arrays() && (o.keep.given || o.load_state != nullptr))
    return usage_error(
        "--keep, --load-state: the arrays of --logits, --hidden and --attention cover one whole "
        "context");
  if (const char* flag = first_given(o.embeddings, o.shortlist, o.coverage_penalty);
      (flag != nullptr || o.split != 0) && !e.has_source())
    return usage_error("%s: for an encoder-decoder; this model is a decoder",
                       o.split != 0 ? o.split.given : flag);
  if (o.shortlist != nullptr && (!e.source.has_tokenizer || !e.target.has_tokenizer))
    return usage_error("--shortlist: its tokens are pieces of tokenizers, the model has none");
  if (o.lines && e.has_source())
    return usage_error("--lines: for a decoder; this model reads lines anyway");
  return check_sides(e, o);
}

// What does not go with lines side by side, or nullptr.
const char* Runner::alone() const {
  return o.arrays() ? kArrays
                    : first_given(o.keep, o.lookahead, o.save_state, o.load_state, o.embeddings);
}

int Runner::check_batch() const {
  if (o.samples != 0 && (o.arrays() || o.save_state != nullptr))
    return usage_error("%s: does not go with --samples", o.arrays() ? kArrays : o.save_state.given);
  if (o.split != 0) {
    const char* flag = o.arrays() ? kArrays : first_given(o.ids, o.n_best, o.samples);
    if (flag != nullptr) return usage_error("%s: does not go with --split", flag);
  }
  if (o.embeddings != nullptr) {
    const char* flag = !o.texts.empty()
                           ? "a text"
                           : first_given(o.ids, o.hidden, o.split, o.align, o.shortlist, o.source,
                                         o.source_lang, o.prompt, o.prompt_text);
    if (flag != nullptr) return usage_error("%s: does not go with --embeddings", flag);
  }
  if (o.batch < 2) return 0;
  const char* flag = alone();
  return flag != nullptr ? usage_error("%s: does not go with --batch", flag) : 0;
}

Pieces Runner::pieces_of(uint32_t side, uint32_t vocabulary) const {
  vector<string> pieces;
  for (uint32_t id = 0; id < vocabulary; ++id) pieces.push_back(piece_text(e, side, id));
  return Pieces(pieces);
}

// False after an error, which has been printed.
bool Runner::load_shortlist() {
  if (o.shortlist == nullptr) return true;
  ReadFile file;
  if (!file.open(o.shortlist, Load::copy, "a shortlist")) return false;
  const Pieces source = pieces_of(PHASOR_SOURCE, e.source.vocabulary),
               target = pieces_of(PHASOR_TARGET, e.target.vocabulary);
  ShortlistShape shape;
  shape.first = o.shortlist_first;
  shape.best = o.shortlist_best;
  shape.shared = source == target;
  string why;
  if (!shortlist_.parse(static_cast<const char*>(file.data()), file.bytes(), source, target, shape,
                        &why))
    return data_error("%s: %s", o.shortlist.value, why.c_str()), false;
  if (shortlist_.unknown() != 0 && !o.quiet)
    note("%s: %s of %s tokens are not the model's", o.shortlist.value,
         grouped(shortlist_.unknown()).c_str(), grouped(shortlist_.pieces()).c_str());
  shortlist_.always(e.target.end, e.target.end_count);
  shortlist_.always(o.end.values.data(), o.end.values.size());
  const uint32_t more[] = {e.target.unknown, e.target.start};
  for (const uint32_t id : more)
    if (id != PHASOR_NONE) shortlist_.always(&id, 1);
  return true;
}

// The array of --embeddings. False after an error, which has been printed.
bool Runner::load_states() {
  const bool vectors = e.has_source() && vector_width(e) != 0;
  if (o.embeddings == nullptr && vectors)
    return data_error("%s: reads vectors and no text. TRY: --embeddings FILE", e.path), false;
  if (o.embeddings == nullptr) return true;
  if (vectors) {
    Vectors given;
    if (!given.read(e, o.embeddings)) return false;
    if (given.sequences() != 1)
      return data_error("%s: %zu sequences, run takes one", o.embeddings.value, given.sequences()),
             false;
    e.states = given.rows(0);
    e.places = given.places();
    return true;
  }
  vector<size_t> shape;
  if (!read_rows(o.embeddings, &e.states, &shape)) return false;
  const size_t width = e.source.width, most = e.source.max_positions;
  if (shape.size() != 2 || shape[1] != width || shape[0] == 0)
    return data_error("%s: expected an array of (positions, %zu), an encoder's output",
                      o.embeddings.value, width),
           false;
  if (most != 0 && shape[0] > most)
    return data_error("%s: %zu positions, the model has %zu", o.embeddings.value, shape[0], most),
           false;
  for (size_t i = 0; i < e.states.size(); ++i)
    if (!all_finite(&e.states[i], 1))
      return data_error("%s: position %zu has a value that is not finite", o.embeddings.value,
                        i / width),
             false;
  return true;
}

phasor_limits Runner::limits_for(uint32_t lines) const {
  phasor_limits limits = default_limits(e, o);
  if (o.embeddings != nullptr) limits.source = e.source_count({});
  make_room_for_ids(&limits, e, o, o.ids.values);
  make_text_room(&limits, longest_argument(o));
  make_text_room(&limits, o.prefix != nullptr ? strlen(o.prefix) : 0);
  for (const char* stop : o.stop.values) make_text_room(&limits, strlen(stop));
  if (capture.wants_attention() || aligner.wanted()) limits.outputs |= PHASOR_WANT_ATTENTION;
  room_for_generation(o, e, beams.wanted(), o.arrays(), &limits);
  if (o.arrays()) limits.logit_rows = max(limits.logit_rows, limits.chunk);  // capture's
  if (lines > 1) {
    limits.sequences = lines + (aligner.wanted() ? 1 : 0);  // the last one to look again
    limits.searches = beams.wanted() ? lines : 0;
    (limits.best_rows != 0 ? limits.best_rows : limits.logit_rows) = lines;
    const uint32_t rows = lines * max(limits.beams, 1u);
    limits.chunk = max(limits.chunk, min(rows, 64u));
  }
  if (o.coverage_penalty.value > 0) limits.outputs |= PHASOR_WANT_COVERAGE;
  if (o.shortlist != nullptr) limits.outputs |= PHASOR_WANT_SHORTLIST;
  return limits;
}

// Lines of standard input, where nobody sits who waits for the next word: as many as kMostLines
// whose arena has at most kMostBytes, and for which there is memory.
uint32_t Runner::choose_batch() const {
  if (o.batch != 0) return o.batch;
  const bool lines =
      o.ids.from_input || (o.texts.empty() && !o.ids.given && (e.has_source() || o.lines));
  if (!lines || alone() != nullptr || isatty(STDIN_FILENO) == 1 || isatty(STDOUT_FILENO) == 1)
    return 1;
  uint32_t most = 1, too_many = kMostLines + 1;
  while (too_many - most > 1) {
    const uint32_t tried = most + (too_many - most) / 2;
    const phasor_limits limits = limits_for(tried);
    size_t need = 0;
    Block arena;
    const bool fits = phasor_session_size(&need, e.model, &limits, &e.error) == PHASOR_OK &&
                      need <= kMostBytes && arena.allocate(need);
    (fits ? most : too_many) = tried;
  }
  return most;
}

bool Runner::start() {
  batch = choose_batch();
  if (!e.start(limits_for(batch))) return false;
  if (o.shortlist != nullptr) e.use(&shortlist_);
  return true;
}

bool Runner::make_prefix() {
  string why;
  prefix_ = o.prefix_ids.values;
  if (o.prefix != nullptr && !text_ids(e, PHASOR_TARGET, false, o.prefix.value, &prefix_, &why))
    return data_error("--prefix: %s", why.c_str()), false;
  // a text has not the token that an output begins with, such as a language
  if (!prefix_.empty() && o.prefix != nullptr && e.target.forced_first != PHASOR_NONE)
    prefix_.insert(prefix_.begin(), e.target.forced_first);
  return known_ids("--prefix-ids", prefix_, e.target);
}

// No output cuts it short, and a search has a token to search for.
bool Runner::has_room_for_prefix() const {
  const bool given = options.max_new != 0 && (o.keep.given || options.max_new < e.limits.target);
  const size_t room = capacity - (beams.wanted() ? 1 : 0);
  if (prefix_.size() <= room || (o.keep.given && !given)) return true;
  const string why = no_room(prefix_.size(), room, given ? "-n" : more_room(e, PHASOR_TARGET, ""));
  return data_error("%s: %s", o.prefix != nullptr ? "--prefix" : "--prefix-ids", why.c_str()),
         false;
}

const Command run_command = command<RunOptions, run_as<Runner>>(
    "run", "MODEL [TEXT...]", "continue a text (decoder), or translate each line (encoder-decoder)",
    "Without a TEXT, reads standard input: line by line for an encoder-decoder, all at once for a "
    "decoder (--lines: line by line). Prints one line for each line of input; an invalid line, or "
    "an empty one for an encoder-decoder, gives an empty line. Default: greedy decoding. --logits, "
    "--hidden and --attention take one line of input; docs/reference/command-line.md describes "
    "their files.",
    "phasor run translator.phasor \"A cat sits on the mat.\"\n"
    "phasor run translator.phasor --beam 4 < lines.txt\n"
    "phasor run language.phasor -n 100 --temperature 0.8 \"Once upon a time\"",
    no_generator);

}  // namespace cli
