#include <cstring>

#include "target.h"

namespace fuzz {

// One function a file, TARGET.cpp.
void run_open(const uint8_t*, size_t);
void run_run(const uint8_t*, size_t);
void run_generate(const uint8_t*, size_t);
void run_state(const uint8_t*, size_t);
void run_vectors(const uint8_t*, size_t);
void run_quantize(const uint8_t*, size_t);
void run_limits(const uint8_t*, size_t);
void run_tokenizer(const uint8_t*, size_t);
void run_normalizer(const uint8_t*, size_t);
void run_chat(const uint8_t*, size_t);
void run_arguments(const uint8_t*, size_t);
void run_input(const uint8_t*, size_t);
void run_json(const uint8_t*, size_t);
void run_npy(const uint8_t*, size_t);
void run_shortlist(const uint8_t*, size_t);
void run_export(const uint8_t*, size_t);
void run_file(const uint8_t*, size_t);

namespace {

constexpr Target kTargets[] = {
    {"open", Shape::weight_file, run_open},
    {"run", Shape::three_parts, run_run},
    {"generate", Shape::two_parts, run_generate},
    {"state", Shape::three_parts, run_state},
    {"vectors", Shape::three_parts, run_vectors},
    {"quantize", Shape::three_parts, run_quantize},
    {"limits", Shape::two_parts, run_limits},
    {"tokenizer", Shape::three_parts, run_tokenizer},
    {"normalizer", Shape::bytes, run_normalizer},
    {"chat", Shape::three_parts, run_chat},
    {"arguments", Shape::bytes, run_arguments},
    {"input", Shape::bytes, run_input},
    {"json", Shape::bytes, run_json},
    {"npy", Shape::bytes, run_npy},
    {"shortlist", Shape::bytes, run_shortlist},
    {"export", Shape::three_parts, run_export},
    {"file", Shape::weight_file, run_file},
};

}  // namespace

const Target* target_at(size_t index) {
  return index < sizeof kTargets / sizeof *kTargets ? kTargets + index : nullptr;
}

const Target* target_named(const char* name) {
  for (const Target& target : kTargets)
    if (std::strcmp(target.name, name) == 0) return &target;
  return nullptr;
}

}  // namespace fuzz
