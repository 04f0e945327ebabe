/* What make size links: everything that a program needs to turn a text into a text, and no more. It
 * is measured, not run. */
#include <phasor.h>

extern const unsigned char model[], input[];
__asm(".global model, input\n.set model, 0x08100000\n.set input, 0x08200000\n");

static _Alignas(PHASOR_ALIGN) unsigned char block[8192], arena[65536];

static int put_text(void* user, const char* text, size_t bytes) {
  *(volatile const char**)user = text + bytes;
  return 0;
}

phasor_status engine(void);
phasor_status engine(void) {
  static const phasor_limits limits = {
      sizeof(phasor_limits), 32, 32, 1, 4, 1, 64, 0, PHASOR_CACHE_F32, 0,
      PHASOR_TABLES_ROWS,    1,  0,  0};
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_generation made = PHASOR_GENERATION_INIT;
  phasor_item source = PHASOR_ITEM_INIT;
  phasor_model* m;
  phasor_session* s;
  uint32_t ids[32], out[32];
  const char* end;
  size_t count = 0;
  phasor_status status = phasor_model_open(&m, block, sizeof block, model, 1u << 19, NULL, &error);
  if (status == PHASOR_OK) status = phasor_model_check(m, &error);
  if (status == PHASOR_OK)
    status = phasor_session_open(&s, arena, sizeof arena, m, &limits, NULL, &error);
  if (status == PHASOR_OK)
    status =
        phasor_text_to_ids(s, PHASOR_SOURCE, 1, ids, 32, &count, (const char*)input, 32, &error);
  source.count = (uint32_t)count;
  source.ids = ids;
  options.text = put_text;
  options.user = &end;
  if (status == PHASOR_OK) status = phasor_encode(s, &source, 1, &error);
  if (status == PHASOR_OK)
    status = phasor_generate(s, 0, NULL, 0, out, 32, &options, &made, &error);
  return status;
}

void Reset_Handler(void);
void Reset_Handler(void) {
  (void)engine();
  for (;;) {
  }
}
