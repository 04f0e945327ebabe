/* Phasor: a Transformer inference engine that runs from one file, in memory that you provide, and
 * gives the same bits on every machine.
 *
 * A first program calls these functions in this order:
 *
 *   phasor_model_size, phasor_model_open        the bytes of a .phasor file become a model
 *   phasor_limits_for                           choose the lengths that you need
 *   phasor_session_size, phasor_session_open    a session with an arena of exactly that size
 *   phasor_text_to_ids                          text to token ids
 *   phasor_encode, phasor_generate              ids in, ids out
 *   phasor_id_to_text                           token ids to text
 *
 * Nothing needs closing: reuse or free the memory. examples/c/translate.c is a complete program.
 * Part 1 has the functions that most programs need. Part 2, "Advanced", has the rest of the stable
 * interface. Functions of part 3, "Experimental", may change in any release.
 *
 * Memory    You provide two kinds of block, each aligned to PHASOR_ALIGN: one for the model, and
 *           one arena for each session. Size functions return the exact number of bytes, which is
 *           the same on every machine. Phasor allocates nothing itself.
 * Lifetime  The file's bytes stay in place, aligned to PHASOR_ALIGN (16 on a Cortex-M). Keep the
 *           bytes until you no longer need the model, and the model until you no longer need its
 *           sessions. Pointers into the file or the model stay valid as long as both do.
 * Threads   After open a model is read-only: any number of threads and sessions can share it. Only
 *           one thread at a time may use a session. A session uses more threads only if you pass
 *           phasor_parallel. The results do not depend on the number of threads.
 * Errors    Most functions return a phasor_status. Files, token ids, texts and lengths may be
 *           wrong: the function then returns a status and changes nothing outside its outputs.
 * NULL      Pass NULL only if this header allows it, or if the count or capacity of that pointer
 *           is 0. Any other NULL is a bug in the caller. A library built without NDEBUG traps.
 * Versions  Every struct that can grow begins with struct_size. Initialize structs with their _INIT
 *           macro, which sets struct_size, also if the function only fills the struct. Structs of
 *           programs built with release 0.2.0 or later keep working: Phasor reads and writes only
 *           struct_size bytes, and fields beyond them have their default. Phasor rejects any other
 *           struct_size with PHASOR_BAD_INPUT. It leaves a phasor_error of such a size unchanged.
 *           All structs of one array have the same struct_size, which is also their distance in
 *           bytes. Set fields named `reserved` to 0.
 *
 * Parameters that mean the same everywhere:
 *
 *   model     an open model
 *   session   an open session
 *   sequence  the number of a sequence of the session: 0 to limits.sequences - 1
 *   side      PHASOR_SOURCE or PHASOR_TARGET. An encoder has only a source, a decoder only a target
 *   error     receives the details and one line of text if the call fails. May be NULL
 *   options   NULL means the defaults, unless stated otherwise
 *
 * (count) behind a pointer states how many elements you provide or receive. Functions that fill a
 * buffer take its capacity in the same unit. Floats are IEEE 754 single precision.
 */
#ifndef PHASOR_H
#define PHASOR_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header. phasor_version returns the version of the library. */
#define PHASOR_VERSION_MAJOR 0
#define PHASOR_VERSION_MINOR 2
#define PHASOR_VERSION_PATCH 0
#define PHASOR_VERSION \
  ((PHASOR_VERSION_MAJOR << 16) | (PHASOR_VERSION_MINOR << 8) | PHASOR_VERSION_PATCH)

/* PHASOR_INIT(type) initializes a struct: struct_size is set, every other field is 0. Use it as
 * `phasor_limits limits = PHASOR_LIMITS_INIT;`. Each struct has a macro of its own name, and some
 * set further fields. The macros need C99 or C++17 and compile without warnings in both. */
#ifdef __cplusplus
namespace phasor {
inline namespace interface {
template <class T>
constexpr T initialized() {
  T made{};
  made.struct_size = sizeof(T);
  return made;
}
template <class T, class Field>
constexpr T initialized(Field T::*field, Field value) {
  T made = initialized<T>();
  made.*field = value;
  return made;
}
}  // namespace interface
}  // namespace phasor
#define PHASOR_INIT(type) { ::phasor::initialized<type>() }
#define PHASOR_INIT_WITH(type, field, value) { ::phasor::initialized<type>(&type::field, value) }
#else
#define PHASOR_INIT(type) { .struct_size = sizeof(type) }
#define PHASOR_INIT_WITH(type, field, value) { .struct_size = sizeof(type), .field = value }
#endif

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__ /* in a library whose other names are hidden */
#pragma GCC visibility push(default)
#endif

/* Marks functions that a real-time thread may call: no allocation, lock, system call or exception.
 * Clang 20 and newer check this with -Wfunction-effects and -fsanitize=realtime. The check includes
 * the callbacks that you pass. */
#if defined(__clang__) && __clang_major__ >= 20
#define PHASOR_NONBLOCKING __attribute__((nonblocking))
#else
#define PHASOR_NONBLOCKING
#endif

#define PHASOR_ALIGN 64u        /* alignment of the model's block and of the arena, in bytes */
#define PHASOR_NONE 0xFFFFFFFFu /* no such id, no such index */

/* ====================================================================== 1. First program */

/* ------------------------------------------------------------------ versions and errors */

/* Returns the version of the library as 0x00MMmmpp: compare with PHASOR_VERSION. */
uint32_t phasor_version(void);

typedef enum phasor_status {
  PHASOR_OK = 0,
  PHASOR_BAD_FILE = 1,        /* not a .phasor file, or the structure is wrong */
  PHASOR_BAD_CHECKSUM = 2,    /* the structure is right, but the bytes are damaged */
  PHASOR_UNSUPPORTED = 3,     /* this build lacks the version, section, key or value */
  PHASOR_TOO_LARGE = 4,       /* larger than the address space of this machine */
  PHASOR_NO_MEMORY = 5,       /* the block is smaller than its size function returned */
  PHASOR_BAD_LIMITS = 6,      /* the limits contradict each other or the model */
  PHASOR_BAD_INPUT = 7,       /* a token id, position, text, option or count is out of range */
  PHASOR_FULL = 8,            /* the sequence or your buffer has no room left */
  PHASOR_NOT_FINITE = 9,      /* a value became infinite or NaN; error->layer says where */
  PHASOR_STOPPED = 10,        /* a callback asked to stop */
  PHASOR_BAD_ARITHMETIC = 11, /* this machine or compiler computes floats differently */
  PHASOR_BAD_STATE = 12,      /* a saved state of another file, arithmetic or set of limits */
  PHASOR_MISMATCH = 13        /* a test vector gives a different result */
} phasor_status;

/* Returns the name of a status: "ok", "bad file", … The string is static. */
const char* phasor_status_name(phasor_status status);

/* Details of a failed call. */
typedef struct phasor_error {
  uint32_t struct_size;
  int32_t code;      /* a phasor_status */
  uint32_t section;  /* of the file, as in docs/reference/file-format.md; or PHASOR_NONE */
  uint32_t layer;    /* or PHASOR_NONE */
  uint64_t expected; /* if the error is about a number: the expected one, and the one found */
  uint64_t found;
  char text[160];    /* one line, NUL-terminated: what is wrong, without the file's name */
} phasor_error;
#define PHASOR_ERROR_INIT { sizeof(phasor_error), 0, PHASOR_NONE, PHASOR_NONE, 0, 0, { 0 } }

/* ------------------------------------------------------------------ the model */

typedef struct phasor_model phasor_model;     /* in your block */
typedef struct phasor_session phasor_session; /* in your arena */

typedef struct phasor_open_options {
  uint32_t struct_size;
  const char* isa; /* instruction-set level, as in phasor_isa_name. Default: NULL or "auto", the
                      fastest that this machine has */
  /* Multilingual encoder-decoders: (1) the token that every output starts from, and (1) the first
   * token of every output, usually the target language. Default: NULL, as the file says. */
  const uint32_t* decoder_start;
  const uint32_t* forced_first;
} phasor_open_options;
#define PHASOR_OPEN_OPTIONS_INIT PHASOR_INIT(phasor_open_options)

/* Computes the size of the model's block.
 *
 *   need      receives the size in bytes
 *   file      (file_bytes) the start of the file is read and checked as phasor_model_open does
 *   Returns   PHASOR_BAD_FILE, PHASOR_BAD_CHECKSUM, PHASOR_UNSUPPORTED or PHASOR_TOO_LARGE for a
 *             file that cannot be opened */
phasor_status phasor_model_size(size_t* need, const void* file, size_t file_bytes,
                                phasor_error* error);

/* Opens a model: checks the structure of the file and binds its tensors. Takes time proportional to
 * the metadata; weights are not read. Call phasor_model_check to verify the weights.
 *
 *   model     receives the model, which is inside `memory`; NULL after an error
 *   memory    (memory_bytes) at least phasor_model_size, aligned to PHASOR_ALIGN
 *   file      (file_bytes) the whole file, aligned to PHASOR_ALIGN
 *   options   may be NULL; read during this call only
 *   Returns   the errors of phasor_model_size; PHASOR_NO_MEMORY if `memory` is too small;
 *             PHASOR_BAD_INPUT for wrong alignment or options; PHASOR_BAD_ARITHMETIC
 *   Lifetime  keep `memory` and `file` as long as you use the model */
