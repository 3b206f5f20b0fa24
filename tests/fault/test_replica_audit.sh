#!/usr/bin/env bash
# Audits change no bit of a run under any scheme that keeps replicas equal, in
# one process and on ranks. A bit that flips in one worker's parameters is found
# at the next audit and never saved, and the run goes on from its checkpoint.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
export OMP_NUM_THREADS=1
sed -i "s/^depth = 8/&\nwidths = 8, 8, 16/" tiny.ini
train() { train_three "$@" --optimizer.lr=0.02; }

# Replicas keep what one worker's memory did to them only under these; under
# the others parameters come anew from servers or from an average.
keeping="bsp ef_sign_sgd dgc power_sgd"
renewing="asp ssp esync sync_switch"
# On ranks the default run takes one of each kind.
# shellcheck disable=SC2086
keeping_on_ranks=$(of_each_kind $keeping | xargs)
# shellcheck disable=SC2086
renewing_on_ranks=$(of_each_kind $renewing | xargs)

# Also where messages are on their way at a boundary, which some wait for.
slow=(--network.mbit_s=20 --network.latency_us=3000 --compute.step_s=0.01
  "--compute.speed=1,1,3")
equal=() # pairs of runs
for scheme in $keeping $renewing; do
  # shellcheck disable=SC2207
  keys=(--sync.scheme="$scheme" $(scheme_keys "$scheme"))
  train 0 process "$scheme-never" "${keys[@]}" "${slow[@]}" --run.audit=0
  train 0 process "$scheme-often" "${keys[@]}" "${slow[@]}" --run.audit=3
  equal+=("runs/$scheme-never" "runs/$scheme-often")
done
python "$here/compare_runs.py" --virtual "${equal[@]}" ||
  fail "audits change a run"
equal=()
for scheme in $keeping_on_ranks $renewing_on_ranks; do
  # shellcheck disable=SC2046
  train 0 ranks "$scheme-ranks" --sync.scheme="$scheme" $(scheme_keys "$scheme") \
    --run.audit=3
done
for scheme in $keeping_on_ranks; do
  equal+=("runs/$scheme-never" "runs/$scheme-ranks")
done
python "$here/compare_runs.py" --replica-only "${equal[@]}" ||
  fail "audits change a run on ranks"
equal=()

fault=(--faults.kind=flip --faults.rank=1 --faults.step=11)
for world in process ranks; do
  schemes=$keeping
  [[ $world == process ]] || schemes=$keeping_on_ranks
  for scheme in $schemes; do
    # shellcheck disable=SC2207
    keys=(--sync.scheme="$scheme" $(scheme_keys "$scheme"))
    name=flip-$world-$scheme
    train 70 $world "$name" "${keys[@]}" --run.audit=6 "${fault[@]}"
    grep -qE "^error: replicas, which $scheme keeps equal, differ after step \
12: worker 1 of 3 differs from the others, first in 'parameters/.*conv.*'" \
      err || fail "$name: $(cat err)"
    [[ $(wc -l <err) == 1 ]] || fail "$name: more than a line: $(cat err)"
    ls "runs/$name/checkpoints" >saved
    grep -qx step-00000007 saved || fail "$name: saved $(cat saved)"
    [[ $(wc -l <saved) == 1 ]] || fail "$name: saved $(cat saved)"
    train 0 $world "$name" "${keys[@]}" --run.audit=6
    equal+=("runs/$scheme-never" "runs/$name")
  done
done
python "$here/compare_runs.py" --replica-only "${equal[@]}" ||
  fail "a run goes on to other results"
# A state is audited before it is saved, however far the next audit is.
train 70 process saved --run.audit=1000 "${fault[@]}"
grep -q 'after step 14: worker 1' err || fail "before saving: $(cat err)"

# Where replicas differ there is nothing to compare.
train 65 process refused --sync.scheme=local_sgd --run.audit=5
grep -q 'run.audit' err || fail "refused: $(cat err)"
train 65 process refused --sync.scheme=sync_switch \
  --sync_switch.order=bsp,local_sgd --sync_switch.fractions=0.5,0.5 \
  --run.audit=5
grep -q 'run.audit' err || fail "refused: $(cat err)"
finish
