/* Phasor: a Transformer from one flat file, in one block of memory, with the same bits on every
 * machine.
 *
 * The order of use:
 *
 *   file bytes -> phasor_model_size, phasor_model_open
 *   limits     -> phasor_limits_for
 *   arena      -> phasor_session_size, phasor_session_open
 *   work       -> phasor_encode, phasor_step, phasor_generate
 *
 * Nothing is closed: forget the memory. examples/c/translate.c is a whole program.
 *
 * Memory    You give two blocks, each aligned to PHASOR_ALIGN: one for the model, and one for each
 *           session, its arena. Both sizes are exact, known beforehand, and the same on every
 *           machine. The model is read-only once it is open; any number of sessions and threads
 *           may share it. The file's bytes stay where they are, aligned to PHASOR_ALIGN (64 on a
 *           host, 16 on a Cortex-M). They outlive the model, and the model outlives its sessions.
 *           After open nothing is allocated.
 * Threads   Many threads may use one model. One thread at a time may use a session. A session
 *           spreads its work over threads only through your own `parallel` function; the result
 *           does not depend on it.
 * Errors    Functions return a status. `error` gets the details and one line of text; it may be
 *           NULL. What is in files, ids, texts and lengths is data: where it is wrong you get a
 *           status.
 * NULL      A pointer may be NULL where this header says so, and where its count or capacity is 0.
 *           Any other NULL is a bug of the caller: a library built without NDEBUG stops there.
 * Growth    Every struct that can grow begins with struct_size. Set it to sizeof before you give
 *           the struct to a function, also where the function fills it; the _INIT macros do. An
 *           older program's struct may be shorter than the library's. That works from release 0.2.0
 *           on: fields that the struct does not have keep their default (0, or what _INIT gives),
 *           and nothing is read or written beyond struct_size. A struct_size below that release's,
 *           or above what this library knows, is PHASOR_BAD_INPUT, and the line of text names the
 *           struct. (A phasor_error of such a size is left as it is.) In an array all structs have
 *           the same struct_size, and lie that far apart. A field `reserved` is 0: a later version
 *           may give it a meaning.
 *
 * The rules of the interface. Comments in the source cite them by number, as "rule 3.1".
 *
 * 3.1   Two blocks: the model's and a session's arena. Both sizes are functions of the file and the
 *       limits and of nothing else. They are equal on every machine: no pointer, no size_t, no
 *       scratch that an instruction set decides.
 * 3.2   Limits is one struct. It names every number that the arena's size depends on.
 * 3.3   A step takes items {sequence, ids or embeddings, count, logits}. Sequences can be cut,
 *       forked and cleared; their cache is in pages of 16 positions, with a table for each
 *       sequence.
 * 3.4   Threads are the caller's: phasor_parallel. The core makes no system call and takes no lock.
 *       One function is a system call, phasor_request_amx, which no other calls.
 * 3.5   An error is a status, and a caller's struct with one line of text. Ids, positions and texts
 *       are data; a NULL for a required pointer is the caller's bug.
 * 3.6   Text to ids answers with the count that is needed, also when the capacity is too small. Ids
 *       to text keeps a state that holds back half a character.
 * 3.7   Callbacks: a token (may stop), logits (may edit, sees the ids), progress between layers
 *       (may abort). Logits live in the arena until the next call.
 * 3.8   A sequence can be saved, restored and continued with the same bits on another machine. A
 *       state carries the file's hash, the number of the arithmetic and the cache's type, and no
 *       pointers; restore checks it.
 * 3.9   phasor_version, phasor_numerics, phasor_format_max. Every struct that can grow begins with
 *       its size. A shorter one works, down to release 0.2.0's; any other is refused by name.
 * 3.10  One header without dependencies has the panels' layout (src/layout.h), for the format, the
 *       kernels and the quantizer. Only the files of instruction-set levels include xsimd.
 */
#ifndef PHASOR_H
#define PHASOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a real-time thread may call: no allocation, no lock, no system call, no exception. clang 20
 * and newer check it, in your code with -Wfunction-effects and at run time with
 * -fsanitize=realtime; the functions that you give (parallel, callbacks) count then. */
#if defined(__clang__) && __clang_major__ >= 20
#define PHASOR_NONBLOCKING __attribute__((nonblocking))
#else
#define PHASOR_NONBLOCKING
#endif

#define PHASOR_ALIGN 64u        /* bytes; of the model's block and of the arena */
#define PHASOR_NONE 0xFFFFFFFFu /* no such id, no such index */

/* ------------------------------------------------------------------ versions and errors */

uint32_t phasor_version(void);    /* 0x00MMmmpp */
uint32_t phasor_numerics(void);   /* of the arithmetic's rules: hashes compare at equal numbers */
uint32_t phasor_format_max(void); /* newest version of the file that this build reads */

typedef enum phasor_status {
  PHASOR_OK = 0,
  PHASOR_BAD_FILE = 1,        /* not a .phasor file, or its structure is wrong */
  PHASOR_BAD_CHECKSUM = 2,    /* structurally fine but damaged */
  PHASOR_UNSUPPORTED = 3,     /* a version, section, key or value that this build does not have */
  PHASOR_TOO_LARGE = 4,       /* does not fit this machine's addresses */
  PHASOR_NO_MEMORY = 5,       /* the block is smaller than its size function said */
  PHASOR_BAD_LIMITS = 6,      /* the limits contradict each other or the model */
  PHASOR_BAD_INPUT = 7,       /* a token id, position, text, option or count out of range */
  PHASOR_FULL = 8,            /* the sequence is as long as the limits allow */
  PHASOR_NOT_FINITE = 9,      /* a value became infinite or NaN; layer says where */
  PHASOR_STOPPED = 10,        /* a callback asked to stop */
  PHASOR_BAD_ARITHMETIC = 11, /* this machine or compiler breaks the rules of the arithmetic */
  PHASOR_BAD_STATE = 12,      /* a saved state that is not of this file, arithmetic or limits */
  PHASOR_MISMATCH = 13        /* a test vector gives something else */
} phasor_status;

/* The name of a status, "ok", "bad file", ...; static. */
const char* phasor_status_name(phasor_status status);

typedef struct phasor_error {
  uint32_t struct_size;
  int32_t code;      /* a phasor_status */
  uint32_t section;  /* of the file, as in docs/reference/file-format.md, or PHASOR_NONE */
  uint32_t layer;    /* or PHASOR_NONE */
  uint64_t expected; /* where a number was expected, and the one found */
  uint64_t found;
  char text[160];    /* one line, terminated: the thing and what was expected, not the file */
} phasor_error;
#define PHASOR_ERROR_INIT { sizeof(phasor_error), 0, PHASOR_NONE, PHASOR_NONE, 0, 0, { 0 } }

/* ------------------------------------------------------------------ the model */

typedef struct phasor_model phasor_model;     /* lives in the caller's block */
typedef struct phasor_session phasor_session; /* lives at the start of the arena */

typedef struct phasor_open_options {
  uint32_t struct_size;
  const char* isa; /* NULL or "auto": the best level here; else a level's name, as for --isa */
  /* Of an encoder-decoder of several languages, in place of what the file says (NULL): (1) what an
   * output begins from, and (1) the first token that it is made to have. Read by open only. */
  const uint32_t* decoder_start;
  const uint32_t* forced_first;
} phasor_open_options;
#define PHASOR_OPEN_OPTIONS_INIT { sizeof(phasor_open_options), NULL, NULL, NULL }

