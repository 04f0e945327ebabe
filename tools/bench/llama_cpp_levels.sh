#!/bin/bash
# llama.cpp without this processor's newest instructions, for rows of `make bench` that stand beside
# a level below the best: its CPU backend alone is built again, from the same locked source, once for
# each level, and lies with copies of the other libraries in ENVIRONMENT/llama-LEVEL. About 5 minutes
# a level on two cores. bench.peers takes such a folder by LLAMA_CPP_LIB_PATH.
#
#   bash tools/bench/llama_cpp_levels.sh ENVIRONMENT
set -euo pipefail
environment=$(realpath "$1")
python=$environment/bin/python
libraries=$("$python" -c 'import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec("llama_cpp").origin).parent / "lib")')
[ -e "$libraries/libggml-cpu.so" ] || { echo "bench: $libraries has no libggml-cpu.so: llama.cpp was not built here. TRY: make .venv-bench/llama" >&2; exit 1; }

avx2=(-DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON)
vnni=("${avx2[@]}" -DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON -DGGML_AVX512_BF16=ON)
read -r compiler <"$environment/llama_cpp.compiler" || true
case ${compiler:-} in clang*) export CXX=$compiler CC=${compiler/clang++/clang} ;; esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lock=$(dirname "$0")/../locks/requirements-bench-llama.txt
"$python" -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps \
  --no-build-isolation --no-binary llama-cpp-python --requirement "$lock" --dest "$work"
tar -xzf "$work"/llama_cpp_python-*.tar.gz -C "$work"
source=$(echo "$work"/llama_cpp_python-*/vendor/llama.cpp)
export PATH=$environment/bin:$PATH
for level in avx2 avx512vnni; do
  to=$environment/llama-$level
  [ ! -e "$to/libllama.so" ] || continue
  echo "bench: building llama.cpp's CPU backend for $level with ${CXX:-the default compiler}" >&2
  if [ $level = avx2 ]; then flags=("${avx2[@]}"); else flags=("${vnni[@]}"); fi
  cmake -S "$source" -B "$work/$level" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=OFF -DLLAMA_CURL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF "${flags[@]}" >"$work/log" 2>&1 &&
    ninja -C "$work/$level" -j "${JOBS:-2}" ggml-cpu >>"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
  rm -rf "$to.part"
  mkdir "$to.part"
  cp -L "$libraries"/*.so* "$to.part"
  for name in "$to.part"/libggml-cpu.so*; do cp "$work/$level/bin/libggml-cpu.so" "$name"; done
  mv "$to.part" "$to"
done
