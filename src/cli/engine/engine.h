// cli: what every command begins with: the file, the model in its block, the arena, the threads.
// Errors are printed here, with the file's name in front.
#pragma once

#include "../../../include/phasor.h"
#include "../host/memory.h"
#include "../host/pool.h"
#include "../io/file.h"
#include "../io/shortlist.h"
#include "../io/text.h"
#include "../options/command.h"
#include "caches.h"
#include "languages.h"

namespace cli {

// How a model's file is opened; `load` is of Load.
struct OpenOptions {
  IsaName isa{
      "--isa NAME",
      "Instruction set. `phasor --version` lists the ones that run here. Default: the fastest."};
  Choice load{"--load auto|map|copy",
              "How to load the weights. map: map the file. copy: copy it to huge pages. auto: copy "
              "for score and bench, else map. Default: auto."};
  Switch check{"--check", "Verify the whole file first: checksums and finite weights."};
};

// Room for a session, and its threads; `cache` is of PHASOR_CACHE_….
struct MemoryOptions {
  Number context{"--context N",
                 "Context size in tokens, for the decoder. Default: the model's maximum, at most "
                 "2048; 256 if it has none."};
  Number source{"--source N", "Source length in tokens. Default: as for --context; bench: 32."};
  Number chunk{"--chunk N",
               "Compute N tokens together. The results do not change. Default: 64, or the length "
               "if it is smaller.",
               1, 1 << 16};
  Number batch{"--batch N",
               "Process N texts together. The output does not change. Default: 32, or 1 from a "
               "terminal; run: up to 16 lines of standard input in 256 MiB, else 1.",
               1, 4096};
  Number beam{"--beam N", "Beam search with N beams. bench measures it, inspect counts its memory.",
              1, 256};
  Choice cache{"--cache " CACHE_CHOICES,
               "Type of the KV cache. f16 takes half the memory of f32, q8 a little more than a "
               "quarter. Default: f32."};
  Number threads{"--threads N", "Number of threads. Default: 1.", 1, 64, 1};
};

// One of the library's structs that begin with their size, everything else 0.
template <class Struct>
Struct sized() {
  Struct out{};
  out.struct_size = sizeof out;
  return out;
}

// What a call reads for sequence 0.
phasor_item item_of(const uint32_t* ids, size_t count, uint32_t logits);

class Engine {
 public:
  // File and model, which are checked where that is asked for. `automatic`: what --load auto means.
  bool open(const char* name, const OpenOptions& options, Load automatic = Load::automatic);
  bool check() const;  // the whole file: checksums and finite weights
  // Whether the command is for this model: 0, or the exit status after a line that names the
  // commands that are.
  int fit(const CommandLine& line) const;
  // What goes around the texts of an encoder-decoder, before `start`. `other`: a flag that does not
  // go with it, or NULL. 0, or the exit status.
  int choose(const TextOptions& options, const char* other);
  // a model that is in memory already
  bool open_bytes(const char* name, const void* data, size_t bytes, const char* isa);
  // the library's limits for one sequence, of sides that the model has
  phasor_limits limits_for(uint32_t source_ids, uint32_t target_ids) const;
  // the arena, exactly as large as the library says, and the pool
  bool start(const phasor_limits& limits);
  // Room for a text of `bytes`: where need be a larger arena in place of the first, with nothing of
  // what the session had. False, and all is as it was, when *why says why not.
  bool hold_text(size_t bytes, string* why);

  // The library's calls leave their error in `error`. fail: "phasor: FILE: text", always false.
  // done: whether a call is; else *why says why not.
  bool fail() const;
  string said() const;  // the error, in words of the command line
  bool done(phasor_status status, string* why) const;
  // Whether to go on with the next input: standard output still takes results, and the file is
  // what it was.
  bool going_on() const { return !output_failed() && file.unchanged(); }

