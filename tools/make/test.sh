#!/usr/bin/env bash
# The stages behind `make test`, `make test-machines` and `make test-reference`: each prints one
# line, its output goes to
# build/test/NAME.log, and a stage that fails shows the end of its log. All stages run; the last
# line is the sum.
#   tools/make/test.sh quick|machines|reference|STAGE…     default: quick
# After the build the stages do not touch each other's files, and two run at a time where there are
# two cores: much of an emulated test is one thread.
# Beside a stage's seconds stand those of the processor, which say the same on a busy machine.
# Totals are of test cases: doctest's, pytest's, and one for each check, hash row and program.
set -uo pipefail
cd "$(dirname "$0")/../.."
make=${MAKE:-make}
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
lanes=$((jobs < 2 ? 1 : 2))
logs=build/test
mkdir -p "$logs"
unset MAKEFLAGS MFLAGS MAKELEVEL
results=$logs/results  # a line for each stage that has ended: NAME PASSED FAILED
: > "$results"

# Adds up what a log says: doctest's, pytest's and our own closing lines ("NAME: 3 passed, 1
# failed").
count() {  # LOG -> "passed failed"
  sed 's/\x1b\[[0-9;]*m//g' "$1" | awk '
    /^\[doctest\] test cases:/ { n = split($0, f, /[|:]/); for (i in f) { if (f[i] ~ /passed/) p += f[i] + 0; if (f[i] ~ /failed/) q += f[i] + 0 } next }
    /^(=+ )?[0-9]+ (passed|failed|error|errors|skipped|deselected|warning|warnings|xfailed|xpassed).* in [0-9.]+s/ ||
    /^[a-z0-9 -]+: [0-9]+ passed, [0-9]+ failed$/ {
      line = $0; sub(/^[^:0-9]*: /, "", line); gsub(/[=,]/, " ", line); n = split(line, w, / +/)
      for (i = 2; i <= n; ++i) { if (w[i] == "passed") p += w[i-1]; if (w[i] == "failed" || w[i] ~ /^errors?$/) q += w[i-1] }
    }
    END { print p + 0, q + 0 }'
}

stage() {  # NAME COMMAND…
  local name=$1 log start rc p q cpu TIMEFORMAT='%U %S'; shift
  log=$logs/$name.log start=$SECONDS
  { time "$@" >"$log" 2>&1 </dev/null; } 2>"$logs/$name.time"; rc=$?
  cpu=$(awk 'END { printf "%.0f", $1 + $2 }' "$logs/$name.time")
  read -r p q < <(count "$log")
  # What the stage needs may not exist on this system: it says so and is no test.
  if [ $rc = 0 ] && grep "^$name: skipped" "$log"; then echo "$name 0 0" >> "$results"; return; fi
  # A stage without a closing line of its own counts as one test.
  if [ "$p" = 0 ] && [ "$q" = 0 ]; then if [ $rc = 0 ]; then p=1; else q=1; fi; fi
  if [ $rc != 0 ] && [ "$q" = 0 ]; then q=1; fi
  echo "$name $p $q" >> "$results"
  if [ "$q" = 0 ]; then
    printf '%-12s ok    %4d passed             %4d s, %4d of processor\n' "$name" "$p" $((SECONDS - start)) "$cpu"
  else
    { printf '%-12s FAIL  %4d passed, %4d failed %4d s, %4d of processor   %s\n' "$name" "$p" "$q" $((SECONDS - start)) "$cpu" "$log"
      tail -n 40 "$log" | sed 's/^/    | /'; } | cat
  fi
}

mk() { "$make" -j"$jobs" "$@"; }

# drawn N: the stage takes of what is much a sample, one in N, that another commit draws anew; SHARE=1
# runs all (tests/support/sample.py, tests/cpp/share.h, tools/make/baremetal.mk).
drawn() {
  export TEST_SHARE=${SHARE:-$1} TEST_SEED=${SEED:-$(git rev-list --count HEAD 2>/dev/null || echo 0)}
  echo "TEST_SHARE=$TEST_SHARE TEST_SEED=$TEST_SEED"
}

