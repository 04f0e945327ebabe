/* The interface of revision 6500f03, its comments left out: what old_caller.c was compiled with. It
 * never changes. */
#ifndef PHASOR_H
#define PHASOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__clang__) && __clang_major__ >= 20
#define PHASOR_NONBLOCKING __attribute__((nonblocking))
#else
#define PHASOR_NONBLOCKING
#endif

#define PHASOR_ALIGN 64u
#define PHASOR_NONE 0xFFFFFFFFu

uint32_t phasor_version(void);
uint32_t phasor_numerics(void);
uint32_t phasor_format_max(void);

typedef enum phasor_status {
  PHASOR_OK = 0,
  PHASOR_BAD_FILE = 1,
  PHASOR_BAD_CHECKSUM = 2,
  PHASOR_UNSUPPORTED = 3,
  PHASOR_TOO_LARGE = 4,
  PHASOR_NO_MEMORY = 5,
  PHASOR_BAD_LIMITS = 6,
  PHASOR_BAD_INPUT = 7,
  PHASOR_FULL = 8,
  PHASOR_NOT_FINITE = 9,
  PHASOR_STOPPED = 10,
  PHASOR_BAD_ARITHMETIC = 11,
  PHASOR_BAD_STATE = 12,
  PHASOR_MISMATCH = 13
} phasor_status;

const char* phasor_status_name(phasor_status status);

typedef struct phasor_error {
  uint32_t struct_size;
  int32_t code;
  uint32_t section;
  uint32_t layer;
  uint64_t expected;
  uint64_t found;
  char text[160];
} phasor_error;
#define PHASOR_ERROR_INIT {sizeof(phasor_error), 0, PHASOR_NONE, PHASOR_NONE, 0, 0, {0}}

typedef struct phasor_model phasor_model;
typedef struct phasor_session phasor_session;

typedef struct phasor_open_options {
  uint32_t struct_size;
  const char* isa;
} phasor_open_options;
#define PHASOR_OPEN_OPTIONS_INIT {sizeof(phasor_open_options), NULL}

phasor_status phasor_model_size(size_t* need, const void* file, size_t file_bytes,
                                phasor_error* error);

phasor_status phasor_model_open(phasor_model** model, void* memory, size_t memory_bytes,
                                const void* file, size_t file_bytes,
                                const phasor_open_options* options, phasor_error* error);

phasor_status phasor_model_check(const phasor_model* model, phasor_error* error);

const char* phasor_model_isa(const phasor_model* model);
const char* phasor_isa_name(uint32_t index);

enum { PHASOR_ENCODER = 1, PHASOR_DECODER = 2, PHASOR_ENCODER_DECODER = 3 };
enum { PHASOR_SOURCE = 1, PHASOR_TARGET = 2 };

typedef struct phasor_side {
  uint32_t struct_size;
  uint32_t vocabulary;
  uint32_t has_tokenizer;
  uint32_t pad, unknown, start, decoder_start, forced_first, mask;
  uint32_t end_count, prefix_count, suffix_count;
  const uint32_t* end;
  const uint32_t* prefix;
  const uint32_t* suffix;
  uint32_t max_positions;
  uint32_t width;
  uint32_t layers;
} phasor_side;

uint32_t phasor_model_stack(const phasor_model* model);

phasor_status phasor_model_side(const phasor_model* model, uint32_t side, phasor_side* out);

enum {
  PHASOR_OUTPUT_LOGITS = 1,
  PHASOR_OUTPUT_HIDDEN = 2,
  PHASOR_OUTPUT_POOLED = 3,
  PHASOR_OUTPUT_CLASSES = 4
};
enum { PHASOR_POOL_MODEL = 0, PHASOR_POOL_MEAN = 1, PHASOR_POOL_FIRST = 2, PHASOR_POOL_LAST = 3 };
enum { PHASOR_SCORES_SOFTMAX = 0, PHASOR_SCORES_SIGMOID = 1, PHASOR_SCORES_PLAIN = 2 };

