// A stranger's file in another type: refused with a line, or a file that opens, and that checks
// where the first one did.
#include "edit.h"
#include "models.h"
#include "types.h"

namespace fuzz {
namespace {

const char* any_type(Choices* c) {
  constexpr const char* kWrong[] = {"", "q5", "panel16"};
  constexpr uint32_t kRight = sizeof phasor::kRoundedTypeNames / sizeof(char*);
  const uint32_t i = c->below(c->chance(90) ? kRight : kRight + 3);
  return i < kRight ? phasor::kRoundedTypeNames[i] : kWrong[i - kRight];
}

// Of matrices that somebody measured, or made up.
std::vector<float> any_moments(Choices* c) {
  std::vector<float> moments(c->chance(60) ? 0 : c->below(2000));
  for (float& m : moments) m = c->chance(90) ? static_cast<float>(c->below(64)) : any_float(c);
  return moments;
}

}  // namespace

void run_quantize(const uint8_t* data, size_t size) {
  const std::vector<Part> parts = split_parts(data, size, 3);
  const Bytes bytes = edited_file(parts[0], parts[1], kAnySection);
  const Block file(bytes.data(), bytes.size());
  Choices choices = parts[2].choices();
  Choices* const c = &choices;
  const std::vector<float> values = any_moments(c);
  const Block moments(values.data(), values.size() * sizeof(float));
  phasor_quantize_options options = PHASOR_QUANTIZE_OPTIONS_INIT;
  options.type = any_type(c);
  options.output_type = c->chance(50) ? nullptr : any_type(c);
  options.moments = values.empty() ? nullptr : moments.as<float>();
  options.moment_count = values.size();

  Answer answer;
  size_t need = 0;
  if (!answer(phasor_quantize_size(&need, file.as(), file.size(), &options, &answer.error)) ||
      need > kMostMemory)
    return;
  const Block out(need);
  phasor_error error = PHASOR_ERROR_INIT;
  demand(phasor_quantize(out.as(), need - 1, nullptr, 0, file.as(), file.size(), &options,
                         &error) == PHASOR_NO_MEMORY,
         "a file is written in a byte less than its size");
  phasor_rounding rounding[PHASOR_TYPES];
  for (phasor_rounding& r : rounding) r = PHASOR_ROUNDING_INIT;
  if (!answer(phasor_quantize(out.as(), need, rounding, PHASOR_TYPES, file.as(), file.size(),
                              &options, &answer.error)))
    return;
  look_at(out.as(), need);
  const Model before(file.as(), file.size()), after(out.as(), need);
  if (before.get() == nullptr) return;
  demand(after.get() != nullptr, "a file in another type does not open");
  if (answer(phasor_model_check(before.get(), &answer.error)))
    demand(phasor_model_check(after.get(), &error) == PHASOR_OK,
           "a file in another type does not check");
}

}  // namespace fuzz
