#!/usr/bin/env bash
# Images of an HDF5 file by the input that users start from: trained, and others
# labelled that have no labels, although the input evaluates on held-out images,
# with and without the training set beside them.
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
with h5py.File("unlabelled.h5") as f:
    images = f["test/images"][:]
for path, labels in ("only.h5", None), ("judged.h5", wanted):
    with h5py.File(path, "w") as f:
        f["test/images"] = images
        if labels is not None:
            f["test/labels"] = labels
with h5py.File("named.h5", "w") as f:
    f["test/images"] = images
    f.attrs["class_names"] = "cat,dog"
with h5py.File("grey.h5", "w") as f:
    f["test/images"] = images[..., :1]
for path, scale in ("shares.h5", 255), ("unscaled.h5", 1):
    with h5py.File(path, "w") as f:
        f["test/images"] = (images / scale).astype(np.float32)
with h5py.File("larger.h5", "w") as f:
    f["test/images"] = np.repeat(np.repeat(images, 2, 1), 2, 2)
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

echo "without the training set: the same labels, by the model's own constants"
mv own.h5 elsewhere.h5
expect_code 0 "$SYNCOPATE" predict runs/own/input.ini --data.path=only.h5 \
  --checkpoint=runs/own --output=only.csv
cmp -s labels.csv only.csv || fail "other labels: $(cut -c1-40 only.csv)"
! grep -q warning out err || fail "$(cat out err)"

echo "without it there are no validation samples"
expect_code 65 "$SYNCOPATE" evaluate runs/own/input.ini --data.path=judged.h5 \
  --checkpoint=runs/own --data.validation=2 --eval.on=validation
grep -q 'eval.on: is validation, but .*judged.h5.* has no training set' err ||
  fail "$(cat err)"

echo "floats: from 0 to 1 as bytes are after their division; others are doubtful"
expect_code 0 "$SYNCOPATE" predict runs/own/input.ini --data.path=shares.h5 \
  --checkpoint=runs/own --output=shares.csv
[[ $(cut -d, -f2,3 shares.csv) == "$(cut -d, -f2,3 only.csv)" ]] ||
  fail "other labels: $(cut -c1-40 shares.csv)"
! grep -q warning out err || fail "$(cat out err)"
expect_code 0 "$SYNCOPATE" predict runs/own/input.ini --data.path=unscaled.h5 \
  --checkpoint=runs/own --output=unscaled.csv
grep -q "warning: .*floats are used as they are" out err || fail "$(cat out err)"

echo "compressed by a filter that is refused"
python - <<'PY'
import h5py
with h5py.File("only.h5") as old, h5py.File("lzf.h5", "w") as f:
    f.create_dataset("test/images", data=0 * old["test/images"][:], compression="lzf")
PY
expect_code 65 "$SYNCOPATE" predict runs/own/input.ini --data.path=lzf.h5 \
  --checkpoint=runs/own --output=lzf.csv
grep -q 'rewrite it uncompressed or with gzip' err || fail "$(cat err)"

echo "the names of classes are those that the model was trained on"
python - <<'PY'
import shutil
import h5py
shutil.copy("elsewhere.h5", "kinds.h5")
with h5py.File("kinds.h5", "r+") as f:
    f.attrs["class_names"] = "ant\nbee\ncat"
PY
expect_code 0 "$SYNCOPATE" train "$input" --data.path=kinds.h5 --model.depth=8 \
  --data.batch=12 --run.epochs=4 --run.threads=1 --optimizer.lr=0.05 \
  --schedule.warmup=0 --run.name=kinds
for kind in csv h5; do
  expect_code 0 "$SYNCOPATE" predict runs/kinds/input.ini --data.path=only.h5 \
    --checkpoint=runs/kinds --output="kinds.$kind"