typedef struct phasor_output {
  uint32_t struct_size;
  uint32_t output;
  uint32_t pooling;
  uint32_t normalise;
  uint32_t classes;
  uint32_t scores;
  uint32_t width;
  uint32_t segments;
  uint32_t prompts;
} phasor_output;
phasor_status phasor_model_output(const phasor_model* model, phasor_output* out);

const char* phasor_label(const phasor_model* model, uint32_t index, size_t* bytes);

phasor_status phasor_prompt(const phasor_model* model, uint32_t index, const char** name,
                            size_t* name_bytes, const char** text, size_t* text_bytes);

typedef struct phasor_tensor {
  uint32_t struct_size;
  uint32_t stack, set, role;
  const char* name;
  const char* type;
  const char* layout;
  uint64_t rows, cols, offset, bytes;
} phasor_tensor;
uint32_t phasor_tensor_count(const phasor_model* model);
phasor_status phasor_tensor_get(const phasor_model* model, uint32_t index, phasor_tensor* out);

typedef struct phasor_field {
  uint32_t struct_size;
  char name[48];
  char value[208];
} phasor_field;
uint32_t phasor_field_count(const phasor_model* model);
phasor_status phasor_field_get(const phasor_model* model, uint32_t index, phasor_field* out);

enum { PHASOR_WANT_ATTENTION = 1, PHASOR_WANT_SAMPLING = 2 };

enum { PHASOR_CACHE_F32 = 0, PHASOR_CACHE_F16 = 1, PHASOR_CACHE_Q8 = 2 };
enum { PHASOR_TABLES_WHOLE = 0, PHASOR_TABLES_ROWS = 1 };

typedef struct phasor_limits {
  uint32_t struct_size;
  uint32_t source;
  uint32_t target;
  uint32_t sequences;
  uint32_t chunk;
  uint32_t threads;
  uint32_t text_bytes;
  uint32_t logit_rows;
  uint32_t cache_type;
  uint32_t outputs;
  uint32_t tables;
  uint32_t best_rows;
  uint32_t beams;
} phasor_limits;

phasor_status phasor_limits_for(const phasor_model* model, uint32_t source, uint32_t target,
                                phasor_limits* limits);

phasor_status phasor_session_size(size_t* need, const phasor_model* model,
                                  const phasor_limits* limits, phasor_error* error);

phasor_status phasor_session_part(const phasor_model* model, const phasor_limits* limits,
                                  uint32_t index, const char** name, uint64_t* bytes);

typedef struct phasor_cost {
  uint32_t struct_size;
  uint64_t encode_bytes, encode_macs;
  uint64_t step_bytes, step_macs;
} phasor_cost;
phasor_status phasor_model_cost(const phasor_model* model, uint32_t source, uint32_t position,
                                phasor_cost* out);

enum { PHASOR_PEAK_F32 = 1, PHASOR_PEAK_INT8 = 2 };
uint64_t phasor_model_peak(const phasor_model* model, uint32_t what, uint64_t rounds);

typedef void (*phasor_task)(void* context, uint32_t index);

typedef struct phasor_parallel {
  uint32_t struct_size;
  void (*run)(void* user, phasor_task task, void* context, uint32_t count);
  void* user;
} phasor_parallel;

phasor_status phasor_session_open(phasor_session** session, void* memory, size_t memory_bytes,
                                  const phasor_model* model, const phasor_limits* limits,
                                  const phasor_parallel* parallel, phasor_error* error);

enum {
  PHASOR_LOGITS_NONE = 0,
  PHASOR_LOGITS_LAST = 1,
  PHASOR_LOGITS_ALL = 2,
  PHASOR_BEST_LAST = 3,
  PHASOR_BEST_ALL = 4
};

typedef struct phasor_item {
  uint32_t struct_size;
  uint32_t sequence;
  uint32_t count;
  uint32_t logits;
  const uint32_t* ids;
  const float* embeddings;
  const uint32_t* segments;
  const uint32_t* positions;
} phasor_item;
#define PHASOR_ITEM_INIT {sizeof(phasor_item), 0, 0, PHASOR_LOGITS_NONE, NULL, NULL, NULL, NULL}

phasor_status phasor_encode(phasor_session* session, const phasor_item* items, uint32_t count,
                            phasor_error* error) PHASOR_NONBLOCKING;

