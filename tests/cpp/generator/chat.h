// Chat programs: statements and expressions that agree in type, in the operations of
// docs/reference/file-format.md.
#pragma once
#include "bytes.h"
#include "choices.h"

namespace generator {

Bytes any_chat(Choices* choices);

}  // namespace generator
