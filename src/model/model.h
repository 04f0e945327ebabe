// model: the descriptor and the file's tensors, bound by name, type and shape. A Model is one block
// of plain data in the caller's memory, read-only once it is open, of the same size on every
// machine. It knows format, the kernels' table and the tokenizer's view; it never computes.
#pragma once
#include "../format/tensors.h"
#include "../kernels/kernels.h"
#include "../text/tokenizer.h"

namespace phasor {

// A pointer that takes eight bytes on every machine, so that sizes do not depend on it (rule 3.1).
template <class T>
struct alignas(8) Ref {
  union {
    T* pointer;
    uint64_t bits;
  };
  void set(T* p) {
    bits = 0;
    pointer = p;
  }
  T* operator->() const { return pointer; }
};

// What a page of 16 positions holds of keys and values: the values, and in q8 the scales of their
// groups; and of the rows of short convolutions, which are f32 in every cache.
struct CacheSize {
  uint64_t values, scales, floats;
};

// A layer: its tensors, and where its keys and values lie.
struct alignas(8) Layer : LayerTensors {
  uint32_t kind, set;
  uint32_t rare;  // its place in the RareTensors + 1, 0: it has none
  uint32_t reserved;
  // decoder: what lies between the start of a page, of the cache or of the ring, and this layer's
  // keys and values
  CacheSize cache_offset;
  CacheSize cross_offset;  // decoder: the same in a page of 16 source positions
};

// Lists of the file that are walked from their start. The model's block has the place of every 16th
// record of each, so that any record is at most 15 steps away.
enum List : uint32_t { kLabels, kPrompts, kFields, kLists };
constexpr uint32_t kRecordsToAMark = 16;

struct alignas(8) KindTables : KindTensors {
  uint32_t stacks;  // bit by Half: one of its layers is of this kind
  uint32_t reserved;
};

// Bytes from the Model to the other parts of its block.
struct Places {
  uint64_t kinds_at, tables_at, layers_at[2], tokenizer_at[2];
  uint64_t rare_at;   // of the encoder's layers and the decoder's, where any has one
  uint64_t marks_at;  // marks (u32) of its lists, one list after the other
};

struct alignas(8) Model : OutputTensors, Places {
  Ref<const unsigned char> data;  // the file
  Ref<const Kernels> kernels;
  uint64_t file_bytes;
  uint32_t head_crc;
  uint32_t has_tokenizer[2];
  uint32_t layer_count[2];
  // the widest of the decoder's layers that are in the ring, 0 when none is
  uint32_t window;
  uint32_t records[kLists];  // of each list
  uint32_t merged;           // 1: some layer of the decoder has merged attention
  // of one page of 16 positions, the decoder layers that see all positions
  CacheSize cache;
  CacheSize ring;   // the same of those with a window (rule 1.7)
  CacheSize cross;  // of one page of 16 source positions, all decoder layers
  Descriptor descriptor;
  Input inputs[2];
  PerLayerInput per_layer;
  NormTensors final_norms[2];
  // of a record, from the list's start; index < records[list]
  uint64_t place_of(List list, uint32_t index) const;
  File file() const;  // its view, from the section table that open has checked

  const unsigned char* at(uint64_t offset) const { return data.pointer + offset; }
  const float* floats(const Tensor& t) const {  // of an f32 tensor; NULL when there is none
    return t ? reinterpret_cast<const float*>(data.pointer + t.offset) : nullptr;
  }
  // What lies `offset` bytes from the Model in its block.
  template <class T>
  const T* part(uint64_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const unsigned char*>(this) + offset);
  }
  template <class T>
  T* part(uint64_t offset) {
    return reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(this) + offset);
  }
  const KindDescriptor& kind(uint32_t i) const { return part<KindDescriptor>(kinds_at)[i]; }
  const KindDescriptor& kind(const Layer& layer) const { return kind(layer.kind); }
  const KindTables& tables(uint32_t kind) const { return part<KindTables>(tables_at)[kind]; }
  const Layer& layer(Half half, uint32_t i) const { return part<Layer>(layers_at[half])[i]; }
  const RareTensors& rare(const Layer& layer) const {
    static constexpr RareTensors kNone{};
    return layer.rare == 0 ? kNone : part<RareTensors>(rare_at)[layer.rare - 1];
  }
  bool ringed(const Layer& decoder_layer) const {
    return kHasRing && kind(decoder_layer).window != 0;
  }
  const Tokenizer* tokenizer(Half half) const {  // NULL when there is none
    return has_tokenizer[half] == 0 ? nullptr : part<Tokenizer>(tokenizer_at[half]);
  }
};

// Bytes of the block for a model of this file: a multiple of 64, a function of the file only.
[[nodiscard]] phasor_status model_bytes(uint64_t* need, const File& file,
                                        phasor_error* error) noexcept;

// Fills `memory` (model_bytes, aligned to 64). Every tensor of the directory must have a use, and
// every use a tensor.
[[nodiscard]] phasor_status model_open(Model** out, void* memory, const File& file,
                                       const Kernels* kernels, phasor_error* error) noexcept;

// Reads all weights: finite values, and zeros where the layout has padding.
[[nodiscard]] phasor_status model_check(const Model& model, phasor_error* error) noexcept;

inline uint32_t lanes(uint32_t n) { return static_cast<uint32_t>(round_up(n, kLanes)); }

// Positions of a stack's longest sequence: its own limit, and where its relative tables end; 0: no
// limit.
inline uint32_t longest_sequence(const Model& m, Half half) {
  uint32_t most = m.descriptor.stacks[half].max_positions;
  for (uint32_t i = 0; i < m.layer_count[half]; ++i) {
    const KindDescriptor& k = m.kind(m.layer(half, i));
    if (bounded(k) && (most == 0 || k.max_distance < most)) most = k.max_distance;
  }
  return most;
}

// Output rows of `count` positions, which is not 0.
inline uint32_t output_rows(const Descriptor& d, uint32_t count) {
  return d.output.pooling != kPoolNone ? 1 : count;
}

// Floats that 16 positions of one key/value head take: keys [w][16], then values [16][round_up(w,
// 16)].
inline uint64_t page_floats(uint32_t head_width) {
  return uint64_t(head_width) * kLanes + uint64_t(lanes(head_width)) * kLanes;
}
inline void add_heads(CacheSize* size, uint32_t kv_heads, uint32_t head_width) {
  size->values += kv_heads * page_floats(head_width);
  if (kHasCacheQ8) size->scales += kv_heads * (2 * kLanes * groups_of(head_width));
}
// What a decoder's layer keeps of its positions: keys and values, or the convolution's rows.
inline void add_layer(CacheSize* size, const KindDescriptor& k) {
  if (convolves(k))
    size->floats += uint64_t{kLanes} * q_width(k);
  else
    add_heads(size, k.kv_heads, k.head_width);
}

}  // namespace phasor
