/* A translator on a microcontroller: a project of your own needs this file, weights.ld, libphasor's
 * sources and what README.md says. zh_en.h and zh_en.S come from phasor inspect; uart_puts is
 * yours. */
#include "zh_en.h"

void uart_puts(const char* text);

/* All the memory there is. Both sizes are the planner's, known when this is compiled. */
static _Alignas(PHASOR_ALIGN) unsigned char model_block[ZH_EN_PHASOR_MODEL_BYTES];
static _Alignas(PHASOR_ALIGN) unsigned char arena[ZH_EN_PHASOR_ARENA_BYTES];

static int put_text(void* user, const char* text, size_t bytes) {
  char piece[2] = {0, 0};
  (void)user;
  for (; bytes != 0; --bytes) {
    piece[0] = *text++;
    uart_puts(piece);
  }
  return 0; /* anything else would stop the translation */
}

static phasor_status translate(phasor_session* session, const char* line, phasor_error* error) {
  uint32_t ids[ZH_EN_PHASOR_SOURCE], out[ZH_EN_PHASOR_CONTEXT];
  size_t count = 0, bytes = 0;
  phasor_item source = PHASOR_ITEM_INIT;
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_generation made = PHASOR_GENERATION_INIT;
  while (line[bytes] != 0) ++bytes;
  phasor_status status = phasor_text_to_ids(session, PHASOR_SOURCE, 1, ids, ZH_EN_PHASOR_SOURCE,
                                            &count, line, bytes, error);
  if (status != PHASOR_OK) return status;
  source.ids = ids;
  source.count = (uint32_t)count;
  options.text = put_text; /* each character as soon as it is known */
  status = phasor_encode(session, &source, 1, error);
  if (status != PHASOR_OK) return status;
  return phasor_generate(session, 0, NULL, 0, out, ZH_EN_PHASOR_CONTEXT - 1, &options, &made,
                         error);
}

int main(void) {
  static const phasor_limits limits = ZH_EN_PHASOR_LIMITS;
  static const char* const lines[] = {"我有一只猫。", "你想喝什么？", "今天天气很好。"};
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_model* model;
  phasor_session* session;
  phasor_status status = phasor_model_open(&model, model_block, sizeof model_block, zh_en_phasor,
                                           zh_en_phasor_bytes, NULL, &error);
  if (status == PHASOR_OK)
    status = phasor_session_open(&session, arena, sizeof arena, model, &limits, NULL, &error);
  for (size_t i = 0; status == PHASOR_OK && i < sizeof lines / sizeof lines[0]; ++i) {
    status = translate(session, lines[i], &error);
    uart_puts("\n");
  }
  if (status == PHASOR_OK) return 0;
  uart_puts(phasor_status_name(status));
  uart_puts(": ");
  uart_puts(error.text);
  uart_puts("\n");
  return 1;
}
