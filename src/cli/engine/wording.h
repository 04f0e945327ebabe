// cli: the library's words for a caller of C, as words for the command line.
#pragma once

#include "../../../include/phasor.h"
#include "../io/text.h"

namespace cli {

// An error's text: fields of the library's structs become the flags that set them, and a tensor of
// the model's file (NULL: it is not open) has its name behind its number.
string worded(const char* text, const phasor_model* model);

// Where a tensor belongs, docs/reference/file-format.md.
const char* place_name(uint32_t stack);
// With its set of weights and its name, as the converter says it: "encoder 0 q,k,v weight".
string tensor_label(const phasor_tensor& tensor);

}  // namespace cli
