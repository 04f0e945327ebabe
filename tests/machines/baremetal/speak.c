/* A model in flash says its texts. The build writes model.h (phasor inspect --emit h: limits and
 * the sizes of the two blocks, constants) and inputs.h; this program takes exactly those two blocks
 * and asserts that the library asks for the same. One line a result: ok WHAT   |   text LINE   |
 * figure NAME NUMBER   |   refused STATUS: what   |   FAIL what: STATUS: what Exit code: 0, 1 after
 * FAIL, 2 when the file in flash is refused. */
#include "board.h"
#include "inputs.h"
#include "model.h"

static _Alignas(PHASOR_ALIGN) unsigned char model_block[MODEL_PHASOR_MODEL_BYTES];
static _Alignas(PHASOR_ALIGN) unsigned char arena[MODEL_PHASOR_ARENA_BYTES];
static const phasor_limits limits = MODEL_PHASOR_LIMITS;
static const char* const inputs[] = {SPEAK_INPUTS};

static void say(const char* a, const char* b, const char* c) {
  board_puts(a);
  board_puts(b);
  board_puts(c);
}

static void figure(const char* name, uint32_t value) {
  char digits[12];
  char* p = digits + sizeof digits - 1;
  *p = 0;
  do *--p = (char)('0' + value % 10);
  while ((value /= 10) != 0);
  say("figure ", name, " ");
  say(p, "\n", "");
}

static int failed(const char* what, phasor_status status, const phasor_error* error) {
  say("FAIL ", what, ": ");
  say(phasor_status_name(status), ": ", error->text);
  say("\n", "", "");
  return 1;
}

static int put_text(void* user, const char* text, size_t bytes) {
  char piece[65];
  (void)user;
  while (bytes != 0) {
    size_t n = 0;
    for (; n < sizeof piece - 1 && n < bytes; ++n) piece[n] = text[n] == '\n' ? ' ' : text[n];
    piece[n] = 0;
    board_puts(piece);
    text += n;
    bytes -= n;
  }
  return 0;
}

/* The best output of a search with limits.beams, as the model's file recommends it. */
static phasor_status search(phasor_session* session, const phasor_model* model,
                            const uint32_t* source, uint32_t count, phasor_error* error) {
  phasor_beam_options options = PHASOR_BEAM_OPTIONS_INIT;
  phasor_beam_result found = PHASOR_BEAM_RESULT_INIT;
  phasor_hypothesis best = {sizeof best, 0, 0, 0, 0, NULL};
  phasor_text text = PHASOR_TEXT_INIT;
  char piece[64];
  size_t bytes = 0;
  phasor_beam_defaults(model, &options);
  options.beams = 0;
  options.max_new = SPEAK_NEW;
  options.source = source;
  options.source_count = count;
  phasor_status status = phasor_beam_search(session, 0, NULL, 0, &options, &found, error);
  if (status == PHASOR_OK) status = phasor_hypothesis_get(session, 0, &best);
  for (uint32_t i = 0; i <= best.count && status == PHASOR_OK; ++i) {
    status = i == best.count
                 ? phasor_text_flush(model, PHASOR_TARGET, &text, piece, sizeof piece, &bytes)
                 : phasor_id_to_text(model, PHASOR_TARGET, &text, best.ids[i], piece, sizeof piece,
                                     &bytes);
    if (status == PHASOR_OK) put_text(NULL, piece, bytes);
  }
  return status;
}

static phasor_status answer(phasor_session* session, const phasor_model* model, const char* input,
                            phasor_error* error) {
  uint32_t ids[SPEAK_IDS], out[SPEAK_NEW];
  size_t count = 0, length = 0;
  const int translator = phasor_model_stack(model) == PHASOR_ENCODER_DECODER;
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_generation made = PHASOR_GENERATION_INIT;
  options.max_new = SPEAK_NEW;
  options.text = put_text;
  while (input[length] != 0) ++length;
  phasor_status status = phasor_sequence_clear(session, 0);
  if (status == PHASOR_OK)
    status = phasor_text_to_ids(session, translator ? PHASOR_SOURCE : PHASOR_TARGET, 1, ids,
                                SPEAK_IDS, &count, input, length, error);
  if (status != PHASOR_OK) return status;
  board_puts("text ");
  if (translator) {
    phasor_item source = PHASOR_ITEM_INIT;
    source.count = (uint32_t)count;
    source.ids = ids;
    status = phasor_encode(session, &source, 1, error);
    if (status == PHASOR_OK && limits.beams != 0)
      status = search(session, model, ids, source.count, error);
    else if (status == PHASOR_OK)
      status = phasor_generate(session, 0, NULL, 0, out, SPEAK_NEW, &options, &made, error);
  } else {
    status =
        phasor_generate(session, 0, ids, (uint32_t)count, out, SPEAK_NEW, &options, &made, error);
  }
  board_puts("\n");
  return status;
}

int main(void) {
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_model* model = NULL;
  phasor_session* session = NULL;
  size_t need = 0;
  phasor_status status = phasor_model_open(&model, model_block, sizeof model_block, model_phasor,
                                           model_phasor_bytes, NULL, &error);
  if (status == PHASOR_OK) status = phasor_model_check(model, &error);
  if (status == PHASOR_BAD_FILE || status == PHASOR_BAD_CHECKSUM || status == PHASOR_UNSUPPORTED) {
    say("refused ", phasor_status_name(status), ": ");
    say(error.text, "\n", "");
    return 2;
  }
  if (status != PHASOR_OK) return failed("open", status, &error);
  status = phasor_model_size(&need, model_phasor, model_phasor_bytes, &error);
  if (status != PHASOR_OK || need != sizeof model_block)
    return failed("the model's block is not what the build says", status, &error);
  status = phasor_session_size(&need, model, &limits, &error);
  if (status != PHASOR_OK || need != sizeof arena)
    return failed("the arena is not what the build says", status, &error);
  board_puts("ok the build's sizes are the library's\n");

  status = phasor_session_open(&session, arena, sizeof arena - 1, model, &limits, NULL, &error);
  if (status != PHASOR_NO_MEMORY)
    return failed("an arena one byte too small was not refused", status, &error);
  say("ok one byte less: ", error.text, "\n");
  status = phasor_session_open(&session, arena, sizeof arena, model, &limits, NULL, &error);
  if (status != PHASOR_OK) return failed("session", status, &error);

  for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; ++i) {
    status = answer(session, model, inputs[i], &error);
    if (status != PHASOR_OK) return failed(inputs[i], status, &error);
  }
  figure("model_block", sizeof model_block);
  figure("arena", sizeof arena);
  figure("stack_used", (uint32_t)board_stack_used());
  figure("stack_size", (uint32_t)board_stack_size());
  return 0;
}
