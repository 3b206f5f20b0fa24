#!/usr/bin/env bash
# A run that was cut and resumed ends in the same bytes, and has the same rows,
# as one that was not. A few cuts by default, all of them with EXHAUSTIVE=1.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

if [[ ${EXHAUSTIVE:-} == 1 ]]; then
  mapfile -t cuts < <(seq 1 19)
  worlds=(inproc1 inproc2 inproc4 mpi1 mpi2 mpi4)
  statistics=(local averaged)
else
  cuts=(1 10)
  worlds=(inproc1 inproc4 mpi2)
  statistics=(local)
fi

train() { # train WORLD NAME KEYS...
  local world=$1 name=$2 n=${1//[a-z]/} command=("$SYNCOPATE" train tiny.ini)
  shift 2
  if [[ $world == mpi* ]]; then
    command=("$MPIEXEC" -bind-to none -n "$n" "${command[@]}")
  else
    command+=(--run.workers="$n")
  fi
  expect_code 0 "${command[@]}" --run.name="$name" "$@"
}

for world in "${worlds[@]}"; do
  for batchnorm in "${statistics[@]}"; do
    keys=(--bsp.batchnorm="$batchnorm" --optimizer.clip_norm=1 --data.accumulate=2)
    train "$world" "whole-$world-$batchnorm" "${keys[@]}"
    for cut in "${cuts[@]}"; do
      name=cut$cut-$world-$batchnorm
      train "$world" "$name" "${keys[@]}" --run.stop_at="$cut"
      train "$world" "$name" "${keys[@]}"
      grep -q "resumed from .*(step $cut)" "runs/$name/log.txt" ||
        fail "$name did not resume at step $cut"
      python "$here/compare_runs.py" "runs/whole-$world-$batchnorm" "runs/$name" ||
        fail "$name differs"
    done
  done
done

# Killed after the last checkpoint, but before the summary was written: the next
# start writes it. The same holds for a run that ends at its target.
killed_at_its_end() { # killed_at_its_end WORLD KEYS...: as runs/killed
  local world=$1
  shift
  rm -rf runs/killed
  local command=("$SYNCOPATE" train tiny.ini --run.name=killed "$@"
    --faults.kind=kill --faults.stage=end)
  if [[ $world == mpi2 ]]; then
    command=("$MPIEXEC" -bind-to none -n 2 "${command[@]}")
  else
    command+=(--run.workers=2)
  fi
  "${command[@]}" >out 2>&1 && fail "$world: was not killed at its end"
  says_of_killed '^ended *none'
}
says_of_killed() {
  "$SYNCOPATE" status runs/killed | grep -q "$1" ||
    fail "not $1: $("$SYNCOPATE" status runs/killed)"
}
for target in - 'loss <= 9'; do
  keys=(--run.target="$target" --eval.every=5)
  for world in inproc2 mpi2; do
    [[ $world == inproc2 || $target == - || -n ${EXHAUSTIVE:-} ]] || continue
    rm -rf runs/ended
    train $world ended "${keys[@]}"
    killed_at_its_end $world "${keys[@]}"
    train $world killed "${keys[@]}"
    grep -q "only the summary is missing" out || fail "$world: $(cat out)"
    python "$here/compare_runs.py" runs/ended runs/killed ||
      fail "$world, target $target: the end differs"
    train $world killed "${keys[@]}"
    grep -q "nothing left to do" out || fail "$world: did not know its end"
    # With another number of workers there is nothing to do, and all stays.
    killed_at_its_end $world "${keys[@]}"
    cp runs/killed/results.h5 before.h5
    train inproc4 killed "${keys[@]}"
    cmp -s before.h5 runs/killed/results.h5 || fail "$world: results changed"
    train $world killed "${keys[@]}"
    says_of_killed '^ended *finished'
  done
done
# Of another target, which an earlier row reached, the figures are not known.
killed_at_its_end inproc2 --eval.every=5 --run.target='accuracy >= 1'
train inproc2 killed --eval.every=5 --run.target='loss <= 9'
grep -q "loss <= 9 was reached at step 5: nothing left" out || fail "$(cat out)"
says_of_killed '^ended *none'
# Results that are not there, or damaged, are no reason to write others.
killed_at_its_end inproc2 --eval.every=5 --run.target='loss <= 9'
rm runs/killed/results.h5
for _ in 1 2; do
  train inproc2 killed --eval.every=5 --run.target='loss <= 9'
  grep -q "nothing left to do" out || fail "without results: $(cat out)"
  grep -q '^warning: .*results.h5 is missing: .* up to step 5 ' err ||
    fail "without results: no warning: $(cat err)"
  [[ ! -e runs/killed/results.h5 ]] || fail "results without rows were written"
done
killed_at_its_end inproc2
printf x | dd of=runs/killed/results.h5 bs=1 seek=5000 conv=notrunc 2>/dev/null
cp runs/killed/results.h5 before.h5
train inproc2 killed
cmp -s before.h5 runs/killed/results.h5 || fail "damaged results were replaced"

# Three cuts in one run; and the comparison can fail: another seed differs.
for stop in 4 5 13 20; do
  train inproc2 chain --run.stop_at="$stop" --checkpoint.keep=5
done
train inproc2 whole
python "$here/compare_runs.py" runs/whole runs/chain || fail "chain differs"
train inproc2 other --run.seed=2
python "$here/compare_runs.py" runs/whole runs/other >/dev/null &&
  fail "the comparison sees no difference between two seeds"

# The virtual clock stands still under MPI, and continues after it.
clock=(--compute.step_s=0.5 --network.mbit_s=100 --run.log_every=1)
train inproc2 whole_clock "${clock[@]}"
grep -q ' took [0-9.]* s of virtual time$' out || fail "$(cat out)"
train inproc2 clock "${clock[@]}" --run.stop_at=7
train mpi2 clock --run.log_every=1 --run.stop_at=13
train inproc2 clock "${clock[@]}"
grep -q ' of virtual time, which stood still under MPI$' out ||
  fail "a virtual clock without its steps under MPI: $(cat out)"
python - <<'PY' || fail "the virtual clock did not continue"
import h5py, numpy
of = {}
for run in "clock", "whole_clock":
    with h5py.File(f"runs/{run}/results.h5") as file:
        of[run] = file["train/virtual_s"][:]
whole, clock = of["whole_clock"], of["clock"]
assert len(clock) == len(whole) == 20, (len(clock), len(whole))
step_s = numpy.diff(whole)
assert numpy.isnan(clock[7:13]).all() and not numpy.isnan(clock[[6, 13]]).any()
numpy.testing.assert_allclose(clock[13] - clock[6], step_s[12], rtol=1e-9)
numpy.testing.assert_allclose(numpy.diff(clock[13:]), step_s[13:], rtol=1e-9)
PY

# Everything that has a state or a clock of its own: dropout, a validation
# split, recomputed statistics, costs of messages, unlike workers.
sed -e 's/^family = .*/family = wrn\nform = pre\ndropout = 0.3/' \
  -e 's/^depth = .*/depth = 10/' tiny.ini >wrn.ini
# shellcheck disable=SC2054  # commas within a key's list
keys=(--run.workers=3 --data.validation=24 --eval.on=validation
  --eval.batchnorm=recomputed --eval.recompute_batches=2 --sync.collective=native
  --compute.speed=1,2,4 --network.latency_us=100 --network.mbit_s=1000)
expect_code 0 "$SYNCOPATE" train wrn.ini --run.name=wrn-whole "${keys[@]}"
for stop in 4 11 20; do
  expect_code 0 "$SYNCOPATE" train wrn.ini --run.name=wrn-cut "${keys[@]}" \
    --run.stop_at=$stop
done
python "$here/compare_runs.py" runs/wrn-whole runs/wrn-cut || fail "wrn-cut differs"
# A row ends before ds_sync averages for the next step, with a boundary or without.
decay=(--sync.scheme=ds_sync --optimizer.weight_decay=0.01 --eval.every=0
  --checkpoint.every=0 --run.log_every=4)
train_three 0 process decay "${decay[@]}"
train_three 0 process decay-cut "${decay[@]}" --run.stop_at=8
train_three 0 process decay-cut "${decay[@]}"
python "$here/compare_runs.py" --virtual runs/decay runs/decay-cut ||
  fail "decay-cut differs"

# Keys that would change the numbers are refused on resume, and nothing of the
# run is touched.
# The echo is an input: the same run again.
expect_code 0 "$SYNCOPATE" train runs/whole/input.ini --run.directory=echoed
python "$here/compare_runs.py" runs/whole echoed/whole ||
  fail "a run from the echoed input differs"
# Where phases do not keep replicas equal, audits are off.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=2 --run.name=phases \
  --sync.scheme=sync_switch --sync_switch.order=bsp,local_sgd \
  --sync_switch.fractions=0.5,0.5
expect_code 0 "$SYNCOPATE" validate runs/phases/input.ini
cp runs/whole/input.ini before.ini
expect_code 65 "$SYNCOPATE" train tiny.ini --run.workers=2 --run.name=whole \
  --optimizer.lr=0.5
grep -q "optimizer.lr" err || fail "the refusal does not name the key"
cmp -s before.ini runs/whole/input.ini || fail "a refused resume changed input.ini"
# All ranks with other keys: the mistake and what to do. One rank alone: that it
# differs from the others.
# shellcheck disable=SC2046
expect_code 0 $(ranks 2) "$SYNCOPATE" train tiny.ini --run.name=pair --run.stop_at=5
sed 's/^lr = 0.05/lr = 0.07/' tiny.ini >other.ini
expect_code 65 "$MPIEXEC" -bind-to none -n 1 "$SYNCOPATE" train other.ini \
  --run.name=pair : -n 1 "$SYNCOPATE" train tiny.ini --run.name=pair
(($(grep -c "^error: " err) == 1)) || fail "not one line: $(cat err)"
grep -q "^error: rank 1 on .* has optimizer.lr = 0.05, rank 0 has 0.07: all ranks" err ||
  fail "ranks that differ are not told: $(cat err)"
# shellcheck disable=SC2046
expect_code 65 $(ranks 2) "$SYNCOPATE" train other.ini --run.name=pair
(($(grep -c "^error: " err) == 2)) || fail "not two lines: $(cat err)"
grep -q '^error: another run is in runs/pair: .*--run.name=' err ||
  fail "the way out is not named: $(cat err)"

# Every start that goes on counts, also one that is killed before it saves.
restarts() {
  python -c 'import h5py, sys
print(h5py.File(sys.argv[1])["provenance"].attrs["restarts"])' "runs/$1/results.h5"
}
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=counted --run.stop_at=7
[[ $(restarts counted) == 0 ]] || fail "a first start counts $(restarts counted)"
for kill in 1 2 3 4; do
  expect_code 137 "$SYNCOPATE" train tiny.ini --run.name=counted --faults.kind=kill \
    --faults.step=9
  [[ $(restarts counted) == "$kill" ]] ||
    fail "$kill resumes count $(restarts counted)"
done

# A start at the end of a run changes nothing, not even with other workers.
cp runs/whole/results.h5 before.h5
for workers in 2 4; do
  expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=$workers --run.name=whole
  grep -q "nothing left to do" out || fail "steps after the end: $(cat out)"
  cmp -s before.h5 runs/whole/results.h5 || fail "$workers: the results changed"
done
expect_code 0 "$SYNCOPATE" status tiny.ini --run.name=whole
grep -q finished out || fail "not finished any more: $(cat out)"

# A start elsewhere: a checkpoint named, then the run's own.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=2 --run.name=branch \
  --checkpoint.resume=runs/chain/checkpoints/step-00000013 --run.stop_at=16
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=2 --run.name=branch \
  --checkpoint.resume=runs/chain/checkpoints/step-00000013
grep -q "resumed from runs/branch/.*(step 16)" runs/branch/log.txt ||
  fail "the second start did not go on from the run's own checkpoint"
finish