phasor_status phasor_model_open(phasor_model** model, void* memory, size_t memory_bytes,
                                const void* file, size_t file_bytes,
                                const phasor_open_options* options, phasor_error* error);

/* Reads the whole file once and verifies all checksums, padding bytes and that every weight is
 * finite.
 *
 *   Returns   PHASOR_BAD_CHECKSUM, PHASOR_BAD_FILE or PHASOR_NOT_FINITE for a damaged file */
phasor_status phasor_model_check(const phasor_model* model, phasor_error* error);

enum { PHASOR_ENCODER = 1, PHASOR_DECODER = 2, PHASOR_ENCODER_DECODER = 3 };
enum { PHASOR_SOURCE = 1, PHASOR_TARGET = 2 }; /* sides */

/* Returns the kind of model: PHASOR_ENCODER, PHASOR_DECODER or PHASOR_ENCODER_DECODER. */
uint32_t phasor_model_stack(const phasor_model* model);

/* Properties of one side. An id that the model lacks is PHASOR_NONE. */
typedef struct phasor_side {
  uint32_t struct_size;
  uint32_t vocabulary;    /* vocabulary size: ids are 0 to vocabulary - 1 */
  uint32_t has_tokenizer; /* 1 if this side has a tokenizer, else 0 */
  uint32_t pad, unknown, start, decoder_start, forced_first, mask;
  uint32_t end_count, prefix_count, suffix_count;
  const uint32_t* end;    /* (end_count) ids that end a sequence */
  const uint32_t* prefix; /* (prefix_count) ids before an encoded text */
  const uint32_t* suffix; /* (suffix_count) ids after an encoded text */
  uint32_t max_positions; /* longest sequence that the model allows, in tokens; 0: no limit */
  uint32_t width;         /* hidden size */
  uint32_t layers;
} phasor_side;
#define PHASOR_SIDE_INIT PHASOR_INIT(phasor_side)

/* Describes one side of the model.
 *
 *   out       receives the description
 *   Returns   PHASOR_BAD_INPUT if the model does not have this side
 *   Lifetime  the id lists are in the file */
phasor_status phasor_model_side(const phasor_model* model, uint32_t side, phasor_side* out);

/* ------------------------------------------------------------------ limits and the session */

/* Features that need memory; add them up in limits.outputs. With V the target vocabulary size:
 *   ATTENTION  attention weights for the `see` callback
 *   SAMPLING   temperature, penalties and bans: 12 · V bytes
 *   SHORTLIST  vocabulary shortlists of an encoder-decoder: (sequences + 1) · V bits
 *   COVERAGE   coverage penalty of an encoder-decoder's beam search: attention weights, and 4 bytes
 *              for each source position, sequence and beam. Needs `beams`
 *   OFFSETS    phasor_text_to_offsets: 4 to 16 bytes for each byte that a text of `text_bytes` can
 *              become */
enum {
  PHASOR_WANT_ATTENTION = 1,
  PHASOR_WANT_SAMPLING = 2,
  PHASOR_WANT_SHORTLIST = 4,
  PHASOR_WANT_COVERAGE = 8,
  PHASOR_WANT_OFFSETS = 16
};
/* Type of the KV cache, including cross-attention. Keys and values are rounded to the type before
 * their first use, so logits depend on the type but not on the chunk size. F16 takes 1/2 of the
 * memory of F32. Q8 takes 9/32: int8 in groups of 32 along the head, with an f32 scale. F16 and Q8
 * return PHASOR_BAD_LIMITS for additive attention and for position tables that multiply keys
 * (relative_key_query, three-way, disentangled). */
enum { PHASOR_CACHE_F32 = 0, PHASOR_CACHE_F16 = 1, PHASOR_CACHE_Q8 = 2 };
/* Sinusoids: WHOLE computes them for the whole context at open, ROWS when they are needed. */
enum { PHASOR_TABLES_WHOLE = 0, PHASOR_TABLES_ROWS = 1 };

/* Every number that the size of the arena depends on. Fill with phasor_limits_for, then change. */
typedef struct phasor_limits {
  uint32_t struct_size;
  uint32_t source;     /* source length, in tokens. 0 for a decoder */
  uint32_t target;     /* decoder context in tokens, with the start token. 0 for an encoder */
  uint32_t sequences;  /* sequences that exist at the same time. Default: 1 */
  uint32_t chunk;      /* tokens computed together: more is faster and takes more memory. Results do
                          not change. Default: the longest sequence, at most 64 */
  uint32_t threads;    /* threads that `parallel` uses at the same time. Default: 1 */
  uint32_t text_bytes; /* longest text for tokenizers and chat, in bytes. Default: 4096, or 0
                          without a tokenizer */
  uint32_t logit_rows; /* rows of logits that one step can return. Default: 1 or 0, as the model
                          needs */
  uint32_t cache_type; /* PHASOR_CACHE_… */
  uint32_t outputs;    /* sum of PHASOR_WANT_… */
  uint32_t tables;     /* PHASOR_TABLES_… */
  uint32_t best_rows;  /* rows for which one step can return only the best token (PHASOR_BEST_…).
                          Each takes 8 bytes instead of a row of logits */
  uint32_t beams;      /* largest beam width. Range: 0 (no beam search) to 256. Each beam has memory
                          for `target` tokens and shares the keys and values of the source.
                          logit_rows is raised to beams · searches */
  uint32_t searches;   /* beam searches at the same time (phasor_beam_jobs_step), at most
                          `sequences`. Default: 0, which means 1 if `beams` is set */
} phasor_limits;
#define PHASOR_LIMITS_INIT PHASOR_INIT(phasor_limits)

/* Fills the limits for one sequence of the given lengths.
 *
 *   source    source length in tokens. 0: the model's maximum, or 256 if it has none
 *   target    context of the decoder in tokens. 0: the same
 *   limits    receives the limits; all other fields get their defaults
 *   Returns   PHASOR_BAD_INPUT for a wrong struct_size. phasor_session_size checks the lengths */
phasor_status phasor_limits_for(const phasor_model* model, uint32_t source, uint32_t target,
                                phasor_limits* limits);

/* Computes the exact size of the arena.
 *
 *   need      receives the size in bytes
 *   Returns   PHASOR_BAD_LIMITS if the limits contradict each other or the model */
phasor_status phasor_session_size(size_t* need, const phasor_model* model,
                                  const phasor_limits* limits, phasor_error* error);

/* One piece of parallel work. */
typedef void (*phasor_task)(void* context, uint32_t index);

/* Your threads. `run` calls task(context, i) exactly once for each i from 0 to count - 1, on any
 * thread, at most limits.threads at the same time, and returns when all calls have returned. If
 * `run` is NULL, all work happens on the calling thread. */
typedef struct phasor_parallel {
  uint32_t struct_size;
  void (*run)(void* user, phasor_task task, void* context, uint32_t count);
  void* user;
} phasor_parallel;
#define PHASOR_PARALLEL_INIT PHASOR_INIT(phasor_parallel)

/* Opens a session: places its data in the arena and computes the position tables.
 *
 *   session   receives the session, which is inside `memory`; NULL after an error
 *   memory    (memory_bytes) at least phasor_session_size, aligned to PHASOR_ALIGN
 *   limits    copied
 *   parallel  copied. NULL: one thread
 *   Returns   PHASOR_NO_MEMORY if `memory` is too small; PHASOR_BAD_LIMITS as phasor_session_size;
 *             PHASOR_BAD_INPUT for wrong alignment
 *   Lifetime  keep `memory` and the model as long as you use the session */
phasor_status phasor_session_open(phasor_session** session, void* memory, size_t memory_bytes,
                                  const phasor_model* model, const phasor_limits* limits,
                                  const phasor_parallel* parallel, phasor_error* error);

/* ------------------------------------------------------------------ text */

/* Converts a text to token ids.
 *
 *   template_ids  not 0: add the prefix and suffix ids of the side
 *   ids       (capacity) receives the ids; nothing is written beyond capacity
 *   count     receives the number of ids, also if capacity is too small
 *   text      (bytes) UTF-8, at most limits.text_bytes
 *   Returns   PHASOR_FULL if capacity is too small; PHASOR_BAD_INPUT if the text is too long or the
 *             side has no tokenizer */
phasor_status phasor_text_to_ids(phasor_session* session, uint32_t side, int template_ids,
                                 uint32_t* ids, size_t capacity, size_t* count, const char* text,
                                 size_t bytes, phasor_error* error) PHASOR_NONBLOCKING;

/* Converts two texts that an encoder reads together, such as a query and a document. The ids are:
 * prefix, first text, separator, second text, suffix.
 *
 *   ids       (capacity) receives the ids; nothing is written beyond capacity
 *   segments  (capacity) receives the token type of each id. May be NULL
 *   count     receives the number of ids, also if capacity is too small
 *   first, second  (first_bytes), (second_bytes) UTF-8, each at most limits.text_bytes
 *   Returns   PHASOR_FULL if capacity is too small; PHASOR_BAD_INPUT if a text is too long or the
 *             model has no template for pairs */
phasor_status phasor_pair_to_ids(phasor_session* session, uint32_t side, uint32_t* ids,
                                 uint32_t* segments, size_t capacity, size_t* count,
                                 const char* first, size_t first_bytes, const char* second,
                                 size_t second_bytes, phasor_error* error) PHASOR_NONBLOCKING;