/* Bytes of the model's block for this file. Reads the head of the file and checks it as open
 * does. */
phasor_status phasor_model_size(size_t* need, const void* file, size_t file_bytes,
                                phasor_error* error);

/* Checks the file's head and structure, binds its tensors, and puts the model into `memory` (at
 * least phasor_model_size). *model points into `memory`. Options may be NULL. Takes time linear in
 * the head; the tensors are not read (see phasor_model_check). */
phasor_status phasor_model_open(phasor_model** model, void* memory, size_t memory_bytes,
                                const void* file, size_t file_bytes,
                                const phasor_open_options* options, phasor_error* error);

/* Reads the whole file once: the checksum of every section and tensor, padding that must be zero,
 * weights that must be finite. */
phasor_status phasor_model_check(const phasor_model* model, phasor_error* error);

const char* phasor_model_isa(const phasor_model* model); /* the level in use; static */
const char* phasor_isa_name(uint32_t index); /* the levels that run here, best first; then NULL */

/* Asks the operating system for the matrix unit of Intel's AMX, once, before models are opened: 1
 * when the process has it, and level "amx" is the best from now on; else 0, and all is as if it had
 * not been called. The results are the same bits. Only Linux is asked (5.16 and newer, x86-64), by
 * arch_prctl, and only on a processor that has AMX, AVX-512 and VNNI. It refuses when a thread's
 * sigaltstack is smaller than AT_MINSIGSTKSZ of getauxval, and refuses such stacks from then on.
 * Any thread may call it. */
int phasor_request_amx(void);

enum { PHASOR_ENCODER = 1, PHASOR_DECODER = 2, PHASOR_ENCODER_DECODER = 3 };
enum { PHASOR_SOURCE = 1, PHASOR_TARGET = 2 }; /* sides */

/* What a caller needs to know of one side. Absent ids are PHASOR_NONE. The pointers lie in the
 * file. */
typedef struct phasor_side {
  uint32_t struct_size;
  uint32_t vocabulary;    /* ids are 0 … vocabulary−1 */
  uint32_t has_tokenizer;
  uint32_t pad, unknown, start, decoder_start, forced_first, mask;
  uint32_t end_count, prefix_count, suffix_count;
  const uint32_t* end;    /* (end_count) ids that end a sequence */
  const uint32_t* prefix; /* (prefix_count) ids put before an encoded text */
  const uint32_t* suffix; /* (suffix_count) ids put after it */
  uint32_t max_positions; /* longest sequence of this side that the model allows; 0 = no limit */
  uint32_t width;         /* D of this side's stack */
  uint32_t layers;
} phasor_side;

uint32_t phasor_model_stack(const phasor_model* model); /* PHASOR_ENCODER, … */
/* PHASOR_BAD_INPUT when the model has no such side. */
phasor_status phasor_model_side(const phasor_model* model, uint32_t side, phasor_side* out);

enum {
  PHASOR_OUTPUT_LOGITS = 1,
  PHASOR_OUTPUT_HIDDEN = 2,
  PHASOR_OUTPUT_POOLED = 3,
  PHASOR_OUTPUT_CLASSES = 4
};
enum {
  PHASOR_POOL_MODEL = 0, /* as the model's file says */
  PHASOR_POOL_MEAN = 1,
  PHASOR_POOL_FIRST = 2,
  PHASOR_POOL_LAST = 3
};
enum { PHASOR_SCORES_SOFTMAX = 0, PHASOR_SCORES_SIGMOID = 1, PHASOR_SCORES_PLAIN = 2 };

/* What comes out of the model. */
typedef struct phasor_output {
  uint32_t struct_size;
  uint32_t output;    /* PHASOR_OUTPUT_… */
  uint32_t pooling;   /* PHASOR_POOL_…; 0 = a row for each position */
  uint32_t normalize; /* 1: the pooled vector has length 1 */
  uint32_t classes;   /* number of classes, 0 for other outputs */
  uint32_t scores;    /* how classes become scores: PHASOR_SCORES_… */
  uint32_t width;     /* of an output row: the vocabulary, the classes, or the vector */
  uint32_t segments;  /* token types of the first stack, 0 = none */
  uint32_t prompts;   /* number of prompts, see phasor_prompt */
  /* Late interaction (ColBERT: Khattab and Zaharia 2020): the classes of a position are its vector,
     to be divided by its length; a text's score is the sum, over the query's vectors, of the
     largest product with one of the text's. */
  uint32_t query_length;    /* ids of a query, at most; 0 = no late interaction */
  uint32_t document_length; /* ids that a text is cut to */
  uint32_t query_marker;    /* the id behind a query's first one, or PHASOR_NONE */
  uint32_t document_marker; /* the same of a text */
  uint32_t expansion;       /* mask tokens behind a query, up to query_length: PHASOR_EXPANSION_… */
} phasor_output;
enum {
  PHASOR_EXPANSION_NONE = 0,
  PHASOR_EXPANSION_HIDDEN = 1, /* no token attends to them: phasor_item's `seen` */
  PHASOR_EXPANSION_SEEN = 2
};
phasor_status phasor_model_output(const phasor_model* model, phasor_output* out);

/* Late interaction: the ids whose vectors a text has not (punctuation); *count of them, in the
 * file. */
const uint32_t* phasor_skipped(const phasor_model* model, uint32_t* count);

/* The name of class `index`, in the file, without a terminator; NULL when it has none. */
const char* phasor_label(const phasor_model* model, uint32_t index, size_t* bytes);

/* Prompt `index`: a prefix for texts of one use ("query"), in the file, without terminators.
 * PHASOR_BAD_INPUT past the last. */
phasor_status phasor_prompt(const phasor_model* model, uint32_t index, const char** name,
                            size_t* name_bytes, const char** text, size_t* text_bytes);

/* One tensor of the directory. */
typedef struct phasor_tensor {
  uint32_t struct_size;
  uint32_t stack, set, role; /* docs/reference/file-format.md */
  const char* name;          /* of stack and role, "encoder q,k,v weight"; static */
  const char* type;          /* "f32", "q8", …; static */
  const char* layout;        /* "panel16", "rows", "vector"; static */
  uint64_t rows, cols, offset, bytes;
} phasor_tensor;
uint32_t phasor_tensor_count(const phasor_model* model);
/* PHASOR_BAD_INPUT past the last. */
phasor_status phasor_tensor_get(const phasor_model* model, uint32_t index, phasor_tensor* out);

/* One entry of the metadata as text: "encoder.width" = "256". Longer strings are cut. The two
 * lengths never change. */
typedef struct phasor_field {
  uint32_t struct_size;
  char name[48];
  char value[208];
} phasor_field;
uint32_t phasor_field_count(const phasor_model* model);
/* PHASOR_BAD_INPUT past the last. */
phasor_status phasor_field_get(const phasor_model* model, uint32_t index, phasor_field* out);

/* ------------------------------------------------------------------ limits and the arena */

/* What needs memory of its own: attention weights to look at; sampling and penalties (12 bytes for
 * each token of the vocabulary); an encoder-decoder's vocabulary shortlists (a bit for each token
 * of the target's vocabulary, for each sequence and once more; see phasor_callbacks); an
 * encoder-decoder's coverage penalty in searches (attention weights, and 4 bytes for each position
 * of the source, for each sequence and beam; needs `beams`). */
