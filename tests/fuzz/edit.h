// Changes of a weight file where its structure is: a value of the metadata, a field of the
// directory, a word of a section. Then it is sealed, or only its checksum would be proved.
#pragma once
#include "support.h"

namespace fuzz {

constexpr uint32_t kAnySection = 0xFFFFFFFFu;

// As many changes as the choices say, in section `kind` or in any.
void edit_file(Bytes* file, Choices* choices, uint32_t kind = kAnySection);

// One change of one of `count` words.
void edit_word(uint8_t* words, size_t count, Choices* choices);

// The size and the head's checksum as they must be.
void seal(uint8_t* file, size_t bytes);
// The checksums of sections and tensors too.
void seal_sections(uint8_t* file, size_t bytes);

}  // namespace fuzz