/* The state of a conversion from ids to text: holds back an incomplete UTF-8 character. Use one for
 * each text. */
typedef struct phasor_text {
  uint32_t struct_size;
  uint32_t state[7];
} phasor_text;
#define PHASOR_TEXT_INIT PHASOR_INIT(phasor_text)

/* Converts the next id of a text to the bytes that it adds. Control tokens add nothing.
 *
 *   text      the state of this text, updated. Start with PHASOR_TEXT_INIT
 *   out       (capacity) receives the bytes, without a terminator
 *   bytes     receives the number of bytes, also if capacity is too small
 *   Returns   PHASOR_FULL if capacity is too small: nothing is written, and you can call again;
 *             PHASOR_BAD_INPUT for an invalid id or a side without a tokenizer */
phasor_status phasor_id_to_text(const phasor_model* model, uint32_t side, phasor_text* text,
                                uint32_t id, char* out, size_t capacity,
                                size_t* bytes) PHASOR_NONBLOCKING;

/* Writes the bytes that are still held back at the end of a text. The parameters and errors are
 * those of phasor_id_to_text.
 *
 *   Returns   PHASOR_FULL if capacity is too small */
phasor_status phasor_text_flush(const phasor_model* model, uint32_t side, phasor_text* text,
                                char* out, size_t capacity, size_t* bytes) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ encode and generate */

/* What a step returns for the tokens of an item: no logits, logits, or only the best token. BEST
 * computes 256 logits at a time and keeps only the largest, so it needs no row of logits. All
 * machines find the same token. */
enum {
  PHASOR_LOGITS_NONE = 0,
  PHASOR_LOGITS_LAST = 1, /* of the last token */
  PHASOR_LOGITS_ALL = 2,
  PHASOR_BEST_LAST = 3,
  PHASOR_BEST_ALL = 4
};

/* Tokens of one sequence. */
typedef struct phasor_item {
  uint32_t struct_size;
  uint32_t sequence;         /* each sequence at most once in a call */
  uint32_t count;            /* number of tokens, at least 1 */
  uint32_t logits;           /* decoder: PHASOR_LOGITS_… or PHASOR_BEST_…; not mixed in a call */
  const uint32_t* ids;       /* (count). May be NULL if `embeddings` or `states` is given */
  const float* embeddings;   /* (count, embedding size) rows that replace the embedding of tokens,
                                before scale and position. Default: NULL. With `ids`, only tokens
                                whose id is PHASOR_NONE use their row */
  const uint32_t* segments;  /* (count) token types. Default: NULL, all 0 */
  const uint32_t* positions; /* (count) a check: PHASOR_BAD_INPUT if the tokens get other positions.
                                Default: NULL, no check */
  const float* states;       /* (count, encoder width) phasor_encode of an encoder-decoder: the
                                output of an encoder after its last norm, instead of ids,
                                embeddings and segments. The encoder does not run. Default: NULL */
  uint32_t seen;             /* phasor_encode of an encoder: all tokens attend only to the first
                                `seen` tokens, as in the expansion of ColBERT queries. Default: 0,
                                all. Not for models with distance tables. The window of the last
                                token must contain a token that is seen */
  uint32_t reserved;
} phasor_item;
#define PHASOR_ITEM_INIT PHASOR_INIT(phasor_item)

/* Clears the sequence of each item and runs the encoder on the whole source. For an
 * encoder-decoder, also computes the keys and values of cross-attention. Short sources share matrix
 * products, without padding and without changing a bit of the results.
 *
 *   items     (count) one source each, at most limits.source tokens
 *   Returns   PHASOR_BAD_INPUT for a wrong id, count or sequence; PHASOR_NOT_FINITE (see
 *             phasor_sequence_status); PHASOR_STOPPED by a callback */
phasor_status phasor_encode(phasor_session* session, const phasor_item* items, uint32_t count,
                            phasor_error* error) PHASOR_NONBLOCKING;

enum {
  PHASOR_FINISH_END = 1,     /* an end token */
  PHASOR_FINISH_LENGTH = 2,  /* max_new, the capacity or the context is full */
  PHASOR_FINISH_STOPPED = 3, /* a callback returned nonzero */
  PHASOR_FINISH_STRING = 4   /* a stop string */
};

/* A random number generator: xoshiro256** 1.0 (Blackman and Vigna 2018), seeded with SplitMix64
 * (Steele, Lea and Flood 2014). Drawing a token takes one 64-bit number. A copy continues with the
 * same numbers on every machine. */
typedef struct phasor_random {
  uint64_t state[4];
} phasor_random;

/* How phasor_generate chooses tokens and when it stops. A field that is 0 or NULL is off. Callbacks
 * run on the calling thread. They must not change the session or keep the pointers that they get.
 *
 * Phasor chooses a token in these steps, in the order of the logits processors of transformers:
 *   1. the logits callback
 *   2. repetition_penalty, then presence_penalty and frequency_penalty
 *   3. no_repeat_ngram, source_no_repeat_ngram, bad_words, min_new, suppressed
 *   4. with temperature 0: the largest logit; of equal logits, the lowest id
 *   5. else temperature, top_k, top_p, min_p, typical_p, each applied to the tokens that the
 *      previous step kept; then one draw
 * "Most probable" sorts by probability, then by id, so top_k keeps exactly k tokens. Weights
 * exp(logit - largest) are integers in units of 2^-39: the order of sums does not matter, and a
 * seed gives the same tokens on every machine.
 *
 * Everything except the plain largest logit needs PHASOR_WANT_SAMPLING in limits.outputs. If
 * limits.best_rows is set, the plain largest logit needs no row of logits (PHASOR_BEST_LAST). With
 * logit_rows 0, any other option, and the logits callback, returns PHASOR_BAD_INPUT. */
typedef struct phasor_generate_options {
  uint32_t struct_size;
  uint32_t max_new;       /* largest number of new tokens. Default: 0, as many as fit */
  const uint32_t* forced; /* (forced_count) the output starts with these tokens */
  uint32_t forced_count;
  /* Called after each new token, including the end token. Return nonzero to stop with
   * PHASOR_FINISH_STOPPED. */
  int (*token)(void* user, uint32_t id, uint32_t position);
  /* Called before each choice with the logits (vocabulary) and the ids so far (count). May change
   * the logits: -infinity forbids a token. Return nonzero to stop. */
  int (*logits)(void* user, float* logits, uint32_t vocabulary, const uint32_t* ids,
                uint32_t count);
  void* user; /* passed to all callbacks */

  float temperature;        /* divide the logits by it, then draw. Default: 0, take the largest */
  uint32_t top_k;           /* keep the k most probable tokens */
  float top_p;              /* keep the smallest set of tokens whose total probability is at least
                               this. Range: 0 to 1 (Holtzman et al. 2020) */
  float min_p;              /* keep tokens with at least this share of the probability of the most
                               probable token. Range: 0 to 1 (Nguyen et al. 2024) */
  float typical_p;          /* keep the smallest set with this total probability, tokens closest to
                               the entropy first. Range: 0 to 1 (Meister et al. 2023) */
  float repetition_penalty; /* for every token in the sequence: divide a positive logit by it,
                               multiply a negative one (Keskar et al. 2019) */
  float presence_penalty;   /* subtract from the logit of every token generated by this call
                               (OpenAI's definition) */
  float frequency_penalty;  /* the same, times the number of occurrences */
  uint32_t no_repeat_ngram; /* n: never repeat an n-gram of the sequence */
  uint32_t min_new;         /* no end token before this many new tokens */
  const uint32_t* suppressed; /* (suppressed_count) never choose these tokens */
  const uint32_t* end;        /* (end_count) these tokens end the output too */
  uint32_t suppressed_count, end_count;
  uint64_t seed;            /* of the draws. Default: 0 */
  phasor_random* random;    /* generator to use and update. Default: NULL, a new one from `seed` */

  /* Called with each new piece of text, always whole UTF-8 characters. For a decoder-only model the
   * text continues the prompt. Return nonzero to stop. */
  int (*text)(void* user, const char* text, size_t bytes);
  /* (stop_count, at most 64) stop strings of 1 to 256 bytes. The first one in the text ends the
   * output: `text` gets neither the stop string nor anything after it. Text that could still turn
   * into a stop string is held back until it no longer can. The ids of all tokens are returned. */
  const char* const* stop;
  uint32_t stop_count;

  /* 1: `ids` is the whole sequence. Tokens that the sequence already has are kept, the rest of it
   * is removed (see phasor_sequence_common). */
  uint32_t reuse;
  /* 1: if the context is full, keep the first `keep` tokens and the newer half of the others, and
   * compute them again, because positions are absolute. A prompt that is too long for an empty
   * sequence, or with reuse, keeps its first `keep` tokens and the newest that fit. */
  uint32_t slide;
  uint32_t keep;
  /* Prompt lookahead: guess up to this many tokens from text that followed the last three or two
   * tokens before, and check them in one step. The output is the same, only sooner. Needs one row
   * more than this in limits.logit_rows or best_rows. */
  uint32_t lookahead;

  const uint32_t* bad_words;  /* (bad_words_count) sequences that never appear: for each one its
                                 length, at least 1, then its tokens */
  const uint32_t* source;     /* (source_count) source ids, for source_no_repeat_ngram */
  uint32_t bad_words_count, source_count;
  uint32_t source_no_repeat_ngram; /* n: never repeat an n-gram of `source` */
  uint32_t reserved;
  const uint32_t* forced_last; /* (1) the last token, if max_new, the capacity or the context leaves
                                  room for only one more */
} phasor_generate_options;
#define PHASOR_GENERATE_OPTIONS_INIT PHASOR_INIT(phasor_generate_options)

