// The test program: every tests/cpp/test_*.cpp is linked with this file. `build/phasor-tests
// --help` lists doctest's options.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
