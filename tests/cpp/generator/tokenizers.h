// Small tokenizers of every kind that the file format has, as sections of a file.
#pragma once
#include "draft.h"

namespace generator {

TokenizerSection any_tokenizer(Choices* choices);

// A text that has pieces, what the normalizers change, and bytes that are not UTF-8.
std::string any_input(Choices* choices, uint32_t parts);

}  // namespace generator
