#!/usr/bin/env bash
# examples/cmake as a user builds it, for this machine and with its toolchain files under emulation:
# the program translates as build/phasor does.
#   tests/machines/cross/cmake_check.sh PROGRAM [TOOLCHAIN…]      PROGRAM is the host's; TOOLCHAIN:
#                           native, or a file of cmake/toolchains without .cmake
set -uo pipefail
cd "$(dirname "$0")/../../.."
unset MAKEFLAGS MFLAGS MAKELEVEL
program=$1; shift
passed=0 failed=0
good() { echo "ok   $1"; passed=$((passed + 1)); }
bad() { echo "FAIL $1"; failed=$((failed + 1)); }
for toolchain in "$@"; do
  out=build/cmake-$toolchain runner=
  rm -rf "$out"
  options=()
  if [ "$toolchain" != native ]; then
    options=(--toolchain "$PWD/cmake/toolchains/$toolchain.cmake")
    runner=$(sed -n 's/^set(CMAKE_CROSSCOMPILING_EMULATOR \(.*\))/\1/p' "cmake/toolchains/$toolchain.cmake")
  fi
  if cmake -B "$out" -S examples/cmake -DCMAKE_BUILD_TYPE=Release "${options[@]}" && cmake --build "$out"; then good "$toolchain builds"; else bad "$toolchain does not build"; continue; fi
  while read -r model text; do
    want=$("$program" run "$model" --quiet "$text" 2>&1)
    got=$($runner "$out/translate" "$model" "$text" 2>&1)
    if [ -n "$want" ] && [ "$got" = "$want" ]; then good "$toolchain: $text $got"; else bad "$toolchain: $text: '$got', $program says '$want'"; fi
  done <<TEXTS
tests/golden/models/tiny-d2l-f32.phasor source7
models/zh-en.phasor 我有一只猫。
TEXTS
  # What is up to date is not built again; what has changed is.
  before=$(stat -c %y "$out/phasor/libphasor.a")
  if cmake --build "$out" && [ "$(stat -c %y "$out/phasor/libphasor.a")" = "$before" ]; then good "$toolchain: nothing is built twice"; else bad "$toolchain: built twice"; fi
done
echo "cmake: $passed passed, $failed failed"
[ "$failed" = 0 ]
