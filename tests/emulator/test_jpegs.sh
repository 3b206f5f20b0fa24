#!/usr/bin/env bash
# A folder of JPEGs whose batches a GPU decodes, emulated or real: it learns what
# the CPU learns, resumes to the same bits, does not depend on threads and
# workers, leaves to the host what is no plain JPEG, and names a damaged file.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
: "${SYNCOPATE_GPU:?the path of the program with a GPU, emulated or real}"
# Of the loss, relative: 1e-4 where GPU and CPU have one decoder. (With
# lr = 0.02 rounding alone, of another compiler, came to 1e-3 in 16 steps.)
: "${LOSS_TOLERANCE:=1e-4}"
export OMP_NUM_THREADS=1
gpu() { "$SYNCOPATE_GPU" "$@" --run.device=cuda; }
# one_line TEXT: exactly one line of error, and it holds TEXT.
one_line() {
  (($(wc -l <err) == 1)) || { fail "not one line:"; cat err; }
  grep -qF -- "$1" err || { fail "no '$1' in:"; cat err; }
}

python "$here/make_jpegs.py" raw 4 20 5 || { echo "no JPEGs were made"; exit 1; }
# What is not plain: grey, progressive.
for class in 0 1 2 3; do
  for kind in grayscale progressive; do
    file=raw/train/class$class/0003.JPEG
    [[ $kind == grayscale ]] || file=raw/train/class$class/0004.JPEG
    djpeg "$file" | cjpeg -quality 90 -$kind -outfile again.JPEG
    mv again.JPEG "$file"
  done
done
cat >images.ini <<'INI'
[run]
steps = 16
threads = 1
log_every = 1
[model]
family = resnet
depth = 8
[data]
kind = image_folder
path = raw
height = 16
width = 16
batch = 10
augment = resized_crop, flip, rotate
crop_scale_min = 0.1
rotate_degrees = 5
decode_threads = 2
[optimizer]
lr = 0.002
[schedule]
kind = cosine
warmup = 5 steps
[eval]
every = 16 steps
batch = 10
[checkpoint]
every = 7 steps
INI

expect_code 0 "$SYNCOPATE" train images.ini --run.name=cpu --run.device=cpu
expect_code 0 gpu train images.ini --run.name=gpu
if [[ -n ${EXPECT_DECODED:-} ]]; then
  grep -q 'decoded on the GPU' runs/gpu/log.txt ||
    fail "the log does not say who decodes"
fi
python - "$LOSS_TOLERANCE" <<'PY' || fail "the GPU does not follow the CPU"
import h5py, numpy as np, sys
def losses(run):
    with h5py.File(f"runs/{run}/results.h5") as f:
        return f["train/loss"][...]
worst = np.abs(losses("gpu") / losses("cpu") - 1)
print(f"largest relative difference of the loss {worst.max():.1e}, "
      f"of the first step {worst[0]:.1e}")
sys.exit(not (len(worst) == 16 and worst.max() < float(sys.argv[1])))
PY

# Cut, and gone on with other threads: the same bits; without a thread that
# reads ahead too.
expect_code 0 gpu train images.ini --run.name=cut --run.stop_at=9
expect_code 0 gpu train images.ini --run.name=cut --data.decode_threads=1 \
  --data.prefetch=0
python "$here/compare_runs.py" runs/gpu runs/cut || fail "a resumed run differs"
# Two workers of a process, and two ranks that share the GPU.
expect_code 0 gpu train images.ini --run.name=two --run.workers=2 --data.batch=5
# shellcheck disable=SC2046
expect_code 0 $(ranks 2) "$SYNCOPATE_GPU" train images.ini --run.name=ranks \
  --run.device=cuda --data.batch=5
python "$here/compare_runs.py" --replica-only runs/two runs/ranks ||
  fail "two ranks differ from two workers of a process"

# Damaged, absent, and no JPEG at all.
normalize="--data.normalize=0.5 0.5 0.5 / 0.3 0.3 0.3"
cp -r raw bad
truncate -s 700 bad/train/class2/0007.JPEG
for prefetch in 2 0; do
  expect_code 65 gpu train images.ini --run.name=bad$prefetch --data.path=bad \
    "$normalize" --data.prefetch=$prefetch
  one_line "bad/train/class2/0007.JPEG: not a whole JPEG"
done
echo "no image" >bad/train/class2/0007.JPEG
expect_code 65 gpu train images.ini --run.name=text --data.path=bad "$normalize"
one_line "bad/train/class2/0007.JPEG: "
finish