  const phasor_side& side_of(uint32_t which) const {
    return which == PHASOR_SOURCE ? source : target;
  }
  bool has_source() const { return stack != PHASOR_DECODER; }
  bool has_target() const { return stack != PHASOR_ENCODER; }
  // the side that a text is read as, and how many of its tokens there is room for
  uint32_t input_side() const { return has_source() ? PHASOR_SOURCE : PHASOR_TARGET; }
  // what an encoder-decoder's output begins from, or PHASOR_NONE
  uint32_t start_id() const;
  const void* arena() const { return arena_.data(); }

  // From now on sources have this shortlist, also in a larger arena (hold_text).
  void use(const Shortlist* shortlist);
  // The session has an observer (NULL: none), beside the shortlist.
  void observe(void (*see)(void*, const phasor_view*), void* self) const;

  // Positions of a source: its ids, or of --embeddings.
  uint32_t source_count(const TokenIds& ids) const;
  // sequence 0
  phasor_status encode(const TokenIds& ids) const;
  bool encode(const phasor_item& item, string* why) const;
  phasor_status step(const uint32_t* ids, size_t count, uint32_t logits) const;

  const char* path = nullptr;
  phasor_model* model = nullptr;
  phasor_session* session = nullptr;
  mutable phasor_error error = PHASOR_ERROR_INIT;
  uint32_t stack = 0;
  phasor_side source{}, target{};  // vocabulary 0: the model has no such side
  phasor_limits limits{};
  size_t model_bytes = 0, arena_bytes = 0;
  ReadFile file;
  Languages languages;
  // --embeddings: what encode gives the decoder in place of ids; with places, in which PHASOR_NONE
  // is a vector's, what it gives the encoder.
  vector<float> states;
  TokenIds places;
  string prompt;  // before each source text

