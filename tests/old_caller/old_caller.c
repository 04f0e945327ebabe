/* A C program that calls every function and checks that nothing is written past a struct or array
 * of the caller. It is compiled with the phasor.h of release 0.2.0, which is kept beside this file,
 * and linked with today's library. Usage: old-caller MODEL... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "phasor.h"

#define ROOM 4096
#define IS_OK(call) check((call) == PHASOR_OK, #call, __LINE__)
#define HOLDS(condition) check(condition, #condition, __LINE__)

static phasor_error error = PHASOR_ERROR_INIT;
static const char* file_name;

static void check(int holds, const char* what, int line) {
  if (holds) return;
  fprintf(stderr, "old_caller.c:%d: %s: %s: %s\n", line, file_name, what, error.text);
  exit(1);
}

/* Blocks as the library wants them; kept until the program ends. 64 bytes behind each one, and
 * behind each struct, show who writes there. */
static unsigned char* past[1 << 12];
static size_t blocks;
static void* block(size_t bytes) {
  char* p = malloc(bytes + PHASOR_ALIGN + 64);
  HOLDS(p != NULL && blocks < sizeof past / sizeof *past);
  p += PHASOR_ALIGN - (uintptr_t)p % PHASOR_ALIGN;
  memset(p, 0, bytes);
  past[blocks] = (unsigned char*)p + bytes;
  memset(past[blocks++], 0xC5, 64);
  return p;
}
static void none_is_written_past(void) {
  for (size_t i = 0; i < blocks; ++i)
    for (size_t k = 0; k < 64; ++k) HOLDS(past[i][k] == 0xC5);
}
/* Of structs that begin with their size. */
static void* structs(size_t size, size_t count) {
  char* p = block(size * count);
  const uint32_t stated = (uint32_t)size;
  for (size_t i = 0; i < count; ++i) memcpy(p + i * size, &stated, sizeof stated);
  return p;
}
#define NEW(type) ((type*)structs(sizeof(type), 1))

typedef struct opened {
  void* file;
  size_t bytes;
  phasor_model* model;
  phasor_session* session;
  phasor_limits* limits;
  uint32_t stack, has_tokenizer; /* of what is read first */
} opened;

static void run_all(void* user, phasor_task task, void* context, uint32_t count) {
  ++*(uint32_t*)user;
  for (uint32_t i = count; i-- > 0;) task(context, i);
}
static uint32_t seen, progressed, jobs;
static void see(void* user, const phasor_view* view) {
  seen += user == &seen && view->rows != 0 && view->data != NULL;
}
static int progress(void* user, uint32_t stack, uint32_t layer, uint32_t layers) {
  progressed += user == &seen && stack != 0 && layer < layers;
  return 0;
}

static void* read_file(const char* name, size_t* bytes) {
  FILE* f = fopen(name, "rb");
  HOLDS(f != NULL && fseek(f, 0, SEEK_END) == 0);
  *bytes = (size_t)ftell(f);
  rewind(f);
  void* data = block(*bytes);
  HOLDS(fread(data, 1, *bytes, f) == *bytes && fclose(f) == 0);
  return data;
}

static void open_all(opened* o) {
  phasor_open_options options = PHASOR_OPEN_OPTIONS_INIT;
  phasor_parallel* parallel = NEW(phasor_parallel);
  phasor_callbacks* callbacks = NEW(phasor_callbacks);
  size_t need = 0;
  options.isa = "auto";
  IS_OK(phasor_model_size(&need, o->file, o->bytes, &error));
  IS_OK(phasor_model_open(&o->model, block(need), need, o->file, o->bytes, &options, &error));
  IS_OK(phasor_model_check(o->model, &error));
  HOLDS(strcmp(phasor_model_isa(o->model), phasor_isa_name(0)) == 0);
  o->limits = NEW(phasor_limits);
  IS_OK(phasor_limits_for(o->model, 24, 24, o->limits));
  o->limits->sequences = 2;
  o->limits->threads = 2;
  o->limits->text_bytes = ROOM;
  o->limits->logit_rows = 24;
  o->limits->outputs = PHASOR_WANT_SAMPLING;
  o->limits->beams = phasor_model_stack(o->model) == PHASOR_ENCODER ? 0 : 2;
  IS_OK(phasor_session_size(&need, o->model, o->limits, &error));
  uint64_t all = 0, bytes = 0;
  const char* name = NULL;
  for (uint32_t i = 0; !phasor_session_part(o->model, o->limits, i, &name, &bytes); ++i)
    all += bytes;
  HOLDS(all == need);
  parallel->run = run_all;
  parallel->user = &jobs;
  IS_OK(phasor_session_open(&o->session, block(need), need, o->model, o->limits, parallel, &error));
  callbacks->see = see;
  callbacks->progress = progress;
  callbacks->user = &seen;
  IS_OK(phasor_session_callbacks(o->session, callbacks));
}

