#!/usr/bin/env bash
# eval.model = ema: the average in a checkpoint is the recurrence over the models
# of the steps before, what is evaluated is its mean over the workers, in one
# process and on ranks, over a resume and with other numbers of workers; commands
# take it, and refuse a checkpoint that has none.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
ema=(--eval.model=ema --eval.ema_decay=0.8 --eval.ema_every=2)
every=(--checkpoint.every=1 --checkpoint.keep=99)

# recurrence RUN: 0 if each checkpoint's average follows from the one before. In
# tiny.ini's warm-up of 5 steps, and once more after it, it is a copy.
recurrence() {
  RUN=$1 python - <<'PY' || fail "$1: the average does not follow its recurrence"
import glob, os, h5py, numpy as np

def values(file, group):
    found = {}
    if group in file:
        file[group].visititems(lambda name, item: found.update(
            {name: item[...].astype(np.float64)})
            if isinstance(item, h5py.Dataset) else None)
    return found

def load(folder, worker, group):
    found = {}
    for name in ("replica", f"worker-{worker:04d}"):
        with h5py.File(f"{folder}/{name}.h5") as file:
            found.update(values(file, group))
    return found

folders = sorted(glob.glob(f"runs/{os.environ['RUN']}/checkpoints/step-*"))
assert len(folders) == 20, folders
moved = 0
for worker in range(3):
    expected = {}
    for done, folder in enumerate(folders, 1):
        for kind in ("parameters", "buffers"):
            model = load(folder, worker, kind)
            average = load(folder, worker, f"ema/{kind}")
            assert model.keys() == average.keys() and model, kind
            for name, value in model.items():
                key = kind + name
                if done in (2, 4, 6):
                    expected[key] = value
                elif done > 6 and done % 2 == 0:
                    expected[key] = 0.8 * expected[key] + 0.2 * value
                    moved += not np.allclose(expected[key], value, rtol=1e-3)
                if done >= 2:
                    np.testing.assert_allclose(average[name], expected[key],
                                               rtol=1e-4, atol=1e-6)
assert moved > 100, moved
PY
}
# evaluated RUN: a command finds what the run found at its end.
evaluated() {
  expect_code 0 "$SYNCOPATE" evaluate tiny.ini "${ema[@]}" --checkpoint="runs/$1"
  RUN=$1 python - <<'PY' || fail "$1: its checkpoint evaluates differently"
import os, re, h5py
with h5py.File(f"runs/{os.environ['RUN']}/results.h5") as file:
    loss = file["eval/loss"][-1]
again = float(re.search(r"loss (\S+)", open("out").read()).group(1))
assert abs(again - loss) < 1e-5, (again, loss)
PY
}

# Replicas that are equal, and replicas that are not.
for scheme in bsp local_sgd; do
  keys=("${ema[@]}" --sync.scheme="$scheme")
  train_three 0 process $scheme "${keys[@]}" "${every[@]}"
  recurrence $scheme
  evaluated $scheme
  train_three 0 ranks $scheme-ranks "${keys[@]}" "${every[@]}"
  python "$here/compare_runs.py" --replica-only runs/$scheme runs/$scheme-ranks ||
    fail "$scheme: the worlds differ"
  train_three 0 process $scheme-cut "${keys[@]}" "${every[@]}" --run.stop_at=7
  train_three 0 process $scheme-cut "${keys[@]}" "${every[@]}"
  resumed $scheme-cut 7
  python "$here/compare_runs.py" --virtual runs/$scheme runs/$scheme-cut ||
    fail "$scheme: a resumed run differs"
done
# A server's model is shared, its workers' averages are not.
train_three 0 process asp "${ema[@]}" --sync.scheme=asp
evaluated asp
# One worker with a server trains as it does alone, and so does the average: it
# takes what the worker pulls after a step.
for scheme in bsp asp; do
  expect_code 0 "$SYNCOPATE" train tiny.ini "${ema[@]}" --run.workers=1 \
    --run.name=alone-$scheme --sync.scheme=$scheme
