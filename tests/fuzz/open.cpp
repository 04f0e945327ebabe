// Fuzzing the reader: whatever the bytes are, opening answers with a status; a file that opens can
// be listed, checked, planned, run for a token, and its test vectors replayed, with red zones
// between the parts of the arena. Each input is tried as it is and once more with its size and head
// checksum put right, or the fuzzer would prove the checksum only. Built with libFuzzer (make
// fuzz); with -DPHASOR_FUZZ_MAIN a plain program that runs the files it is given.
#include <phasor.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "format/crc32c.h"

namespace {

constexpr size_t kMostMemory = size_t{64} << 20;

// A block of exactly that many bytes, so that a sanitizer sees the first byte beyond.
struct Block {
  explicit Block(size_t bytes) {
    if (posix_memalign(&data, PHASOR_ALIGN, bytes == 0 ? 1 : bytes) != 0) std::abort();
  }
  ~Block() { std::free(data); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void* data = nullptr;
};

void demand(bool condition) {
  if (!condition) std::abort();
}

template <class T>
T sized() {
  T t{};
  t.struct_size = sizeof(T);
  return t;
}

void encoder_outputs(phasor_session* session, const phasor_model* model) {
  phasor_error error = PHASOR_ERROR_INIT;
  auto side = sized<phasor_side>();
  auto output = sized<phasor_output>();
  demand(phasor_model_side(model, PHASOR_SOURCE, &side) == PHASOR_OK &&
         phasor_model_output(model, &output) == PHASOR_OK);
  const uint32_t width = output.output == PHASOR_OUTPUT_POOLED ? output.width : side.width;
  if (width < kMostMemory / sizeof(float)) {
    const Block vector(width * sizeof(float));
    for (uint32_t pooling = PHASOR_POOL_MODEL; pooling <= PHASOR_POOL_LAST; ++pooling)
      (void)phasor_embedding(session, 0, pooling, PHASOR_NORMALISE_YES,
                             static_cast<float*>(vector.data), width, &error);
  }
  (void)phasor_encoder_output(session, 0, 0, 1, &error);
}

void move_state(phasor_session* session) {
  phasor_error error = PHASOR_ERROR_INIT;
  size_t bytes = 0;
  demand(phasor_state_size(session, 0, &bytes) == PHASOR_OK);
  const Block state(bytes);
  demand(phasor_state_save(session, 0, state.data, bytes) == PHASOR_OK);
  demand(phasor_state_restore(session, 0, state.data, bytes, &error) == PHASOR_OK);
}

void use(const phasor_model* model) {
  phasor_error error = PHASOR_ERROR_INIT;
  for (uint32_t i = 0; i < phasor_tensor_count(model); ++i) {
    auto tensor = sized<phasor_tensor>();
    demand(phasor_tensor_get(model, i, &tensor) == PHASOR_OK && tensor.name != nullptr);
  }
  for (uint32_t i = 0; i < phasor_field_count(model); ++i) {
    auto field = sized<phasor_field>();
    demand(phasor_field_get(model, i, &field) == PHASOR_OK);
  }
  for (uint32_t i = 0; i < phasor_vector_count(model); ++i) {
    auto vector = sized<phasor_vector>();
    (void)phasor_vector_get(model, i, &vector);
  }
  (void)phasor_model_check(model, &error);

  const uint32_t stack = phasor_model_stack(model);
  const bool encodes = stack != PHASOR_DECODER;
  const bool decodes = stack != PHASOR_ENCODER;
  auto limits = sized<phasor_limits>();
  if (phasor_limits_for(model, encodes ? 2 : 0, decodes ? 2 : 0, &limits) != PHASOR_OK) return;
  limits.text_bytes = 16;
  size_t need = 0;
  if (phasor_session_size(&need, model, &limits, &error) != PHASOR_OK || need > kMostMemory) return;
  Block arena(need);
  phasor_session* session = nullptr;
  if (phasor_session_open(&session, arena.data, need, model, &limits, nullptr, &error) != PHASOR_OK)
    return;
  const uint32_t ids[2] = {0, 1};
  auto item = sized<phasor_item>();
  item.ids = ids;
  if (encodes) {
    item.count = 2;
    if (phasor_encode(session, &item, 1, &error) != PHASOR_OK) return;
  }
  if (!decodes) encoder_outputs(session, model);
  if (decodes) {
    item.count = 1;
    item.logits = PHASOR_LOGITS_LAST;
    (void)phasor_step(session, &item, 1, &error);
    move_state(session);
  }
  for (uint32_t i = 0; i < phasor_vector_count(model); ++i) {
    auto result = sized<phasor_vector_result>();
    (void)phasor_vector_run(session, i, &result, &error);
  }
  const phasor_chat_message talk[] = {
      {sizeof(phasor_chat_message), "system", 6, " a\n", 3},
      {sizeof(phasor_chat_message), "user", 4, "b c", 3},
      {sizeof(phasor_chat_message), "assistant", 9, "\xff</think>d", 10},
      {sizeof(phasor_chat_message), "user", 4, "", 0}};
  char rendered[96];
  size_t rendered_bytes = 0;
  (void)phasor_chat_to_text(session, 1, rendered, sizeof rendered, &rendered_bytes, talk, 4,
                            &error);
  for (uint32_t side = PHASOR_SOURCE; side <= PHASOR_TARGET; ++side) {
    uint32_t out[24];
    size_t count = 0;
    (void)phasor_text_to_ids(session, side, 1, out, 24, &count, "a \xe6\x88\x91 \xff b", 9, &error);
    phasor_text text = PHASOR_TEXT_INIT;
    char bytes[64];
    size_t n = 0;
    for (uint32_t id = 0; id < 8; ++id)
      (void)phasor_id_to_text(model, side, &text, id, bytes, sizeof bytes, &n);
  }
}

void open(const uint8_t* data, size_t size) {
  phasor_error error = PHASOR_ERROR_INIT;
  size_t need = 0;
  if (phasor_model_size(&need, data, size, &error) != PHASOR_OK || need > kMostMemory) return;
  Block memory(need);
  phasor_model* model = nullptr;
  if (phasor_model_open(&model, memory.data, need, data, size, nullptr, &error) == PHASOR_OK)
    use(model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Block file(size);
  auto* bytes = static_cast<uint8_t*>(file.data);
  if (size != 0) std::memcpy(bytes, data, size);
  open(bytes, size);
  if (size < 64) return 0;
  // docs/format.md, "Header": file_bytes at 24, head_bytes at 32, head_crc at 40.
  const uint64_t total = size;
  std::memcpy(bytes + 24, &total, 8);
  uint64_t head = 0;
  std::memcpy(&head, bytes + 32, 8);
  if (head < 64 || head > size) return 0;
  std::memset(bytes + 40, 0, 4);
  const uint32_t crc = phasor::crc32c(0, bytes, static_cast<size_t>(head));
  std::memcpy(bytes + 40, &crc, 4);
  open(bytes, size);
  return 0;
}

#if defined(PHASOR_FUZZ_MAIN)
#include <cstdio>
#include <vector>
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::FILE* f = std::fopen(argv[i], "rb");
    if (f == nullptr) return 1;
    std::vector<uint8_t> bytes;
    for (int c; (c = std::fgetc(f)) != EOF;) bytes.push_back(static_cast<uint8_t>(c));
    std::fclose(f);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%d files\n", argc - 1);
}
#endif
