#!/usr/bin/env bash
# The benchmarks run and fail as they say, on a tiny network; what needs PyTorch
# only where there is one. Their figures mean nothing here.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
bench=$here/../bench
export SYNCOPATE MPIEXEC THREADS=1 OUT=$scratch
small=(--data.samples=64 --data.test_samples=8 --data.height=8 --data.width=8)

said() { # said TEXT: in the output of the last command
  grep -q -- "$1" "$scratch/out" || {
    fail "'$1' was not printed"
    tail -n 5 "$scratch/out" "$scratch/err"
  }
}

# Without PyTorch: its own figures, and no ratio.
PYTHON='' ROUNDS=1 expect_code 0 "$bench/run.sh" "$bench/resnet20.ini" \
  "${small[@]}" --data.batch=8
said '^median: syncopate [0-9.]* images/s, [0-9]* MB, first step [0-9.]* s'
PYTHON='' ROUNDS=1 BATCH=4 expect_code 0 "$bench/ddp.sh" \
  "$bench/resnet20.ini" "${small[@]}"
said '^ratio: [0-9.]* of one process'
PYTHON='' expect_code 77 "$bench/curves.sh" steps
expect_code 64 "$bench/curves.sh" other

# Scaling: points, fits, figure; memory that grows by more than replicas.
has_plots=''
python -c 'import numpy, matplotlib' 2>/dev/null && has_plots=yes
if [[ -n $has_plots ]]; then
  PYTHON=/usr/bin/python3 BATCHES='8 16' DEPTHS='8 14' WORKERS='' RANKS='1 2' \
    MEMORY_WORKERS='' expect_code 0 "$bench/scaling.sh" -o figure.png \
    "${small[@]}"
  said 'as x^'
  [[ -s figure.png ]] || fail "no figure"
  printf 'series,x,step_ms,memory_mb,replica_mb\nmemory,1,1,100,10\nmemory,5,1,142,10\n' >good.csv
  expect_code 0 python "$bench/scaling.py" good.csv
  said 'a worker more takes 10.50 MB'
  sed s/142/148/ good.csv >leak.csv
  expect_code 1 python "$bench/scaling.py" leak.csv
fi

# Losses that are apart are told from losses that agree.
if python -c 'import numpy, h5py' 2>/dev/null; then
  printf '2.0\n1.5\n1.2\n' >ours
  printf '2.0001\n1.5001\n1.2\n' >near
  printf '2.0\n1.5\n1.19\n' >far
  expect_code 0 python "$bench/curves.py" steps ours near far
  expect_code 1 python "$bench/curves.py" steps ours far
  expect_code 1 python "$bench/curves.py" steps ours near near
  printf 'nan\n1.5\n1.2\n' >broken
  expect_code 1 python "$bench/curves.py" steps ours broken
  for seed in 1 2 3 4 5; do
    for shift in 0 1; do
      awk -v s="$seed" -v shift="$shift" 'BEGIN {
        for (i = 0; i < 20; ++i) print 2 - 0.05 * i + 0.1 * sin(7 * s + i + 9 * shift)}' >"a$seed-$shift"
      awk '{print $1 + 0.4}' "a$seed-$shift" >"b$seed-$shift"
    done
  done
  expect_code 0 python "$bench/curves.py" seeds --ours a?-0 --theirs a?-1
  expect_code 1 python "$bench/curves.py" seeds --ours a?-0 --theirs b?-1
  expect_code 1 python "$bench/curves.py" seeds --ours a[12]-0 --theirs a[12]-1
fi

# With PyTorch: the same training, and no figures where it is not.
if python -c 'import torch, h5py' 2>/dev/null; then
  PYTHON=/usr/bin/python3 STEPS=4 expect_code 0 "$bench/curves.sh" steps tiny.ini
  said 'apart by'
  PYTHON=/usr/bin/python3 STEPS=4 TOLERANCE=1e-12 ROUNDS=1 \
    expect_code 1 "$bench/run.sh" tiny.ini
  said 'no ratio'
else
  echo "left out: comparison with PyTorch (python3-torch, python3-h5py)"
fi
finish
