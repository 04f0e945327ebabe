#!/usr/bin/env bash
# What ARM's 32-bit Linux machines build and link by themselves, with the cross compiler:
#   the program's and the core's files with assembly in them for the Pi 1 and Zero (ARMv6, whose
#   assembler has no `yield`) and for what Raspberry Pi OS's compiler is made for;
#   a static program linked with what pkg-config says, which must run at level neon.
#   armhf_builds.sh MAKE
set -uo pipefail
cd "$(dirname "$0")/../../.."
make=${1:-make} passed=0 failed=0
out=$(mktemp -d); trap 'rm -rf "$out"' EXIT
expect() {  # NAME COMMAND…
  local name=$1; shift
  if "$@" >"$out/log" 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "$name:"; tail -n 5 "$out/log"; fi
}

compile() {  # ARCH FILE
  arm-linux-gnueabihf-g++ -std=c++17 -O2 -DNDEBUG -DPHASOR_SCALAR_ONLY -fno-exceptions -fno-rtti "-march=$1" -marm \
    -mfloat-abi=hard -Iinclude -Isrc -c "$2" -o "$out/o.o"
}
mapfile -t files < <(grep -lE '__asm__|\basm\b|__ARM_' -r src/cli src/kernels/*.cpp src/runtime --include='*.cpp')
[ ${#files[@]} -gt 0 ] || { echo "no file with assembly"; failed=1; }
for arch in armv6+fp armv6k+fp armv7-a+fp; do
  for file in "${files[@]}"; do expect "$arch $file" compile "$arch" "$file"; done
done

# The C example with a line that says its level.
expect install "$make" install TARGET=armhf "PREFIX=$out/p"
sed 's|/\* From here on nothing is allocated. \*/|fprintf(stderr, "level %s\\n", phasor_model_isa(model));|' \
  examples/c/translate.c > "$out/translate.c"
flags=$(sed -n 's/^Libs: //p;s/^Cflags: //p' "$out/p/lib/pkgconfig/phasor.pc" | tr '\n' ' ' | sed "s|\${libdir}|$out/p/lib|; s|\${includedir}|$out/p/include|")
# shellcheck disable=SC2086
expect link arm-linux-gnueabihf-gcc -std=c99 -static "$out/translate.c" $flags -o "$out/translate"
says_neon() { qemu-arm-static "$out/translate" models/zh-en.phasor 我有一只猫。 2>&1 | grep -x 'level neon'; }
expect "level neon" says_neon
echo "armhf-builds: $passed passed, $failed failed"
[ "$failed" = 0 ]
