#!/usr/bin/env bash
# What a run writes for other programs: metrics.csv while it goes on and after a
# resume, the axes of results.h5, event files, and the lines of inputs/README.md.
# $PYTHON_EXTRAS: a Python that has pandas and tensorboardX too, if there is one.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
extras=${PYTHON_EXTRAS:-/usr/bin/python3}

# same_rows RUN: metrics.csv says what results.h5 says.
same_rows() {
  local said
  said=$(python - "$1" 2>&1 <<'PY'
import csv
import sys

import h5py
import numpy as np

with open(f"runs/{sys.argv[1]}/metrics.csv") as file:
    rows = list(csv.DictReader(file))
with h5py.File(f"runs/{sys.argv[1]}/results.h5") as file:
    tables = {name: {key: values[()] for key, values in file[name].items()}
              for name in ("train", "comm", "eval")}


def column(kind, name):
    return [float(row[name] or "nan") for row in rows if row["row"] == kind]


def check(kind, name, values):
    got = column(kind, name)
    assert len(got) == len(values), (kind, name, len(got), len(values))
    assert np.allclose(got, values, rtol=1e-12, equal_nan=True), (kind, name)


for name in ("step", "worker_steps", "epoch", "time_s", "virtual_s"):
    check("train", name, tables["train"][name])
    check("eval", name, tables["eval"][name])
for name in ("samples", "loss", "accuracy", "lr"):
    check("train", name, tables["train"][name])
for name in ("loss", "accuracy", "consensus_distance"):
    check("eval", "eval_" + name, tables["eval"][name])
for name in ("bytes_sent", "messages_sent", "control_bytes"):
    check("train", name, tables["comm"][name].sum(1))
busy = tables["comm"]["exposed_s"].sum(1)
check("train", "exposed_share",
      busy / (busy + tables["comm"]["compute_s"].sum(1)))
steps = [int(row["worker_steps"]) for row in rows]
assert steps == sorted(steps) and len(rows) > 8, steps
assert {len(row) for row in rows} == {len(rows[0])}
print("right")
PY
)
  [[ $said == right ]] || fail "metrics.csv of $1: $said"
}

csv=(--output.csv=yes --checkpoint.keep=9 --network.latency_us=1000)
train_three 0 process whole "${csv[@]}"
same_rows whole
grep -q '^train,' runs/whole/metrics.csv || fail "no rows"
train_three 0 ranks ranks "${csv[@]:0:2}"
same_rows ranks

# A run that was killed after its checkpoint at step 14 has rows that the next
# start drops, and a piece of a line.
train_three 0 process resumed "${csv[@]}"
rm -r runs/resumed/checkpoints/step-00000020
printf 'train,99' >>runs/resumed/metrics.csv
train_three 0 process resumed "${csv[@]}"
grep -q '^resumed from .*step-00000014' "$scratch/out" || fail "not resumed"
same_rows resumed
without_clock() { cut -d, -f1-4,6- "runs/$1/metrics.csv"; }
cmp <(without_clock whole) <(without_clock resumed) ||
  fail "the resumed run has other lines"

# Turned on later: the rows before are there; nothing to do: nothing changes.
train_three 0 process later "${csv[@]:1}" --run.stop_at=10
[[ ! -e runs/later/metrics.csv ]] || fail "metrics.csv that nobody wanted"
train_three 0 process later "${csv[@]}"
same_rows later
cmp <(without_clock whole) <(without_clock later) || fail "rows are missing"
cp runs/later/metrics.csv before.csv
train_three 0 process later "${csv[@]}"
cmp before.csv runs/later/metrics.csv || fail "a finished run was changed"

# Every line is there when its row is: a run that is asked to stop.
mkdir -p runs/live
(
  for ((i = 0; i < 600; ++i)); do
    if grep -q '^train,' runs/live/metrics.csv 2>/dev/null; then
      touch runs/live/STOP
      break
    fi
    sleep 0.1
  done
) &
train_three 75 process live --output.csv=yes --run.steps=1000000 \
  --run.log_every=20 --eval.every=0 --schedule.kind=constant
wait

mkdir -p runs/taken/metrics.csv
train_three 74 process taken --output.csv=yes
grep -q 'metrics.csv' "$scratch/err" || fail "metrics.csv is not named"

python - <<'PY' || fail "the axes of results.h5"
import h5py

with h5py.File("runs/whole/results.h5") as file:
    for table in ("train", "eval", "comm"):
        assert "row" in file[table].attrs["description"], table
        for name, series in file[table].items():
            assert series.attrs["units"] and series.attrs["description"]
            assert series.dims[0].label == "step", name
            if name == "step":
                continue
            scale = series.dims[0]["step"]
            assert scale.name == f"/{table}/step", scale.name
            assert series.ndim == 1 or series.dims[1].label == "worker"
    assert "since the row before" in file["comm"].attrs["description"]
PY

# The lines of the documentation, each block by itself.
mkdir -p runs/NAME
cp runs/whole/results.h5 runs/whole/metrics.csv runs/NAME/
awk '/run by tests.e2e.test_outputs.sh/ {wanted = 1; next}
  /^```python/ && wanted {++n; inside = 1; next}
  /^```$/ {wanted = inside = 0}
  inside {print >("block" n ".py")}' "$here/../../inputs/README.md"
expect_code 0 python block1.py
grep -q 'fraction of samples.*20' "$scratch/out" || fail "no accuracies"
if "$extras" -c 'import pandas, h5py' 2>/dev/null; then
  expect_code 0 "$extras" block2.py
  expect_code 0 "$extras" block3.py
  grep -q eval_accuracy "$scratch/out" || fail "no column eval_accuracy"
else
  echo "not checked: pandas, since PYTHON_EXTRAS has none"
fi

tensorboard=$here/../../postprocess/tensorboard.py
if "$extras" -c 'import tensorboardX, h5py' 2>/dev/null; then
  expect_code 0 "$extras" "$tensorboard" runs/whole -o events
  "$extras" - <<'PY' || fail "the event file"
import glob
import struct

import h5py
from tensorboardX.proto.event_pb2 import Event

with open(glob.glob("events/*")[0], "rb") as file:
    data = file.read()
found = {}
while data:
    length = struct.unpack("<Q", data[:8])[0]
    event = Event.FromString(data[12:12 + length])
    data = data[16 + length:]
    for value in event.summary.value:
        if value.tag != "input/text_summary":
            found.setdefault(value.tag, []).append(
                (event.step, value.simple_value))
with h5py.File("runs/whole/results.h5") as run:
    for name in ("train/loss", "eval/accuracy"):
        steps = run[name.split("/")[0] + "/step"][()]
        assert [step for step, _ in found[name]] == steps.tolist(), name
        for (_, got), value in zip(found[name], run[name]):
            assert abs(got - value) < 1e-6, name
    sent = run["comm/bytes_sent"][()].sum(1)
    assert [value for _, value in found["comm/bytes_sent"]] == sent.tolist()
assert "comm/exposed_share" in found
PY
  expect_code 73 "$extras" "$tensorboard" runs/whole -o events
  expect_code 66 "$extras" "$tensorboard" runs/nowhere -o other
else
  expect_code 66 python "$tensorboard" runs/whole -o events
  grep -q "tensorboardX: install PyPI's tensorboardX" "$scratch/err" ||
    fail "the missing package is not named"
fi
finish
