#!/usr/bin/env bash
# A folder of JPEGs, as it is and prepared: it trains, resumes to the same bits,
# does not depend on threads and workers; prepare leaves nothing half.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# one_line TEXT: exactly one line of error, and it holds TEXT.
one_line() {
  (($(wc -l <err) == 1)) || { fail "not one line:"; cat err; }
  grep -qF -- "$1" err || { fail "no '$1' in:"; cat err; }
}

python "$here/make_jpegs.py" raw 4 48 16 || { echo "no JPEGs were made"; exit 1; }
cat >images.ini <<'INI'
[run]
steps = 60
threads = 1
[model]
family = resnet
depth = 8
[data]
kind = image_folder
path = raw
height = 24
width = 24
batch = 16
augment = resized_crop, flip, rotate
crop_scale_min = 0.4
rotate_degrees = 5
decode_threads = 2
[optimizer]
lr = 0.1
[schedule]
kind = cosine
warmup = 5 steps
[eval]
every = 30 steps
batch = 20
[checkpoint]
every = 25 steps
INI

# accuracy_of RUN LEAST: of the last evaluation; and no top-5 of four classes.
accuracy_of() {
  python - "$1" "$2" <<'PY' || fail "$1 did not learn"
import h5py, sys
with h5py.File(f"runs/{sys.argv[1]}/results.h5") as f:
    assert "accuracy_top5" not in f["eval"], list(f["eval"])
    accuracy = f["eval/accuracy"][-1]
    print(sys.argv[1], "accuracy", accuracy)
    assert accuracy >= float(sys.argv[2]), f["eval/accuracy"][...]
PY
}

# Chance is 0.25.
expect_code 0 "$SYNCOPATE" validate images.ini
grep -q "128 of 256 read, all intact" out || fail "validate: $(cat out)"
expect_code 0 "$SYNCOPATE" train images.ini --run.name=folder
accuracy_of folder 0.85
# A folder of new images needs no training set: the same scores as in val/.
expect_code 0 "$SYNCOPATE" predict images.ini --checkpoint=runs/folder \
  --output=known.csv
