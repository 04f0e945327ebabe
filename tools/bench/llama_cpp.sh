#!/bin/bash
# llama.cpp for `make bench`: its Python binding built from source for this very processor, so that
# it has the vector instructions that this
# machine has; with clang, whose llama.cpp is the faster one here, else with the default compiler.
# 10 to 40 minutes on two cores.
# Where the build fails the wheel of cyllama is installed, which picks among kernels at run time;
# the page names which of the two was measured.
#
#   bash tools/bench/llama_cpp.sh ENVIRONMENT
set -euo pipefail
environment=$1
python=$environment/bin/python
if $python -c 'import llama_cpp' 2>/dev/null; then exit 0; fi

clang=
for name in clang-22 clang-21 clang-20 clang-19 clang-18 clang-17 clang; do
  if command -v "$name" >/dev/null && command -v "${name/clang/clang++}" >/dev/null; then clang=$name; break; fi
done
if [ -n "$clang" ]; then
  export CC=$clang CXX=${clang/clang/clang++}
fi
echo "bench: building llama.cpp from source with ${CXX:-the default compiler}; this takes a while" >&2
export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-2}
off=
for part in LLAVA_BUILD MTMD_BUILD LLAMA_CURL LLAMA_BUILD_TESTS LLAMA_BUILD_EXAMPLES LLAMA_BUILD_TOOLS LLAMA_BUILD_SERVER; do off="$off -D$part=OFF"; done
export CMAKE_ARGS="-DGGML_NATIVE=ON$off"
log=$environment/llama_cpp.log
locked() { $python -m pip install --disable-pip-version-check --require-hashes --no-deps "$@"; }
# What builds it is locked too, and so is not fetched by the build itself.
build() {
  locked --only-binary :all: --requirement tools/locks/requirements-bench-llama-build.txt &&
    PATH=$(dirname "$(realpath -s "$python")"):$PATH locked --no-cache-dir --no-build-isolation \
      --no-binary llama-cpp-python --verbose --requirement tools/locks/requirements-bench-llama.txt
}
if build >"$log" 2>&1; then
  echo "${CXX:-default compiler}" >"$environment/llama_cpp.compiler"
  exit 0
fi
echo "bench: the build failed ($log); the wheel of cyllama instead, which is not built for this processor" >&2
locked --quiet --only-binary :all: --requirement tools/locks/requirements-bench-cyllama.txt