typedef struct phasor_generation {
  uint32_t struct_size;
  uint32_t count;    /* new tokens, including the end token */
  uint32_t finish;   /* PHASOR_FINISH_… */
  uint32_t steps;    /* steps of the decoder, including the prompt */
  uint32_t proposed; /* tokens that lookahead guessed */
  uint32_t accepted; /* guesses that were right */
  uint32_t slides;   /* how often the context was full */
  uint32_t reused;   /* prompt tokens that the sequence already had */
} phasor_generation;
#define PHASOR_GENERATION_INIT PHASOR_INIT(phasor_generation)

/* Generates tokens after a prompt, or the output of an encoder-decoder. Call phasor_encode first
 * for an encoder-decoder.
 *
 *   ids       (count) decoder: the prompt. Encoder-decoder: the start of the output, or NULL with
 *             count 0 to begin with the model's start token, in a sequence without tokens
 *   out       (capacity) receives the new ids
 *   options   NULL: greedy, until an end token
 *   result    receives the number of tokens and the reason for the end
 *   Returns   PHASOR_BAD_INPUT for a wrong id or option; PHASOR_FULL if the prompt does not fit;
 *             PHASOR_NOT_FINITE; PHASOR_STOPPED if `progress` aborted
 *   Lifetime  the last new token is not yet in the sequence. To continue, pass it as `ids` */
phasor_status phasor_generate(phasor_session* session, uint32_t sequence, const uint32_t* ids,
                              uint32_t count, uint32_t* out, uint32_t capacity,
                              const phasor_generate_options* options, phasor_generation* result,
                              phasor_error* error) PHASOR_NONBLOCKING;

/* Sets the options that the file recommends: temperature (0 if the model should not be sampled),
 * top_k, top_p, min_p, typical_p, repetition_penalty, no_repeat_ngram, min_new, max_new,
 * suppressed, bad_words, source_no_repeat_ngram, forced_last. Other options stay unchanged.
 *
 *   options   updated
 *   Returns   1; or 0 and changes nothing if the file recommends nothing or struct_size is wrong
 *   Lifetime  the lists are in the file or the model */
int phasor_generation_defaults(const phasor_model* model, phasor_generate_options* options);

/* ------------------------------------------------------------------ beam search */

/* When a beam search stops, like early_stopping False, True and "never" of transformers. It always
 * stops when max_new or the context is full; then the unfinished beams are outputs too. Otherwise
 * it stops when it has `beams` outputs and:
 *   NO     the best beam, scored at its present length, is no better than the worst output
 *   YES    at once
 *   NEVER  the best beam, scored at the longest possible length if length_penalty is positive, is
 *          no better than the worst output */
enum { PHASOR_EARLY_NO = 0, PHASOR_EARLY_YES = 1, PHASOR_EARLY_NEVER = 2 };
/* The divisor of a score, for L searched tokens and the length penalty p:
 *   POWER  L^p, as in transformers
 *   GNMT   ((5 + L) / 6)^p (Wu et al. 2016, section 7) */
enum { PHASOR_LENGTH_POWER = 0, PHASOR_LENGTH_GNMT = 1 };

/* Beam search keeps the `beams` best outputs so far, by the sum of their log-probabilities. An
 * output ends when its end token is among the `beams` best continuations of all beams. The score is
 * log_probability divided by a function of the length; forced tokens do not count. Equal beams and
 * tokens are sorted by (score, beam, id), so threads, chunks and machines do not change the result.
 * A field that is 0 or NULL is off, except `beams`. */
typedef struct phasor_beam_options {
  uint32_t struct_size;
  uint32_t beams;           /* beam width. Range: 1 to limits.beams. Default: 0, limits.beams */
  uint32_t max_new;         /* largest number of new tokens, including forced ones. Default: 0, as
                               many as fit */
  uint32_t early_stopping;  /* PHASOR_EARLY_… */
  float length_penalty;     /* above 0 favors longer outputs. Range: -4 to 4. Default: 1. 0: the
                               plain sum */
  uint32_t forced_count;
  const uint32_t* forced;   /* (forced_count) every output starts with these tokens */
  uint32_t no_repeat_ngram; /* n: never repeat an n-gram of the beam */
  uint32_t min_new;         /* no end token before this many new tokens */
  const uint32_t* suppressed; /* (suppressed_count) never choose these tokens. The probabilities of
                                 others do not change (but see renormalize) */
  const uint32_t* end;        /* (end_count) these tokens end an output too */
  uint32_t suppressed_count, end_count;
  /* Called before each choice for each beam with the logits (vocabulary) and the ids so far
   * (count). May change the logits: -infinity forbids a token, and the others share its
   * probability. Return nonzero to stop: the beams become outputs. Must not change the session. */
  int (*logits)(void* user, float* logits, uint32_t vocabulary, const uint32_t* ids,
                uint32_t count);
  void* user; /* passed to `logits` */

  float repetition_penalty; /* multiply the log-probability of every token in the beam by it
                               (phasor_generate changes the logit instead) */
  uint32_t length_norm;     /* PHASOR_LENGTH_… */
  /* These three and source_no_repeat_ngram are as in phasor_generate_options. The log-probability
   * of forced_last is 0. */
  const uint32_t* bad_words;   /* (bad_words_count) */
  const uint32_t* source;      /* (source_count) */
  const uint32_t* forced_last; /* (1) */
  /* (stop_count, at most 64) stop strings of 1 to 256 bytes. A beam whose text contains one ends
   * with PHASOR_FINISH_STRING; all its ids are returned. Strings that the prompt and the forced
   * tokens contain do not count. Needs limits.text_bytes. */
  const char* const* stop;
  uint32_t bad_words_count, source_count, source_no_repeat_ngram, stop_count;
  /* Diverse beam search (Vijayakumar et al. 2018): number of groups. Default: 0 or 1, off. Each
   * group searches with beams / groups beams. Groups choose one after the other. A token's
   * log-probability is reduced by diversity_penalty for each beam of an earlier group that just
   * chose the token, and the reduction stays in the score. The outputs of all groups are sorted
   * together. The search and outputs end by the rules of BeamSearchScorer of transformers. */
  uint32_t groups;
  float diversity_penalty; /* at least 0 */
  /* Coverage penalty (Wu et al. 2016, equation 14), at least 0; above 0 needs PHASOR_WANT_COVERAGE.
   * Adds this times the sum of log(min(c, 1)) over source positions to the score of an output. c is
   * the cross-attention weight that the position received from all tokens of the output, averaged
   * over the heads of the last layer. As in CTranslate2, positions with c = 0 are skipped. The
   * penalty sorts outputs and affects early_stopping; it does not select beams. */
  float coverage_penalty;
  /* 1: divide a beam's probabilities by their sum after penalties and bans (renormalize_logits of
   * transformers). */
  uint32_t renormalize;
} phasor_beam_options;
#define PHASOR_BEAM_OPTIONS_INIT PHASOR_INIT_WITH(phasor_beam_options, length_penalty, 1.0f)

typedef struct phasor_beam_result {
  uint32_t struct_size;
  uint32_t count; /* number of outputs, at most `beams` */
  uint32_t steps; /* steps of the decoder for all beams, including the prompt */
} phasor_beam_result;
#define PHASOR_BEAM_RESULT_INIT PHASOR_INIT(phasor_beam_result)

/* Searches for the best outputs. Needs limits.beams. Read them with phasor_hypothesis_get.
 *
 *   ids       (count) as in phasor_generate
 *   options   NULL: limits.beams beams and the defaults
 *   result    receives the number of outputs
 *   Returns   PHASOR_BAD_INPUT for a wrong id or option, or if no token can be chosen; PHASOR_FULL
 *             if the prompt does not fit; PHASOR_NOT_FINITE; PHASOR_STOPPED if `progress` aborted
 *   Lifetime  afterwards the sequence holds the prompt and the forced tokens. To continue from an
 *             output, pass its ids. Rows of phasor_logits are undefined */
phasor_status phasor_beam_search(phasor_session* session, uint32_t sequence, const uint32_t* ids,
                                 uint32_t count, const phasor_beam_options* options,
                                 phasor_beam_result* result,
                                 phasor_error* error) PHASOR_NONBLOCKING;

/* Sets the options that the file recommends for beam search: beams, length_penalty, early_stopping,
 * renormalize, repetition_penalty, no_repeat_ngram, min_new, max_new, suppressed, bad_words,
 * source_no_repeat_ngram, forced_last. If the file recommends anything, length_penalty is at least
 * set to 1, early_stopping and renormalize to 0.
 *
 *   options   updated
 *   Returns   1; or 0 and changes nothing if the file recommends nothing or struct_size is wrong
 *   Lifetime  the lists are in the file or the model */
int phasor_beam_defaults(const phasor_model* model, phasor_beam_options* options);

