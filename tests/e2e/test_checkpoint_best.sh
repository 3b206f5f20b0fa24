#!/usr/bin/env bash
# checkpoint.best: the checkpoint at the best evaluation is kept whatever
# follows, also over a resume, and the commands take it.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# The rate grows until the run gets worse again.
best=(--checkpoint.best=loss --eval.every='2 steps' --checkpoint.every=6
  --schedule.kind=constant --optimizer.lr=0.2 --checkpoint.keep=9)

# expected RUN FIGURE SIGN: "STEP VALUE" of the best row of /eval.
expected() {
  python - "$@" <<'PY'
import sys

import h5py

with h5py.File(f"runs/{sys.argv[1]}/results.h5") as file:
    values = float(sys.argv[3]) * file["eval"][sys.argv[2]][()]
    row = values.argmax()
    print(file["eval/step"][row], "%.6f" % file["eval"][sys.argv[2]][row])
PY
}

# check RUN FIGURE SIGN: checkpoints/best is that one alone, and scores so.
check() {
  local step value
  read -r step value < <(expected "$@")
  [[ $(ls "runs/$1/checkpoints/best") == "step-$(printf %08d "$step")" ]] ||
    fail "$1: best is $(ls "runs/$1/checkpoints/best"), expected $step"
  expect_code 0 "$SYNCOPATE" evaluate tiny.ini \
    --checkpoint="runs/$1/checkpoints/best"
  grep -q "$2 $value" "$scratch/out" ||
    fail "$1: not $2 $value: $(cat "$scratch/out")"
  grep -q "best/step-.*, $2 .* is the best so far" "runs/$1/log.txt" ||
    fail "$1: the log does not say so"
}

train_three 0 process loss "${best[@]}"
check loss loss -1
train_three 0 process accuracy "${best[@]:1}" --checkpoint.best=accuracy
check accuracy accuracy 1
train_three 0 ranks ranks "${best[@]}"
check ranks loss -1

# The newest checkpoints are those of a run without it.
train_three 0 process without "${best[@]:1}" --checkpoint.best=none
[[ ! -e runs/without/checkpoints/best ]] || fail "a best that nobody wanted"
python "$here/compare_runs.py" runs/loss runs/without ||
  fail "keeping the best changed the run"

# Killed after the best was saved and before the next checkpoint: the resumed
# run comes to the same.
read -r step _ < <(expected loss loss -1)
train_three 0 process again "${best[@]}"
for folder in runs/again/checkpoints/step-*; do
  ((10#${folder##*-} <= 6)) || rm -r "$folder"
done
train_three 0 process again "${best[@]}"
grep -q 'resumed from .*step-00000006' "$scratch/out" || fail "not resumed"
check again loss -1
# What was better before the checkpoint is not forgotten.
train_three 0 process worse "${best[@]}" --run.stop_at=12
train_three 0 process worse "${best[@]}"
check worse loss -1

expect_code 0 "$SYNCOPATE" export runs/loss/checkpoints/best \
  -o best.safetensors
grep -q "step $step," "$scratch/out" || fail "another step was exported"
grep -aq '"run":"loss"' best.safetensors || fail "the file names another run"
expect_code 0 "$SYNCOPATE" predict tiny.ini \
  --checkpoint=runs/loss/checkpoints/best --output=labels.csv
expect_code 0 "$SYNCOPATE" inspect runs/loss/checkpoints/best
# A new run from it, by the name of its folder.
train_three 0 process from_best --checkpoint.resume=runs/loss/checkpoints/best \
  --optimizer.lr=0.01 --run.stop_at=1
grep -q "a new run from the model of runs/loss/checkpoints/best/step-" out ||
  fail "checkpoint.resume does not take the folder of the best: $(head out)"
expect_code 0 "$SYNCOPATE" export runs/loss -o newest.safetensors
grep -q 'step 20,' "$scratch/out" || fail "a run's newest is not its model"
train_three 65 process no "${best[@]:1}" --checkpoint.best=los
grep -q 'which are loss, accuracy (did you mean loss?)' "$scratch/err" ||
  fail "the figures are not named"
# Switched on by a resume, it knows nothing of the evaluations before.
expect_code 0 "$SYNCOPATE" train tiny.ini "${best[@]:1}" --run.name=late --run.stop_at=12
expect_code 0 "$SYNCOPATE" train tiny.ini "${best[@]}" --run.name=late
grep -q "best/step-.*, loss .* is the best since step 12$" out ||
  fail "the best of what: $(grep best/ out)"
finish