phasor_status phasor_step(phasor_session* session, const phasor_item* items, uint32_t count,
                          phasor_error* error) PHASOR_NONBLOCKING;

float* phasor_logits(phasor_session* session, uint32_t row) PHASOR_NONBLOCKING;

const float* phasor_hidden(const phasor_session* session, uint32_t sequence, uint32_t* rows,
                           uint32_t* stride) PHASOR_NONBLOCKING;

phasor_status phasor_encoder_output(phasor_session* session, uint32_t sequence, uint32_t first,
                                    uint32_t count, phasor_error* error) PHASOR_NONBLOCKING;

enum { PHASOR_NORMALISE_MODEL = 0, PHASOR_NORMALISE_YES = 1, PHASOR_NORMALISE_NO = 2 };

phasor_status phasor_embedding(phasor_session* session, uint32_t sequence, uint32_t pooling,
                               uint32_t normalise, float* out, uint32_t dim, phasor_error* error)
    PHASOR_NONBLOCKING;

phasor_status phasor_argmax(phasor_session* session, uint32_t row, uint32_t* id, float* logit)
    PHASOR_NONBLOCKING;

uint32_t phasor_sequence_length(const phasor_session* session, uint32_t sequence)
    PHASOR_NONBLOCKING;
phasor_status phasor_sequence_status(const phasor_session* session, uint32_t sequence)
    PHASOR_NONBLOCKING;

const uint32_t* phasor_sequence_ids(const phasor_session* session, uint32_t sequence)
    PHASOR_NONBLOCKING;

uint32_t phasor_sequence_common(const phasor_session* session, uint32_t sequence,
                                const uint32_t* ids, uint32_t count) PHASOR_NONBLOCKING;
phasor_status phasor_sequence_truncate(phasor_session* session, uint32_t sequence, uint32_t length)
    PHASOR_NONBLOCKING;
phasor_status phasor_sequence_fork(phasor_session* session, uint32_t to, uint32_t from)
    PHASOR_NONBLOCKING;
phasor_status phasor_sequence_clear(phasor_session* session, uint32_t sequence) PHASOR_NONBLOCKING;

phasor_status phasor_state_size(const phasor_session* session, uint32_t sequence, size_t* need)
    PHASOR_NONBLOCKING;
phasor_status phasor_state_save(const phasor_session* session, uint32_t sequence, void* out,
                                size_t capacity) PHASOR_NONBLOCKING;
phasor_status phasor_state_restore(phasor_session* session, uint32_t sequence, const void* state,
                                   size_t bytes, phasor_error* error) PHASOR_NONBLOCKING;

enum {
  PHASOR_SEE_RESIDUAL = 1,
  PHASOR_SEE_SELF_ATTENTION = 2,
  PHASOR_SEE_CROSS_ATTENTION = 3,
  PHASOR_SEE_EMBEDDING = 4,
  PHASOR_SEE_FINAL = 5
};
typedef struct phasor_view {
  uint32_t struct_size;
  uint32_t what;
  uint32_t stack;
  uint32_t layer;
  uint32_t sequence;
  uint32_t position;
  uint32_t rows;
  uint32_t cols;
  uint32_t heads;
  uint32_t reserved;
  size_t stride;
  size_t head_stride;
  const float* data;
} phasor_view;

typedef struct phasor_callbacks {
  uint32_t struct_size;
  void (*see)(void* user, const phasor_view* view);
  int (*progress)(void* user, uint32_t stack, uint32_t layer, uint32_t layers);
  void* user;
} phasor_callbacks;

phasor_status phasor_session_callbacks(phasor_session* session, const phasor_callbacks* callbacks)
    PHASOR_NONBLOCKING;

enum {
  PHASOR_FINISH_END = 1,
  PHASOR_FINISH_LENGTH = 2,
  PHASOR_FINISH_STOPPED = 3,
  PHASOR_FINISH_STRING = 4
};

typedef struct phasor_random {
  uint64_t state[4];
} phasor_random;
void phasor_random_seed(phasor_random* random, uint64_t seed) PHASOR_NONBLOCKING;

