#!/usr/bin/env bash
# run.target: a run ends at the first evaluation that reaches it, says what it
# had used by then, and goes on only if it is told to. In one process and over
# MPI, under schemes in lockstep and under free-running ones.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
sed -i -e 's/^every = 10 steps/every = 4 steps/' -e 's/^log_every = .*/log_every = 1/' \
  -e '/^augment/d; /^crop_pad/d' tiny.ini
check() { python "$here/check_target.py" "$@" || fail "check_target.py $*"; }
says() { grep -Eq -- "$1" "$scratch/$2" || fail "no $1: $(tail -n 5 "$scratch/$2")"; }
launch_of() { # launch_of WORLD: the command's first words in $launch
  launch=() workers=(--run.workers=2)
  [[ $1 == process ]] || { read -ra launch <<<"$(ranks 2)" && workers=(); }
}

# The whole run decides the target: what its third of five evaluations has.
schemes=("bsp" "local_sgd --local_sgd.steps=3" "asp" "ds_sync"
  "sync_switch --sync_switch.order=10 --sync_switch.fractions=.5,.5")
for words in "${schemes[@]}"; do
  read -ra scheme <<<"--sync.scheme=$words"
  keys=(--run.workers=2 "${scheme[@]}" --network.mbit_s=100)
  name=${words%% *}
  expect_code 0 "$SYNCOPATE" train tiny.ini "${keys[@]}" --run.name="whole-$name"
  loss=$(python -c 'import h5py, sys
print(repr(float(min(h5py.File(sys.argv[1])["eval/loss"][:3]))))' \
    "runs/whole-$name/results.h5")
  expect_code 0 "$SYNCOPATE" train tiny.ini "${keys[@]}" --run.name="hit-$name" \
    --run.target="loss <= $loss"
  says "^target    loss <= $loss, judged at evaluations: every 4 steps \(0.33 epochs\)$" out
  says "^  target loss <= $loss reached at step [0-9]+, epoch .*, virtual .* s, .* sent, .* samples; judged every 4 steps$" out
  check "runs/hit-$name" loss '<=' "$loss" yes "runs/whole-$name"
  [[ -e runs/hit-$name/checkpoints/step-00000012/manifest.json ]] ||
    [[ -e runs/hit-$name/checkpoints/step-00000008/manifest.json ]] ||
    fail "$name: no checkpoint at the target: $(ls "runs/hit-$name/checkpoints")"
done

# Over MPI in wall time; an asynchronous run has a course of its own.
for words in "bsp" "local_sgd --local_sgd.steps=3" "asp"; do
  read -ra scheme <<<"--sync.scheme=$words"
  launch_of ranks
  name=mpi-${words%% *}
  expect_code 0 "${launch[@]}" "$SYNCOPATE" train tiny.ini "${scheme[@]}" \
    --run.name="$name" --run.target='loss <= 1.2'
  says '^  target loss <= 1.2 reached at step [0-9]+, epoch .*, [0-9.]+ s, .* sent' out
  check "runs/$name" loss '<=' 1.2 yes
done

# Not reached: as a run without a target, which it does not change.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=2 --run.name=never \
  --network.mbit_s=100 --run.target='loss <= 0'
says '^  target loss <= 0 not reached by step 20; judged every 4 steps$' out
check runs/never loss '<=' 0 no
python -c 'import h5py, numpy
never, whole = (h5py.File(f"runs/{name}/results.h5")["eval"]
                for name in ("never", "whole-bsp"))
for key in ("worker_steps", "virtual_s", "loss", "accuracy"):
    numpy.testing.assert_array_equal(never[key], whole[key])' ||
  fail "a target changed the run"

# It does not go on by default, in either world, and leaves its results alone;
# it goes on with another target or none, to what the whole run reached.
for world in process ranks; do
  launch_of "$world"
  name=hit-bsp
  [[ $world == process ]] || name=mpi-bsp
  keys=(--run.name="$name")
  [[ $world == ranks ]] || keys+=(--network.mbit_s=100)
  target=$(sed -n 's/^target = //p' "runs/$name/input.ini")
  before=$(md5sum <"runs/$name/results.h5")
  expect_code 0 "${launch[@]}" "$SYNCOPATE" train tiny.ini "${workers[@]}" \
    "${keys[@]}" --run.target="$target"
  says "^${target/./\\.} was reached at step .*: nothing left to do" out
  [[ $(md5sum <"runs/$name/results.h5") == "$before" ]] ||
    fail "$name: results changed"
  expect_code 0 "${launch[@]}" "$SYNCOPATE" train tiny.ini "${workers[@]}" \
    "${keys[@]}" --run.target='loss <= 0'
  says 'not reached by step 20' out
done
python -c 'import h5py, numpy
whole, hit = (h5py.File(f"runs/{name}/results.h5")["eval/loss"][()]
              for name in ("whole-bsp", "hit-bsp"))
numpy.testing.assert_array_equal(whole, hit)' || fail "it went on to another end"

# A target that an evaluation of the run has already reached is not waited for.
before=$(md5sum <runs/hit-local_sgd/results.h5)
local=(--sync.scheme=local_sgd --local_sgd.steps=3 --run.target='loss <= 1e6')
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=2 --run.name=hit-local_sgd \
  --network.mbit_s=100 "${local[@]}"
says '^loss <= 1000000 was reached at step 4: nothing left to do' out
[[ $(md5sum <runs/hit-local_sgd/results.h5) == "$before" ]] || fail "results changed"
launch_of ranks
expect_code 0 "${launch[@]}" "$SYNCOPATE" train tiny.ini --run.name=mpi-local_sgd \
  "${local[@]}"
says '^loss <= 1000000 was reached at step 4: nothing left to do' out

# What ds_sync does to the final model does not come where a run may go on.
averaging=(--run.workers=4 --sync.scheme=ds_sync --ds_sync.final_average=yes
  --network.mbit_s=100)
expect_code 0 "$SYNCOPATE" train tiny.ini "${averaging[@]}" --run.name=plain
for target in 'loss <= 1e6' -; do
  expect_code 0 "$SYNCOPATE" train tiny.ini "${averaging[@]}" --run.name=went-on \
    --run.target="$target"
done
python "$here/compare_runs.py" runs/plain runs/went-on ||
  fail "going on from a target changes the run"

# Stopped before and resumed: the target is still to come.
loss=$(sed -n 's/^target = loss <= //p' runs/hit-local_sgd/input.ini)
for stop in 6 20; do
  expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=2 --run.name=cut \
    --network.mbit_s=100 --sync.scheme=local_sgd --local_sgd.steps=3 \
    --run.stop_at=$stop --run.target="loss <= $loss"
done
check runs/cut loss '<=' "$loss" yes runs/whole-local_sgd

# Mistakes: a line each, 65.
refuses() { # refuses PATTERN KEYS...
  local pattern=$1
  shift
  expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=wrong "$@"
  [[ $(wc -l <"$scratch/err") == 1 ]] || fail "more than a line: $*"
  says "$pattern" err
}
refuses 'run.target: acuracy is not one of .*loss, accuracy \(did you mean accuracy\?\)' \
  --run.target='acuracy >= 0.9'
refuses 'run.target: f1 is not one of' --run.target='f1 >= 50'
refuses 'run.target: accuracy_average is not one of' \
  --run.target='accuracy_average >= 0.5'
refuses 'run.target: expected - or a result such as' --run.target='accuracy > 0.9'
refuses 'run.target: expected - or a result such as' --run.target='accuracy >= high'
refuses 'run.target: is judged at evaluations' --run.target='accuracy >= 0.9' \
  --eval.every=0
expect_code 0 "$SYNCOPATE" train tiny.ini --run.workers=2 --run.name=average \
  --eval.model=each_and_average --run.target='accuracy_average >= 0.5'
check runs/average accuracy_average '>=' 0.5 yes
finish
