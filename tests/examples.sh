#!/usr/bin/env bash
# Runs the C programs that `make` built from examples/c, each with the arguments in its own first
# lines ("Try: NAME ARGUMENTS").
#   tests/examples.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
passed=0 failed=0
for source in examples/c/*.c; do
  [ -e "$source" ] || continue
  name=$(basename "$source" .c)
  arguments=$(sed -n "1,20s/^.*[Tt]ry: *$name *//p" "$source" | head -1 | sed 's# *\*/ *$##')
  # shellcheck disable=SC2086
  if out=$("$build/c-$name" $arguments 2>&1 </dev/null); then
    echo "ok   $name $arguments: ${out%%$'\n'*}"; passed=$((passed + 1))
  else
    echo "FAIL $name $arguments: exit $?: $out"; failed=$((failed + 1))
  fi
done
echo "examples: $passed passed, $failed failed"
[ "$failed" = 0 ]