typedef struct phasor_generate_options {
  uint32_t struct_size;
  uint32_t max_new;
  const uint32_t* forced;
  uint32_t forced_count;

  int (*token)(void* user, uint32_t id, uint32_t position);

  int (*logits)(void* user, float* logits, uint32_t vocabulary, const uint32_t* ids,
                uint32_t count);
  void* user;

  float temperature;
  uint32_t top_k;
  float top_p;
  float min_p;
  float typical_p;
  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  uint32_t no_repeat_ngram;
  uint32_t min_new;
  const uint32_t* suppressed;
  const uint32_t* end;
  uint32_t suppressed_count, end_count;
  uint64_t seed;
  phasor_random* random;

  int (*text)(void* user, const char* text, size_t bytes);

  const char* const* stop;
  uint32_t stop_count;

  uint32_t reuse;

  uint32_t slide;
  uint32_t keep;

  uint32_t lookahead;
} phasor_generate_options;
#define PHASOR_GENERATE_OPTIONS_INIT \
  {sizeof(phasor_generate_options),  \
   0,                                \
   NULL,                             \
   0,                                \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   NULL,                             \
   NULL,                             \
   0,                                \
   0,                                \
   0,                                \
   NULL,                             \
   NULL,                             \
   NULL,                             \
   0,                                \
   0,                                \
   0,                                \
   0,                                \
   0}

typedef struct phasor_generation {
  uint32_t struct_size;
  uint32_t count;
  uint32_t finish;
  uint32_t steps;
  uint32_t proposed;
  uint32_t accepted;
  uint32_t slides;
  uint32_t reused;
} phasor_generation;
#define PHASOR_GENERATION_INIT {sizeof(phasor_generation), 0, 0, 0, 0, 0, 0, 0}

phasor_status phasor_generate(phasor_session* session, uint32_t sequence, const uint32_t* ids,
                              uint32_t count, uint32_t* out, uint32_t capacity,
                              const phasor_generate_options* options, phasor_generation* result,
                              phasor_error* error) PHASOR_NONBLOCKING;

enum { PHASOR_EARLY_NO = 0, PHASOR_EARLY_YES = 1, PHASOR_EARLY_NEVER = 2 };
typedef struct phasor_beam_options {
  uint32_t struct_size;
  uint32_t beams;
  uint32_t max_new;
  uint32_t early_stopping;
  float length_penalty;
  uint32_t forced_count;
  const uint32_t* forced;
  uint32_t no_repeat_ngram;
  uint32_t min_new;
  const uint32_t* suppressed;
  const uint32_t* end;
  uint32_t suppressed_count, end_count;

  int (*logits)(void* user, float* logits, uint32_t vocabulary, const uint32_t* ids,
                uint32_t count);
  void* user;
} phasor_beam_options;
#define PHASOR_BEAM_OPTIONS_INIT \
  {sizeof(phasor_beam_options),  \
   0,                            \
   0,                            \
   PHASOR_EARLY_NO,              \
   1.0f,                         \
   0,                            \
   NULL,                         \
   0,                            \
   0,                            \
   NULL,                         \
   NULL,                         \
   0,                            \
   0,                            \
   NULL,                         \
   NULL}

typedef struct phasor_beam_result {
  uint32_t struct_size;
  uint32_t count;
  uint32_t steps;
} phasor_beam_result;
#define PHASOR_BEAM_RESULT_INIT {sizeof(phasor_beam_result), 0, 0}

phasor_status phasor_beam_search(phasor_session* session, uint32_t sequence, const uint32_t* ids,
                                 uint32_t count, const phasor_beam_options* options,
                                 phasor_beam_result* result, phasor_error* error)
    PHASOR_NONBLOCKING;

typedef struct phasor_hypothesis {
  uint32_t struct_size;
  uint32_t count;
  uint32_t finish;
  float score;
  float log_probability;
  const uint32_t* ids;
} phasor_hypothesis;
phasor_status phasor_hypothesis_get(const phasor_session* session, uint32_t index,
                                    phasor_hypothesis* out) PHASOR_NONBLOCKING;

