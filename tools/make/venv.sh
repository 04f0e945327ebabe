#!/usr/bin/env bash
# A Python environment whose every package has the hash that its lock says. Wheels only: nothing of
# a package runs while it is installed.
#   tools/make/venv.sh DIR LOCK [CUDA-LOCK MODELS-LOCK]    the environment DIR, made anew
#   tools/make/venv.sh --folder FOLDER DIR LOCK            the lock's packages alone, in a folder
# CUDA-LOCK: the packages of torch where PyTorch's CPU build (tools/locks/torch-cpu.txt) is not to
# be had. MODELS-LOCK: packages of which only the files are wanted. DIR/ready is the sign that all
# is there.
set -euo pipefail

folder=
if [ "$1" = --folder ]; then folder=$2; shift 2; fi
dir=$1 lock=$2 cuda=${3:-} models=${4:-}
python=$dir/bin/python
install() {
  "$python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
    --only-binary :all: "$@"
}

if [ -n "$folder" ]; then
  rm -rf "$folder"
  install --target "$folder" --requirement "$lock"
  touch "$folder/ready"
  exit 0
fi

python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  { echo "Python 3.11 or newer is needed; this is $(python3 --version)" >&2; exit 1; }
[ ! -L "$dir" ] ||
  { echo "$dir is a link to an environment of others: it is made where it lies" >&2; exit 1; }
python3 -m venv --clear "$dir"
log=$dir/torch.log
if [ -n "$cuda" ] && ! install --requirement "$(dirname "$lock")/torch-cpu.txt" 2>"$log"; then
  if grep -q 'DO NOT MATCH' "$log"; then cat "$log" >&2; exit 1; fi
  echo "PyTorch's CPU build is not to be had: the index's build, with its CUDA libraries (5 GB)" >&2
  install --requirement "$cuda"
fi
install --requirement "$lock"
"$python" -m pip check >/dev/null || { "$python" -m pip check >&2; exit 1; }
if [ -n "$models" ]; then install --requirement "$models"; fi
touch "$dir/ready"
