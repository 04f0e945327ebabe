// cli: --source-lang, --target-lang and --prompt of an encoder-decoder: what stands around a text,
// and what its output begins with, in place of what the file says.
#pragma once

#include "../../../include/phasor.h"
#include "../options/command.h"

namespace cli {

// What stands around a text.
struct TextOptions {
  Word source_lang{"--source-lang NAME",
                   "Encoder-decoder. Language of the text, as named by the model's tokenizer. "
                   "Default: as the file says."};
  Word target_lang{"--target-lang NAME",
                   "Encoder-decoder. Language of the output. Default: as the file says."};
  Word prompt{"--prompt NAME",
              "Put the file's prefix of this name before each text. Default: embed: the first one, "
              "else none."};
  Word prompt_text{"--prompt-text TEXT", "Put this prefix before each text."};
};

struct Languages {
  bool given = false;
  TokenIds before, behind;  // ids around a text, where `given`
  uint32_t decoder_start = PHASOR_NONE, forced_first = PHASOR_NONE;  // PHASOR_NONE: the file's
};

// Finds the tokens of two languages (NULL: none is asked for) among the pieces of the model's
// tokenizer, and puts them where the tokenizer's class has them, which is seen by how they are
// spelled and where the file has one. False: *why says why not, with the names that there are.
//
//   >>fra<<             MarianMT: the target's, before a text
//   __fr__              M2M100: before a text; the output's first token
//   fra_Latn            NLLB-200: where the file has one around a text; the output's first token
//   fr_XX               mBART-50 has one before a text, and the output's first token;
//                       mBART behind a text, and the decoder's start
//   __java__, __en_XX__ PLBart: behind a text; the decoder's start
bool find_languages(const phasor_model* model, const phasor_side& source, const phasor_side& target,
                    const char* source_name, const char* target_name, Languages* out, string* why);

// The file's prompts: (name, text).
vector<pair<string, string>> prompts_of(const phasor_model* model);
// The text of the file's prefix of that name; NULL: its first one, if it has any. False: *why names
// those there are.
bool find_prompt(const phasor_model* model, const char* name, string* text, string* why);

}  // namespace cli
