// cli: a tokenizer.json of what a weight file has of one: the sections TOKENIZER and EXPORT
// (docs/reference/file-format.md).
#pragma once

#include "text.h"

namespace cli {

struct TokenizerParts {
  const unsigned char* section;  // TOKENIZER, of a model of Hugging Face's package
  size_t section_bytes;
  const char* text;  // EXPORT
  size_t text_bytes;
  TokenIds prefix, suffix, between;  // ids around a text, and between two
  uint32_t pair_segment;             // of the second text and what is behind it
};

// False: *why says what is wrong with the sections. Each is anybody's bytes. *out is some times
// as large as both together, at most.
bool tokenizer_json(const TokenizerParts& parts, string* out, string* why);

}  // namespace cli
