#!/usr/bin/env bash
# syncopate export: which model leaves a checkpoint, that it starts another run
# with the same bits, what is refused, and the lines of inputs/README.md, if
# there is a Python with PyTorch ($PYTHON_EXTRAS).
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A safetensors file by hand: tensors as bytes, metadata.
cat >weights.py <<'PY'
import json


def read(path):
    with open(path, "rb") as file:
        whole = file.read()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:8 + length])
    metadata = header.pop("__metadata__")
    values = whole[8 + length:]
    return {name: values[slice(*entry["data_offsets"])]
            for name, entry in header.items()}, metadata
PY

# check NAME: python on stdin prints "right".
check() {
  local said
  said=$(python - 2>&1)
  [[ $said == right ]] || fail "$1: $said"
}

# The workers of local_sgd differ between two exchanges.
train_three 0 process apart --run.steps=7 --sync.scheme=local_sgd \
  --local_sgd.steps=5
for replica in 0 1 2 average; do
  expect_code 0 "$SYNCOPATE" export runs/apart -o "$replica.safetensors" \
    --replica="$replica"
done
grep -q 'average.safetensors: 56 tensors, .*torchvision; step 7, average of 3' \
  "$scratch/out" || fail "no line about the average"
expect_code 0 "$SYNCOPATE" export runs/apart/checkpoints/step-00000007 \
  -o default.safetensors
cmp average.safetensors default.safetensors || fail "not the same by default"
train_three 0 process rank0 --run.steps=7 --sync.scheme=local_sgd \
  --local_sgd.steps=5 --eval.model=rank0
expect_code 0 "$SYNCOPATE" export runs/rank0 -o default.safetensors
grep -q 'step 7, worker 0 of 3' out || fail "not the evaluated worker by default"
check "average of the workers" <<'PY'
import numpy as np
from weights import read

files = [read(f"{k}.safetensors") for k in ("0", "1", "2", "average")]
metadata = files[3][1]
assert metadata["format"] == "pt" and metadata["run"] == "apart"
assert metadata["step"] == "7" and metadata["scheme"] == "local_sgd"
assert metadata["model.depth"] == "8" and metadata["sample"] == "3 x 8 x 8"
assert metadata["program"].startswith("syncopate ")
differ = 0
for name, average in files[3][0].items():
    if name.endswith("num_batches_tracked"):
        assert np.frombuffer(average, "<i8")[0] == 7, name
        continue
    own = [np.frombuffer(file[name], "<f4") for file, _ in files[:3]]
    mean = np.mean([values.astype(float) for values in own], 0)
    assert (np.frombuffer(average, "<f4") == mean.astype("<f4")).all(), name
    differ += (own[0] != own[1]).any()
assert differ > 40, differ
print("right")
PY

# Of another network: some tensors by name, then how many more.
expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=other --model.depth=14 \
  --model.weights=1.safetensors
(($(grep -c '^error: ' err) == 9)) || fail "weights of another network: $(cat err)"
grep -q ' more tensors do not fit either$' err || fail "not how many: $(cat err)"

# starts FROM KEYS...: a run from the file whose learning rate is 0 has its
# parameters, to the bit.
starts() {
  expect_code 0 "$SYNCOPATE" train tiny.ini --run.name="again-$1" \
    --run.steps=1 --optimizer.lr=0 --schedule.warmup=0 \
    --model.weights="$1.safetensors" "${@:2}"
  grep -q "^start  .*$1.safetensors .XXH3-128" "$scratch/out" ||
    fail "the log does not name $1.safetensors"
  expect_code 0 "$SYNCOPATE" export "runs/again-$1" -o "again-$1.safetensors"
  FILE=$1 check "started from $1" <<'PY'
import os
from weights import read

was, now = (read(f"{word}{os.environ['FILE']}.safetensors")[0]
            for word in ("", "again-"))
assert was.keys() == now.keys()
for name in was:
    if "running_" not in name and not name.endswith("num_batches_tracked"):
        assert was[name] == now[name], name
print("right")
PY
}
starts 1
sed -e '/^depth/d' -e 's/family = resnet/family = logistic/' tiny.ini >flat.ini
expect_code 0 "$SYNCOPATE" train flat.ini --run.name=flat
expect_code 0 "$SYNCOPATE" export runs/flat -o flat.safetensors
mv tiny.ini deep.ini && mv flat.ini tiny.ini
starts flat
mv deep.ini tiny.ini

# Another number of classes: a file without the classifier.
expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=other --data.classes=3 \
  --model.weights=1.safetensors
grep -q 'fc.bias has shape (4), but the network.s has (3)' "$scratch/err" ||
  fail "the classifier is not named: $(cat "$scratch/err")"

expect_code 66 "$SYNCOPATE" export runs/nowhere -o x.safetensors
expect_code 66 "$SYNCOPATE" export . -o x.safetensors
expect_code 64 "$SYNCOPATE" export runs/apart -o x.bin
expect_code 64 "$SYNCOPATE" export runs/apart
expect_code 64 "$SYNCOPATE" export -o x.safetensors
expect_code 64 "$SYNCOPATE" export runs/apart -o x.safetensors --replica=3
grep -q 'a worker from 0 to 2' "$scratch/err" || fail "workers are not named"
expect_code 65 "$SYNCOPATE" export runs/apart -o x.safetensors --replica=centre
expect_code 73 "$SYNCOPATE" export runs/apart -o none/x.safetensors
cp -r runs/apart damaged
truncate -s -1 damaged/checkpoints/step-00000007/worker-0001.h5
expect_code 65 "$SYNCOPATE" export damaged/checkpoints/step-00000007 \
  -o x.safetensors
[[ ! -e x.safetensors && ! -e x.safetensors.tmp ]] ||
  fail "a refused export left a file"
head -c 3000 1.safetensors >cut.safetensors
expect_code 65 "$SYNCOPATE" train tiny.ini --run.name=cut \
  --model.weights=cut.safetensors
(($(wc -l <"$scratch/err") == 1)) || fail "a truncated file is not one line"

# The lines of the documentation.
if "${PYTHON_EXTRAS:-python3}" -c 'import torchvision, safetensors' 2>/dev/null
then
  expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=18 --run.steps=1 --schedule.warmup=0 \
    --model.depth=18 --model.stem=imagenet --data.height=32 --data.width=32
  expect_code 0 "$SYNCOPATE" export runs/18 -o model.safetensors
  sed -n '/run by tests.e2e.test_export.sh/,/^```$/p' \
    "$here/../../inputs/README.md" | sed -e 1,2d -e '$d' >load.py
  grep -q strict=True load.py || fail "inputs/README.md has no such lines"
  expect_code 0 "${PYTHON_EXTRAS:-python3}" load.py
else
  echo "not checked: loading in PyTorch, since PYTHON_EXTRAS has none"
fi
finish
