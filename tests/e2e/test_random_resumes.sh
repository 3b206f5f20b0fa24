#!/usr/bin/env bash
# Runs of random inputs that are stopped and resumed end as without a stop:
# networks, schemes, clusters, stragglers, optimizers and phases that nobody chose
# (1,000 of them under EXHAUSTIVE=1; RANDOM_FIRST begins elsewhere).
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export SYNCOPATE OMP_NUM_THREADS=1
count=40
[[ ${EXHAUSTIVE:-0} == 0 ]] || count=1000
# Each of these found a difference before.
python "$here/random_resumes.py" 48 1 || fail "see above"
python "$here/random_resumes.py" 121 1 sync_switch || fail "see above"
python "$here/random_resumes.py" "${RANDOM_FIRST:-1}" $count || fail "see above"
finish
