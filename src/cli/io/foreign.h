// cli: what was given in place of a weight file, by its name and its first bytes; and what makes it
// one.
#pragma once
#include "text.h"

namespace cli {

// In words for a line behind the name; "" where nothing tells.
string foreign_path(const string& path);                // no file, or a directory
string foreign_bytes(const void* data, size_t bytes);  // of a file

}  // namespace cli
