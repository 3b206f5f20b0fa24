#!/usr/bin/env bash
# With eval.on = validation, best_accuracy is the test score of the model that
# had the best validation score. Every model is saved and evaluated again on
# both sets by `evaluate`, which knows nothing of what came before.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cat >best.ini <<'INI'
[run]
steps = 60
threads = 1
[model]
family = logistic
[data]
kind = synthetic_images
samples = 160
test_samples = 50
classes = 4
height = 4
width = 4
noise = 6
batch = 10
validation = 0.25
[optimizer]
lr = 0.3
[eval]
every = 6 steps
on = validation
batch = 25
[checkpoint]
every = 6 steps
keep = 100
INI

# score RUN CHECKPOINT SET: the accuracy that `evaluate` prints.
score() {
  "$SYNCOPATE" evaluate best.ini --checkpoint="$2" --eval.on="$3" "${@:4}" |
    sed -n 's/.*accuracy \([0-9.]*\).*/\1/p'
}

# expected RUN KEYS...: "VALIDATION TEST" of the first best checkpoint.
expected() {
  local folder validation best=-1 test=none
  for folder in "runs/$1"/checkpoints/step-*; do
    validation=$(score "$1" "$folder" validation "${@:2}")
    if awk "BEGIN {exit !($validation > $best)}"; then
      best=$validation
      test=$(score "$1" "$folder" test "${@:2}")
    fi
  done
  echo "$best $test"
}

# recorded RUN: the same from the summary.
recorded() {
  python - "$1" <<'PY'
import sys
import h5py
with h5py.File(f"runs/{sys.argv[1]}/results.h5") as file:
    print(*("%.6f" % file["summary"][name][()]
            for name in ("best_validation_accuracy", "best_accuracy")))
PY
}

# check RUN KEYS...
check() {
  local wanted found
  wanted=$(expected "$@") found=$(recorded "$1")
  [[ $wanted == "$found" ]] || fail "$1: best is $found, expected $wanted"
}

for seed in 1 2 3; do
  expect_code 0 "$SYNCOPATE" train best.ini --run.name="seed$seed" --run.seed=$seed
  check "seed$seed" --run.seed=$seed
done
# The test score at the best validation score is not the best test score, and
# the validation score is not the test score: one of the seeds shows each.
grep -h "^best " runs/seed?/log.txt | grep -q "test set | accuracy" ||
  fail "the log does not say what the best model reaches on the test set"
[[ $(recorded seed1; recorded seed2; recorded seed3) != $(
  for seed in 1 2 3; do recorded seed$seed | awk '{print $1, $1}'; done) ]] ||
  fail "validation and test scores are all the same"

# Cut and resumed: the same summary.
expect_code 0 "$SYNCOPATE" train best.ini --run.name=cut --run.stop_at=27
expect_code 0 "$SYNCOPATE" train best.ini --run.name=cut
[[ $(recorded cut) == $(recorded seed1) ]] ||
  fail "cut: $(recorded cut), uncut $(recorded seed1)"

# Under MPI, all ranks evaluate.
# shellcheck disable=SC2046
expect_code 0 $(ranks 2) "$SYNCOPATE" train best.ini --run.name=ranks
check ranks
# The better of the workers' mean and the average model.
expect_code 0 "$SYNCOPATE" train best.ini --run.name=gossip --run.workers=3 \
  --sync.scheme=d_psgd --topology.kind=ring --eval.model=each_and_average
python - <<'PY' || fail "gossip: not the best of both columns"
import h5py
with h5py.File("runs/gossip/results.h5") as file:
    best = max(*file["eval/accuracy"][...], *file["eval/accuracy_average"][...])
    assert file["summary/best_validation_accuracy"][()] == best, best
PY

# On the test set it is the best of all, and says so.
expect_code 0 "$SYNCOPATE" train best.ini --run.name=test --eval.on=test
expect_code 0 "$SYNCOPATE" inspect runs/test/results.h5
grep -q "best_accuracy.*best of 10 test evaluations" out ||
  fail "what best_accuracy is the best of: $(grep best out)"
grep -q "best_validation" out && fail "a validation score without validation"
# Its text where there is a validation set; after a resize it counts all.
expect_code 0 "$SYNCOPATE" train best.ini --run.name=resized --run.workers=2 --run.stop_at=30
expect_code 0 "$SYNCOPATE" train best.ini --run.name=resized --run.workers=1
expect_code 0 "$SYNCOPATE" inspect runs/resized/results.h5
grep -q "best_accuracy.*test score at the best validation score" out ||
  fail "what best_accuracy is: $(grep best out)"
finish