 private:
  // What the session's callbacks are given.
  struct Hooks {
    void (*see)(void*, const phasor_view*) = nullptr;
    void* self = nullptr;
    const Shortlist* shortlist = nullptr;
  };
  bool open_session(const Block& arena, size_t bytes);
  static void see(void* hooks, const phasor_view* view);
  static void mark(void* hooks, const uint32_t* ids, uint32_t count, uint32_t* allowed,
                   uint32_t words);
  mutable Hooks hooks_;
  const char* isa_ = nullptr;
  Block model_block_, arena_;
  Pool pool_;
};

// Where a tensor or a residual belongs, as the file numbers it (docs/reference/file-format.md).
enum Place : uint32_t { kKind, kSource, kEncoder, kTarget, kDecoder, kOutput };

// positions, of a model that allows more: the arena should not surprise
constexpr uint32_t kMostByDefault = 2048;

// Limits for one sequence; by default what the model allows, at most 2048, and 256 where it sets no
// limit.
phasor_limits default_limits(const Engine& engine, const MemoryOptions& options);
// Whether the sizes are of sides that the model has. `decoding`: another flag for a decoder, or
// NULL. 0, or the exit status.
int check_sides(const Engine& engine, const MemoryOptions& options, const char* decoding = nullptr);
// Room for the best token of `rows` rows in place of their logits, in a decoder's limits: all that
// greedy decoding asks for.
void greedy_room(phasor_limits* limits, uint32_t rows);

// Test vector `index`, and limits with room for the longest.
phasor_vector vector_at(const Engine& engine, uint32_t index);

// What the file's test vectors prove, which their author says (tools/phasor/expect.py, and
// vectors.py of a short proof); "" when there are none.
const char* proof_of(const Engine& engine);
phasor_limits limits_for_vectors(const Engine& engine, const MemoryOptions& options);

// More room than the default, as far as the model goes, for a list of ids that is known.
void make_room_for_ids(phasor_limits* limits, const Engine& engine, const MemoryOptions& options,
                       const TokenIds& ids);

// Room for texts of `bytes`, where the model takes texts at all.
void make_text_room(phasor_limits* limits, size_t bytes);

// The line of figures on standard error: `count` lines or texts, their tokens, the seconds they
// took.
void print_figures(const Engine& engine, const char* what, uint64_t count, uint64_t tokens,
                   double seconds);

// An input that could not be done: its error on standard error. Returns the exit status.
int bad_input(const Engine& engine, const string& where, const string& error);
// The same of a line of input: its error on standard error, and in place of its line of
// output an empty one, or with --json an object. Returns the exit status.
int bad_line(const Engine& engine, const CommandLine& line, const string& where, uint64_t number,
             const string& error);

// "5 tokens, there is room for 4 (--context)"
string no_room(size_t count, size_t room, const string& flags);
// The flags that help where a side has too little room: the one that asks for more, where the model
// has more, and `other`, if it is not "".
string more_room(const Engine& engine, uint32_t side, const string& other);

// Why a model generates nothing, or NULL where it does (Command::unfit).
const char* no_generator(const phasor_model* model);
// What comes out of a model; nothing where the build knows none.
phasor_output output_of(const phasor_model* model);

// Whether all ids are of the vocabulary; else *why names one, or a line on standard error does.
bool known_ids(const TokenIds& ids, const phasor_side& side, string* why);
bool known_ids(const char* flag, const TokenIds& ids, const phasor_side& side);

// The piece behind an id, or nothing.
string piece_text(const Engine& engine, uint32_t side, uint32_t id);
// The same for a line of output, in whole characters: a byte that is none of a character, or of one
// that ends a line or a column, is <0x0A>.
string shown_piece(const Engine& engine, uint32_t side, uint32_t id);
// A field of the file as a list of numbers; empty when the file has none of that name.
vector<uint32_t> numbers_of(const Engine& engine, const string& name);

// No infinity and nothing that is not a number: what the file's weights make may be either.
bool all_finite(const float* values, size_t count);

// Bytes begin … end − 1 of a text.
struct Span {
  size_t begin, end;
};
// The ids of a text alone, and where each token's text begins and ends in it; needs
// PHASOR_WANT_OFFSETS.
bool text_offsets(const Engine& engine, uint32_t side, bool template_ids, const string& text,
                  TokenIds* ids, vector<Span>* offsets, string* why);
// The ids of a text; with its template's ids around them where `template_ids`. False: *why.
bool text_ids(const Engine& engine, uint32_t side, bool template_ids, const string& text,
              TokenIds* ids, string* why);

// Where the tab between two texts is: at `known`, or where that is string::npos the only one there
// is. False: *why.
bool split_pair(const string& texts, size_t known, size_t* tab, string* why);

// The ids and segments of two texts with a tab between them, at `tab` (string::npos: there is one
// tab); *first gets how many ids the first text has.
bool pair_ids(const Engine& engine, uint32_t side, const string& texts, size_t tab, TokenIds* ids,
              TokenIds* segments, size_t* first, string* why);

// Ids to text, piece by piece.
class Detokenizer {
 public:
  Detokenizer(const Engine& engine, uint32_t side) : model_(engine.model), side_(side) {}
  const string& add(uint32_t id);  // what the id adds; valid until the next call
  const string& end();

 private:
  const phasor_model* model_;
  uint32_t side_;
  phasor_text state_ = PHASOR_TEXT_INIT;
  string out_;
};

// All of them.
string text_of(const Engine& engine, uint32_t side, const TokenIds& ids);

// Calls what writes a list and says how much room it needs: call(data, capacity, &count). It is
// called again where the list was too short. *list then has `count`, or nothing after an error.
template <class List, class Call>
phasor_status with_room(List* list, Call call) {
  size_t count = 0;
  phasor_status status = call(list->data(), list->size(), &count);
  if (status == PHASOR_FULL) {
    list->resize(count);
    status = call(list->data(), count, &count);
  }
  list->resize(status == PHASOR_OK ? count : 0);
  return status;
}

}  // namespace cli