/* One output of a beam search. */
typedef struct phasor_hypothesis {
  uint32_t struct_size;
  uint32_t count;        /* tokens, including forced ones and the end token */
  uint32_t finish;       /* PHASOR_FINISH_… */
  float score;           /* with the length and coverage penalties */
  float log_probability; /* natural logarithm, of the searched tokens */
  const uint32_t* ids;   /* (count) */
} phasor_hypothesis;
#define PHASOR_HYPOTHESIS_INIT PHASOR_INIT(phasor_hypothesis)

/* Reads output `index` of the last beam search of the session.
 *
 *   index     0 is the best output
 *   out       receives the output
 *   Returns   PHASOR_BAD_INPUT if `index` is not below phasor_beam_result's count
 *   Lifetime  out->ids is in the arena until the next search */
phasor_status phasor_hypothesis_get(const phasor_session* session, uint32_t index,
                                    phasor_hypothesis* out) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ embeddings and classes */

enum {
  PHASOR_OUTPUT_LOGITS = 1,
  PHASOR_OUTPUT_HIDDEN = 2,
  PHASOR_OUTPUT_POOLED = 3,
  PHASOR_OUTPUT_CLASSES = 4
};
enum {
  PHASOR_POOL_MODEL = 0, /* as the file says */
  PHASOR_POOL_MEAN = 1,
  PHASOR_POOL_FIRST = 2,
  PHASOR_POOL_LAST = 3,
  PHASOR_POOL_MAX = 4
};
enum { PHASOR_SCORES_SOFTMAX = 0, PHASOR_SCORES_SIGMOID = 1, PHASOR_SCORES_PLAIN = 2 };

/* The output of the model. */
typedef struct phasor_output {
  uint32_t struct_size;
  uint32_t output;    /* PHASOR_OUTPUT_… */
  uint32_t pooling;   /* PHASOR_POOL_…; 0: one row for each position */
  uint32_t normalize; /* 1: the pooled vector is scaled to length 1 */
  uint32_t classes;   /* number of classes; 0 for other outputs */
  uint32_t scores;    /* turns classes into scores: PHASOR_SCORES_… */
  uint32_t width;     /* of an output row: vocabulary size, number of classes, or embedding size */
  uint32_t segments;  /* number of token types; 0: none */
  uint32_t prompts;   /* number of prompts, see phasor_prompt */
  /* Late interaction (ColBERT: Khattab and Zaharia 2020). The classes of a position, divided by
   * their length, are its vector. For each query vector take the largest dot product with a
   * document vector; the score of the document is their sum. */
  uint32_t query_length;    /* queries are cut to this many ids; 0: no late interaction */
  uint32_t document_length; /* documents are cut to this many ids */
  uint32_t query_marker;    /* id after the first id of a query; or PHASOR_NONE */
  uint32_t document_marker; /* the same for a document */
  uint32_t expansion;       /* mask tokens that fill a query to query_length: PHASOR_EXPANSION_… */
} phasor_output;
#define PHASOR_OUTPUT_INIT PHASOR_INIT(phasor_output)
enum {
  PHASOR_EXPANSION_NONE = 0,
  PHASOR_EXPANSION_HIDDEN = 1, /* no token attends to them: set `seen` of phasor_item */
  PHASOR_EXPANSION_SEEN = 2
};

/* Describes the output of the model.
 *
 *   out       receives the description
 *   Returns   PHASOR_BAD_INPUT for a wrong struct_size */
phasor_status phasor_model_output(const phasor_model* model, phasor_output* out);

/* Returns the name of class `index`, or NULL if it has none.
 *
 *   bytes     receives the length; the name has no terminator
 *   Lifetime  the name is in the file */
const char* phasor_label(const phasor_model* model, uint32_t index, size_t* bytes);

/* Reads prompt `index`: a prefix that the model expects before texts of one use, such as "query".
 *
 *   name      receives the use (name_bytes), without a terminator
 *   text      receives the prefix (text_bytes), without a terminator
 *   Returns   PHASOR_BAD_INPUT if `index` is too large, see phasor_output
 *   Lifetime  both are in the file */
phasor_status phasor_prompt(const phasor_model* model, uint32_t index, const char** name,
                            size_t* name_bytes, const char** text, size_t* text_bytes);

enum { PHASOR_NORMALIZE_MODEL = 0, PHASOR_NORMALIZE_YES = 1, PHASOR_NORMALIZE_NO = 2 };

/* Computes one vector for an encoded sequence: pools its hidden states and applies the dense layer
 * of models with pooled output. The mean adds positions in order, then multiplies by 1/n. The
 * maximum is that of each value over the positions.
 *
 *   pooling   PHASOR_POOL_…
 *   normalize PHASOR_NORMALIZE_…; divides by the length of the `dim` values
 *   out       (dim) receives the first `dim` values. Range of dim: 1 to width (Matryoshka
 *             embeddings, Kusupati et al. 2022)
 *   Returns   PHASOR_BAD_INPUT if the sequence is not encoded, `dim` is out of range, or
 *             PHASOR_POOL_MODEL is given and the file says no pooling */
phasor_status phasor_embedding(phasor_session* session, uint32_t sequence, uint32_t pooling,
                               uint32_t normalize, float* out, uint32_t dim,
                               phasor_error* error) PHASOR_NONBLOCKING;

/* Computes the output rows of an encoded sequence: logits of a masked language model, or classes.
 * Read them with phasor_logits, rows 0 to count - 1.
 *
 *   first     first position. If the output is pooled: 0
 *   count     number of positions, at most limits.logit_rows. If the output is pooled: 1
 *   Returns   PHASOR_BAD_INPUT if the sequence is not encoded or the positions are out of range
 *   Lifetime  until the next call for this session */
phasor_status phasor_encoder_output(phasor_session* session, uint32_t sequence, uint32_t first,
                                    uint32_t count, phasor_error* error) PHASOR_NONBLOCKING;

/* Returns row `row` of the last logits or classes (phasor_output's width), or NULL if the last call
 * computed fewer rows or only best tokens.
 *
 *   Lifetime  in the arena until the next call for this session. You may change the values */
float* phasor_logits(phasor_session* session, uint32_t row) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ chat */

/* One message of a conversation. */
typedef struct phasor_chat_message {
  uint32_t struct_size;
  const char* role; /* (role_bytes) "system", "user", "assistant"; some templates know others */
  size_t role_bytes;
  const char* content; /* (content_bytes) UTF-8. Text that spells a special token becomes one */
  size_t content_bytes;
} phasor_chat_message;
#define PHASOR_CHAT_MESSAGE_INIT PHASOR_INIT(phasor_chat_message)

/* Returns 1 if the file has a chat template and this build supports chat, else 0. */
int phasor_chat_available(const phasor_model* model);

/* Formats a conversation with the chat template of the file. Convert the text with
 * phasor_text_to_ids and template_ids 0, because it already contains prefix and suffix.
 *
 *   add_generation_prompt  not 0: end where the next answer begins
 *   out       (capacity) receives the text, without a terminator
 *   bytes     receives the length of the text, also if capacity is too small
 *   messages  (count) the conversation
 *   Returns   PHASOR_FULL if capacity is too small; PHASOR_BAD_INPUT with the template's own words
 *             if it rejects the conversation, or if the text is longer than limits.text_bytes;
 *             PHASOR_UNSUPPORTED without a chat template */
phasor_status phasor_chat_to_text(phasor_session* session, int add_generation_prompt, char* out,
                                  size_t capacity, size_t* bytes,
                                  const phasor_chat_message* messages, uint32_t count,
                                  phasor_error* error) PHASOR_NONBLOCKING;

/* ====================================================================== 2. Advanced */

/* Returns the number of the arithmetic's rules. Hashes and states compare only at equal numbers. */
uint32_t phasor_numerics(void);

/* Returns the newest file version that this library reads. */
uint32_t phasor_format_max(void);

/* Returns the instruction-set level that the model uses. The string is static. */
const char* phasor_model_isa(const phasor_model* model);

/* Returns the name of level `index` that this machine can run, fastest first; NULL after the last.
 * The string is static. */
const char* phasor_isa_name(uint32_t index);

/* ------------------------------------------------------------------ offsets of tokens */

/* Converts a text to token ids, and says where in the text each token lies.
 *
 *   offsets   (2 * capacity) receives the first byte of each token's text, and the byte behind it:
 *             0 and 0 for an id that the template adds. Several tokens may share a character
 *   Returns   as phasor_text_to_ids; PHASOR_BAD_LIMITS without PHASOR_WANT_OFFSETS;
 *             PHASOR_BAD_INPUT also if the tokenizer leaves out a character of a word, or adds
 *             bytes to one */
phasor_status phasor_text_to_offsets(phasor_session* session, uint32_t side, int template_ids,
                                     uint32_t* ids, uint32_t* offsets, size_t capacity,
                                     size_t* count, const char* text, size_t bytes,
                                     phasor_error* error) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ tensors and metadata */

/* One tensor of the file. */
typedef struct phasor_tensor {
  uint32_t struct_size;
  uint32_t stack, set, role; /* docs/reference/file-format.md */
  const char* name;          /* of stack and role, "encoder q,k,v weight"; static */
  const char* type;          /* "f32", "q8", …; static */
  const char* layout;        /* "panel16", "rows", "vector"; static */
  uint64_t rows, cols, offset, bytes;
  uint32_t inputs;           /* bits of the inputs of its products: 8 or 16; 0: f32, or none */
  uint64_t rotated;          /* 1: they are rotated before they are rounded in groups */
} phasor_tensor;
#define PHASOR_TENSOR_INIT PHASOR_INIT(phasor_tensor)