enum {
  PHASOR_WANT_ATTENTION = 1,
  PHASOR_WANT_SAMPLING = 2,
  PHASOR_WANT_SHORTLIST = 4,
  PHASOR_WANT_COVERAGE = 8
};
/* The type of the decoder's keys and values, cross-attention's too. They are rounded to it before
 * their first use: the logits are a function of the file, the tokens and this type, in any
 * chunking. F16 halves the cache. Q8 (int8 in groups of 32 along the head, with an f32 scale) takes
 * 9/32 of it. Both are PHASOR_BAD_LIMITS for additive scores and for positions that multiply keys
 * with a table (relative_key_query, three-way, disentangled). */
enum { PHASOR_CACHE_F32 = 0, PHASOR_CACHE_F16 = 1, PHASOR_CACHE_Q8 = 2 };
enum { PHASOR_TABLES_WHOLE = 0, PHASOR_TABLES_ROWS = 1 };

typedef struct phasor_limits {
  uint32_t struct_size;
  uint32_t source;     /* tokens of one source sequence (0 for a decoder) */
  uint32_t target;     /* tokens of one decoder sequence with its start token (0 for an encoder) */
  uint32_t sequences;  /* that live at the same time */
  uint32_t chunk;      /* rows (tokens) computed together; any value gives the same bits */
  uint32_t threads;    /* that `parallel` may use at the same time */
  uint32_t text_bytes; /* longest text for the tokenizers; 0 = no text */
  uint32_t logit_rows; /* rows of logits that one step can be asked for */
  uint32_t cache_type; /* PHASOR_CACHE_… */
  uint32_t outputs;    /* PHASOR_WANT_… */
  uint32_t tables;     /* PHASOR_TABLES_…: sinusoid rows for the whole context at open, or as they
                          are needed; the same bits */
  uint32_t best_rows;  /* rows that one step can be asked for the best token of (PHASOR_BEST_…): 8
                          bytes a row in place of its logits */
  uint32_t beams;      /* of a beam search, at most 256; 0 = none. They have room of their own for
                          `target` tokens each, and share the source's keys and values; logit_rows
                          becomes at least this, for each search */
  uint32_t searches;   /* beam searches that run at the same time (phasor_beam_jobs_step), at most
                          `sequences`; 0 = 1 with beams */
} phasor_limits;

/* Fills *limits for one sequence of the given lengths; 0 asks for the model's own maximum (or 256
 * where it has none). */
phasor_status phasor_limits_for(const phasor_model* model, uint32_t source, uint32_t target,
                                phasor_limits* limits);

/* The arena's exact size in bytes: with one byte less open answers PHASOR_NO_MEMORY. */
phasor_status phasor_session_size(size_t* need, const phasor_model* model,
                                  const phasor_limits* limits, phasor_error* error);

/* Part `index` of the arena: its name (static) and bytes; PHASOR_BAD_INPUT past the last. The parts
 * add up to the size. */
phasor_status phasor_session_part(const phasor_model* model, const phasor_limits* limits,
                                  uint32_t index, const char** name, uint64_t* bytes);

/* What one step at position `position` costs, from the file's head alone. */
typedef struct phasor_cost {
  uint32_t struct_size;
  uint64_t encode_bytes; /* of weights, read once a source */
  uint64_t encode_macs;  /* multiply-adds for `source` tokens */
  uint64_t step_bytes;   /* weights and cache that one decoder token reads */
  uint64_t step_macs;    /* its multiply-adds */
} phasor_cost;
phasor_status phasor_model_cost(const phasor_model* model, uint32_t source, uint32_t position,
                                phasor_cost* out);

/* The most that this machine's arithmetic can do at the model's level: `rounds` of multiply-adds on
 * operands in registers, f32 or int8 dot products. Returns the multiply-adds done. You take the
 * time of the call, on each thread that is to count. */
enum { PHASOR_PEAK_F32 = 1, PHASOR_PEAK_INT8 = 2 };
uint64_t phasor_model_peak(const phasor_model* model, uint32_t what, uint64_t rounds);

/* One piece of a job: called for every index 0 … count−1 exactly once, on any thread. */
typedef void (*phasor_task)(void* context, uint32_t index);

/* Your threads. run calls task(context, i) for each i < count, at most limits.threads at a time,
 * and returns when all are done. NULL run: everything happens on the calling thread. */
typedef struct phasor_parallel {
  uint32_t struct_size;
  void (*run)(void* user, phasor_task task, void* context, uint32_t count);
  void* user;
} phasor_parallel;

/* Puts a session into `memory` (phasor_session_size) and computes the position tables for the
 * limits' lengths. parallel may be NULL; it is copied. */
phasor_status phasor_session_open(phasor_session** session, void* memory, size_t memory_bytes,
                                  const phasor_model* model, const phasor_limits* limits,
                                  const phasor_parallel* parallel, phasor_error* error);

/* ------------------------------------------------------------------ the forward pass */

/* What an item wants to know of the tokens that follow: their logits, or the best token alone. The
 * output layer finds that one while it computes 256 logits at a time, without room for all of them.
 * It is the token of the logits' largest value, the same one on every machine. */
enum {
  PHASOR_LOGITS_NONE = 0,
  PHASOR_LOGITS_LAST = 1,
  PHASOR_LOGITS_ALL = 2,
  PHASOR_BEST_LAST = 3,
  PHASOR_BEST_ALL = 4
};

/* Tokens for one sequence. */
typedef struct phasor_item {
  uint32_t struct_size;
  uint32_t sequence;         /* 0 … limits.sequences−1; each sequence at most once in a call */
  uint32_t count;            /* tokens, at least 1 */
  uint32_t logits;           /* PHASOR_LOGITS_… or PHASOR_BEST_… (decoder); logits and best tokens
                                do not mix in one call */
  const uint32_t* ids;       /* (count), or NULL when embeddings are given */
  const float* embeddings;   /* (count, embedding width) or NULL: in place of the embedding's rows,
                                before scale and position. With ids too, the tokens whose id is
                                PHASOR_NONE have theirs */
  const uint32_t* segments;  /* (count) token types, or NULL: all 0 */
  const uint32_t* positions; /* (count) or NULL. Positions are counted, not chosen: these must be
                                the ones that the tokens have. Anything else (token ids, a padded
                                batch's positions) is an error */
  const float* states;       /* (count, encoder width) or NULL. phasor_encode of an encoder-decoder:
                                the encoder's output, after its last norm, in place of ids or
                                embeddings and without segments. The encoder does not run: a decoder
                                attends to what another encoder, or another machine, has made */
  uint32_t seen;             /* phasor_encode of an encoder: the first `seen` tokens, at most count,
                                are what all tokens attend to; those behind them have outputs of
                                their own and nobody, they included, attends to them (the expansion
                                of ColBERT's queries); 0: all are seen. Not with tables of
                                distances; the last token's window must hold one that is seen */
  uint32_t reserved;
} phasor_item;
#define PHASOR_ITEM_INIT \
  { sizeof(phasor_item), 0, 0, PHASOR_LOGITS_NONE, NULL, NULL, NULL, NULL, NULL, 0, 0 }

