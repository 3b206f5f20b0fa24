#!/usr/bin/env bash
# Installs what the tests need, builds everything, runs the default suite.
#   tests/run.sh            what a change has to pass: 18 to 22 minutes on two cores
#   tests/run.sh -L unit    further arguments go to ctest
#   tests/run.sh --all      everything: full matrices, all seeds, large networks
# It warns if the default suite takes more CPU time than its budget. That is no
# failure, because a slow or busy machine takes twice as much.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=jobs/env/packages.sh
source jobs/env/packages.sh

budget_s=1000 # of CPU time, all cores together, on a quiet EPYC
arguments=(-LE 'exhaustive|bench')
for argument in "$@"; do
  case $argument in
    --all)
      export EXHAUSTIVE=1
      arguments=(-LE bench "${arguments[@]:2}")
      echo "Runs the full matrices, all seeds and the large networks, which takes hours."
      ;;
    -h | --help)
      sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *) arguments+=("$argument") ;;
  esac
done

# CPU time of all programs that this script has waited for.
cpu_s() { awk -v ticks="$(getconf CLK_TCK)" '{print int(($16 + $17) / ticks)}' /proc/$$/stat; }

install_packages build data plot test
cmake --preset release -DSYNCOPATE_TESTS=ON
cmake --build --preset release

# ctest's summary stays the end of the output: it is held back for the lines in
# front of it. Tests say how much of a core they take (tests/CMakeLists.txt), so
# -j only fills what is there. Where a shared machine stands still for seconds, a
# test of processes that wait for each other may fail: each test has a second
# attempt, and those that needed it are named.
kept=$(mktemp -d)
trap 'rm -rf "$kept"' EXIT
before_s=$(cpu_s) code=0
ctest --test-dir build/release -j "${CTEST_PARALLEL_LEVEL:-10}" \
  --repeat until-pass:2 --no-tests=error --output-on-failure "${arguments[@]}" |
  tee "$kept/output" |
  sed -u -e "/^[0-9]*% tests passed/,\$ { w $kept/summary" -e 'd; }' || code=$?
used_s=$(($(cpu_s) - before_s))
attempts() { # attempts RESULT: the tests with a line of it
  sed -nE "s/^.*Test +#[0-9]+: (\S+) \.+ *$1 .*/\1/p" "$kept/output" | sort -u
}
repeated=$(comm -12 <(attempts '\*\*\*\S+') <(attempts Passed))
[[ -z $repeated ]] ||
  printf 'warning: passed at the second attempt only:\n%s\n' "$repeated"
if (($# == 0)); then
  echo "CPU time of the tests: $used_s s of a budget of $budget_s s"
  if ((used_s > budget_s)); then
    echo "warning: over the budget: move what is slow to --all"
  fi
fi
cat "$kept/summary"
exit "$code"
