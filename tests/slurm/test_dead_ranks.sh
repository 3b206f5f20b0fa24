#!/usr/bin/env bash
# A rank that dies or is stopped under plain srun, which by itself would let
# the others wait for ever: one line names it, and srun returns 71.
set -euo pipefail
unset CDPATH
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/fault/dead_ranks.sh
source "$here/../fault/dead_ranks.sh"

why=$("$here/cluster.sh" start "$work/slurm") || {
  code=$?
  echo "$why"
  exit "$code"
}
trap '"$here/cluster.sh" stop "$work/slurm"; rm -rf "$work"' EXIT
export SLURM_CONF=$work/slurm/slurm.conf

export launcher="srun --mpi=pmi2 -N3 -n3 --overcommit --oversubscribe"
launcher+=" --kill-on-bad-exit=0"
cat >"$work/cases" <<END
kill collective 1
kill start 0
stop step 2
stop checkpoint 0
hang evaluation 1
END
if [[ ${EXHAUSTIVE:-0} == 1 ]]; then
  for kind in kill stop hang; do
    for stage in start step collective boundary evaluation checkpoint end; do
      for rank in 0 2; do echo "$kind $stage $rank"; done
    done
  done >"$work/cases"
fi
rc=0
# shellcheck disable=SC2016  # for the inner shell to expand
xargs -P 3 -L 1 bash -euo pipefail -c 'case_of "$launcher" "$@"' case \
  <"$work/cases" || rc=1
# As in the job scripts: Slurm ends the other ranks, and after KillWait kills the
# guardian of the dead one, whose code it must have by then.
case_of "${launcher%0}1" kill collective 2 || rc=1
exit "$rc"
