#!/usr/bin/env bash
# `simulate` says of random inputs what `train` measures: schemes, collectives,
# clusters, stragglers and boundaries that nobody chose (2,000 of them under
# EXHAUSTIVE=1; RANDOM_FIRST begins elsewhere).
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export SYNCOPATE OMP_NUM_THREADS=1
count=60
[[ ${EXHAUSTIVE:-0} == 0 ]] || count=2000
# Each of these found a difference before.
python "$here/random_runs.py" 20890 1 || fail "see above"
python "$here/random_runs.py" 40209 1 sync_switch || fail "see above"
python "$here/random_runs.py" "${RANDOM_FIRST:-1}" $count || fail "see above"
finish