# level_drawn LEVEL…: one of these, behind the scalar level and what it needs beside that one.
level_drawn() {
  [ $# != 0 ] || { echo scalar; return; }
  local one=${@:TEST_SEED % $# + 1:1}
  echo "scalar $(sed -n "s/^LEVEL_NEEDS_$one *:= *//p" src/kernels/levels.mk) $one"
}

do_install()   { bash tools/install.sh build test; }
do_emulators() { bash tools/install.sh build test machines; }
do_python()    { mk .venv/types/ready; }
do_build()     { mk WERROR=1 all shared tests build/count_instructions.so build/faults/inject build/faults/inject.so; }  # all that the stages behind it share
do_unit()      { build/phasor-tests && build/phasor-bounds; }
do_fuzz()      { build/fuzz_replay tests/fuzz/corpus; }  # the corpus of the fuzzers
do_example()   { mk WERROR=1 test-c; }
# The Python tests; those that are marked long are a stage of the machines.
do_pytest()    { .venv/bin/python -m pytest -q -n "$jobs" --dist loadfile -m 'not long' tests/python; }
do_python-long() { drawn 8; .venv/bin/python -m pytest -q -n "$jobs" --dist worksteal -m long tests/python; }
do_check()     { mk WERROR=1 check; }
# The scalar level, and of those that this machine runs one that TEST_SEED draws, with what it needs
# (SHARE=1: all); avxvnni too, which a test executes wherever AVX2 is: another would be compiled and
# no more. Of the generated models and the long run, which are others each time, a share too.
do_sanitize() {
  local levels
  drawn 8
  mk WERROR=1 all && levels=$(build/phasor --version | sed -n 's/.*, levels //p') && [ -n "$levels" ] || return 1
  case " $levels " in *" avxvnni "*) ;; *" avx2 "*) levels+=" avxvnni" ;; esac
  if [ "$TEST_SHARE" != 1 ]; then levels=$(level_drawn ${levels/scalar/}); fi
  echo "LEVELS=$levels"
  mk WERROR=1 config=sanitize LEVELS="$levels" build/sanitize/phasor-tests build/sanitize/fuzz_replay || return 1
  if [ "$TEST_SHARE" != 1 ]; then
    export GENERATED=$((300 / TEST_SHARE)) LONG_STEPS=$((4000 / TEST_SHARE)) LONG_SEED=$((TEST_SEED + 1))
    export GENERATED_FIRST=$((TEST_SEED * GENERATED))
  fi
  build/sanitize/phasor-tests && build/sanitize/fuzz_replay tests/fuzz/corpus
}
do_scalar()    { mk WERROR=1 config=scalar test-hashes; }
do_hashes()    { mk WERROR=1 test-hashes; }
do_stack()     { mk WERROR=1 test-stack; }
do_threads()   { mk WERROR=1 test-threads; }
do_realtime()  { mk WERROR=1 realtime; }
do_aarch64()   { drawn 4; mk WERROR=1 test-cross TARGET=aarch64 && mk WERROR=1 bench-cross TARGET=aarch64; }
do_armhf()     { drawn 4; mk WERROR=1 test-cross TARGET=armhf && mk WERROR=1 bench-cross TARGET=armhf && bash tests/machines/cross/armhf_builds.sh "$make"; }
do_riscv64()   { drawn 4; mk WERROR=1 test-cross TARGET=riscv64; }
do_wasm()      { drawn 4; mk WERROR=1 test-cross TARGET=wasm; }
do_baremetal() { drawn 4; mk WERROR=1 test-baremetal && bash tests/machines/baremetal/readme_flags.sh build/phasor; }
do_faults()    { mk WERROR=1 faults FAULTS='--share 4 --share-python 200'; }
do_readme()    { python3 tests/readme_check.py; }
do_size()      { mk WERROR=1 size; }
do_reference() {
  drawn 12
  mk .venv-reference/transformers5/ready .venv-reference/server/ready && mk WERROR=1 all shared &&
  OMP_NUM_THREADS=1 .venv-reference/bin/python -m pytest -q -n "$jobs" --dist loadfile --durations=12 tests/reference
}

case "${*:-quick}" in
  quick)    stages=(install python build pytest unit fuzz hashes scalar stack check example) ;;
  machines) stages=(emulators python build sanitize wasm baremetal armhf python-long aarch64 faults readme threads riscv64 size realtime) ;;
  *)        stages=("$@") ;;
esac
started=()
for s in "${stages[@]}"; do
  started+=("$s")
  case $s in
    install|emulators|python|build)
      stage "$s" "do_$s"
      # Without the tools or the build nothing that follows means anything.
      awk '$3 != 0 { exit 1 }' "$results" || break ;;
    *)
      while [ "$(jobs -rp | wc -l)" -ge "$lanes" ]; do wait -n; done
      stage "$s" "do_$s" & ;;
  esac
done
wait
for s in "${started[@]}"; do  # one that was killed has no line
  grep -q "^$s " "$results" || { echo "$s: has not ended, see $logs/$s.log"; echo "$s 0 1" >> "$results"; }
done
read -r passed failed failures < <(awk '{ p += $2; q += $3; if ($3 != 0) names = names " " $1 } END { print p + 0, q + 0, names }' "$results")
echo "$passed passed, $failed failed in $SECONDS s${failures:+ ($failures)}"
printf '%s %s\n' "$passed" "$failed" > "$logs/totals"
[ "$failed" = 0 ]