/* Returns the number of tensors. */
uint32_t phasor_tensor_count(const phasor_model* model);

/* Describes tensor `index`.
 *
 *   out       receives the description
 *   Returns   PHASOR_BAD_INPUT if `index` is too large */
phasor_status phasor_tensor_get(const phasor_model* model, uint32_t index, phasor_tensor* out);

/* One metadata entry as text: "encoder.width" = "256". Longer strings are cut. */
typedef struct phasor_field {
  uint32_t struct_size;
  char name[48];   /* NUL-terminated; the lengths never change */
  char value[208];
} phasor_field;
#define PHASOR_FIELD_INIT PHASOR_INIT(phasor_field)

/* Returns the number of metadata entries. */
uint32_t phasor_field_count(const phasor_model* model);

/* Reads metadata entry `index`.
 *
 *   out       receives name and value
 *   Returns   PHASOR_BAD_INPUT if `index` is too large */
phasor_status phasor_field_get(const phasor_model* model, uint32_t index, phasor_field* out);

/* ------------------------------------------------------------------ your own decoding loop */

/* Appends the tokens of each item to its sequence and runs the decoder. The wanted rows of logits
 * or classes are in phasor_logits, in the order of the items.
 *
 *   items     (count) tokens of different sequences
 *   Returns   PHASOR_BAD_INPUT for a wrong item; PHASOR_FULL if a sequence has no room;
 *             PHASOR_NOT_FINITE if a sequence failed (see phasor_sequence_status), the others are
 *             valid; PHASOR_STOPPED if `progress` aborted: each sequence is as before, or empty if
 *             layers with a window dropped some of it
 *   Lifetime  logits stay valid until the next call for this session */
phasor_status phasor_step(phasor_session* session, const phasor_item* items, uint32_t count,
                          phasor_error* error) PHASOR_NONBLOCKING;

/* Finds the largest logit of a row, of equal ones the lowest id.
 *
 *   row       a row of logits or best tokens of the last step
 *   id        receives the token
 *   logit     receives its logit
 *   Returns   PHASOR_BAD_INPUT if there is no such row; PHASOR_NOT_FINITE if it contains a NaN */
phasor_status phasor_argmax(phasor_session* session, uint32_t row, uint32_t* id,
                            float* logit) PHASOR_NONBLOCKING;

/* Chooses a token as phasor_generate does, without callbacks. The logits do not change.
 *
 *   id        receives the token
 *   probabilities  (vocabulary) receives the probabilities of the draw; with temperature 0 it is 1
 *             for the chosen token. May be NULL
 *   row       a row of the last logits
 *   ids       (count) the sequence so far; its last new_count tokens are new
 *   options   NULL: the largest logit. `random` is required to draw
 *   Returns   PHASOR_BAD_INPUT for a wrong option, id or row; PHASOR_NOT_FINITE */
phasor_status phasor_choose(phasor_session* session, uint32_t* id, float* probabilities,
                            uint32_t row, const uint32_t* ids, uint32_t count, uint32_t new_count,
                            const phasor_generate_options* options,
                            phasor_error* error) PHASOR_NONBLOCKING;

/* Seeds a random number generator.
 *
 *   random    receives the state */
void phasor_random_seed(phasor_random* random, uint64_t seed) PHASOR_NONBLOCKING;

/* Returns the encoder's output of a sequence as rows of floats, or NULL if there is none. An
 * encoder keeps the output of all items of a call; an encoder-decoder keeps only the sources that
 * shared the last chunk.
 *
 *   rows      receives the number of rows
 *   stride    receives the distance of rows in floats
 *   Lifetime  in the arena until the next phasor_encode */
const float* phasor_hidden(const phasor_session* session, uint32_t sequence, uint32_t* rows,
                           uint32_t* stride) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ sequences */

/* Returns the number of tokens in the decoder sequence; 0 if there is no such sequence. */
uint32_t phasor_sequence_length(const phasor_session* session,
                                uint32_t sequence) PHASOR_NONBLOCKING;

/* Returns the state of a sequence: PHASOR_OK, PHASOR_NOT_FINITE if it failed and was not cleared
 * since, or PHASOR_BAD_INPUT if there is no such sequence. */
phasor_status phasor_sequence_status(const phasor_session* session,
                                     uint32_t sequence) PHASOR_NONBLOCKING;

/* Returns the ids of a sequence (phasor_sequence_length); an id is PHASOR_NONE if an embedding was
 * given instead.
 *
 *   Lifetime  in the arena until the next call for this session */
const uint32_t* phasor_sequence_ids(const phasor_session* session,
                                    uint32_t sequence) PHASOR_NONBLOCKING;

/* Returns how many tokens at the start of `ids` (count) are the same as in the sequence. */
uint32_t phasor_sequence_common(const phasor_session* session, uint32_t sequence,
                                const uint32_t* ids, uint32_t count) PHASOR_NONBLOCKING;

/* Removes the tokens after the first `length`.
 *
 *   Returns   PHASOR_BAD_INPUT and changes nothing if the sequence is shorter, or if layers with a
 *             window have dropped positions that the next token needs */
phasor_status phasor_sequence_truncate(phasor_session* session, uint32_t sequence,
                                       uint32_t length) PHASOR_NONBLOCKING;

/* Makes sequence `to` a copy of `from`. Both share the pages of the cache.
 *
 *   Returns   PHASOR_BAD_INPUT if there is no such sequence */
phasor_status phasor_sequence_fork(phasor_session* session, uint32_t to,
                                   uint32_t from) PHASOR_NONBLOCKING;

/* Empties a sequence: its tokens, its source and its error.
 *
 *   Returns   PHASOR_BAD_INPUT if there is no such sequence */
phasor_status phasor_sequence_clear(phasor_session* session, uint32_t sequence) PHASOR_NONBLOCKING;

/* Computes the size of a saved sequence.
 *
 *   need      receives the size in bytes
 *   Returns   PHASOR_BAD_INPUT if there is no such sequence */
phasor_status phasor_state_size(const phasor_session* session, uint32_t sequence,
                                size_t* need) PHASOR_NONBLOCKING;

/* Saves a sequence as one block, which any machine can restore.
 *
 *   out       (capacity) receives the state, phasor_state_size bytes
 *   Returns   PHASOR_NO_MEMORY if capacity is too small; PHASOR_BAD_INPUT if there is no such
 *             sequence */
phasor_status phasor_state_save(const phasor_session* session, uint32_t sequence, void* out,
                                size_t capacity) PHASOR_NONBLOCKING;

/* Restores a saved sequence, which continues with the same bits. The state records the file's
 * checksum, the number of the arithmetic and the cache type; all of the state is checked.
 *
 *   state     (bytes) from phasor_state_save
 *   Returns   PHASOR_BAD_STATE if the state is damaged or does not match the model, the library or
 *             the limits; PHASOR_BAD_INPUT if there is no such sequence */
phasor_status phasor_state_restore(phasor_session* session, uint32_t sequence, const void* state,
                                   size_t bytes, phasor_error* error) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ many inputs at once */

/* One of many inputs that are generated together. Its output is the same as that of phasor_generate
 * or phasor_beam_search for this input alone. */
typedef struct phasor_job {
  uint32_t struct_size;
  uint32_t count;       /* number of ids */
  const uint32_t* ids;  /* (count) source of an encoder-decoder, or prompt of a decoder */
  uint32_t* out;        /* (capacity) receives new tokens; for a search (n_best, capacity) */
  uint32_t capacity;
  uint32_t made;        /* new tokens so far; for a search, those of the best output at its end */
  uint32_t finish;      /* PHASOR_FINISH_…; 0: not finished, or failed */
  uint32_t status;      /* PHASOR_OK, or the phasor_status with which the job failed */
  uint32_t sequence;    /* its sequence while it runs, else PHASOR_NONE */
  uint32_t found;       /* outputs of a search, at most n_best */
  phasor_random random; /* its random numbers. Default: all 0, seeded from options.seed */
  uint32_t n_best;      /* wanted outputs of a search. Default: 0, which means 1 */
  uint32_t reserved;
  phasor_hypothesis* outputs; /* (n_best) receives the outputs of a search, best first, with ids in
                                 `out`. Default: NULL, only `out` and the fields above */
} phasor_job;
#define PHASOR_JOB_INIT PHASOR_INIT_WITH(phasor_job, sequence, PHASOR_NONE)

/* Runs one decoder step for all jobs. Waiting jobs get free sequences, in their order. Sources of
 * waiting jobs are encoded in one batch. A source that a running job already has is not encoded
 * again, except with PHASOR_WANT_SHORTLIST. Each running job gets one token. The sequence of a
 * finished job is cleared and free. Between calls you may replace finished and waiting jobs.
 *
 * At most limits.sequences jobs run together, and at most limits.logit_rows (for plain greedy
 * decoding with best_rows: best_rows). limits.sequences must be above 1.
 *
 *   jobs      (count) updated. Keep ids and out until the job finishes
 *   options   the same in every step. Not allowed: token, text, random, reuse, slide, lookahead.
 *             `source` is each job's ids
 *   left      receives the number of unfinished jobs
 *   Returns   PHASOR_BAD_INPUT for wrong options or structs; PHASOR_STOPPED if `progress` aborted:
 *             call again to continue. A job with wrong ids or a value that is not finite fails
 *             alone; `error` describes the first such job */
