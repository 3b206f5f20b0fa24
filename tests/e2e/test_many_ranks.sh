#!/usr/bin/env bash
# 64 ranks on any number of cores: keeping them in step costs each as many bytes
# per step as it costs each of 16 workers, and as many as in one process.
# EXHAUSTIVE=1 adds a scheme whose workers run freely.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1
cat >small.ini <<'INI'
[run]
steps = 6
threads = 1
workers = auto
[model]
family = logistic
[data]
kind = synthetic_images
samples = 512
test_samples = 16
height = 4
width = 4
batch = 4
[optimizer]
lr = 0.1
[eval]
every = 0
[checkpoint]
every = 0
INI

control() { # control NAME: bytes of all workers together
  python - "runs/$1/results.h5" <<'PY'
import h5py, sys
with h5py.File(sys.argv[1]) as file:
    print(int(file["comm/control_bytes"][...].sum()))
PY
}
schemes=(bsp)
[[ ${EXHAUSTIVE:-0} != 1 ]] || schemes+=("asp --asp.servers=4")
read -ra start <<<"$(ranks 64)"
for words in "${schemes[@]}"; do
  read -ra scheme <<<"--sync.scheme=$words"
  name=${words%% *}
  expect_code 0 "${start[@]}" "$SYNCOPATE" train small.ini \
    --run.name="$name-ranks" "${scheme[@]}"
  for workers in 16 64; do
    expect_code 0 "$SYNCOPATE" train small.ini --run.workers=$workers \
      --run.name="$name-$workers" "${scheme[@]}"
  done
  ranks=$(control "$name-ranks") few=$(control "$name-16") many=$(control "$name-64")
  echo "$name: $ranks bytes by 64 ranks, $many by 64 workers, $few by 16"
  ((few > 0)) || fail "$name: no control messages"
  # A tree of N workers has N - 1 edges, so 64 workers send 63/15 of the bytes of
  # 16. Free-running workers also report that they are done.
  ((100 * many <= 100 * 4 * few * 63 / 60 + 64 * 100)) ||
    fail "$name: $many bytes by 64 workers, $few by 16"
  ((ranks <= many + many / 20 && ranks >= many - many / 20)) ||
    fail "$name: $ranks bytes by 64 ranks, $many in one process"
done
finish
