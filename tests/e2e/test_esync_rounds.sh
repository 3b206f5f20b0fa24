#!/usr/bin/env bash
# A round of ESync goes on over evaluations, checkpoints and starts, of another
# number of workers too; the model there is the one with which the round began.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1
{
  printf '[run]\nsteps = 40\nthreads = 1\nworkers = 3\nlog_every = 10\n'
  small_network
  printf '[sync]\nscheme = esync\n[compute]\nstep_s = 0.01\nspeed = 9,1,1\n'
} >rounds.ini
train() { # train NAME KEYS...
  expect_code 0 "$SYNCOPATE" train rounds.ini --run.name="$1" \
    --optimizer.momentum=0.5 "${@:2}"
}
export PYTHONPATH=$here
cat >states.py <<'PY'
"""What runs came to."""
import pathlib
import h5py
import numpy as np
import compare_runs
from compare_runs import flat

def newest(run):
    """The files of its newest checkpoint: that of all, and of each worker."""
    folder = compare_runs.newest(pathlib.Path("runs", run))
    return (h5py.File(folder / "replica.h5"),
            [h5py.File(path) for path in sorted(folder.glob("worker-*.h5"))])

def reached(run):
    """Everything but the traffic of the boundaries, and what a row holds."""
    shared, workers = newest(run)
    with h5py.File(f"runs/{run}/results.h5") as results:
        return {"shared": flat(shared), "momentum":
                np.array([flat(worker["momentum"]) for worker in workers]),
                "clock": np.array([worker["virtual_s"][0] for worker in workers]),
                "loss": results["train/loss"][()],
                "test": results["eval/loss"][-1],
                "rounds": results["sync/round"][-1:],
                "bytes": results["comm/bytes_sent"][()].sum(0),
                "waited": results["sync/waiting_s"][()].sum(0).round(9)}

def differences(a, b):
    a, b = reached(a), reached(b)
    return [name for name in a if not np.array_equal(a[name], b[name])]
PY

echo "boundaries change nothing"
for query in blocking non_blocking; do
  for batchnorm in averaged local; do
    keys=("--esync.query=$query" "--esync.batchnorm=$batchnorm" --checkpoint.keep=9)
    kind=$query-$batchnorm
    train "never-$kind" "${keys[@]}" --checkpoint.every=0
    train "often-$kind" "${keys[@]}" --checkpoint.every=3
    for stop in 6 17 31 0; do
      train "parts-$kind" "${keys[@]}" --checkpoint.every=0 --run.stop_at=$stop
      [[ $stop != 17 ]] || python - "parts-$kind" <<'PY' || fail "$kind: no round is open"
import sys, states
assert states.newest(sys.argv[1])[0]["esync/is_open"][0] == 1
PY
    done
    resumed "parts-$kind" 6 17 31
    python - "$kind" <<'PY' || fail "$kind: boundaries change the run"
import sys, states
kind = sys.argv[1]
assert states.newest("never-" + kind)[0]["esync/is_open"][0] == 0
for other in ("often-", "parts-"):
    found = states.differences("never-" + kind, other + kind)
    assert not found, (other, found, states.reached("never-" + kind),
                       states.reached(other + kind))
PY
  done
done

echo "however often it is evaluated, a round has as many steps"
for every in 1 4 0; do
  train "evaluated-$every" --eval.every=$every --checkpoint.every=0
done
python - <<'PY' || fail "evaluations change the run"
import h5py, states
for every in (1, 4):
    found = states.differences("evaluated-0", f"evaluated-{every}")
    assert not found, (every, found)
# One step of the slow two takes as long as 9 of the fast one.
with h5py.File("runs/evaluated-1/results.h5") as file:
    assert file["sync/local_steps"][-2].tolist() == [9, 1, 1]
    # The average after the last step is a part of the last row.
    sent = file["comm/bytes_sent"][()], file["summary/bytes_sent"][()]
    assert sent[0].sum() == sent[1], sent
PY

echo "the average after the last step counts in times and in the trace, and is checked"
train last --network.mbit_s=10 --run.steps=10 --run.log_every=5 --eval.every=0 \
  --checkpoint.every=0 --output.trace=on
python - <<'PY' || fail "the last average is not counted"
import json
import h5py
with h5py.File("runs/last/results.h5") as file:
    ends = file["summary/virtual_s"][()]
    spent = sum(file["comm"][name][()].sum(0) for name in ("compute_s", "exposed_s"))
assert abs(spent.max() - ends) < 1e-9, (spent, ends)
with open("runs/last/trace.json") as file:
    slices = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X"]
last = max(event["ts"] + event["dur"] for event in slices) / 1e6
assert abs(last - ends) < 1e-6, (last, ends)
PY
sed -e 's/^family = resnet/family = logistic/' -e '/^depth\|^step_s/d' rounds.ini >large.ini
expect_code 76 "$SYNCOPATE" train large.ini --run.name=large --run.steps=2 \
  --run.log_every=1 --eval.every=0 --esync.global_lr=1e25 --optimizer.lr=1e-3 \
  --schedule.kind=multistep --schedule.milestones="1 steps" --schedule.gamma=1e20
[[ ! -e runs/large/checkpoints/step-00000002 ]] || fail "an infinite model was saved"

echo "evaluations of one model are one evaluation for sync_switch.plateau"
train plateau --sync.scheme=sync_switch --sync_switch.order=esync,bsp \
  --sync_switch.plateau=eval_loss --sync_switch.patience=3 --eval.every=1 \
  --compute.speed=60,1,1 --run.steps=80 --checkpoint.every=0 --optimizer.lr=0.05
(($(grep -c '^eval' out) == 80)) || fail "not 80 evaluations"
! grep -q '^plateau' out || fail "a round was taken for a plateau: $(grep -A1 '^plateau' out)"

echo "random inputs (60 under EXHAUSTIVE=1; RANDOM_FIRST begins elsewhere)"
count=8
[[ ${EXHAUSTIVE:-0} == 0 ]] || count=60
export SYNCOPATE
python "$here/random_boundaries.py" "${RANDOM_FIRST:-1}" $count esync ||
  fail "see above"

echo "an open round's checkpoint holds the model with which it began"
train open --run.stop_at=17 --eval.every=17
expect_code 0 "$SYNCOPATE" evaluate rounds.ini --checkpoint=runs/open
python - <<'PY' || fail "evaluate does not repeat the row: $(cat out)"
import re
import h5py, states
with h5py.File("runs/open/results.h5") as file:
    row = file["eval/loss"][-1].ravel()[0]
printed = re.search(r"loss\s+([0-9.]+)", open("out").read())
assert printed and abs(float(printed[1]) - row) < 1e-3 * row, (printed, row)
shared, workers = states.newest("open")
assert (states.flat(workers[1]["esync/local"]) !=
        states.flat(shared["parameters"])).any()
PY

echo "another number of workers continues from the mean of the replicas"
cp -r runs/open runs/resized
train resized --run.workers=2 --compute.speed=9,1 --run.stop_at=26
python - <<'PY' || fail "a resized run loses local steps"
import numpy as np
import states
def distance(a, b):
    return np.abs(a - b).max()
shared, workers = states.newest("open")
began = states.flat(shared["parameters"])
mean = np.mean([states.flat(w["esync/local"]) for w in workers], 0)
now, others = states.newest("resized")
came_to = states.flat(now["parameters"])
if now["esync/is_open"][0]:
    came_to = np.mean([states.flat(w["esync/local"]) for w in others], 0)
assert distance(came_to, mean) < distance(came_to, began), (
    distance(came_to, mean), distance(came_to, began))
PY
finish