/* Clears each item's sequence and runs the encoder over its whole source; attention stays within
 * the item. Short sources share the matrix products, as many as limits.chunk tokens hold. No
 * padding is computed, and the bits are those of each source alone. For an encoder-decoder this
 * computes the keys and values of cross-attention, once; of an item's `states` only these. */
phasor_status phasor_encode(phasor_session* session, const phasor_item* items, uint32_t count,
                            phasor_error* error) PHASOR_NONBLOCKING;

/* Appends each item's tokens to its sequence and runs the decoder. Logits of the wanted rows, or
 * the classes of a decoder that gives them, are in phasor_logits, items in order, until the next
 * call. PHASOR_NOT_FINITE fails the sequences concerned only: see phasor_sequence_status. After
 * PHASOR_STOPPED each sequence is as it was, or empty where layers with a window have let go of
 * what it had. */
phasor_status phasor_step(phasor_session* session, const phasor_item* items, uint32_t count,
                          phasor_error* error) PHASOR_NONBLOCKING;

/* Row `row` (vocabulary or classes) of the last step's or encoder output's logits. NULL past the
 * last row and after a step that was asked for best tokens. Writable: it is yours until the next
 * call. */
float* phasor_logits(phasor_session* session, uint32_t row) PHASOR_NONBLOCKING;

/* The encoder's output of a sequence: rows of width floats, *stride floats apart; valid until the
 * next phasor_encode. NULL when there is none. An encoder keeps those of all items of the call, an
 * encoder-decoder those of the last sources that shared a chunk. */
const float* phasor_hidden(const phasor_session* session, uint32_t sequence, uint32_t* rows,
                           uint32_t* stride) PHASOR_NONBLOCKING;

/* An encoder's output rows for positions first … first+count−1 of an encoded sequence: the
 * vocabulary's logits (masked language model) or the classes of each token; one row (first 0, count
 * 1) where the output is pooled. They are in phasor_logits, row 0 … count−1, until the next call.
 * count is at most limits.logit_rows. */
phasor_status phasor_encoder_output(phasor_session* session, uint32_t sequence, uint32_t first,
                                    uint32_t count, phasor_error* error) PHASOR_NONBLOCKING;

enum { PHASOR_NORMALIZE_MODEL = 0, PHASOR_NORMALIZE_YES = 1, PHASOR_NORMALIZE_NO = 2 };

/* One vector for an encoded sequence: its hidden states pooled (PHASOR_POOL_MODEL: as the file
 * says, PHASOR_BAD_INPUT where it says nothing), through the model's dense layer where its output
 * is a pooled vector. out gets the first `dim` values (1 … width: Matryoshka embeddings, Kusupati
 * et al. 2022), then divided by their length when asked. The mean is the sum over positions in
 * their order, times 1/n. */
phasor_status phasor_embedding(phasor_session* session, uint32_t sequence, uint32_t pooling,
                               uint32_t normalize, float* out, uint32_t dim,
                               phasor_error* error) PHASOR_NONBLOCKING;

/* The lowest id with the largest logit of a row; PHASOR_NOT_FINITE when the row holds a NaN. */
phasor_status phasor_argmax(phasor_session* session, uint32_t row, uint32_t* id,
                            float* logit) PHASOR_NONBLOCKING;

/* Sequences. Their cache lies in pages of 16 positions, each sequence with its own table. */
uint32_t phasor_sequence_length(const phasor_session* session,
                                uint32_t sequence) PHASOR_NONBLOCKING;
phasor_status phasor_sequence_status(const phasor_session* session,
                                     uint32_t sequence) PHASOR_NONBLOCKING;
/* (length); PHASOR_NONE where an embedding was given. */
const uint32_t* phasor_sequence_ids(const phasor_session* session,
                                    uint32_t sequence) PHASOR_NONBLOCKING;
/* How many of the first ids are those that the sequence has, at most its length. */
uint32_t phasor_sequence_common(const phasor_session* session, uint32_t sequence,
                                const uint32_t* ids, uint32_t count) PHASOR_NONBLOCKING;
/* Forgets the tail. PHASOR_BAD_INPUT, and nothing is changed, where layers with a window have let
 * go of positions that the next token would see (docs/design/architecture.md). */
phasor_status phasor_sequence_truncate(phasor_session* session, uint32_t sequence,
                                       uint32_t length) PHASOR_NONBLOCKING;
/* `to` becomes a copy; pages are shared. */
phasor_status phasor_sequence_fork(phasor_session* session, uint32_t to,
                                   uint32_t from) PHASOR_NONBLOCKING;
/* Empty, without a source. */
phasor_status phasor_sequence_clear(phasor_session* session, uint32_t sequence) PHASOR_NONBLOCKING;

/* A sequence as one block that can be moved to another machine. It carries the file's checksum, the
 * arithmetic's number and the cache type, and no pointers. restore checks all of it and continues
 * with the same bits. */
phasor_status phasor_state_size(const phasor_session* session, uint32_t sequence,
                                size_t* need) PHASOR_NONBLOCKING;
phasor_status phasor_state_save(const phasor_session* session, uint32_t sequence, void* out,
                                size_t capacity) PHASOR_NONBLOCKING;
phasor_status phasor_state_restore(phasor_session* session, uint32_t sequence, const void* state,
                                   size_t bytes, phasor_error* error) PHASOR_NONBLOCKING;

enum {
  PHASOR_SEE_RESIDUAL = 1,
  PHASOR_SEE_SELF_ATTENTION = 2,
  PHASOR_SEE_CROSS_ATTENTION = 3,
  PHASOR_SEE_EMBEDDING = 4,
  PHASOR_SEE_FINAL = 5 /* the stack's output, after its final norm */
};
/* What an observer sees; valid during the call only. The library sets struct_size. */
typedef struct phasor_view {
  uint32_t struct_size;
  uint32_t what;      /* PHASOR_SEE_… */
  uint32_t stack;     /* 2 encoder, 4 decoder, as in docs/reference/file-format.md */
  uint32_t layer;
  uint32_t sequence;
  uint32_t position;  /* of the first row */
  uint32_t rows;
  uint32_t cols;      /* width; keys for attention */
  uint32_t heads;     /* attention: row r of head h is data + (h·head_stride + r·stride); else 1 */
  uint32_t reserved;
  size_t stride;      /* floats */
  size_t head_stride;
  const float* data;  /* attention: the weights, which add up to one */
} phasor_view;

/* Callbacks of a session; each may be NULL. They run on the calling thread. */
typedef struct phasor_callbacks {
  uint32_t struct_size;
  /* Attention needs PHASOR_WANT_ATTENTION. */
  void (*see)(void* user, const phasor_view* view);
  /* Between layers; not 0 aborts with PHASOR_STOPPED. */
  int (*progress)(void* user, uint32_t stack, uint32_t layer, uint32_t layers);
  void* user;
  /* A vocabulary shortlist (Jean et al. 2015, section 3.3; Senellart et al. 2018), needs
   * PHASOR_WANT_SHORTLIST. Called once for each source that phasor_encode or a job has encoded, an
   * encoder-decoder's, with its ids (count): sets the bits of the target tokens that its outputs
   * may have, bit i % 32 of allowed[i / 32] (words), which are 0. The logits of the others are
   * −infinity, in every sequence with this source until it is encoded anew; those of the set have
   * the same bits as without, and only the panels of the output's matrix that hold one of them are
   * computed. Softmax, sampling and beam search are then over the set. Forced tokens need not be in
   * it. The rows that share a step share the panels. */
  void (*shortlist)(void* user, const uint32_t* ids, uint32_t count, uint32_t* allowed,
                    uint32_t words);
} phasor_callbacks;
/* callbacks NULL: none. PHASOR_UNSUPPORTED, and nothing is changed, where `see` is given and the
 * build has no views (PHASOR_ONLY); PHASOR_BAD_LIMITS where `shortlist` is and the limits have no
 * PHASOR_WANT_SHORTLIST. A new shortlist is that of sources that are encoded later. */
