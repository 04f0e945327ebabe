/* Translates one text. Plain C99. Try: translate tests/golden/models/tiny-d2l-f32.phasor source7 */
#include <phasor.h>
#include <stdio.h>
#include <stdlib.h>

/* Memory aligned for Phasor, kept until the program ends. */
static void* block(size_t bytes) {
  char* p = malloc(bytes + PHASOR_ALIGN);
  return p == NULL ? NULL : p + PHASOR_ALIGN - (uintptr_t)p % PHASOR_ALIGN;
}

static int print_token(void* model, uint32_t id, uint32_t position) {
  static phasor_text state = PHASOR_TEXT_INIT; /* holds back an incomplete character */
  char text[256];
  size_t bytes = 0;
  if (phasor_id_to_text(model, PHASOR_TARGET, &state, id, text, sizeof text, &bytes) == PHASOR_OK)
    fwrite(text, 1, bytes, stdout);
  return position > 0 && fflush(stdout) != 0; /* nonzero stops */
}

int main(int argc, char** argv) {
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_limits limits = PHASOR_LIMITS_INIT;
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_generation result = PHASOR_GENERATION_INIT;
  phasor_item item = PHASOR_ITEM_INIT;
  phasor_model* model;
  phasor_session* session;
  uint32_t ids[64], out[64];
  size_t size = 0, need = 0, count = 0;
  FILE* f = argc == 3 ? fopen(argv[1], "rb") : NULL;
  if (f == NULL) return fprintf(stderr, "expected a weight file and a text\n"), 2;
  fseek(f, 0, SEEK_END);
  size = (size_t)ftell(f);
  rewind(f);
  void *file = block(size), *memory, *arena;
  if (file == NULL || fread(file, 1, size, f) != size) return 1;

  /* Ask for each size, then open in that much memory. */
  if (phasor_model_size(&need, file, size, &error) || (memory = block(need)) == NULL ||
      phasor_model_open(&model, memory, need, file, size, NULL, &error) ||
      phasor_limits_for(model, 64, 64, &limits) ||
      phasor_session_size(&need, model, &limits, &error) || (arena = block(need)) == NULL ||
      phasor_session_open(&session, arena, need, model, &limits, NULL, &error))
    return fprintf(stderr, "%s: %s\n", argv[1], error.text), 1;

  /* From here on nothing is allocated. */
  size = 0;
  while (argv[2][size] != 0) ++size;
  if (phasor_text_to_ids(session, PHASOR_SOURCE, 1, ids, 64, &count, argv[2], size, &error))
    return fprintf(stderr, "%s\n", error.text), 1;
  item.count = (uint32_t)count;
  item.ids = ids;
  options.token = print_token;
  options.user = model;
  if (phasor_encode(session, &item, 1, &error) ||
      phasor_generate(session, 0, NULL, 0, out, 64, &options, &result, &error))
    return fprintf(stderr, "%s\n", error.text), 1;
  return printf("\n") < 0;
}
