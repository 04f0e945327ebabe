/* A model in flash continues a prompt of ids twice, to different lengths, each time between two
 * marks for a counter of instructions (tests/machines/cross/count_instructions.c). The build writes
 * model.h (phasor inspect --emit h). Prints sizes as speak.c, and the ids of the longer one. */
#include "board.h"
#include "model.h"

enum { PROMPT = 8, SHORT = 16, LONG = 48 };

static _Alignas(PHASOR_ALIGN) unsigned char model_block[MODEL_PHASOR_MODEL_BYTES];
static _Alignas(PHASOR_ALIGN) unsigned char arena[MODEL_PHASOR_ARENA_BYTES];
static const phasor_limits limits = MODEL_PHASOR_LIMITS;

/* Apart and aligned: QEMU's plugins do not see an instruction that is the last but one of a
 * page. */
__attribute__((noinline, aligned(16))) static void mark(void) {
  __asm__ volatile(".inst.n 0xbfe0" ::: "memory");
}

static void number(const char* before, uint32_t value) {
  char digits[12];
  char* p = digits + sizeof digits - 1;
  *p = 0;
  do *--p = (char)('0' + value % 10);
  while ((value /= 10) != 0);
  board_puts(before);
  board_puts(p);
}

static int failed(const char* what, const phasor_error* error) {
  board_puts("FAIL ");
  board_puts(what);
  board_puts(": ");
  board_puts(error->text);
  board_puts("\n");
  return 1;
}

int main(void) {
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_model* model = NULL;
  phasor_session* session = NULL;
  static const uint32_t lengths[] = {SHORT, LONG};
  uint32_t prompt[PROMPT], out[LONG], made = 0;
  if (phasor_model_open(&model, model_block, sizeof model_block, model_phasor, model_phasor_bytes,
                        NULL, &error) != PHASOR_OK)
    return failed("open", &error);
  if (phasor_session_open(&session, arena, sizeof arena, model, &limits, NULL, &error) != PHASOR_OK)
    return failed("session", &error);
  for (uint32_t i = 0; i < PROMPT; ++i) prompt[i] = 3 + 5 * i;
  for (size_t i = 0; i < 2; ++i) {
    phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
    phasor_generation found = PHASOR_GENERATION_INIT;
    options.max_new = lengths[i];
    if (phasor_sequence_clear(session, 0) != PHASOR_OK) return failed("clear", &error);
    mark();
    if (phasor_generate(session, 0, prompt, PROMPT, out, LONG, &options, &found, &error) !=
        PHASOR_OK)
      return failed("generate", &error);
    mark();
    made = (uint32_t)found.count;
    number("made ", made);
    board_puts("\n");
  }
  board_puts("ids");
  for (uint32_t i = 0; i < made; ++i) number(" ", out[i]);
  board_puts("\n");
  number("figure model_block ", sizeof model_block);
  number("\nfigure arena ", sizeof arena);
  number("\nfigure stack_used ", (uint32_t)board_stack_used());
  board_puts("\n");
  return 0;
}
