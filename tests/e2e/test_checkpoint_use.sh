#!/usr/bin/env bash
# evaluate and predict say where they differ from what the run did, refuse classes
# of other names, find out early that a result cannot be written, and plan nothing
# for training.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1
python - <<'PY' || exit 1
import h5py, numpy
rng = numpy.random.default_rng(1)
labels = rng.integers(0, 2, 64)
images = (rng.integers(0, 128, (64, 4, 4, 1)) + 127 * labels[:, None, None, None]).astype("uint8")
def write(name, names, labels, parts):
    with h5py.File(name, "w") as file:
        for part in parts:
            file[f"{part}/images"], file[f"{part}/labels"] = images, labels
        if names:
            file.attrs["class_names"] = names
write("both.h5", ["cat", "dog"], labels, ["train", "test"])
write("same.h5", ["cat", "dog"], labels, ["test"])
write("other.h5", ["dog", "cat"], 1 - labels, ["test"])
write("unnamed.h5", [], labels, ["test"])
PY
cat >hdf5.ini <<'INI'
[run]
steps = 10
threads = 1
[model]
family = logistic
[data]
kind = hdf5
path = both.h5
batch = 8
[optimizer]
lr = 0.01
[eval]
every = 0
INI
expect_code 0 "$SYNCOPATE" train hdf5.ini --run.name=pets
for data in both same unnamed; do
  expect_code 0 "$SYNCOPATE" evaluate hdf5.ini --checkpoint=runs/pets --data.path=$data.h5
done
for command in "evaluate " "predict --output=x.csv"; do
  # shellcheck disable=SC2086
  expect_code 65 "$SYNCOPATE" ${command/ / hdf5.ini } --checkpoint=runs/pets \
    --data.path=other.h5
  grep -q 'its classes differ in name or order from those of' err ||
    fail "$command: other classes: $(cat err)"
done

# Another model, or other statistics, than the run evaluated.
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=averaged --eval.model=ema --eval.ema_decay=0.9
expect_code 0 "$SYNCOPATE" evaluate tiny.ini --checkpoint=runs/averaged
grep -q '^warning: eval.model is .*, in runs/averaged/.* it was ema$' err || fail "ema: $(cat err)"
expect_code 0 "$SYNCOPATE" evaluate tiny.ini --checkpoint=runs/averaged --eval.model=ema \
  --eval.ema_decay=0.9
[[ ! -s err ]] || fail "the run's own model: $(cat err)"
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=recomputed --eval.batchnorm=recomputed
expect_code 0 "$SYNCOPATE" predict tiny.ini --checkpoint=runs/recomputed --output=p.csv
grep -q '^warning: eval.batchnorm is running, in runs/recomputed/.* it was recomputed$' err ||
  fail "statistics: $(cat err)"

# Before the work, and nothing is left.
mkdir folder.csv
expect_code 73 "$SYNCOPATE" predict tiny.ini --checkpoint=runs/averaged --output=folder.csv
grep -q '^error: folder.csv: is a folder$' err || fail "a folder: $(cat err)"
expect_code 73 "$SYNCOPATE" predict tiny.ini --checkpoint=runs/averaged --output=none/p.csv
grep -q '^error: none/.p.csv.tmp: create: No such file or directory$' err || fail "$(cat err)"
[[ -z $(find . -name '*.tmp') ]] || fail "left: $(find . -name '*.tmp')"

# A batch is too small for BatchNorm, whatever other workers have: no command that
# plans a run accepts it.
small() { # small KEYS...: the line of every command, in err
  expect_code 65 "$SYNCOPATE" train tiny.ini --data.height=4 --data.width=4 --run.name=small "$@"
  cp err train.err
  for command in validate simulate; do
    expect_code 65 "$SYNCOPATE" $command tiny.ini --data.height=4 --data.width=4 --run.name=small \
      "$@"
    cmp err train.err || fail "$command and train say different things: $(cat err train.err)"
  done
}
small --run.workers=2 --data.batch_by_worker=1,15
grep -q ': data.batch_by_worker: 1: images of 4 x 4 .* BatchNorm needs two values a channel; expected at least 2$' \
  err || fail "a batch of 1 of two: $(cat err)"
small --data.batch=1
grep -q ': data.batch: 1: images .*; expected at least 2$' err || fail "a batch of 1: $(cat err)"

# A training batch that nothing is trained on may have any size, unless it gives
# BatchNorm its statistics.
# shellcheck source=tests/e2e/question_click_inputs.sh
source "$here/question_click_inputs.sh"
expect_code 0 "$SYNCOPATE" train deepfm.ini --run.name=clicks
expect_code 0 "$SYNCOPATE" evaluate deepfm.ini --checkpoint=runs/clicks
cp out expected
expect_code 0 "$SYNCOPATE" predict deepfm.ini --checkpoint=runs/clicks --output=expected.csv
for batch in 1 1000000000; do
  expect_code 0 "$SYNCOPATE" evaluate deepfm.ini --checkpoint=runs/clicks --data.batch=$batch
  cmp out expected || fail "data.batch = $batch: $(cat out)"
  expect_code 0 "$SYNCOPATE" predict deepfm.ini --checkpoint=runs/clicks --data.batch=$batch \
    --output=$batch.csv
  cmp $batch.csv expected.csv || fail "data.batch = $batch: other predictions"
done
expect_code 65 "$SYNCOPATE" evaluate deepfm.ini --checkpoint=runs/clicks --data.batch=1 \
  --eval.batchnorm=recomputed
grep -q ': data.batch: 1: BatchNorm needs two values a channel; expected at least 2$' err ||
  fail "statistics of single samples: $(cat err)"
expect_code 0 "$SYNCOPATE" evaluate deepfm.ini --checkpoint=runs/clicks --eval.batchnorm=recomputed
finish
