#!/usr/bin/env bash
# Installs what a group of make's targets needs and this machine lacks; says each package's name;
# does nothing when all is there.
#   tools/install.sh build    xsimd's headers                        (make, make demo)
#   tools/install.sh test     doctest, Python's venv                 (make test)
#   tools/install.sh python   Python's venv                          (make python)
#   tools/install.sh machines cross compilers, emulators, cmake      (make test-machines)
#   tools/install.sh bits     clang and cmake                        (make test-bits)
#   tools/install.sh fuzz     clang with libFuzzer                   (make fuzz)
#   tools/install.sh fuzz32   C and C++ libraries for 32-bit x86     (make fuzz BITS=32)
#   tools/install.sh coverage clang and llvm-cov                     (make coverage)
#   tools/install.sh realtime clang 20 or newer with RealtimeSanitizer, where the system has one
#   (make realtime); realtime-compiler prints its name
# Debian and Ubuntu packages through apt-get, as root or with sudo. PHASOR_NO_INSTALL=1 only says
# what is missing.
set -euo pipefail

missing=()
need() {  # PACKAGE TEST…: the package is wanted unless the test succeeds
  local package=$1; shift
  "$@" >/dev/null 2>&1 || missing+=("$package")
}
on_path() { command -v "$1"; }
header() {  # COMPILER HEADER: the compiler finds the header
  printf '#include <%s>\n' "$2" | "$1" -x c++ -std=c++17 -fsyntax-only -
}
static_library() {  # COMPILER: can link a static C++ program
  local dir; dir=$(mktemp -d)
  printf '#include <vector>\nint main() { std::vector<int> v(1); return v[0]; }\n' > "$dir/a.cpp"
  "$1" -static "$dir/a.cpp" -o "$dir/a" && rm -rf "$dir" || { rm -rf "$dir"; return 1; }
}
venv() {
  local dir; dir=$(mktemp -d)
  python3 -m venv "$dir/v" && rm -rf "$dir" || { rm -rf "$dir"; return 1; }
}
realtime_compiler() {  # the newest clang++ that links a program with RealtimeSanitizer
  local compiler dir; dir=$(mktemp -d)
  for compiler in $(compgen -c clang++- | grep -E '^clang\+\+-[2-9][0-9]$' | sort -ru) clang++; do
    if echo 'int main() {}' | "$compiler" -x c++ -fsanitize=realtime -o "$dir/a" - >/dev/null 2>&1; then echo "$compiler"; break; fi
  done
  rm -rf "$dir"
}
newest_clang() {  # N, 20 at least, for which the package lists have clang-N and its run-time library
  apt-cache search --names-only '^libclang-rt-[2-9][0-9]-dev$' 2>/dev/null | sed -n 's/^libclang-rt-\([0-9]*\)-dev .*/\1/p' | sort -rn | head -1
}
if [ "$*" = realtime-compiler ]; then realtime_compiler; exit 0; fi

for group in "$@"; do
  case $group in
    build)
      need g++ on_path "${CXX:-g++}"
      need libxsimd-dev test -e "${XSIMD:-/usr/include}/xsimd/xsimd.hpp"
      ;;
    test)
      need gcc on_path "${CC:-cc}"
      need libxsimd-dev test -e "${XSIMD:-/usr/include}/xsimd/xsimd.hpp"
      need doctest-dev test -e "${DOCTEST:-/usr/include}/doctest/doctest.h"
      ;;&
    test|python)
      need python3 on_path python3
      need python3-venv venv
      ;;
    machines)
      if [ "$(uname -m)" != aarch64 ]; then need g++-aarch64-linux-gnu static_library aarch64-linux-gnu-g++; fi
      need g++-arm-linux-gnueabihf static_library arm-linux-gnueabihf-g++
      if [ "$(uname -m)" != riscv64 ]; then need g++-riscv64-linux-gnu static_library riscv64-linux-gnu-g++; fi
      need qemu-user-static on_path qemu-aarch64-static
      need qemu-user on_path qemu-aarch64
      need emscripten on_path em++
      need gcc-arm-none-eabi on_path arm-none-eabi-gcc
      need libnewlib-arm-none-eabi test -e /usr/lib/arm-none-eabi/newlib/nano.specs -o -e /usr/lib/arm-none-eabi/lib/nano.specs
      need libstdc++-arm-none-eabi-newlib header arm-none-eabi-g++ cstdint
      need qemu-system-arm on_path qemu-system-arm
      need cmake on_path cmake
      need ninja-build on_path ninja
      need pkg-config on_path pkg-config
      ;;
    fuzz)
      need clang-19 on_path clang++-19
      need libclang-rt-19-dev test -e /usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.fuzzer-x86_64.a
      ;;
    fuzz32)  # not gcc-multilib, which the cross compilers are in conflict with
      need libc6-dev-i386 test -e /usr/include/gnu/stubs-32.h -o -e /usr/include/x86_64-linux-gnu/gnu/stubs-32.h
      n=$(g++ -dumpversion | cut -d. -f1)
      need "lib32stdc++-$n-dev" test -e "/usr/lib/gcc/x86_64-linux-gnu/$n/32/libstdc++.a"
      ;;
    coverage)
      need clang-19 on_path clang++-19
      need libclang-rt-19-dev test -e /usr/lib/llvm-19/lib/clang/19/lib/linux/libclang_rt.profile-x86_64.a
      need llvm-19 on_path llvm-cov-19
      need doctest-dev test -e "${DOCTEST:-/usr/include}/doctest/doctest.h"
      ;;
    bits)
      need cmake on_path cmake
      need clang-19 on_path "${CLANG:-clang++-19}"
      ;;
    realtime)
      if [ -z "$(realtime_compiler)" ]; then
        n=$(newest_clang)
        [ -z "$n" ] || missing+=("clang-$n" "libclang-rt-$n-dev")
      fi
      ;;
    *) echo "install.sh: '$group': expected build, test, python, machines, bits, fuzz, fuzz32, coverage or realtime" >&2; exit 2 ;;
  esac
done
[ ${#missing[@]} -gt 0 ] || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

if [ "${PHASOR_NO_INSTALL:-0}" = 1 ]; then
  echo "missing: ${missing[*]}" >&2; exit 1
fi
if ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]} (Debian's names; there is no apt-get here: install them by your system's means)" >&2; exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    as_root=(sudo)
  else
    echo "missing: ${missing[*]}; installing needs root or sudo: apt-get install -y --no-install-recommends ${missing[*]}" >&2; exit 1
  fi
fi
echo "installing: ${missing[*]}"
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 "$@"; }
# Package lists can be missing or old: refresh them when the packages cannot be had from what is
# there.
if ! apt install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
  apt update
  apt install -y --no-install-recommends "${missing[@]}" >/dev/null
fi
