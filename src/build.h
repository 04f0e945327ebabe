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

// Every word, and the constant that says whether it is built. A new one is one line here. The
// tokenizers' models (text/models.h), the activations (activations.h), the types of weights
// (types.h) and those of the cache (caches.h) bring their own.
#define PHASOR_BUILD_WORDS(X)                     \
  /* layers with a window keep no more than it */ \
  X("ring", kHasRing)                             \
  /* inputs of 16 bits of weights in int8 and int4 */ \
  X("inputs16", kHasInputs16)                     \
  /* rotated inputs of weights in groups */       \
  X("rotated-inputs", kHasRotatedInputs)          \
  /* norms */                                     \
  X("layer-norm", kHasLayerNorm)                  \
  X("rms-norm", kHasRmsNorm)                      \
  /* positions, beside none and learned */        \
  X("rotary", kHasRotary)                         \
  X("sinusoidal", kHasSinusoidal)                 \
  X("relative", kHasRelative)                     \
  X("t5", kHasT5)                                 \
  X("alibi", kHasAlibi)                           \
  /* the additive score */                        \
  X("additive", kHasAdditive)                     \
  /* short convolutions in place of attention */ \
  X("convolution", kHasConvolution)               \
  /* one softmax over a decoder's keys and the encoder's */ \
  X("merged", kHasMerged)                         \
  /* per-layer embeddings */                      \
  X("per-layer", kHasPerLayer)                    \
  /* hidden states, pooled vectors, classes */    \
  X("outputs", kHasOutputs)                       \
  /* draws and penalties */                       \
  X("sampling", kHasSampling)                     \
  X("beam", kHasBeam)                             \
  X("shortlist", kHasShortlist)                   \
  X("chat", kHasChat)                             \
  /* tables of states in place of the pre-tokenizer's built-in steps */ \
  X("patterns", kHasPatterns)                     \
  /* where in a text its tokens lie */            \
  X("offsets", kHasOffsets)                       \
  /* test vectors */                              \
  X("vectors", kHasVectors)                       \
  /* phasor bench's loops */                      \
  X("peaks", kHasPeaks)                           \
  /* what callbacks see */                        \
  X("views", kHasCallersViews)                    \
  /* the text of errors */                        \
  X("messages", kHasMessages)                     \
  /* 8 KiB of tables in place of 1 */             \
  X("checksum-tables", kHasChecksumTables)

namespace phasor {

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

#define PHASOR_DEFINE(word, constant) constexpr bool constant = built(word);
PHASOR_BUILD_WORDS(PHASOR_DEFINE)
#undef PHASOR_DEFINE
constexpr bool kHasViews = kHasCallersViews || kHasVectors;  // a replay sees what callbacks see

// Whether every word of PHASOR_ONLY is known: one of these, or one of `others` that tables beside
// this one know.
constexpr bool build_words_are_known(unsigned others) {
  unsigned named = 0, known = others;
  for (const char* p = PHASOR_ONLY; *p != 0; ++p) named += *p != ',' && (p[1] == 0 || p[1] == ',');
#define PHASOR_COUNT(word, constant) known += constant;
  PHASOR_BUILD_WORDS(PHASOR_COUNT)
#undef PHASOR_COUNT
  return PHASOR_ONLY[0] == '*' || named == known;
}

}  // namespace phasor
