// An item of a call: what is said of it, the rest as PHASOR_ITEM_INIT has it, however the struct
// grows.
#pragma once
#include <phasor.h>

inline phasor_item item_of(uint32_t sequence, uint32_t count, uint32_t logits, const uint32_t* ids,
                           const float* embeddings = nullptr) {
  phasor_item item = PHASOR_ITEM_INIT;
  item.sequence = sequence;
  item.count = count;
  item.logits = logits;
  item.ids = ids;
  item.embeddings = embeddings;
  return item;
}