phasor_status phasor_choose(phasor_session* session, uint32_t* id, float* probabilities,
                            uint32_t row, const uint32_t* ids, uint32_t count, uint32_t new_count,
                            const phasor_generate_options* options, phasor_error* error)
    PHASOR_NONBLOCKING;

int phasor_generation_defaults(const phasor_model* model, phasor_generate_options* options);

phasor_status phasor_text_to_ids(phasor_session* session, uint32_t side, int template_ids,
                                 uint32_t* ids, size_t capacity, size_t* count, const char* text,
                                 size_t bytes, phasor_error* error) PHASOR_NONBLOCKING;

phasor_status phasor_pair_to_ids(phasor_session* session, uint32_t side, uint32_t* ids,
                                 uint32_t* segments, size_t capacity, size_t* count,
                                 const char* first, size_t first_bytes, const char* second,
                                 size_t second_bytes, phasor_error* error) PHASOR_NONBLOCKING;

typedef struct phasor_text {
  uint32_t struct_size;
  uint32_t state[7];
} phasor_text;
#define PHASOR_TEXT_INIT {sizeof(phasor_text), {0}}

phasor_status phasor_id_to_text(const phasor_model* model, uint32_t side, phasor_text* text,
                                uint32_t id, char* out, size_t capacity, size_t* bytes)
    PHASOR_NONBLOCKING;

phasor_status phasor_text_flush(const phasor_model* model, uint32_t side, phasor_text* text,
                                char* out, size_t capacity, size_t* bytes) PHASOR_NONBLOCKING;

const char* phasor_piece(const phasor_model* model, uint32_t side, uint32_t id, size_t* bytes)
    PHASOR_NONBLOCKING;

typedef struct phasor_chat_message {
  uint32_t struct_size;
  const char* role;
  size_t role_bytes;
  const char* content;
  size_t content_bytes;
} phasor_chat_message;

int phasor_chat_available(const phasor_model* model);

phasor_status phasor_chat_to_text(phasor_session* session, int add_generation_prompt, char* out,
                                  size_t capacity, size_t* bytes,
                                  const phasor_chat_message* messages, uint32_t count,
                                  phasor_error* error) PHASOR_NONBLOCKING;

typedef struct phasor_vector {
  uint32_t struct_size;
  uint32_t source_count, target_count;
  float tolerance;
  uint64_t hash;
  uint32_t numerics;
  const uint32_t* source;
  const uint32_t* target;
} phasor_vector;
uint32_t phasor_vector_count(const phasor_model* model);
phasor_status phasor_vector_get(const phasor_model* model, uint32_t index, phasor_vector* out);

typedef struct phasor_vector_result {
  uint32_t struct_size;
  uint32_t argmax_differs;
  uint64_t hash;
  float worst_logit;
  uint32_t worst_position;
  float worst_residual;
  uint32_t worst_stack, worst_layer;
  float worst_lead;
} phasor_vector_result;

phasor_status phasor_vector_run(phasor_session* session, uint32_t index,
                                phasor_vector_result* result, phasor_error* error);

phasor_status phasor_vector_record(const phasor_model* model, void* file, const uint64_t* hashes,
                                   float tolerance, phasor_error* error);

typedef struct phasor_quantize_options {
  uint32_t struct_size;
  const char* type;
  const char* output_type;
  const float* moments;
  uint64_t moment_count;
} phasor_quantize_options;
#define PHASOR_QUANTIZE_OPTIONS_INIT {sizeof(phasor_quantize_options), NULL, NULL, NULL, 0}

typedef struct phasor_rounding {
  uint32_t struct_size;
  const char* type;
  const char* tensor;
  uint64_t bytes;
  float largest;
  float share;
} phasor_rounding;
enum { PHASOR_TYPES = 6 };

phasor_status phasor_quantize_size(size_t* need, const void* file, size_t file_bytes,
                                   const phasor_quantize_options* options, phasor_error* error);

phasor_status phasor_quantize(void* out, size_t out_bytes, phasor_rounding* rounding,
                              const void* file, size_t file_bytes,
                              const phasor_quantize_options* options, phasor_error* error);

#ifdef __cplusplus
}
#endif
#endif