phasor_status phasor_jobs_step(phasor_session* session, phasor_job* jobs, uint32_t count,
                               const phasor_generate_options* options, uint32_t* left,
                               phasor_error* error) PHASOR_NONBLOCKING;

/* Calls phasor_jobs_step until all jobs are finished. Parameters and errors are the same.
 *
 *   Returns   as phasor_jobs_step */
phasor_status phasor_jobs_run(phasor_session* session, phasor_job* jobs, uint32_t count,
                              const phasor_generate_options* options,
                              phasor_error* error) PHASOR_NONBLOCKING;

/* Runs one decoder step of a beam search for each job: all beams of all running jobs. Needs
 * limits.beams. At most limits.searches jobs run together. Outputs start empty, and forced tokens
 * count as new ones. While a search runs, do not use the sequence of its job, and do not call
 * phasor_beam_search.
 *
 *   jobs      (count) updated. Keep ids and out until the job finishes
 *   options   the same in every step. `source` is each job's ids
 *   left      receives the number of unfinished jobs
 *   Returns   as phasor_jobs_step. A job without a token to choose fails alone, with
 *             PHASOR_BAD_INPUT
 *   Lifetime  unfinished beams are in the arena */
phasor_status phasor_beam_jobs_step(phasor_session* session, phasor_job* jobs, uint32_t count,
                                    const phasor_beam_options* options, uint32_t* left,
                                    phasor_error* error) PHASOR_NONBLOCKING;

/* Calls phasor_beam_jobs_step until all jobs are finished. Parameters and errors are the same.
 *
 *   Returns   as phasor_beam_jobs_step */
phasor_status phasor_beam_jobs_run(phasor_session* session, phasor_job* jobs, uint32_t count,
                                   const phasor_beam_options* options,
                                   phasor_error* error) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ tokens */

/* Returns the text of a token as the tokenizer stores it, or NULL if there is no such token or no
 * tokenizer.
 *
 *   bytes     receives the length; the text has no terminator
 *   Lifetime  the text is in the file */
const char* phasor_piece(const phasor_model* model, uint32_t side, uint32_t id,
                         size_t* bytes) PHASOR_NONBLOCKING;

#define PHASOR_PIECE_ADDED 1u   /* these characters always become this id: an added token */
#define PHASOR_PIECE_SPECIAL 2u /* a control token, which adds nothing to a text */

/* Returns the properties of a token as a sum of PHASOR_PIECE_…; 0 if there is no such token. Takes
 * time proportional to the number of added tokens. */
uint32_t phasor_piece_flags(const phasor_model* model, uint32_t side,
                            uint32_t id) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ callbacks of a session */

enum {
  PHASOR_SEE_RESIDUAL = 1,
  PHASOR_SEE_SELF_ATTENTION = 2, /* not of a layer with a short convolution */
  PHASOR_SEE_CROSS_ATTENTION = 3, /* of a merged layer each has its keys' share: 1 together */
  PHASOR_SEE_EMBEDDING = 4,
  PHASOR_SEE_FINAL = 5 /* output of the stack, after its final norm */
};
/* What the `see` callback gets. Valid only during the callback. Phasor sets struct_size. */
typedef struct phasor_view {
  uint32_t struct_size;
  uint32_t what;      /* PHASOR_SEE_… */
  uint32_t stack;     /* 2: encoder, 4: decoder */
  uint32_t layer;
  uint32_t sequence;
  uint32_t position;  /* of the first row */
  uint32_t rows;
  uint32_t cols;      /* hidden size; for attention, the number of keys */
  uint32_t heads;     /* attention heads; else 1 */
  uint32_t reserved;
  size_t stride;      /* row r of head h begins at data + h·head_stride + r·stride, in floats */
  size_t head_stride;
  const float* data;  /* for attention: weights, each row sums to 1; of merged attention, the rows
                         of self- and cross-attention together */
} phasor_view;

/* Each callback may be NULL. They run on the calling thread. */
typedef struct phasor_callbacks {
  uint32_t struct_size;
  /* Called with intermediate values. Attention needs PHASOR_WANT_ATTENTION. */
  void (*see)(void* user, const phasor_view* view);
  /* Called between layers. Return nonzero to abort with PHASOR_STOPPED. */
  int (*progress)(void* user, uint32_t stack, uint32_t layer, uint32_t layers);
  void* user;
  /* Vocabulary shortlist of an encoder-decoder (Jean et al. 2015, section 3.3; Senellart et al.
   * 2018). Needs PHASOR_WANT_SHORTLIST. Called once for each source that phasor_encode or a job
   * encodes, with its ids (count). Set bit i % 32 of allowed[i / 32] (words) for each target token
   * i that the outputs may contain; all bits are 0 before. Logits of other tokens are -infinity
   * until the source is encoded again; logits of allowed tokens keep their bits. Only panels of the
   * output matrix with an allowed token are computed, and rows of one step share the panels. Forced
   * tokens need not be allowed. */
  void (*shortlist)(void* user, const uint32_t* ids, uint32_t count, uint32_t* allowed,
                    uint32_t words);
} phasor_callbacks;
#define PHASOR_CALLBACKS_INIT PHASOR_INIT(phasor_callbacks)

/* Sets the callbacks of a session. A new shortlist applies to sources encoded later.
 *
 *   callbacks copied. NULL removes all
 *   Returns   PHASOR_UNSUPPORTED and changes nothing for `see` in a build without views;
 *             PHASOR_BAD_LIMITS for `shortlist` without PHASOR_WANT_SHORTLIST */
phasor_status phasor_session_callbacks(phasor_session* session,
                                       const phasor_callbacks* callbacks) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ test vectors of the file */

typedef struct phasor_vector {
  uint32_t struct_size;
  uint32_t source_count, target_count;
  float tolerance;        /* as a share of the range of a position's logits */
  uint64_t hash;          /* recorded hash; 0: none */
  uint32_t numerics;      /* phasor_numerics of the hash */
  const uint32_t* source; /* (source_count) ids */
  const uint32_t* target; /* (target_count) ids */
  const char* author;     /* (author_bytes) UTF-8: who computed the values; no terminator */
  uint32_t author_bytes;
} phasor_vector;
#define PHASOR_VECTOR_INIT PHASOR_INIT(phasor_vector)

/* Returns the number of test vectors. */
uint32_t phasor_vector_count(const phasor_model* model);

/* Reads test vector `index`.
 *
 *   out       receives the vector
 *   Returns   PHASOR_BAD_INPUT if `index` is too large
 *   Lifetime  ids and author are in the file */
phasor_status phasor_vector_get(const phasor_model* model, uint32_t index, phasor_vector* out);

typedef struct phasor_vector_result {
  uint32_t struct_size;
  uint32_t argmax_differs; /* positions with a different best token */
  uint64_t hash;           /* FNV-1a-64 of all output rows */
  float worst_logit;       /* largest difference, as a share of the range of logits */
  uint32_t worst_position; /* its position */
  float worst_residual;    /* largest difference, as a share of the largest sampled value */
  uint32_t worst_stack, worst_layer; /* its place */
  float worst_lead;        /* largest lead of a different best token over the stored one, as a share
                              of the range of logits */
} phasor_vector_result;
#define PHASOR_VECTOR_RESULT_INIT PHASOR_INIT(phasor_vector_result)

/* Runs test vector `index` on sequence 0 and compares: first the residuals in the order of the
 * forward pass, then the logits, then the recorded hash.
 *
 *   result    receives the differences
 *   Returns   PHASOR_MISMATCH, and error->text names the first difference; PHASOR_BAD_LIMITS if the
 *             limits do not hold the vector and one row of logits; PHASOR_BAD_INPUT if `index` is
 *             too large; PHASOR_NOT_FINITE */
phasor_status phasor_vector_run(phasor_session* session, uint32_t index,
                                phasor_vector_result* result, phasor_error* error);

/* Writes a tolerance and hashes into the test vectors of a file, and updates its checksums.
 *
 *   file      the writable file that `model` was opened with. Open it again afterwards
 *   hashes    (phasor_vector_count) from phasor_vector_run. NULL: record none
 *   tolerance as a share of the range of logits
 *   Returns   PHASOR_BAD_INPUT for another file or a tolerance that is not above 0; PHASOR_BAD_FILE
 *             if the file has no test vectors */
phasor_status phasor_vector_record(const phasor_model* model, void* file, const uint64_t* hashes,
                                   float tolerance, phasor_error* error);

/* ------------------------------------------------------------------ record of the file */

/* Where the weights come from, and how far the model's outputs are from those of the source's float
 * weights, on the inputs of the test vectors. Of logits `divergence` is the mean over all rows of
 * the Kullback-Leibler divergence from the source in nats, in which the places that are not stored
 * count as one; of any other output it is the mean of |row - source|^2 / |source|^2 over the stored
 * places. */
