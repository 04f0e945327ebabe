// runtime: where the keys and values of a chunk's rows go, and where attention finds them again: an
// encoder's layer at hand, a decoder's cache or ring, and the source of cross-attention.
#pragma once
#include "attention.h"
#include "pass.h"

namespace phasor {

extern const KeysOf kEncoderKeys, kDecoderKeys, kSourceKeys;

// Put keys (in the first values of each row) and the values behind them into their pages.
void store_encoder_keys(const Pass& pass, const Chunk& c, const Rows<const float>& keys,
                        const KindDescriptor& k) noexcept;
void store_decoder_keys(const Pass& pass, const Chunk& c, const Rows<const float>& keys,
                        const Layer& layer, const KindDescriptor& k) noexcept;
void store_source_keys(const Pass& pass, const Chunk& c, const Rows<const float>& keys,
                       const Layer& layer, const KindDescriptor& k) noexcept;

}  // namespace phasor
