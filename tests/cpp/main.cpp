// The test program: every tests/cpp/test_*.cpp is linked with this file. `build/phasor-tests
// --help` lists doctest's options.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN

#include "cases.h"
#include "kernels/kernels.h"

// Level amx is tested where the processor has it.
[[maybe_unused]] static const int has_amx = phasor::kernels_request_tiles();