mkdir new
for image in raw/val/class*/*; do
  cp "$image" "new/$(basename "$(dirname "$image")")-$(basename "$image")"
done
expect_code 0 "$SYNCOPATE" predict images.ini --checkpoint=runs/folder \
  --data.path=new --output=new.csv
python - <<'PY' || fail "new images have other scores"
known, new = ([line.split(",") for line in open(name)] for name in ("known.csv", "new.csv"))
assert len(known) == len(new) > 64
said = slice(2, 8)  # predicted, the scores of the four classes, the name
assert all(a[said] == b[said] and b[1] == "" for a, b in zip(known[1:], new[1:]))
assert known[0][7:] == new[0][7:] == ["name", "file\n"]
assert all(a[7] == f'"class{a[2]}"' for a in known[1:])
assert all(a[8].replace("/", "-") == b[8] for a, b in zip(known[1:], new[1:]))
PY
# Neither do labelled ones, of all classes or some, nor a batch of training.
figures_of() { sed 's/.* set, /test set, /' out; }
expect_code 0 "$SYNCOPATE" evaluate images.ini --checkpoint=runs/folder
of_all=$(figures_of)
mkdir some
cp -r raw/val some/
# Nor does the schedule of the run matter, whose epochs are not those of training.
for keys in --data.path=raw/val --data.path=some --data.batch=10000 \
  "--run.steps=0 --run.epochs=1" "--run.steps=0 --run.virtual_limit_s=9"; do
  # shellcheck disable=SC2086
  expect_code 0 "$SYNCOPATE" evaluate images.ini --checkpoint=runs/folder $keys
  [[ $(figures_of) == "$of_all" ]] || fail "evaluate $keys: $(cat out)"
done
rm -r some/val/class0
expect_code 0 "$SYNCOPATE" evaluate images.ini --checkpoint=runs/folder \
  --data.path=some
grep -q 'test set, 48 samples.*accuracy 0.[6-9]\|accuracy 1' out ||
  fail "evaluate some classes: $(cat out)"
mv some/val/class1 some/val/newt
expect_code 65 "$SYNCOPATE" evaluate images.ini --checkpoint=runs/folder \
  --data.path=some
one_line "some/val/newt: a class that the model does not have"
expect_code 65 "$SYNCOPATE" evaluate images.ini --checkpoint=runs/folder \
  --data.batch=10000 --eval.batchnorm=recomputed
one_line "needs data.batch = 10000 training samples, but there are 192"
expect_code 66 "$SYNCOPATE" train images.ini --data.path=new --run.name=new
one_line "new/train: no such folder"
# Cut, and gone on with other threads: the same bits.
expect_code 0 "$SYNCOPATE" train images.ini --run.name=folder-cut --run.stop_at=35
expect_code 0 "$SYNCOPATE" train images.ini --run.name=folder-cut \
  --data.decode_threads=1 --data.prefetch=0
resumed folder-cut 35
python "$here/compare_runs.py" runs/folder runs/folder-cut ||
  fail "a resumed run on JPEGs differs"

# Names that are not UTF-8, of classes and of files, are refused at once.
latin=$'caf\xe9'
cp -r raw latin-class && cp -r raw latin-file
for part in train val; do
  mv latin-class/$part/class0 "latin-class/$part/$latin"
done
files=(latin-file/val/class3/*)
mv "${files[0]}" "latin-file/val/class3/$latin.jpg"
for folder in latin-class latin-file; do
  for command in validate train; do
    expect_code 65 "$SYNCOPATE" $command images.ini --data.path=$folder \
      --run.name=latin
    one_line 'caf\xE9'
    one_line 'not valid UTF-8'
  done
  expect_code 65 "$SYNCOPATE" prepare images --path=$folder -o latin --size=36
  one_line 'not valid UTF-8'
done
[[ -e runs/latin || -e latin ]] && fail "names that are not UTF-8 left something"

# --- prepared -----------------------------------------------------------------
expect_code 0 "$SYNCOPATE" prepare images --path=raw -o ready --size=36 --threads=2
grep -q "192 training and 64 test images of 36 x 36 x 3, 4 classes" out ||
  fail "prepare says: $(cat out)"
[[ $(stat -c %s ready/train.images) == $((192 * 36 * 36 * 3)) ]] ||
  fail "train.images has $(stat -c %s ready/train.images) bytes"
expect_code 0 "$SYNCOPATE" inspect ready
grep -q "192 images of 36 x 36 x 3, 4 classes.*whole" out || fail "inspect: $(cat out)"
sed -e 's/^kind = image_folder/kind = prepared_images/' -e 's/^path = raw/path = ready/' \
  images.ini >ready.ini
expect_code 0 "$SYNCOPATE" validate ready.ini
expect_code 0 "$SYNCOPATE" train ready.ini --run.name=ready
accuracy_of ready 0.85
expect_code 0 "$SYNCOPATE" predict ready.ini --checkpoint=runs/ready --output=ready.csv
mkdir lean
cp ready/images.h5 ready/test.images lean
expect_code 0 "$SYNCOPATE" predict ready.ini --checkpoint=runs/ready \
  --data.path=lean --output=lean.csv
cmp -s ready.csv lean.csv || fail "other labels without train.images"
expect_code 66 "$SYNCOPATE" train ready.ini --run.name=lean --data.path=lean
one_line "lean/train.images"
expect_code 0 "$SYNCOPATE" train ready.ini --run.name=ready-cut --run.stop_at=35
expect_code 0 "$SYNCOPATE" train ready.ini --run.name=ready-cut --data.decode_threads=5
resumed ready-cut 35
python "$here/compare_runs.py" runs/ready runs/ready-cut ||
  fail "a resumed run on prepared images differs"
# The same model on the same images, through both kinds: rounding to bytes.
for kind in images ready; do
  expect_code 0 "$SYNCOPATE" evaluate $kind.ini --data.eval_resize=36 \
    --checkpoint=runs/ready
  sed -n 's/.*loss \([0-9.]*\) .*/\1/p' out >"loss-$kind"
done
python - <<'PY' || fail "the two kinds evaluate differently"
a, b = (float(open(f"loss-{kind}").read()) for kind in ("images", "ready"))
assert 0 < a and abs(a - b) < 0.02 * a + 0.002, (a, b)
PY
# In one process and under MPI.
for ini in images ready; do
  expect_code 0 "$SYNCOPATE" train $ini.ini --run.name=$ini-inproc --run.workers=2 \
    --data.batch=8 --run.steps=12
  # shellcheck disable=SC2046
  expect_code 0 $(ranks 2) "$SYNCOPATE" train $ini.ini --run.name=$ini-mpi \
    --data.batch=8 --run.steps=12
  python "$here/compare_runs.py" --replica-only runs/$ini-inproc runs/$ini-mpi ||
    fail "$ini: two ranks differ from two workers of a process"
done
# Seven classes have a top-5, and it is no less than the top-1.
python "$here/make_jpegs.py" seven 7 4 4
expect_code 0 "$SYNCOPATE" train images.ini --run.name=seven --data.path=seven \
  --run.steps=3 --schedule.warmup=0
python - <<'PY' || fail "seven classes: no sound top-5"
import h5py
with h5py.File("runs/seven/results.h5") as f:
    assert f["eval/accuracy_top5"][-1] >= f["eval/accuracy"][-1]
PY

# What is exported is read again, also where it looks like (n, C, H, W).
cat >many.ini <<'INI'
[run]
steps = 3
threads = 1
[model]
family = logistic
[data]
kind = synthetic_images
samples = 64
test_samples = 16
channels = 40
height = 32
width = 32
batch = 16
[optimizer]
lr = 0.01
INI
expect_code 0 "$SYNCOPATE" prepare images many.ini -o many.h5
sed -e 's/^kind = .*/kind = hdf5\npath = many.h5/' \
  -e '/samples =/d; /channels =/d; /height =/d; /width =/d' many.ini >stored.ini
