// The same bits without a system: opens every weight file in the image, runs its test vectors in a
// static arena of the exact size and prints the hashes, which the host compares with
// tests/golden/hashes.txt. Also, for each file: an arena with one byte less is refused, and so is a
// file with a damaged head.
//
// All of it at every level that this processor runs (a Cortex-M55 has helium and scalar).
// One line a result:   vector MODEL INDEX HASH level=NAME   |   large MODEL INDEX BYTES   |   ok
// NAME MODEL LEVEL   |   FAIL MODEL what
#include <phasor.h>

#include <cstring>

#include "board.h"

namespace {

#ifndef VECTORS_ARENA_KIB  // a small board has its own numbers (tools/make/baremetal.mk)
#define VECTORS_MODEL_KIB 64
#define VECTORS_ARENA_KIB 1536
#define VECTORS_COPY_KIB 1024
#endif
constexpr size_t kModelBytes = VECTORS_MODEL_KIB * 1024;
constexpr size_t kArenaBytes = VECTORS_ARENA_KIB * 1024;
constexpr size_t kCopyBytes = VECTORS_COPY_KIB * 1024;
constexpr size_t kPainted = 4096;  // beyond the arena in use
alignas(PHASOR_ALIGN) unsigned char model_block[kModelBytes];
alignas(PHASOR_ALIGN) unsigned char arena[kArenaBytes];
alignas(PHASOR_ALIGN) unsigned char copy[kCopyBytes];  // of a file, to damage it

int failures = 0;
const char* level = "";

void put_number(uint64_t value, unsigned base, unsigned digits) {
  char text[24];
  size_t at = sizeof text - 1;
  text[at] = 0;
  do {
    const uint64_t quotient = value / base;
    text[--at] = "0123456789abcdef"[value - quotient * base];
    value = quotient;
  } while (value != 0 || sizeof text - 1 - at < digits);
  board_puts(text + at);
}

void ok(const char* what, const char* model) {
  board_puts("ok ");
  board_puts(what);
  board_puts(" ");
  board_puts(model);
  board_puts(" ");
  board_puts(level);
  board_puts("\n");
}

void fail(const char* model, const char* what, phasor_status status, const phasor_error& error) {
  ++failures;
  board_puts("FAIL ");
  board_puts(model);
  board_puts(" ");
  board_puts(what);
  board_puts(": ");
  board_puts(phasor_status_name(status));
  board_puts(": ");
  board_puts(error.text);
  board_puts("\n");
}

void run(const board_file& file) {
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_open_options options = PHASOR_OPEN_OPTIONS_INIT;
  options.isa = level;
  size_t model_need = 0;
  phasor_status status = phasor_model_size(&model_need, file.bytes, file.size, &error);
  if (status != PHASOR_OK) return fail(file.name, "model size", status, error);
  if (model_need > kModelBytes)
    return fail(file.name, "the image's model block is too small", status, error);

  phasor_model* model = nullptr;
  status = phasor_model_open(&model, model_block, model_need - 1, file.bytes, file.size, &options,
                             &error);
  if (status != PHASOR_NO_MEMORY)
    return fail(file.name, "a model block one byte too small was not refused", status, error);
  ok("model-block-is-exact", file.name);

  // Every 13th byte of the head, and the last of it: reading the head's end from the header
  // (docs/reference/file-format.md).
  if (file.size <= kCopyBytes) {
    std::memcpy(copy, file.bytes, file.size);
    uint32_t head = 0;
    std::memcpy(&head, copy + 32, sizeof head);
    bool refused = head <= file.size;
    for (size_t i = 0; refused && i < head; i += 13) {
      copy[i] ^= 0x10;
      phasor_model* damaged = nullptr;
      if (phasor_model_open(&damaged, model_block, kModelBytes, copy, file.size, &options,
                            &error) == PHASOR_OK)
        refused = false;
      copy[i] ^= 0x10;
    }
    if (!refused) return fail(file.name, "a damaged head was not refused", PHASOR_OK, error);
    ok("damaged-head-is-refused", file.name);
  }

  status =
      phasor_model_open(&model, model_block, model_need, file.bytes, file.size, &options, &error);
  if (status != PHASOR_OK) return fail(file.name, "open", status, error);
  if (phasor_model_isa(model) != level)
    return fail(file.name, "another level was taken", status, error);

  for (uint32_t i = 0; i < phasor_vector_count(model); ++i) {
    phasor_vector vector{};
    vector.struct_size = sizeof vector;
    status = phasor_vector_get(model, i, &vector);
    if (status != PHASOR_OK) return fail(file.name, "vector", status, error);
    phasor_limits limits{};
    limits.struct_size = sizeof limits;
    status = phasor_limits_for(model, vector.source_count, vector.target_count, &limits);
    if (status != PHASOR_OK) return fail(file.name, "limits", status, error);
    size_t need = 0;
    status = phasor_session_size(&need, model, &limits, &error);
    if (status != PHASOR_OK) return fail(file.name, "session size", status, error);
    if (need > kArenaBytes) {  // the host knows how much this board has
      board_puts("large ");
      board_puts(file.name);
      board_puts(" ");
      put_number(i, 10, 1);
      board_puts(" ");
      put_number(need, 10, 1);
      board_puts("\n");
      continue;
    }

    phasor_session* session = nullptr;
    status = phasor_session_open(&session, arena, need - 1, model, &limits, nullptr, &error);
    if (status != PHASOR_NO_MEMORY)
      return fail(file.name, "an arena one byte too small was not refused", status, error);
    const size_t painted = sizeof arena - need < kPainted ? sizeof arena : need + kPainted;
    std::memset(arena, 0xA5, painted);
    status = phasor_session_open(&session, arena, need, model, &limits, nullptr, &error);
    if (status != PHASOR_OK) return fail(file.name, "session", status, error);

    phasor_vector_result result{};
    result.struct_size = sizeof result;
    status = phasor_vector_run(session, i, &result, &error);
    if (status != PHASOR_OK) return fail(file.name, "vector", status, error);
    for (size_t k = need; k < painted; ++k)
      if (arena[k] != 0xA5) return fail(file.name, "wrote beyond the arena", status, error);

    board_puts("vector ");
    board_puts(file.name);
    board_puts(" ");
    put_number(i, 10, 1);
    board_puts(" ");
    put_number(result.hash, 16, 16);
    board_puts(" level=");
    board_puts(level);
    board_puts("\n");
    if (i == 0) {
      board_puts("arena ");
      put_number(need, 10, 1);
      board_puts(" model ");
      put_number(model_need, 10, 1);
      board_puts(" ");
      board_puts(file.name);
      board_puts("\n");
    }
  }
  ok("arena-is-exact", file.name);
}

}  // namespace

extern "C" int main() {
  size_t files = 0;
  for (uint32_t i = 0; phasor_isa_name(i) != nullptr; ++i) {
    level = phasor_isa_name(i);
    board_puts("level ");
    board_puts(level);
    board_puts("\n");
    for (const board_file* w = board_weights; w->name != nullptr; ++w, ++files) run(*w);
  }
  if (files == 0) {
    board_puts("FAIL image has no weight file\n");
    ++failures;
  }
  board_puts("stack ");
  put_number(board_stack_used(), 10, 1);
  board_puts(" of ");
  put_number(board_stack_size(), 10, 1);
  board_puts(" bytes\n");
  return failures == 0 ? 0 : 1;
}
