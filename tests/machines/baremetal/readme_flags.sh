#!/usr/bin/env bash
# examples/microcontroller/main.c, compiled with the flags of its README, asks for no function of a
# C library: only for Phasor's, for uart_puts and for the four that every compiler may call.
#   readme_flags.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/../../.."
out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
cp models/zh-en-small.phasor "$out/zh_en.phasor"
inspect=$(sed -n '/phasor inspect .*--source/,/> zh_en.h/p' examples/microcontroller/README.md | tr -d '\\\n' | sed 's/^ *phasor //; s/ *> zh_en.h.*//')
flags=$(sed -n 's/^ *FLAGS="\(.*\)"$/\1/p' examples/microcontroller/README.md)
# shellcheck disable=SC2086
"$1" ${inspect/zh_en.phasor/$out/zh_en.phasor} > "$out/zh_en.h"
# shellcheck disable=SC2086
arm-none-eabi-gcc -std=c11 $flags -I"$out" -c examples/microcontroller/main.c -o "$out/main.o"
if arm-none-eabi-nm -u "$out/main.o" | grep -vE 'phasor|uart_puts|mem(cpy|set|move|cmp)$'; then
  echo "readme-flags: 0 passed, 1 failed"; exit 1
fi
echo "readme-flags: 1 passed, 0 failed"
