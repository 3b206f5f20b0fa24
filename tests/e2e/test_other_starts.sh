#!/usr/bin/env bash
# Starts with other keys than before: none of them touches another run, resumes
# less than it could, or rewrites what it did not use.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1
sed -i -e 's/^family = resnet/family = logistic/' -e '/^depth/d' tiny.ini
says() { grep -qE -- "$1" "$scratch/$2" || fail "no $1: $(tail -n 5 "$scratch/$2")"; }
train() { expect_code "$1" "$SYNCOPATE" train tiny.ini "${@:2}"; }

echo "a name that the checkpoint's keys would turn into another run's"
train 0 "--run.name=x-{scheme}-{seed}" --sync.scheme=local_sgd --run.seed=3 --run.workers=2 \
  --run.stop_at=14
listed=$(find runs -type f -exec sha256sum {} + | sort)
from=runs/x-local_sgd-3/checkpoints/step-00000007
train 65 "--run.name=x-{scheme}-{seed}" --checkpoint.resume=$from
says '^error: .*run.name: x-\{scheme\}-\{seed\} expands to runs/x-local_sgd-3 with the keys of the checkpoint' err
[[ $(find runs -type f -exec sha256sum {} + | sort) == "$listed" ]] || fail "the other run changed"
train 0 "--run.name=y-{scheme}-{seed}" --sync.scheme=local_sgd --run.seed=3 --checkpoint.resume=$from \
  --run.stop_at=8
[[ -d runs/y-local_sgd-3 ]] || fail "no run of its own: $(ls runs)"

echo "links of each worker, and then other workers"
train 0 --run.name=links --run.workers=4 --network.mbit_s=1000,1000,1000,100 \
  --network.latency_us=1,2,3,4 --run.stop_at=6
train 0 --run.name=links --run.workers=2 --run.stop_at=8
train 0 --run.name=links --run.workers=3 --network.mbit_s=10,20,30 --network.latency_us=5

echo "nothing left to do"
train 0 --run.name=done --run.workers=2
kept=$(sha256sum runs/done/input.ini)
train 0 --run.name=done --run.workers=4
says 'nothing left to do' out
train 0 --run.name=done --run.workers=2 --run.stop_at=7
[[ $(sha256sum runs/done/input.ini) == "$kept" ]] || fail "input.ini has values that were not used"

echo "a stop before the first step ends"
train 0 --run.name=early --run.stop_at=0.001epochs
says '^checkpoint committed: .*step-00000001$' out

echo "the best so far, while checkpoint.best had another value"
best=(--run.name=best --eval.every=2steps --checkpoint.every=2steps --checkpoint.keep=20
  --optimizer.lr=1.5 --schedule.kind=constant --schedule.warmup=0)
train 0 "${best[@]}" --checkpoint.best=loss --run.stop_at=8
first=$(sed -n 's/.*best\/step-.*, loss \(.*\) is the best so far/\1/p' out | tail -n 1)
train 0 "${best[@]}" --checkpoint.best=none --run.stop_at=10
train 0 "${best[@]}" --checkpoint.best=loss
sed -n 's/.*best\/step-.*, loss \(.*\) is the best so far/\1/p' out >later
awk -v first="$first" '$1 >= first { exit 1 }' later ||
  fail "not better than $first: $(cat later)"
# Among those evaluations is a worse one, or this would show nothing.
python - "$first" <<'PY' || fail "no evaluation after step 8 is worse than $first"
import sys

import h5py

with h5py.File("runs/best/results.h5") as file:
    later = file["eval/loss"][file["eval/step"][()] > 8]
    assert (later > float(sys.argv[1])).any(), later
PY

echo "rows of lost results"
train 0 --run.name=lost --output.csv=yes --run.stop_at=8
cp runs/lost/metrics.csv rows
rm runs/lost/results.h5
train 0 --run.name=lost --output.csv=yes
cmp rows runs/lost/metrics-1.csv || fail "the only copy of the rows is gone"
says 'metrics.csv: rows of lost results; kept as metrics-1.csv$' err

echo "lengths in steps and in epochs"
fields=(--schedule.kind=multistep --schedule.warmup=0 --data.batch=8)
train 65 --run.name=mixed "${fields[@]}" '--schedule.milestones=15 steps, 0.25 epochs'
says 'schedule.milestones: expected increasing lengths, found 0.25 epochs after 15 steps, with 24 steps per epoch' err

echo "a checkpoint that is evaluated on other samples than its run"
train 0 --run.name=held --run.seed=2 --data.validation=0.25 --eval.on=validation
expect_code 0 "$SYNCOPATE" evaluate tiny.ini --data.validation=0.25 --eval.on=validation \
  --checkpoint=runs/held
says '^warning: run.seed is 1, in .* it was 2: other samples are held out' err
expect_code 0 "$SYNCOPATE" evaluate tiny.ini --data.validation=0.25 --eval.on=validation \
  --run.seed=2 --checkpoint=runs/held
[[ ! -s err ]] || fail "a warning without a reason: $(cat err)"
finish
