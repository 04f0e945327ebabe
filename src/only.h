// What of the engine is built: all of it, or what a list of words names,
// -DPHASOR_ONLY='"q8,unigram,layer-norm,relu"'. The compiler leaves out what stands behind a
// constant that is false, and the linker the functions that nothing calls any more. A file that
// needs what is left out is refused when it is opened, an option of generation when it is used.
// What a model runs without, its chat program and its test vectors, is passed over when it is
// opened; phasor_chat_to_text refuses then. f32 is always there.
#pragma once

#ifndef PHASOR_ONLY
#define PHASOR_ONLY "*"
#endif

// The instruction-set levels that the build has of its processor family's; "*": all (kernels.cpp).
#ifndef PHASOR_LEVELS
#define PHASOR_LEVELS "*"
#endif

namespace phasor {

constexpr const char* kBuildWords[] = {
    // types of weights
    "q8",
    "q4",
    "f16",
    "bf16",
    // the cache in f16 and in q8; layers with a window keep no more than it
    "cache-f16",
    "cache-q8",
    "ring",
    "layer-norm",
    "rms-norm",  // norms
    // activations
    "relu",
    "gelu",
    "gelu-tanh",
    "silu",
    // positions beside none and learned; the additive score
    "rotary",
    "sinusoidal",
    "relative",
    "t5",
    "alibi",
    "additive",
    // hidden states, pooled vectors, classes
    "outputs",
    // draws and penalties; beam search; chat programs; test vectors; phasor bench's loops; what
    // callbacks see
    "sampling",
    "beam",
    "chat",
    "vectors",
    "peaks",
    "views",
    // the text of errors; 8 KiB of tables in place of 1
    "messages",
    "checksum-tables",
};

// Whether `word` is one of the words of a list with commas between them.
constexpr bool has_word(const char* list, const char* word) {
  for (; *list != 0; list += *list == ',') {
    const char* w = word;
    while (*w != 0 && *list == *w) ++list, ++w;
    if (*w == 0 && (*list == 0 || *list == ',')) return true;
    while (*list != 0 && *list != ',') ++list;
  }
  return false;
}
constexpr bool level_built(const char* name) {
  return PHASOR_LEVELS[0] == '*' || has_word(PHASOR_LEVELS, name);
}
constexpr bool built(const char* word) {
  return PHASOR_ONLY[0] == '*' || has_word(PHASOR_ONLY, word);
}

// Every word of the list is known: one of these, or one of `others`, the tokenizers' models that
// the list names (text/models.h).
constexpr bool build_words_are_known(unsigned others) {
  unsigned named = 0, known = others;
  for (const char* p = PHASOR_ONLY; *p != 0; ++p) named += *p != ',' && (p[1] == 0 || p[1] == ',');
  for (const char* word : kBuildWords) known += has_word(PHASOR_ONLY, word);
  return PHASOR_ONLY[0] == '*' || named == known;
}

constexpr bool kHasQ8 = built("q8"), kHasQ4 = built("q4"), kHasF16 = built("f16"),
               kHasBf16 = built("bf16"), kHasCacheF16 = built("cache-f16"),
               kHasCacheQ8 = built("cache-q8"), kHasRing = built("ring");
constexpr bool kHasLayerNorm = built("layer-norm"), kHasRmsNorm = built("rms-norm");
constexpr bool kHasRelu = built("relu"), kHasGelu = built("gelu"),
               kHasGeluTanh = built("gelu-tanh"), kHasSilu = built("silu");
constexpr bool kHasRotary = built("rotary"), kHasSinusoidal = built("sinusoidal"),
               kHasRelative = built("relative"), kHasT5 = built("t5"), kHasAlibi = built("alibi"),
               kHasAdditive = built("additive"), kHasOutputs = built("outputs");
constexpr bool kHasSampling = built("sampling"), kHasBeam = built("beam"), kHasChat = built("chat"),
               kHasVectors = built("vectors"), kHasPeaks = built("peaks"),
               kHasMessages = built("messages"), kHasViews = built("views") || kHasVectors,
               kHasChecksumTables = built("checksum-tables");

}  // namespace phasor
