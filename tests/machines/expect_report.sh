#!/usr/bin/env bash
# A sanitizer that reports nothing proves nothing, unless it would: a command that breaks a rule must
# fail, and its output must have each of the words.
#   tests/machines/expect_report.sh WORD… -- COMMAND…
set -uo pipefail
words=()
while [ "$1" != -- ]; do words+=("$1"); shift; done
shift
if output=$("$@" 2>&1); then
  echo "expect_report: no report by: $*" >&2; exit 1
fi
for word in "${words[@]}"; do
  if [[ "$output" != *"$word"* ]]; then
    printf '%s\n' "$output" | head -40 >&2
    echo "expect_report: no \"$word\" in the output of: $*" >&2; exit 1
  fi
done
echo "reported, as it must be: ${words[*]}"
