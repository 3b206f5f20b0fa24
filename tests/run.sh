#!/usr/bin/env bash
# Installs what the tests need, builds everything, runs the default suite.
#   tests/run.sh                 everything but the labels exhaustive and bench
#   tests/run.sh -L unit         further arguments go to ctest
#   tests/run.sh --exhaustive    full matrices (EXHAUSTIVE=1 for every test)
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=jobs/env/packages.sh
source jobs/env/packages.sh

arguments=(-LE 'exhaustive|bench')
for argument in "$@"; do
  case $argument in
    --exhaustive)
      export EXHAUSTIVE=1
      arguments=(-LE bench "${arguments[@]:2}")
      ;;
    -h | --help)
      sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *) arguments+=("$argument") ;;
  esac
done

install_packages build data plot test
cmake --preset release -DSYNCOPATE_TESTS=ON
cmake --build --preset release
# Tests say how many processors they take, so -j only fills what is there.
exec ctest --test-dir build/release -j "${CTEST_PARALLEL_LEVEL:-2}" \
  --output-on-failure "${arguments[@]}"