static void ask_the_model(opened* o) {
  phasor_output* output = NEW(phasor_output);
  phasor_side* side = NEW(phasor_side);
  phasor_cost* cost = NEW(phasor_cost);
  phasor_tensor* tensor = NEW(phasor_tensor);
  phasor_field* field = NEW(phasor_field);
  const char *name = NULL, *text = NULL;
  size_t size = 0, text_size = 0;
  HOLDS(phasor_version() != 0 && phasor_numerics() != 0 && phasor_format_max() != 0);
  HOLDS(strcmp(phasor_status_name(PHASOR_OK), phasor_status_name(PHASOR_FULL)) != 0);
  o->stack = phasor_model_stack(o->model);
  const uint32_t first = o->stack == PHASOR_DECODER ? PHASOR_TARGET : PHASOR_SOURCE;
  IS_OK(phasor_model_side(o->model, first, side));
  o->has_tokenizer = side->has_tokenizer;
  HOLDS(side->vocabulary > 8 && side->layers != 0 && side->width != 0);
  IS_OK(phasor_model_output(o->model, output));
  HOLDS(output->width != 0 && phasor_label(o->model, 1 << 30, &size) == NULL);
  HOLDS(phasor_prompt(o->model, 1 << 30, &name, &size, &text, &text_size) == PHASOR_BAD_INPUT);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < phasor_tensor_count(o->model); ++i) {
    IS_OK(phasor_tensor_get(o->model, i, tensor));
    bytes += tensor->bytes;
  }
  HOLDS(bytes != 0 && bytes < o->bytes && strcmp(tensor->type, "f32") == 0);
  uint32_t skipped = 1;
  (void)phasor_skipped(o->model, &skipped);
  HOLDS(skipped == 0 && phasor_field_count(o->model) != 0);
  IS_OK(phasor_field_get(o->model, 0, field));
  HOLDS(strcmp(field->name, "model.stack") == 0);
  IS_OK(phasor_model_cost(o->model, 8, 8, cost));
  HOLDS(cost->encode_macs + cost->step_macs != 0);
  HOLDS(phasor_model_peak(o->model, PHASOR_PEAK_INT8, 1) != 0);
}

static void replay(opened* o, void* file) {
  phasor_vector* vector = NEW(phasor_vector);
  phasor_vector_result* result = NEW(phasor_vector_result);
  uint64_t hash[64];
  const uint32_t count = phasor_vector_count(o->model);
  HOLDS(count != 0 && count < 64);
  for (uint32_t i = 0; i < count; ++i) {
    IS_OK(phasor_vector_get(o->model, i, vector));
    if (vector->source_count > 24 || vector->target_count > 24) return;
    IS_OK(phasor_vector_run(o->session, i, result, &error));
    HOLDS(vector->hash == 0 || vector->hash == result->hash);
    hash[i] = result->hash;
  }
  if (file != NULL) IS_OK(phasor_vector_record(o->model, file, hash, vector->tolerance, &error));
}

static void quantize(const opened* o) {
  phasor_quantize_options options = PHASOR_QUANTIZE_OPTIONS_INIT;
  static const char* const types[] = {"f32", "f16", "bf16", "q8", "q4", "q8r"};
  for (size_t t = 0; t < sizeof types / sizeof *types; ++t) {
    phasor_rounding* rounding = structs(sizeof *rounding, PHASOR_TYPES);
    size_t need = 0;
    options.type = types[t];
    IS_OK(phasor_quantize_size(&need, o->file, o->bytes, &options, &error));
    void* out = block(need);
    IS_OK(phasor_quantize(out, need, rounding, PHASOR_TYPES, o->file, o->bytes, &options, &error));
    HOLDS(phasor_quantize(out, need - 1, NULL, 0, o->file, o->bytes, &options, &error) ==
          PHASOR_NO_MEMORY);
    HOLDS(t == 5 || (strcmp(rounding[t].type, types[t]) == 0 && rounding[t].bytes != 0));
    opened again = {out, need, NULL, NULL, NULL, 0, 0};
    open_all(&again);
    if (t == 0) replay(&again, out);
  }
}