expect_code 0 "$SYNCOPATE" validate stored.ini
grep -q "80 of 80 read, all intact" out || fail "validate: $(cat out)"

# --- mistakes and faults --------------------------------------------------------
expect_code 64 "$SYNCOPATE" prepare images --path=raw
one_line "--output"
expect_code 64 "$SYNCOPATE" prepare images --path=raw -o more --size=big
one_line "--size=big: expected a whole number from 1 to 4096"
expect_code 64 "$SYNCOPATE" prepare images images.ini -o more.h5
one_line "expected prepare images --path=raw"
expect_code 64 "$SYNCOPATE" prepare images --path=raw -o more --data.height=3
one_line "takes no input keys"
expect_code 66 "$SYNCOPATE" prepare images --path=nowhere -o more
one_line "data.path: nowhere: no such folder"
expect_code 73 "$SYNCOPATE" prepare images --path=raw -o ready
one_line "ready: already exists"
[[ ! -e more && ! -e more.tmp ]] || fail "a refused prepare left something"

cp -r raw bad
truncate -s 700 bad/train/class2/0007.JPEG
expect_code 65 "$SYNCOPATE" prepare images --path=bad -o more
one_line "bad/train/class2/0007.JPEG: not a whole JPEG"
expect_code 65 "$SYNCOPATE" train images.ini --run.name=bad --data.path=bad \
  "--data.normalize=0.5 0.5 0.5 / 0.3 0.3 0.3"
one_line "bad/train/class2/0007.JPEG: not a whole JPEG"
# shellcheck disable=SC2046
expect_code 65 $(ranks 2) "$SYNCOPATE" train images.ini --run.name=bad-ranks \
  --data.path=bad --data.batch=8 "--data.normalize=0.5 0.5 0.5 / 0.3 0.3 0.3" \
  --data.partition=contiguous
one_line "[rank 1] bad/train/class2/0007.JPEG: not a whole JPEG"
grep -qFf err runs/bad-ranks/log.txt || fail "the log lacks the error of rank 1"
rm bad/val/class3/*
expect_code 65 "$SYNCOPATE" train images.ini --run.name=bad --data.path=bad
one_line "bad/val/class3: a class without an image"
printf x | dd of=ready/train.images bs=1 seek=99999 conv=notrunc 2>/dev/null
for words in "inspect ready" "validate ready.ini"; do
  # shellcheck disable=SC2086
  expect_code 65 "$SYNCOPATE" $words
  grep -q "train.images: offset 0: 746496 bytes are not those" out err ||
    fail "$words: $(cat out err)"
done

# No room: pixels do not fit, or only the last file does not; one line, and
# nothing is left.
for kib in 16 500 800; do
  rc=0
  (
    ulimit -f "$kib"
    exec "$SYNCOPATE" prepare images --path=raw -o full --size=36
  ) >out 2>err || rc=$?
  if ((kib < 700)); then # train.images has 729 KiB
    ((rc == 74)) || fail "$kib KiB: exit $rc: $(cat err)"
    one_line "full.tmp/train.images: write: "
  else
    ((rc == 0)) || fail "$kib KiB: exit $rc: $(cat err)"
  fi
  [[ ! -e full.tmp ]] || fail "$kib KiB: full.tmp is left"
done
[[ -e full/images.h5 ]] || fail "800 KiB were not enough"
if mkdir disk && mount -t tmpfs -o size=1m tmpfs disk 2>/dev/null; then
  trap 'cd /; umount "$scratch/disk" 2>/dev/null; rm -rf "$scratch"' EXIT
  for kib in 200 740 760 1000; do
    umount disk
    mount -t tmpfs -o "size=${kib}k" tmpfs disk
    rc=0
    "$SYNCOPATE" prepare images --path=raw -o disk/full --size=36 >out 2>err || rc=$?
    if ((rc != 0)); then
      ((rc == 74 || rc == 73)) || fail "a disk of $kib KiB: exit $rc"
      one_line "disk/full.tmp"
      [[ -z $(ls disk) ]] || fail "a disk of $kib KiB: left $(ls disk/*)"
    else
      expect_code 0 "$SYNCOPATE" inspect disk/full
    fi
  done
  ((rc == 0)) || fail "1000 KiB were not enough: $(cat err)"
fi

# Killed at several moments: there is a whole folder or none, and the next
# attempt succeeds.
whole=0
for delay in 0.00 0.01 0.02 0.04 0.08 0.16 0.5; do
  rm -rf killed
  "$SYNCOPATE" prepare images --path=raw -o killed --size=300 --threads=1 \
    >out 2>&1 &
  pid=$!
  sleep "$delay"
  kill -9 "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  if [[ -e killed ]]; then
    whole=$((whole + 1))
    expect_code 0 "$SYNCOPATE" inspect killed
  fi
done
rm -rf killed
expect_code 0 "$SYNCOPATE" prepare images --path=raw -o killed --size=36
expect_code 0 "$SYNCOPATE" inspect killed
[[ ! -e killed.tmp ]] || fail "killed.tmp is left"
echo "of 7 that were killed $whole had finished"
finish
