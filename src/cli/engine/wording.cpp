#include "wording.h"

#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "roles.h"

namespace cli {
namespace {

// Every field of these structs; "": no flag sets it.
struct Setting {
  const char* field;
  const char* flag;
};
constexpr Setting kLimits[] = {
    {"source", "--source"},
    {"target", "--context"},
    {"sequences", "--batch"},
    {"chunk", "--chunk"},
    {"threads", "--threads"},
    {"text_bytes", "--text-bytes"},
    {"logit_rows", ""},
    {"cache_type", "--cache"},
    {"outputs", ""},
    {"tables", "--tables"},
    {"best_rows", ""},
    {"beams", "--beam"},
    {"searches", "--batch"},
};
constexpr Setting kOptions[] = {
    // phasor_generate_options
    {"max_new", "-n"},
    {"forced", "--prefix"},
    {"forced_count", "--prefix"},
    {"token", ""},
    {"logits", ""},
    {"user", ""},
    {"temperature", "--temperature"},
    {"top_k", "--top-k"},
    {"top_p", "--top-p"},
    {"min_p", "--min-p"},
    {"typical_p", "--typical"},
    {"repetition_penalty", "--repeat-penalty"},
    {"presence_penalty", "--presence-penalty"},
    {"frequency_penalty", "--frequency-penalty"},
    {"no_repeat_ngram", "--no-repeat-ngram"},
    {"min_new", "--min-new"},
    {"suppressed", "--suppress"},
    {"suppressed_count", "--suppress"},
    {"end", "--end"},
    {"end_count", "--end"},
    {"seed", "--seed"},
    {"random", ""},
    {"text", ""},
    {"stop", "--stop"},
    {"stop_count", "--stop"},
    {"reuse", ""},
    {"slide", "--keep"},
    {"keep", "--keep"},
    {"lookahead", "--lookahead"},
    {"bad_words", "--bad-words"},
    {"bad_words_count", "--bad-words"},
    {"source", ""},
    {"source_count", ""},
    {"source_no_repeat_ngram", "--source-no-repeat-ngram"},
    {"reserved", ""},
    {"forced_last", "--forced-last"},
    // phasor_beam_options
    {"beams", "--beam"},
    {"early_stopping", "--early-stopping"},
    {"length_penalty", "--length-penalty"},
    {"length_norm", "--length-norm"},
    {"groups", "--groups"},
    {"diversity_penalty", "--diversity"},
    {"coverage_penalty", "--coverage-penalty"},
    {"renormalize", "--renormalize"},
};

// Each "prefix.field" of the text as its flag.
template <size_t N>
void put_flags(const string& prefix, const Setting (&settings)[N], string* text) {
  constexpr const char kLetters[] = "abcdefghijklmnopqrstuvwxyz_";
  for (size_t at = 0; (at = text->find(prefix, at)) != string::npos;) {
    const size_t begin = at + prefix.size(),
                 end = min(text->find_first_not_of(kLetters, begin), text->size());
    const string field = text->substr(begin, end - begin);
    const char* flag = "";
    for (const Setting& one : settings)
      if (field == one.field) flag = one.flag;
    if (flag[0] != 0) text->replace(at, end - at, flag);
    at += flag[0] != 0 ? strlen(flag) : end - at;
  }
}

}  // namespace

string worded(const char* text, const phasor_model* model) {
  string out = text;
  put_flags("limits.", kLimits, &out);
  put_flags("options.", kOptions, &out);
  constexpr const char kTensor[] = "tensor ";
  const size_t at = out.find(kTensor);
  const size_t number = at + sizeof kTensor - 1;
  if (model == nullptr || at == string::npos || number >= out.size() || out[number] < '0' ||
      out[number] > '9')
    return out;
  char* end = nullptr;
  const unsigned long index = strtoul(out.c_str() + number, &end, 10);
  phasor_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  if (index > UINT32_MAX || phasor_tensor_get(model, uint32_t(index), &tensor) != PHASOR_OK)
    return out;
  return out.insert(size_t(end - out.c_str()), ", " + tensor_label(tensor) + ",");
}

const char* place_name(uint32_t stack) {
  return stack <= kOutput ? kPlaceNames[stack] : "?";
}

string tensor_label(const phasor_tensor& tensor) {
  const char* const place = place_name(tensor.stack);
  const bool has_sets =
      tensor.stack == kKind || tensor.stack == kEncoder || tensor.stack == kDecoder;
  if (has_sets && tensor.set != 0xFFFF)  // of the whole stack
    return format("%s %u %s", place, tensor.set, tensor.name);
  const bool named = strncmp(tensor.name, place, strlen(place)) == 0;  // "output weight"
  return named ? tensor.name : format("%s %s", place, tensor.name);
}

}  // namespace cli