static void encode(opened* o) {
  phasor_item* items = structs(sizeof *items, 2);
  const uint32_t ids[] = {5, 6, 7, 5, 6};
  uint32_t rows = 0, stride = 0;
  for (uint32_t i = 0; i < 2; ++i) {
    items[i].sequence = i;
    items[i].count = 3 + i * 2;
    items[i].ids = ids;
  }
  IS_OK(phasor_encode(o->session, items, 2, &error));
  HOLDS(phasor_hidden(o->session, 1, &rows, &stride) != NULL && rows == 5 && stride != 0);
  if (o->stack != PHASOR_ENCODER) return;
  float* vector = block(8 * sizeof *vector);
  uint32_t best = 0;
  float logit = 0;
  IS_OK(phasor_embedding(o->session, 1, PHASOR_POOL_MEAN, PHASOR_NORMALIZE_YES, vector, 8, &error));
  IS_OK(phasor_encoder_output(o->session, 1, 0, 1, &error));
  IS_OK(phasor_argmax(o->session, 0, &best, &logit));
}

static uint32_t tokens, pieces;
static int token(void* user, uint32_t id, uint32_t position) {
  tokens += user == &tokens && id != PHASOR_NONE && position < ROOM;
  return 0;
}
static int text_of(void* user, const char* text, size_t bytes) {
  pieces += user == &tokens && text != NULL && bytes != 0;
  return 0;
}

/* Greedy decoding, by phasor_generate and step by step; a state saved and restored; beams. */
static void decode(opened* o) {
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_generation result = PHASOR_GENERATION_INIT;
  phasor_beam_options beam = PHASOR_BEAM_OPTIONS_INIT;
  phasor_beam_result* found = NEW(phasor_beam_result);
  phasor_hypothesis* best = NEW(phasor_hypothesis);
  phasor_item item = PHASOR_ITEM_INIT;
  const uint32_t prompt[] = {5, 6, 7};
  const int translates = o->stack == PHASOR_ENCODER_DECODER;
  const uint32_t given = translates ? 0 : 3;
  uint32_t *out = block(6 * sizeof *out), id = 0;
  float logit = 0;
  options.token = token;
  options.text = text_of;
  options.user = &tokens;
  options.reuse = !translates;
  (void)phasor_generation_defaults(o->model, &options);
  options.max_new = 6;
  options.temperature = 0;
  IS_OK(phasor_generate(o->session, 0, prompt, given, out, 6, &options, &result, &error));
  HOLDS(result.count != 0 && result.count <= 6 && tokens >= result.count);
  const uint32_t last = phasor_sequence_length(o->session, 0);
  const uint32_t* ids = phasor_sequence_ids(o->session, 0);
  HOLDS(phasor_sequence_common(o->session, 0, ids, last) == last);
  uint32_t* all = block(last * sizeof *all);
  memcpy(all, ids, last * sizeof *all);
  IS_OK(phasor_sequence_truncate(o->session, 0, last - 1));
  IS_OK(phasor_sequence_fork(o->session, 1, 0));
  item.sequence = 1;
  item.count = 1;
  item.ids = all + last - 1;
  item.logits = PHASOR_LOGITS_LAST;
  IS_OK(phasor_step(o->session, &item, 1, &error));
  IS_OK(phasor_argmax(o->session, 0, &id, &logit));
  HOLDS(id == out[result.count - 1] && logit == phasor_logits(o->session, 0)[id]);
  IS_OK(phasor_choose(o->session, &id, NULL, 0, all, last, 0, &options, &error));
  HOLDS(id == out[result.count - 1]);
  size_t need = 0;
  IS_OK(phasor_state_size(o->session, 1, &need));
  void* state = block(need);
  IS_OK(phasor_state_save(o->session, 1, state, need));
  IS_OK(phasor_state_restore(o->session, 0, state, need, &error));
  IS_OK(phasor_sequence_status(o->session, 0));
  HOLDS(phasor_sequence_length(o->session, 0) == last);
  phasor_random random;
  phasor_random_seed(&random, 1);
  options.random = &random;
  options.temperature = 1;
  IS_OK(phasor_choose(o->session, &id, NULL, 0, all, last, 0, &options, &error));
  if (!translates) IS_OK(phasor_sequence_clear(o->session, 0));
  IS_OK(phasor_sequence_truncate(o->session, 0, 0));
  beam.max_new = 4;
  IS_OK(phasor_beam_search(o->session, 0, prompt, given, &beam, found, &error));
  IS_OK(phasor_hypothesis_get(o->session, 0, best));
  HOLDS(found->count != 0 && best->count != 0 && best->count <= 4);
}