phasor_status phasor_session_callbacks(phasor_session* session,
                                       const phasor_callbacks* callbacks) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ generation */

enum {
  PHASOR_FINISH_END = 1,     /* an end token */
  PHASOR_FINISH_LENGTH = 2,  /* max_new, the capacity or the context */
  PHASOR_FINISH_STOPPED = 3, /* a callback */
  PHASOR_FINISH_STRING = 4   /* a stop string */
};

/* Random numbers: xoshiro256** 1.0 (Blackman and Vigna 2018), its state filled by SplitMix64
 * (Steele, Lea and Flood 2014) from one number. Each token that is drawn takes one number of 64
 * bits; nothing else takes one. Plain data: a copy goes on as the original does, on every
 * machine. */
typedef struct phasor_random {
  uint64_t state[4];
} phasor_random;
void phasor_random_seed(phasor_random* random, uint64_t seed) PHASOR_NONBLOCKING;

/* How tokens are chosen and when it ends. A field that is 0 or NULL does nothing. Callbacks run on
 * the calling thread. They call no function of their session that changes it, and keep none of the
 * pointers that they get.
 *
 * The steps of a choice, in this order (that of transformers' processors, where it has them):
 *   the logits callback; repetition_penalty; presence_penalty and frequency_penalty;
 *   no_repeat_ngram; source_no_repeat_ngram; bad_words; min_new; suppressed;
 *   with temperature 0 the largest logit, of equal ones the lowest id; else
 *   temperature; top_k; top_p; min_p; typical_p, each on the probabilities that the one before has
 *   left; then one draw.
 * "Most probable" orders by (probability descending, id ascending); exactly top_k tokens are left,
 * also among equals. Weights are exp(logit − largest) in units of 2^-39, whole numbers: their sums
 * have no order, and the same seed gives the same tokens on every machine.
 *
 * Everything but the plain largest logit needs limits.outputs PHASOR_WANT_SAMPLING. Where
 * limits.best_rows is not 0 the plain largest logit is found without logits (PHASOR_BEST_LAST);
 * with logit_rows 0, anything else, the logits callback too, is PHASOR_BAD_INPUT. */
typedef struct phasor_generate_options {
  uint32_t struct_size;
  uint32_t max_new;       /* new tokens at most; 0 = as many as the limits allow */
  const uint32_t* forced; /* (forced_count) the first tokens of the output, forced */
  uint32_t forced_count;
  /* After each token, the end token included: not 0 stops with PHASOR_FINISH_STOPPED. */
  int (*token)(void* user, uint32_t id, uint32_t position);
  /* Before each choice: may edit the logits (vocabulary floats; −infinity forbids a token); sees
   * the ids so far. Not 0 stops. */
  int (*logits)(void* user, float* logits, uint32_t vocabulary, const uint32_t* ids,
                uint32_t count);
  void* user;

  float temperature;        /* logits are divided by it; 0: the largest is taken */
  uint32_t top_k;           /* the k most probable tokens */
  float top_p;              /* 0 … 1: the fewest most probable tokens that have this share together
                               (Holtzman et al. 2020) */
  float min_p;              /* 0 … 1: tokens with at least this share of the most probable one's
                               (Nguyen et al. 2024) */
  float typical_p;          /* 0 … 1: the fewest tokens with this share whose surprise is nearest to
                               the entropy (Meister et al. 2023) */
  float repetition_penalty; /* of every token in the sequence: a positive logit is divided by it,
                               another multiplied (Keskar et al. 2019) */
  float presence_penalty;   /* taken from the logits of the tokens that this call has made (OpenAI's
                               definition) */
  float frequency_penalty;  /* the same, times how often it has made them */
  uint32_t no_repeat_ngram; /* n: no n tokens in a row stand twice in the sequence */
  uint32_t min_new;         /* new tokens before an end token may come */
  const uint32_t* suppressed; /* (suppressed_count) tokens that are never chosen */
  const uint32_t* end;        /* (end_count) tokens that end the output, besides the model's */
  uint32_t suppressed_count, end_count;
  uint64_t seed;
  phasor_random* random;    /* goes on from call to call; NULL: a new one from `seed` */

  /* The text of the new tokens as it comes, in whole characters; of a decoder's as it goes on in
   * the prompt's text. Not 0 stops. */
  int (*text)(void* user, const char* text, size_t bytes);
  /* (stop_count, at most 64) strings of 1 … 256 bytes. The first one that the text has ends it:
   * neither it nor what follows is given to `text`. What may yet become one is given when it
   * cannot any more. The ids of the tokens are all there. */
  const char* const* stop;
  uint32_t stop_count;

  /* 1: ids are the whole sequence. What it has of them already stays, the rest of it goes
   * (phasor_sequence_common). */
  uint32_t reuse;
  /* 1: when the context is full, the first `keep` tokens and the newer half of the others stay, and
   * are computed anew, since positions are absolute. A prompt that is too long for an empty
   * sequence (or with reuse) loses what lies between the first `keep` and the newest that fit. */
  uint32_t slide;
  uint32_t keep;
  /* At most so many tokens are guessed and computed in one step (limits.logit_rows, or best_rows,
   * holds one row more): those that once followed the last three tokens, or two. Only what would
   * have been chosen is accepted, greedy or drawn: the output is the same, sooner. */
  uint32_t lookahead;

  const uint32_t* bad_words;  /* (bad_words_count numbers) what never comes: of each sequence of
                                 tokens the number of them, at least 1, then the tokens */
  const uint32_t* source;     /* (source_count) the source's ids, for source_no_repeat_ngram */
  uint32_t bad_words_count, source_count;
  uint32_t source_no_repeat_ngram; /* n: no n tokens in a row that stand in `source` */
  uint32_t reserved;
  const uint32_t* forced_last; /* (1) where max_new, the capacity or the context leaves room for one
                                  more token, it is this one */
} phasor_generate_options;
/* All that follows the size is 0: the first line, the choice, the text, the context, the bans. */
#define PHASOR_GENERATE_OPTIONS_INIT                         \
  { sizeof(phasor_generate_options), 0, NULL, 0, NULL, NULL, NULL, \
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0, 0, NULL, \
    NULL, NULL, 0,                                           \
    0, 0, 0, 0,                                              \
    NULL, NULL, 0, 0, 0, 0, NULL }

typedef struct phasor_generation {
  uint32_t struct_size;
  uint32_t count;    /* new tokens, the end token included */
  uint32_t finish;   /* PHASOR_FINISH_… */
  uint32_t steps;    /* of the decoder, the prompt's first one included */
  uint32_t proposed; /* tokens that lookahead guessed, and those of them that were right */
  uint32_t accepted;
  uint32_t slides;   /* times that the context was full */
  uint32_t reused;   /* tokens of the prompt that were there already */
} phasor_generation;
#define PHASOR_GENERATION_INIT { sizeof(phasor_generation), 0, 0, 0, 0, 0, 0, 0 }

