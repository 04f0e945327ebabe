// decode: replays the file's own test vectors and compares (promise 4 of README.md).
#pragma once
#include "../format/record.h"
#include "../format/vectors.h"
#include "../runtime/forward.h"

namespace phasor {

// As phasor_vector_run says.
[[nodiscard]] phasor_status replay_vector(Session* s, uint32_t index, phasor_vector_result* result,
                                          phasor_error* error) noexcept;

// Vector `index` of the file; false when there is none.
bool find_vector(TestVector* out, VectorsHeader* header, const Model& model,
                 uint32_t index) noexcept;

// Walks the whole section: true when there is none or all of it is sound, and its ids fit the
// vocabularies.
bool vectors_are_sound(const Model& model) noexcept;

// The file's record; false where it has none or one that is not sound.
bool find_record(SourceRecord* out, const Model& model) noexcept;
// True when there is none, or it is sound and its rows are those of the vectors.
bool record_is_sound(const Model& model) noexcept;

}  // namespace phasor