/* Two jobs of one input are that input alone, twice; as a whole, and step by step. */
static void side_by_side(opened* o) {
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_beam_options beam = PHASOR_BEAM_OPTIONS_INIT;
  const uint32_t ids[] = {5, 6, 7};
  uint32_t* out[2];
  (void)phasor_beam_defaults(o->model, &beam);
  beam.beams = 2;
  for (uint32_t way = 0; way < 4; ++way) {
    phasor_job both[2] = {PHASOR_JOB_INIT, PHASOR_JOB_INIT};
    uint32_t left = 2;
    for (uint32_t i = 0; i < 2; ++i) {
      both[i].ids = ids;
      both[i].count = 3;
      both[i].out = out[i] = block(4 * sizeof **out);
      both[i].capacity = 4;
    }
    if (way == 0) IS_OK(phasor_jobs_run(o->session, both, 2, &options, &error));
    if (way == 1) IS_OK(phasor_beam_jobs_run(o->session, both, 2, &beam, &error));
    while (way == 2 && left != 0)
      IS_OK(phasor_jobs_step(o->session, both, 2, &options, &left, &error));
    while (way == 3 && left != 0)
      IS_OK(phasor_beam_jobs_step(o->session, both, 2, &beam, &left, &error));
    HOLDS(both[0].made != 0 && both[0].made == both[1].made);
    HOLDS(memcmp(out[0], out[1], both[0].made * sizeof **out) == 0);
  }
}

static void text(opened* o) {
  static const char words[] = "a source of 7 words";
  const uint32_t side = o->stack == PHASOR_DECODER ? PHASOR_TARGET : PHASOR_SOURCE;
  const size_t size = sizeof words - 1;
  phasor_text held = PHASOR_TEXT_INIT;
  uint32_t *ids = block(64 * sizeof *ids), *segments = block(64 * sizeof *segments);
  size_t count = 0, bytes = 0, all = 0;
  char* out = block(ROOM);
  IS_OK(phasor_text_to_ids(o->session, side, 0, ids, 64, &count, words, size, &error));
  HOLDS(count != 0 && phasor_piece(o->model, side, ids[0], &bytes) != NULL);
  for (size_t i = 0; i < count; ++i, all += bytes)
    IS_OK(phasor_id_to_text(o->model, side, &held, ids[i], out + all, ROOM - all, &bytes));
  IS_OK(phasor_text_flush(o->model, side, &held, out + all, ROOM - all, &bytes));
  HOLDS(phasor_pair_to_ids(o->session, side, ids, segments, 64, &count, words, size, words, size,
                           &error) == PHASOR_BAD_INPUT);
  if (!phasor_chat_available(o->model)) return;
  phasor_chat_message* messages = structs(sizeof *messages, 1);
  messages->role = "user";
  messages->role_bytes = 4;
  messages->content = words;
  messages->content_bytes = size;
  IS_OK(phasor_chat_to_text(o->session, 1, out, ROOM, &bytes, messages, 1, &error));
  HOLDS(bytes > size);
}

int main(int argc, char** argv) {
  uint32_t stacks = 0;
  HOLDS(argc > 1);
  (void)phasor_request_amx();
  for (int i = 1; i < argc; ++i) {
    opened o = {NULL, 0, NULL, NULL, NULL, 0, 0};
    file_name = argv[i];
    o.file = read_file(argv[i], &o.bytes);
    open_all(&o);
    ask_the_model(&o);
    replay(&o, NULL);
    if (o.stack != PHASOR_DECODER) encode(&o);
    if (o.stack != PHASOR_ENCODER) {
      decode(&o);
      side_by_side(&o);
    }
    if (o.has_tokenizer != 0) text(&o);
    quantize(&o);
    none_is_written_past();
    stacks |= 1u << o.stack;
  }
  HOLDS(seen != 0 && progressed != 0 && jobs != 0 && pieces != 0);
  HOLDS(stacks == 0xE); /* one of each */
  printf("old-caller: %d passed, 0 failed\n", argc - 1);
  return 0;
}