/* Decoding, greedy unless the options say otherwise; options may be NULL.
 *
 * Encoder-decoder: call phasor_encode first. ids/count is an output already begun (NULL, 0: from
 * the decoder's start token). Decoder: ids/count is the prompt. New ids go to out (capacity); when
 * it, max_new or the context is full the end is PHASOR_FINISH_LENGTH. The last new token has not
 * entered the sequence: to go on, give it as ids. */
phasor_status phasor_generate(phasor_session* session, uint32_t sequence, const uint32_t* ids,
                              uint32_t count, uint32_t* out, uint32_t capacity,
                              const phasor_generate_options* options, phasor_generation* result,
                              phasor_error* error) PHASOR_NONBLOCKING;

/* Beam search: at each step the `beams` best outputs so far are kept, by the sum of their tokens'
 * log-probabilities (log-softmax of the logits). An output ends when its end token is among the
 * `beams` best continuations of all. Its score is log_probability / tokens^length_penalty
 * (length_norm), where forced tokens count neither way. The search is over when there are as many
 * outputs as beams and, by early_stopping,
 *   NO     the best beam's score at its present length is no better than the worst output's;
 *   YES    at once;
 *   NEVER  the best beam's score at the longest length (with a positive penalty) is no better;
 * or when max_new or the context is full: then the beams are outputs too. These are the rules of
 * transformers' generate(num_beams=…), whose early_stopping is False, True or "never".
 *
 * Beams and tokens that are equally good come in the order of (score, beam, id): no thread, level
 * or chunk changes an output or a bit of a score. A field that is 0 or NULL does nothing, but for
 * `beams`. */
enum { PHASOR_EARLY_NO = 0, PHASOR_EARLY_YES = 1, PHASOR_EARLY_NEVER = 2 };
/* What a score is divided by, with L tokens that were searched for and the length penalty p: L^p
 * (transformers), or ((5 + L) / 6)^p (Wu et al. 2016, section 7). */