typedef struct phasor_record {
  uint32_t struct_size;
  float divergence;
  uint32_t numerics;       /* phasor_numerics of the divergence; 0: it was not measured */
  uint32_t rows, samples;  /* of the source's outputs; 0: none are stored */
  const uint32_t* outputs; /* (rows, 2 * samples + 1): places, ascending; then f32 values of these
                              places, of logits natural logarithms of probabilities; then that of
                              what all other places have together, 0 for other outputs */
  const unsigned char* source;      /* (32) SHA-256 of the source's weight file. Of several files:
                                       of their SHA-256, one after the other in the order of their
                                       names. 0: the source was no file */
  const unsigned char* calibration; /* (32) SHA-256 of the text or the moments by which values were
                                       chosen. 0: none */
  const char* method;               /* (method_bytes) words for people: how values were rounded */
  uint32_t method_bytes;            /* 1 to 64 */
} phasor_record;
#define PHASOR_RECORD_INIT PHASOR_INIT(phasor_record)

/* Reads the record.
 *
 *   out       receives it
 *   Returns   PHASOR_BAD_INPUT if the file has none
 *   Lifetime  what it points to is in the file */
phasor_status phasor_record_get(const phasor_model* model, phasor_record* out);

/* Writes into the record of a file, and updates its checksums: all of `record` but `rows`,
 * `samples` and `outputs`, which stay as they are.
 *
 *   file      the writable file that `model` was opened with. Open it again afterwards
 *   Returns   PHASOR_BAD_INPUT for another file, a divergence that is not a number from 0 on, or a
 *             method that is not 1 to 64 printable characters; PHASOR_BAD_FILE if the file has no
 *             record */
phasor_status phasor_record_put(const phasor_model* model, void* file, const phasor_record* record,
                                phasor_error* error);

/* ------------------------------------------------------------------ quantize */

typedef struct phasor_quantize_options {
  uint32_t struct_size;
  const char* type;        /* of the matrices: "f32", "f16", "bf16", "q8", "q4", "q8r", "q8rh",
                              "q4m", "q4k" */
  const char* output_type; /* of embeddings and output matrix. Default: NULL, `type` */
  const float* moments;    /* (moment_count) for q8, q4, q4t: the mean square of the inputs of each
                              matrix, by column, matrices in file order. Default: NULL, all 1 */
  uint64_t moment_count;   /* columns of all matrices */
  uint32_t inputs;         /* bits of the inputs of quantized matrices: 8 or 16. Default: 0, as the
                              file has them, 8 for a matrix that is quantized now */
  const char* const* types; /* (type_count) type of each tensor of the file, in file order, in place
                              of `type` and `output_type`. NULL entry: as these say. Entries of
                              tensors that are not matrices must be NULL. Each may be the tensor's
                              own type. Default: NULL */
  uint32_t type_count;     /* number of tensors of the file */
  uint64_t rotated;        /* 1: matrices of types in groups get rotated inputs, of 8 bits. Only
                              matrices of f32, f16 and bf16 can. Default: 0 */
} phasor_quantize_options;
#define PHASOR_QUANTIZE_OPTIONS_INIT PHASOR_INIT(phasor_quantize_options)

/* The quantization error of all tensors of one type. */
typedef struct phasor_rounding {
  uint32_t struct_size;
  const char* type;   /* static */
  const char* tensor; /* the tensor with the largest error; static. NULL: no error */
  uint64_t bytes;     /* 0: the file has no tensor of this type */
  float largest;      /* largest |stored - given| */
  float share;        /* largest |stored - given| / largest |given| of the tensor */
} phasor_rounding;
#define PHASOR_ROUNDING_INIT PHASOR_INIT(phasor_rounding)
enum { PHASOR_TYPES = 20 }; /* types of this version; later versions may have more */

/* Computes the size of a file with its matrices in another type. Files of f32, f16 and bf16 convert
 * to any type. Others convert only to f32, because rounding twice adds errors.
 *
 *   need      receives the size in bytes
 *   file      (file_bytes) the whole file, aligned to PHASOR_ALIGN
 *   options   required
 *   Returns   the errors of phasor_model_open; PHASOR_BAD_INPUT for a wrong option;
 *             PHASOR_UNSUPPORTED if the types do not convert; PHASOR_TOO_LARGE */
phasor_status phasor_quantize_size(size_t* need, const void* file, size_t file_bytes,
                                   const phasor_quantize_options* options, phasor_error* error);

/* Converts a file to another type. Test vectors keep the hashes and tolerance of the old type: run
 * them, then call phasor_vector_record. The structure of the file is checked, its checksums are
 * not.
 *
 *   out       (out_bytes) receives the new file: phasor_quantize_size bytes, aligned
 *   rounding  (rounding_count) receives the error of each type, in the order of their numbers. Pass
 *             PHASOR_TYPES structs, or NULL with 0. Structs after the last type are set to 0
 *   file      (file_bytes) the whole file, aligned to PHASOR_ALIGN
 *   options   required
 *   Returns   as phasor_quantize_size; PHASOR_NO_MEMORY if out_bytes is too small */
phasor_status phasor_quantize(void* out, size_t out_bytes, phasor_rounding* rounding,
                              uint32_t rounding_count, const void* file, size_t file_bytes,
                              const phasor_quantize_options* options, phasor_error* error);

/* ====================================================================== 3. Experimental */
/* These functions may change or disappear in any release. */

/* Asks Linux for the matrix unit of Intel AMX (Linux 5.16 and newer, x86-64 with AMX, AVX-512 and
 * VNNI). Call once, before models are opened; any thread may call. Level "amx" is then the best.
 * The results have the same bits. The call fails if a thread's sigaltstack is smaller than
 * AT_MINSIGSTKSZ of getauxval; afterwards Linux refuses such stacks.
 *
 *   Returns   1 if the process has AMX; 0 if not, and nothing has changed */
int phasor_request_amx(void);

/* Names part `index` of the arena. The parts add up to phasor_session_size.
 *
 *   name      receives the name; static
 *   bytes     receives the size
 *   Returns   PHASOR_BAD_INPUT if `index` is too large; the errors of phasor_session_size */
phasor_status phasor_session_part(const phasor_model* model, const phasor_limits* limits,
                                  uint32_t index, const char** name, uint64_t* bytes);

/* The cost of encoding a source, and of one decoder step. */
typedef struct phasor_cost {
  uint32_t struct_size;
  uint64_t encode_bytes; /* weights read to encode one source */
  uint64_t encode_macs;  /* multiply-adds to encode the source */
  uint64_t step_bytes;   /* weights and cache read for one decoder token */
  uint64_t step_macs;    /* multiply-adds for one decoder token */
} phasor_cost;
#define PHASOR_COST_INIT PHASOR_INIT(phasor_cost)

/* Estimates the cost from the file's metadata alone.
 *
 *   source    source length, in tokens
 *   position  position of the decoder token
 *   out       receives the cost
 *   Returns   PHASOR_BAD_INPUT for a wrong struct_size */
phasor_status phasor_model_cost(const phasor_model* model, uint32_t source, uint32_t position,
                                phasor_cost* out);

enum { PHASOR_PEAK_F32 = 1, PHASOR_PEAK_INT8 = 2 };

/* Runs `rounds` of multiply-adds on registers, at the model's level. Measure the time of the call,
 * on as many threads as you use, to get the peak rate of the machine.
 *
 *   what      PHASOR_PEAK_F32, or PHASOR_PEAK_INT8 for int8 dot products
 *   Returns   the number of multiply-adds; 0 in a build without this function */
uint64_t phasor_model_peak(const phasor_model* model, uint32_t what, uint64_t rounds);

/* Returns the ids without a vector in late interaction (punctuation). Phasor's ColBERT scores leave
 * them out of documents.
 *
 *   count     receives the number of ids
 *   Lifetime  the ids are in the file */
const uint32_t* phasor_skipped(const phasor_model* model, uint32_t* count);

/* ====================================================================== Rules of the interface
 *
 * For contributors: comments in the source cite these rules by number, as "rule 3.1".
 *
 * 3.1   Two blocks: the model and the arena of a session. Their sizes depend only on the file and
 *       the limits, and are equal on every machine: they contain no pointer, no size_t and no
 *       scratch memory that depends on the instruction set.
 * 3.2   phasor_limits names every number that the size of the arena depends on.
 * 3.3   A step takes items {sequence, ids or embeddings, count, logits}. Sequences can be
 *       truncated, forked and cleared. The cache has pages of 16 positions and a table for each
 *       sequence.
 * 3.4   Threads belong to the caller: phasor_parallel. The core makes no system call and takes no
 *       lock. Only phasor_request_amx makes a system call, and no other function calls it.
 * 3.5   An error is a status and a caller's struct with one line of text. Ids, positions and texts
 *       are data; NULL for a required pointer is a bug in the caller.
 * 3.6   Text to ids returns the needed count, also if the capacity is too small. Ids to text keeps
 *       a state that holds back an incomplete character.
 * 3.7   Callbacks: token (may stop), logits (may change them, sees the ids), progress between
 *       layers (may abort). Logits stay in the arena until the next call.
 * 3.8   A sequence can be saved and restored on another machine, and continues with the same bits.
 *       A state carries the file's hash, the number of the arithmetic and the cache type, and no
 *       pointers. Restore checks all of it.
 * 3.9   phasor_version, phasor_numerics, phasor_format_max. Every struct that can grow begins with
 *       its size. Shorter structs work, down to those of release 0.2.0. Others are rejected.
 * 3.10  One header without dependencies has the panel layout (src/layout.h) for format, kernels and
 *       quantizer. Only the files of instruction-set levels include xsimd.
 */

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
