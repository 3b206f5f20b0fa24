#!/usr/bin/env bash
# Images of an HDF5 file by the input that users start from: trained, and others
# labelled that have no labels, although the input evaluates on held-out images.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1

python - <<'PY' || { echo "no images were made"; exit 1; }
import h5py
import numpy as np

rng = np.random.default_rng(3)


def images_of(labels):  # as bright as their label says
    noise = rng.integers(0, 40, (len(labels), 8, 8, 3))
    return (noise + 80 * labels[:, None, None, None]).astype(np.uint8)


labels = np.arange(120) % 3
wanted = np.arange(7) % 3
for path, test in ("own.h5", labels[:30]), ("unlabelled.h5", wanted):
    with h5py.File(path, "w") as f:
        f["train/images"], f["train/labels"] = images_of(labels), labels
        f["test/images"] = images_of(test)
        if path == "own.h5":
            f["test/labels"] = test
PY
input=$here/../../inputs/own_hdf5.ini
expect_code 0 "$SYNCOPATE" train "$input" --data.path=own.h5 --model.depth=8 \
  --data.batch=12 --run.epochs=4 --run.threads=1 --optimizer.lr=0.05 \
  --schedule.warmup=0 --run.name=own
expect_code 0 "$SYNCOPATE" predict runs/own/input.ini --data.path=unlabelled.h5 \
  --checkpoint=runs/own --output=labels.csv
grep -q '7 samples of the test set, which has no labels' out || fail "$(cat out)"
found=$(awk -F, 'NR > 1 { printf "%s%s ", $2, $3 }' labels.csv)
[[ $found == "0 1 2 0 1 2 0 " ]] || fail "labels: $(cut -c1-40 labels.csv)"
expect_code 65 "$SYNCOPATE" train "$input" --data.path=unlabelled.h5 \
  --run.name=unlabelled
grep -q 'no labels\|test/labels' err || fail "trained without labels: $(cat err)"
finish
