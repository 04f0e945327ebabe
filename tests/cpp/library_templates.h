// Included before everything else in the memory sanitizer's build: the C++ library's templates are
// compiled with the tests that use them, in place of taken from the library, which the sanitizer
// does not see into.
#pragma once
#include <bits/c++config.h>
#undef _GLIBCXX_EXTERN_TEMPLATE
#define _GLIBCXX_EXTERN_TEMPLATE 0
#include <ostream>  // a template of <string> needs all of it