done
python - <<'PY' || fail "asp averages other values than bsp"
import glob, h5py, numpy as np

def average(run):
    found = {}
    for path in glob.glob(f"runs/{run}/checkpoints/step-00000020/*.h5"):
        with h5py.File(path) as file:
            if "ema/parameters" in file:
                file["ema/parameters"].visititems(
                    lambda name, item: found.update({name: item[...]})
                    if isinstance(item, h5py.Dataset) else None)
    return found

alone, served = average("alone-bsp"), average("alone-asp")
assert alone and alone.keys() == served.keys()
for name, values in alone.items():
    np.testing.assert_array_equal(values, served[name], name)
PY

# The average does not change the run.
train_three 0 process plain --sync.scheme=local_sgd
python - <<'PY' || fail "the average changed the run"
import h5py
with h5py.File("runs/plain/results.h5") as plain, \
     h5py.File("runs/local_sgd/results.h5") as ema:
    assert (plain["train/loss"][...] == ema["train/loss"][...]).all()
    assert plain["eval/loss"][-1] != ema["eval/loss"][-1]
PY

# Another number of workers goes on from the mean of the averages.
train_three 0 process grown "${ema[@]}" --run.stop_at=8
expect_code 0 "$SYNCOPATE" train tiny.ini "${ema[@]}" --run.workers=2 \
  --run.name=grown
evaluated grown
# The moving average is due at even steps, so that of step 13 is still the mean.
keys=("${ema[@]}" --sync.scheme=local_sgd --local_sgd.steps=5)
train_three 0 process mean "${keys[@]}" --run.stop_at=8
expect_code 0 "$SYNCOPATE" train tiny.ini "${keys[@]}" --run.workers=2 \
  --run.name=mean --run.stop_at=13
python - <<'PY' || fail "another number of workers: not the mean of the averages"
import h5py, numpy as np

def average(step, worker):
    found = {}
    for name in ("replica", f"worker-{worker:04d}"):
        with h5py.File(f"runs/mean/checkpoints/step-{step:08d}/{name}.h5") as file:
            if "ema/parameters" in file:
                file["ema/parameters"].visititems(lambda key, item: found.update(
                    {key: item[...]}) if isinstance(item, h5py.Dataset) else None)
    return found

old, new = [average(8, worker) for worker in range(3)], average(13, 1)
assert new and new.keys() == old[0].keys()
for key, value in new.items():
    np.testing.assert_allclose(value, np.mean([one[key] for one in old], 0),
                               rtol=1e-4, atol=1e-6)
PY

# A file for other programs, and a run from it.
expect_code 0 "$SYNCOPATE" export runs/local_sgd -o ema.safetensors --replica=ema
grep -q "moving average" out || fail "export does not say what it wrote"
expect_code 0 "$SYNCOPATE" export runs/local_sgd -o default.safetensors
cmp ema.safetensors default.safetensors || fail "not the evaluated model by default"
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=from --run.steps=1 \
  --optimizer.lr=0 --schedule.warmup=0 --model.weights=ema.safetensors
expect_code 0 "$SYNCOPATE" export runs/from -o again.safetensors
python - <<'PY' || fail "the exported average is not what came back"
import json, struct

def weights(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + size])
    return {name: data[8 + size:][slice(*entry["data_offsets"])]
            for name, entry in head.items()
            if name != "__metadata__" and "running" not in name
            and "num_batches" not in name}
assert weights("ema.safetensors") == weights("again.safetensors")
PY
for command in evaluate export; do
  words=(tiny.ini "${ema[@]}" --checkpoint=runs/plain)
  [[ $command == evaluate ]] || words=(runs/plain -o x.safetensors --replica=ema)
  expect_code 65 "$SYNCOPATE" $command "${words[@]}"
  grep -q "has no moving average" err || fail "$command: $(cat err)"
done
expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=unused --eval.ema_decay=0.5
grep -q "eval.ema_decay" err || fail "an unused decay is not refused"
finish
