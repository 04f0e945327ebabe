// cli: where the sentences of a text end, by the rules of Unicode (annex 29, Sentence_Break).
#pragma once
#include "../host/system.h"

namespace cli {

// Byte offsets behind each sentence of a text that is UTF-8, in order; the last one is the text's
// end. What stands between two sentences belongs to the first.
vector<size_t> sentence_ends(const string& text);

}  // namespace cli