done
names=$(awk -F, '{ printf "%s ", $NF }' kinds.csv)
[[ $names == 'name "ant" "bee" "cat" "ant" "bee" "cat" "ant" ' ]] || fail "names: $names"
python -c 'import h5py; print(h5py.File("kinds.h5").attrs["class_names"])' >names
[[ $(paste -sd, names) == ant,bee,cat ]] || fail "names in HDF5: $(cat names)"

expect_code 0 "$SYNCOPATE" evaluate runs/own/input.ini --data.path=judged.h5 \
  --checkpoint=runs/own
grep -q 'test set, 7 samples: .*accuracy 1.0' out || fail "$(cat out)"
expect_code 0 "$SYNCOPATE" predict runs/own/input.ini --data.path=larger.h5 \
  --checkpoint=runs/own --output=larger.csv
grep -q 'images are 3 x 16 x 16, but .* was trained on 3 x 8 x 8' out err ||
  fail "$(cat out err)"
small=(--model.depth=8 --run.threads=1 --optimizer.lr=0.05 --schedule.warmup=0)
expect_code 0 "$SYNCOPATE" train "$input" --data.path=elsewhere.h5 "${small[@]}" \
  --data.batch=6 --run.epochs=2 --sync.scheme=ds_sync --run.workers=4 --run.name=groups
expect_code 0 "$SYNCOPATE" predict runs/groups/input.ini --data.path=only.h5 \
  --checkpoint=runs/groups --output=groups.csv
refused() { # refused WORDS COMMAND...
  local words=$1
  shift
  expect_code 65 "$SYNCOPATE" "$@"
  grep -q "$words" err || fail "$*: $(cat err)"
}
refused '2 names, but the model has 3 classes' predict runs/own/input.ini \
  --data.path=named.h5 --checkpoint=runs/own --output=named.csv
refused 'no labels' evaluate runs/own/input.ini --data.path=only.h5 \
  --checkpoint=runs/own
refused 'has no training set, expected running' predict runs/own/input.ini \
  --data.path=only.h5 --eval.batchnorm=recomputed --checkpoint=runs/own \
  --output=recomputed.csv
refused 'images are 1 x 8 x 8, but .* trained on 3' predict runs/own/input.ini --data.path=grey.h5 \
  --checkpoint=runs/own --output=grey.csv
refused 'train/images: no such dataset' train "$input" --data.path=only.h5 \
  --run.name=only
refused 'no labels' validate "$input" --data.path=unlabelled.h5
refused 'train/images: no such dataset' validate "$input" --data.path=only.h5
mv elsewhere.h5 own.h5
expect_code 65 "$SYNCOPATE" train "$input" --data.path=unlabelled.h5 \
  --run.name=unlabelled
grep -q 'no labels\|test/labels' err || fail "trained without labels: $(cat err)"

echo "any text or list of texts as names and layout, any integers as labels"
python - <<'PY' || { echo "no files were made"; exit 1; }
import h5py
import numpy as np

names = {
    "text": "cat,dog,eel",
    "fixed": np.bytes_("cat,dog,eel"),
    "list": ["cat", "dog", "eel"],
    "array": np.array([b"cat", b"dog", b"eel"]),
    "one": ["cat,dog,eel"],
    "number": 3,
    "table": np.array([[b"cat", b"dog"], [b"eel", b"fly"]]),
    "none": h5py.Empty("S3"),
    "few": np.array([], "S3"),
}
layouts = {"text": "NHWC", "fixed": np.bytes_("NHWC")}
labels = np.arange(96) % 2
large = np.array([0, 1, 2**64 - 1], np.uint64)


def write(path, labels, shape=(4, 4, 3), **attributes):
    with h5py.File(path, "w") as f:
        for part in "train", "test":
            f[f"{part}/images"] = np.zeros((len(labels), *shape), np.uint8)
            f[f"{part}/labels"] = labels
        f.attrs.update(attributes)


for kind, value in names.items():
    write(f"names-{kind}.h5", labels, class_names=value)
for kind, value in layouts.items():
    write(f"layout-{kind}.h5", labels, (3, 8, 8), layout=value)
