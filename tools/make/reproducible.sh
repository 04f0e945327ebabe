#!/usr/bin/env bash
# The same bytes twice: the tree is copied into two folders, whose paths differ in length, and built
# and used there with another locale, time zone, umask, home, number of jobs, and seed of Python's
# hashes. Prints the SHA-256 of what came out, and fails where the two differ.
#   tools/make/reproducible.sh [release] [small] [convert]      default: all three
# Python is that of .venv. Compilers are those of the environment (CXX, CC), without ccache's cache.
set -euo pipefail
cd "$(dirname "$0")/../.."
top=$PWD work=$PWD/build/reproducible
short=$work/a long=$work/another-folder-with-a-much-longer-name/and-one-in-it
parts=${*:-release small convert}
python=$top/.venv/bin/python
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
rm -rf "$work"

copy() {  # FOLDER: the files that git has or would take
  mkdir -p "$1"
  git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' f; do
    if [ -f "$f" ] && [ ! -L "$f" ]; then printf '%s\0' "$f"; fi
  done | tar --null --files-from=- -cf - | tar -xf - -C "$1"
}

# What is made of checkpoints: PyTorch's, and a directory with tokenizer and chat template.
convert() {
  local out=build/converted template='{% for m in messages %}<|im_start|>{{ m.role }}{% endfor %}'
  mkdir -p "$out"
  PYTHONPATH=tools:tests:tests/support "$python" - "$out/directory" "$template" <<'EOF'
import sys
from pathlib import Path
import chat_model
chat_model.write(Path(sys.argv[1]), sys.argv[2])
EOF
  for type in f32 q8 q4; do
    "$python" tools/convert.py "$out/directory" -o "$out/directory-$type.phasor" --type $type --quiet
  done
  "$python" tools/convert.py tests/golden/pytorch/separate.pt -o "$out/separate.phasor" --type bf16 --quiet
  build/phasor quantize "$out/directory-f32.phasor" "$out/quantized.phasor" --type q8 >/dev/null
}

one() {  # FOLDER JOBS: everything there
  cd "$1"
  export CCACHE_DISABLE=1 HOME=$1
  unset MAKEFLAGS MFLAGS MAKELEVEL SOURCE_DATE_EPOCH
  case " $parts " in *' release '* | *' convert '*) make -j"$2" config=release all ;; esac
  case " $parts " in *' small '*) make -j"$2" config=small all ;; esac
  case " $parts " in *' convert '*) convert ;; esac
}

copy "$short"
copy "$long"
{
  (umask 022; export LC_ALL=C TZ=UTC0 PYTHONHASHSEED=1; one "$short" "$jobs")
  (umask 077; export LC_ALL=C.UTF-8 TZ=XYZ-13:45 PYTHONHASHSEED=271828; one "$long" $((jobs + 1)))
} >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; echo "reproducible: 0 passed, 1 failed"; exit 1; }

passed=0 failed=0
cd "$short"
for f in build/phasor build/libphasor.a build/small/phasor build/small/libphasor.a build/converted/*.phasor; do
  [ -f "$f" ] || continue
  if cmp -s "$f" "$long/$f"; then
    sha256sum "$f"; passed=$((passed + 1))
  else
    sha256sum "$f" "$long/$f" | sed 's/^/FAIL /'; failed=$((failed + 1))
  fi
done
echo "reproducible: $passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
