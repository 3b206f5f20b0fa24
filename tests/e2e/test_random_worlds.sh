#!/usr/bin/env bash
# Random inputs of schemes whose workers wait for each other end in one process as
# they do on MPI ranks (500 of them under EXHAUSTIVE=1; RANDOM_FIRST begins
# elsewhere).
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export SYNCOPATE MPIEXEC OMP_NUM_THREADS=1
count=13 # each scheme once
[[ ${EXHAUSTIVE:-0} == 0 ]] || count=500
set -o pipefail
python "$here/random_worlds.py" "${RANDOM_FIRST:-1}" $count | tee said || fail "see above"
[[ -n ${EXHAUSTIVE:-} || -n ${RANDOM_FIRST:-} ]] || grep -q '13 inputs equal' said ||
  fail "a scheme was refused"
finish