enum { PHASOR_LENGTH_POWER = 0, PHASOR_LENGTH_GNMT = 1 };
typedef struct phasor_beam_options {
  uint32_t struct_size;
  uint32_t beams;           /* 1 … limits.beams; 0 = limits.beams */
  uint32_t max_new;         /* new tokens at most, the forced ones included; 0 = as many as the
                               limits allow */
  uint32_t early_stopping;  /* PHASOR_EARLY_… */
  float length_penalty;     /* −4 … 4; 0: the plain sum; above 0 longer outputs come out better */
  uint32_t forced_count;
  const uint32_t* forced;   /* (forced_count) every output begins with these */
  uint32_t no_repeat_ngram; /* n: no n tokens in a row stand twice in a beam */
  uint32_t min_new;         /* new tokens before an end token may come */
  const uint32_t* suppressed; /* (suppressed_count) tokens that are never chosen; the others'
                                 probabilities stay as they are (but see renormalize) */
  const uint32_t* end;        /* (end_count) tokens that end an output, besides the model's */
  uint32_t suppressed_count, end_count;
  /* Before each choice, for each beam: may edit the logits (vocabulary floats; −infinity forbids a
   * token and shares its probability out); sees the ids so far. Not 0 stops: the beams are outputs
   * as they are. Calls no function of its session that changes it. */
  int (*logits)(void* user, float* logits, uint32_t vocabulary, const uint32_t* ids,
                uint32_t count);
  void* user;

  float repetition_penalty; /* of every token in a beam: its log-probability is multiplied by it (in
                               phasor_generate its logit is changed) */
  uint32_t length_norm;     /* PHASOR_LENGTH_… */
  /* These three and source_no_repeat_ngram as in phasor_generate_options; the log-probability of
   * forced_last is 0. */
  const uint32_t* bad_words;   /* (bad_words_count) */
  const uint32_t* source;      /* (source_count) */
  const uint32_t* forced_last; /* (1) */
  /* (stop_count, at most 64) strings of 1 … 256 bytes. A beam whose text has one ends there, as
   * with an end token (PHASOR_FINISH_STRING); its ids are all there. What the prompt and the forced
   * tokens have whole does not count. Needs limits.text_bytes. */
  const char* const* stop;
  uint32_t bad_words_count, source_count, source_no_repeat_ngram, stop_count;
  /* Diverse beam search (Vijayakumar et al. 2018): `beams` in so many groups, 0 or 1: one. Each
   * group is a search of its own of beams / groups beams; at each step they choose one after the
   * other, and diversity_penalty (not negative) times the number of beams of earlier groups that
   * have just chosen a token is taken from its log-probability, and stays in the scores. Outputs
   * are those of all groups, best first. With several groups a search is over, and outputs end,
   * by the rules of transformers' BeamSearchScorer. */
  uint32_t groups;
  float diversity_penalty;
  /* Not negative; above 0 it needs PHASOR_WANT_COVERAGE. This times Σ log(min(c, 1)) is added to
   * the score of an output, with c what a position of the source has got in all its tokens' steps,
   * the forced ones' included, of the weights of cross-attention: the mean of the heads of the last
   * layer (Wu et al. 2016, equation 14; a position that has got nothing at all counts 0, as in
   * CTranslate2). It orders outputs, and early_stopping sees it in theirs; beams go on without
   * it. */
  float coverage_penalty;
  /* 1: what penalties, bans and earlier groups leave of a beam's probabilities is divided by its
   * sum before the choice (transformers' renormalize_logits); 0: it is not. */
  uint32_t renormalize;
} phasor_beam_options;
/* All is 0 but the length penalty. */
#define PHASOR_BEAM_OPTIONS_INIT                                \
  { sizeof(phasor_beam_options), 0, 0, PHASOR_EARLY_NO, 1.0f, 0, NULL, \
    0, 0, NULL, NULL, 0, 0, NULL, NULL,                         \
    0, PHASOR_LENGTH_POWER, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef struct phasor_beam_result {
  uint32_t struct_size;
  uint32_t count; /* outputs, at most `beams` */
  uint32_t steps; /* of the decoder, each for all beams, the prompt's included */
} phasor_beam_result;
#define PHASOR_BEAM_RESULT_INIT { sizeof(phasor_beam_result), 0, 0 }

/* Searches from ids/count, which mean what they mean for phasor_generate: the prompt, or NULL, 0
 * for an encoder-decoder that has just encoded its source, whose cross-attention is computed once
 * for all beams. options may be NULL. Needs limits.beams; allocates nothing.
 *
 * Afterwards the sequence holds the prompt and the forced tokens; to go on from an output, give it
 * as ids. The rows of phasor_logits mean nothing then. PHASOR_NOT_FINITE when a beam met such a
 * value; PHASOR_BAD_INPUT for options that are out of range or leave no token to choose. */
phasor_status phasor_beam_search(phasor_session* session, uint32_t sequence, const uint32_t* ids,
                                 uint32_t count, const phasor_beam_options* options,
                                 phasor_beam_result* result,
                                 phasor_error* error) PHASOR_NONBLOCKING;

typedef struct phasor_hypothesis {
  uint32_t struct_size;
  uint32_t count;        /* tokens, forced ones and the end token included */
  uint32_t finish;       /* PHASOR_FINISH_END, _LENGTH or _STOPPED */
  float score;           /* with the length and coverage penalties */
  float log_probability; /* natural logarithm, of the tokens that were searched for */
  const uint32_t* ids;   /* (count) */
} phasor_hypothesis;
/* Output `index` of the last search of the session, best first; PHASOR_BAD_INPUT past the last. ids
 * lie in the arena until the next search. */
phasor_status phasor_hypothesis_get(const phasor_session* session, uint32_t index,
                                    phasor_hypothesis* out) PHASOR_NONBLOCKING;

/* One of many inputs that are generated from side by side: an output is what phasor_generate gives
 * for its input alone, whatever its neighbors. All that is known of it is here, in the caller's
 * memory, but for a search's beams (phasor_beam_jobs_step), which lie in the arena. */
typedef struct phasor_job {
  uint32_t struct_size;
  uint32_t count;       /* of ids */
  const uint32_t* ids;  /* (count) an encoder-decoder's source, or a decoder's prompt */
  uint32_t* out;        /* (capacity) new tokens; of a search (n_best, capacity) */
  uint32_t capacity;
  uint32_t made;        /* new tokens so far; of a search those of the best output, at its end */
  uint32_t finish;      /* PHASOR_FINISH_…; 0: it is not over, or it has failed */
  uint32_t status;      /* PHASOR_OK, or the phasor_status for which it has failed */
  uint32_t sequence;    /* the one that it has; PHASOR_NONE while it waits and when it is over */
  uint32_t found;       /* outputs of a search, at most n_best */
  phasor_random random; /* of its draws; all 0: from options.seed */
  uint32_t n_best;      /* outputs of a search that are wanted; 0 = 1 */
  uint32_t reserved;
  phasor_hypothesis* outputs; /* (n_best) of a search, best first, their ids in `out`; NULL: only
                                 the tokens in `out` and what is said here of the best one */
} phasor_job;
#define PHASOR_JOB_INIT \
  { sizeof(phasor_job), 0, NULL, NULL, 0, 0, 0, 0, PHASOR_NONE, 0, { { 0, 0, 0, 0 } }, 0, 0, NULL }

/* One step of the decoder for all jobs (count) at once. Those that wait get the sequences that no
 * other has, in their order, and their sources are encoded together, one that a job that runs has
 * too not again (with PHASOR_WANT_SHORTLIST each for itself); each job that runs gets a
 * token; one that is over gives its sequence back, cleared. *left gets the number of jobs that are
 * not over. Between two calls a job that is over, or waits, may be replaced by any other.
 *
 * Needs limits.sequences above 1; no more jobs run at the same time than that, or than
 * limits.logit_rows (best_rows, for the plain largest logit). A job with ids that are out of range
 * or too many fails alone, as one with a value that is not finite: `error` has the line of the
 * first. ids and out stay where they are until the job is over. options may be NULL. Of
 * phasor_generate's options token, text, random, reuse, slide and lookahead are PHASOR_BAD_INPUT;
 * source is each job's ids. The options are the same from step to step. After PHASOR_STOPPED
 * (progress) a job may have got its sequence, and nothing else has changed: call again. */
phasor_status phasor_jobs_step(phasor_session* session, phasor_job* jobs, uint32_t count,
                               const phasor_generate_options* options, uint32_t* left,
                               phasor_error* error) PHASOR_NONBLOCKING;

/* Steps until all jobs are over. */
phasor_status phasor_jobs_run(phasor_session* session, phasor_job* jobs, uint32_t count,
                              const phasor_generate_options* options,
                              phasor_error* error) PHASOR_NONBLOCKING;

/* The same with a beam search for each job: its outputs are what phasor_beam_search gives for its
 * input alone. One step of the decoder is one of all beams of all jobs that run. Needs
 * limits.beams; no more jobs run at the same time than limits.searches. The output begins empty;
 * forced tokens count as new ones (capacity). Of phasor_beam_options source is each job's ids. A
 * search that runs has the sequence of its job to itself, and phasor_beam_search has to wait. A job
 * that has no token to choose fails alone, with PHASOR_BAD_INPUT. */
phasor_status phasor_beam_jobs_step(phasor_session* session, phasor_job* jobs, uint32_t count,
                                    const phasor_beam_options* options, uint32_t* left,
                                    phasor_error* error) PHASOR_NONBLOCKING;

/* Steps until all jobs are over. */
phasor_status phasor_beam_jobs_run(phasor_session* session, phasor_job* jobs, uint32_t count,
                                   const phasor_beam_options* options,
                                   phasor_error* error) PHASOR_NONBLOCKING;

/* One choice, for loops of your own: from row `row` of the last step's logits, which it does not
 * change. ids/count is the sequence so far, its last new_count tokens are the new ones. Draws from
 * options->random, which may not be NULL then; calls no callback. options may be NULL: the largest
 * logit. probabilities, unless NULL, gets those that the draw is made with (vocabulary floats;
 * without a temperature 1 for the token that is taken). */
phasor_status phasor_choose(phasor_session* session, uint32_t* id, float* probabilities,
                            uint32_t row, const uint32_t* ids, uint32_t count, uint32_t new_count,
                            const phasor_generate_options* options,
                            phasor_error* error) PHASOR_NONBLOCKING;

/* Writes what the file recommends (file-format.md, scope 7) into *options: temperature (0 where it
 * does not draw), top_k, top_p, min_p, typical_p, repetition_penalty, no_repeat_ngram, min_new,
 * max_new, suppressed, bad_words, source_no_repeat_ngram, forced_last. What the file does not say
 * stays as it is. Returns 0, and changes nothing, when it says nothing or options->struct_size is
 * none that this library knows. */
int phasor_generation_defaults(const phasor_model* model, phasor_generate_options* options);

/* The same for a beam search: beams, length_penalty, early_stopping and renormalize (1, 0 and 0
 * where the file recommends something and says nothing of these), repetition_penalty,
 * no_repeat_ngram, min_new, max_new, suppressed, bad_words, source_no_repeat_ngram, forced_last. */
int phasor_beam_defaults(const phasor_model* model, phasor_beam_options* options);

/* ------------------------------------------------------------------ text */

/* Ids of a text with the side's prefix and suffix around them when `template_ids` is not 0. *count
 * gets the number needed, also when capacity is too small (then PHASOR_FULL, and nothing beyond
 * capacity is written). Scratch lies in the arena: a text longer than limits.text_bytes is
 * PHASOR_BAD_INPUT. */
phasor_status phasor_text_to_ids(phasor_session* session, uint32_t side, int template_ids,
                                 uint32_t* ids, size_t capacity, size_t* count, const char* text,
                                 size_t bytes, phasor_error* error) PHASOR_NONBLOCKING;

/* The same for two texts that an encoder reads together: prefix, first text, the ids between,
 * second text, suffix. segments (capacity), unless NULL, gets the token type of each id.
 * PHASOR_BAD_INPUT where the model has no template for pairs. */
phasor_status phasor_pair_to_ids(phasor_session* session, uint32_t side, uint32_t* ids,
                                 uint32_t* segments, size_t capacity, size_t* count,
                                 const char* first, size_t first_bytes, const char* second,
                                 size_t second_bytes, phasor_error* error) PHASOR_NONBLOCKING;

/* Streaming text of ids: holds back an unfinished UTF-8 character. */
typedef struct phasor_text {
  uint32_t struct_size;
  uint32_t state[7];
} phasor_text;
#define PHASOR_TEXT_INIT { sizeof(phasor_text), { 0 } }

/* Bytes that the id adds to the text. *bytes gets the number needed (PHASOR_FULL when capacity is
 * too small: nothing is written and the state is unchanged). Ids of control pieces add nothing. */
phasor_status phasor_id_to_text(const phasor_model* model, uint32_t side, phasor_text* text,
                                uint32_t id, char* out, size_t capacity,
                                size_t* bytes) PHASOR_NONBLOCKING;
/* What is still held back, at the end. */
phasor_status phasor_text_flush(const phasor_model* model, uint32_t side, phasor_text* text,
                                char* out, size_t capacity, size_t* bytes) PHASOR_NONBLOCKING;

/* The piece behind an id, in the file; NULL when there is no tokenizer or no such piece. */
const char* phasor_piece(const phasor_model* model, uint32_t side, uint32_t id,
                         size_t* bytes) PHASOR_NONBLOCKING;

/* What a piece is, as bits; 0 for any other, and where phasor_piece gives NULL.
 * PHASOR_PIECE_ADDED: text with the piece's characters gives the id, whatever stands around them
 * (an added token, a user-defined piece). PHASOR_PIECE_SPECIAL: a control piece, which adds nothing
 * to a text. Takes time for every added token. */
#define PHASOR_PIECE_ADDED 1u
#define PHASOR_PIECE_SPECIAL 2u
uint32_t phasor_piece_flags(const phasor_model* model, uint32_t side,
                            uint32_t id) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ conversations */

/* One message of a conversation: who says what. Templates know the roles "system", "user" and
 * "assistant", some of them others. */
typedef struct phasor_chat_message {
  uint32_t struct_size;
  const char* role;
  size_t role_bytes;
  const char* content; /* UTF-8; what reads as a special token becomes one, as everywhere */
  size_t content_bytes;
} phasor_chat_message;

/* 1 when the file has a chat program, the template by which its model was trained to talk, and the
 * engine is built with them (src/build.h). */
int phasor_chat_available(const phasor_model* model);

/* The text of a conversation by the file's template. With add_generation_prompt not 0 it ends where
 * the next answer begins. *bytes gets the number needed, also when capacity is too small (then
 * PHASOR_FULL, and nothing beyond capacity is written). Make ids of it with phasor_text_to_ids and
 * template_ids 0: what belongs before and after is in the text.
 *
 * PHASOR_BAD_INPUT with the template's own words where it refuses a conversation (many want user
 * and assistant to take turns). Scratch lies in the arena: limits.text_bytes must hold the text. */
phasor_status phasor_chat_to_text(phasor_session* session, int add_generation_prompt, char* out,
                                  size_t capacity, size_t* bytes,
                                  const phasor_chat_message* messages, uint32_t count,
                                  phasor_error* error) PHASOR_NONBLOCKING;

/* ------------------------------------------------------------------ the file's own test vectors */

typedef struct phasor_vector {
  uint32_t struct_size;
  uint32_t source_count, target_count;
  float tolerance;        /* share of a position's range of logits */
  uint64_t hash;          /* recorded; 0 when none */
  uint32_t numerics;      /* of the hash */
  const uint32_t* source; /* (source_count) ids, in the file */
  const uint32_t* target; /* (target_count) */
  const char* author;     /* (author_bytes) UTF-8, who computed the values; not NUL-terminated */
  uint32_t author_bytes;
} phasor_vector;
uint32_t phasor_vector_count(const phasor_model* model);
/* PHASOR_BAD_INPUT past the last. */
phasor_status phasor_vector_get(const phasor_model* model, uint32_t index, phasor_vector* out);

typedef struct phasor_vector_result {
  uint32_t struct_size;
  uint32_t argmax_differs; /* positions whose best token is another one */
  uint64_t hash;           /* FNV-1a-64 over all output rows of the vector */
  float worst_logit;       /* largest difference as a share of the range, and where */
  uint32_t worst_position;
  float worst_residual;    /* largest difference as a share of the largest sampled value */
  uint32_t worst_stack, worst_layer; /* where */
  float worst_lead;        /* largest lead of another best token over the one that is stored, as a
                              share of the range */
} phasor_vector_result;

/* Replays a test vector on sequence 0 and compares. PHASOR_MISMATCH and error->text name the first
 * thing that differs: a residual, in the order of the forward pass, then logits, then the recorded
 * hash. The limits must hold the vector (source, target, one row of logits). */
phasor_status phasor_vector_run(phasor_session* session, uint32_t index,
                                phasor_vector_result* result, phasor_error* error);

/* Writes into the file's test vectors: the tolerance, and for each vector the hash of what
 * phasor_vector_run gave (hashes NULL: none is recorded). Brings the checksums up to date. `file`
 * is writable and the one that `model` was opened with; open it anew afterwards. */
phasor_status phasor_vector_record(const phasor_model* model, void* file, const uint64_t* hashes,
                                   float tolerance, phasor_error* error);

/* ------------------------------------------------------------------ another type of a model */

typedef struct phasor_quantize_options {
  uint32_t struct_size;
  const char* type;        /* of the matrices: "f32", "f16", "bf16", "q8", "q4", "q8r", "q8rh",
                              "q4m", "q4k" */
  const char* output_type; /* of embeddings and the output's matrix; NULL: `type` */
  const float* moments;    /* for q8 and q4: the mean square of each matrix's inputs, column by
                              column, matrices in the order of the file; NULL: all 1 */
  uint64_t moment_count;   /* columns of all matrices */
} phasor_quantize_options;
#define PHASOR_QUANTIZE_OPTIONS_INIT { sizeof(phasor_quantize_options), NULL, NULL, NULL, 0 }

/* What became of the tensors of one type. */
typedef struct phasor_rounding {
  uint32_t struct_size;
  const char* type;   /* static */
  const char* tensor; /* the one with the largest error; static; NULL where all is stored exactly */
  uint64_t bytes;     /* 0: the file has no tensor of this type */
  float largest;      /* |stored - given| */
  float share;        /* the largest of |stored - given| / the tensor's largest |given| */
} phasor_rounding;
#define PHASOR_ROUNDING_INIT { sizeof(phasor_rounding), NULL, NULL, 0, 0, 0 }
enum { PHASOR_TYPES = 10 }; /* that this version knows; a later one may know more */

/* Bytes of the file with its matrices in another type. Of f32, f16 and bf16 any type can be made,
 * of the others f32 only: what was rounded is not rounded again. */
phasor_status phasor_quantize_size(size_t* need, const void* file, size_t file_bytes,
                                   const phasor_quantize_options* options, phasor_error* error);

/* Writes that file to `out` (phasor_quantize_size, aligned to PHASOR_ALIGN). Test vectors are
 * copied, with hashes and tolerance of the old type: run them and call phasor_vector_record. The
 * file's structure is checked, its checksums are not.
 *
 * rounding (rounding_count), or NULL: a struct for each type, in the order of the types' numbers;
 * give PHASOR_TYPES of them. Each begins with its struct_size. Those past the last type get 0. */
phasor_status phasor_quantize(void* out, size_t out_bytes, phasor_rounding* rounding,
                              uint32_t rounding_count, const void* file, size_t file_bytes,
                              const phasor_quantize_options* options, phasor_error* error);

#ifdef __cplusplus
}
#endif
#endif