write("unsigned.h5", labels.astype(np.uint64))
write("large.h5", large)
PY
for kind in text fixed list array one; do
  expect_code 0 "$SYNCOPATE" validate "$input" --data.path=names-$kind.h5
  grep -q ' 3 classes' out || fail "$kind: $(cat out)"
done
for kind in number table none; do
  refused 'names-.*: attribute /@class_names: neither a text nor a list of texts' \
    validate "$input" --data.path=names-$kind.h5
done
refused 'class_names: an empty list' validate "$input" --data.path=names-few.h5
for kind in text fixed; do
  expect_code 0 "$SYNCOPATE" validate "$input" --data.path=layout-$kind.h5
done
expect_code 0 "$SYNCOPATE" validate "$input" --data.path=unsigned.h5
refused 'train/labels: element 2: label 18446744073709551615, expected 0, 1' \
  validate "$input" --data.path=large.h5

echo "the same holds for the formats of MNIST and CIFAR"
python - <<'PY' || { echo "no images were made"; exit 1; }
import pathlib
import struct

import numpy as np

rng = np.random.default_rng(5)


def images_of(labels, *shape):
    noise = rng.integers(0, 40, (len(labels), *shape))
    bright = 20 * labels.reshape(-1, *(1 for _ in shape))
    return (noise + bright).astype(np.uint8)


for folder in "digits", "cifar":
    pathlib.Path(folder).mkdir()
for part, labels in ("train", np.arange(120) % 10), ("t10k", np.arange(30) % 10):
    images = images_of(labels, 8, 8)
    for kind, values, rank in ("images", images, 3), ("labels", labels, 1):
        pathlib.Path(f"digits/{part}-{kind}-idx{rank}-ubyte").write_bytes(
            struct.pack(f">{1 + rank}I", 0x800 + rank, *values.shape)
            + values.astype(np.uint8).tobytes())
    files = ["test_batch.bin"] if part == "t10k" else \
        [f"data_batch_{i}.bin" for i in range(1, 6)]
    for file, share in zip(files, np.array_split(labels, len(files))):
        records = np.concatenate(
            [share.astype(np.uint8)[:, None],
             images_of(share, 3, 32, 32).reshape(len(share), -1)], axis=1)
        pathlib.Path("cifar", file).write_bytes(records.tobytes())
PY
cat >known.ini <<'INI'
[run]
steps = 20
threads = 1
[model]
family = logistic
[data]
batch = 12
[optimizer]
lr = 0.05
INI
for kind in idx cifar10; do
  folder=digits
  [[ $kind == idx ]] || folder=cifar
  keys=(known.ini "--data.kind=$kind" "--data.path=$folder")
  expect_code 0 "$SYNCOPATE" train "${keys[@]}" --run.name=$kind
  expect_code 0 "$SYNCOPATE" predict "${keys[@]}" --checkpoint=runs/$kind \
    --output=$kind.csv
  rm -f $folder/train-* $folder/data_batch_*
  expect_code 0 "$SYNCOPATE" predict "${keys[@]}" --checkpoint=runs/$kind \
    --output=without.csv
  cmp -s $kind.csv without.csv || fail "$kind: other labels without training set"
  expect_code 0 "$SYNCOPATE" evaluate "${keys[@]}" --checkpoint=runs/$kind
  expect_code 66 "$SYNCOPATE" train "${keys[@]}" --run.name=lacking
done
rm digits/t10k-labels*
expect_code 0 "$SYNCOPATE" predict known.ini --data.kind=idx --data.path=digits \
  --checkpoint=runs/idx --output=unknown.csv
diff <(cut -d, -f1,3- idx.csv) <(cut -d, -f1,3- unknown.csv) ||
  fail "unlabelled digits have other scores"
refused 'no labels' evaluate known.ini --data.kind=idx --data.path=digits \
  --checkpoint=runs/idx
finish
