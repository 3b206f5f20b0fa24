#!/usr/bin/env bash
# A start that fails, or is killed, between two writes: the next one loses no
# row, no part of the trace and no space on the disk.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export OMP_NUM_THREADS=1

cat >small.ini <<'INI'
[run]
steps = 16
threads = 1
log_every = 2
INI
small_network >>small.ini
cat >>small.ini <<'INI'
[compute]
step_s = 0.01
[checkpoint]
every = 4 steps
keep = 2
INI
train() { # train CODE NAME WORKERS KEYS...
  expect_code "$1" "$SYNCOPATE" train small.ini --run.name="$2" \
    --run.workers="$3" "${@:4}"
}
rows() { # rows FILE: the worker steps of its rows
  python -c 'import h5py, sys
print(*h5py.File(sys.argv[1])["train/worker_steps"][()])' "$1"
}

# --- another number of workers --------------------------------------------------
# The rows of the first two workers have another width, so a resume with four
# puts them aside. A limit on the size of files stands for a full disk: there is
# room for the log, but not for results of four workers.
keys=(--data.batch=8 --run.steps=16 --output.csv=yes)
train 0 full 2 "${keys[@]}" --run.stop_at=8
cp runs/full/results.h5 two.h5
[[ $(rows two.h5) == "4 8 12 16" ]] || fail "rows of two workers: $(rows two.h5)"
for attempt in 1 2; do
  expect_code 74 bash -c 'trap "" XFSZ; ulimit -f 16; exec "$@"' - \
    "$SYNCOPATE" train small.ini --run.name=full --run.workers=4 "${keys[@]}"
  grep -q 'results.h5.*File too large' err || fail "attempt $attempt: $(cat err)"
  cmp -s two.h5 runs/full/results.h5 || fail "attempt $attempt: results.h5 is gone"
done
train 0 full 4 "${keys[@]}"
grep -q 'are lost' runs/full/log.txt && fail "$(grep 'are lost' runs/full/log.txt)"
cmp -s two.h5 runs/full/results-1.h5 || fail "the rows of two workers are not kept"
[[ ! -e runs/full/results-2.h5 ]] || fail "they are kept twice"
[[ -e runs/full/metrics-1.csv ]] || fail "nor is their text"
joined=$(PYTHONPATH=${SOURCE_DIR:-$here/../..}/postprocess python -c '
from run_reader import open_run
print(*open_run("runs/full").tables["train"]["worker_steps"])')
[[ $joined == "4 8 12 16 24 32" ]] || fail "joined rows: $joined"

# --- how many checkpoints are kept ---------------------------------------------
train 0 many 2 --checkpoint.keep=4294967297
(($(find runs/many/checkpoints -name 'step-*' | wc -l) == 4)) ||
  fail "of 4 checkpoints, all to be kept: $(ls runs/many/checkpoints)"

# --- leftovers ------------------------------------------------------------------
# What a kill leaves while older checkpoints are removed: one more than are kept,
# and one that is half removed.
train 0 left 2
for folder in checkpoints checkpoints/best; do
  mkdir -p "runs/left/$folder/step-00000004.tmp"
  echo part >"runs/left/$folder/step-00000004.tmp/replica.h5"
done
cp -r runs/left/checkpoints/step-00000012 older
train 0 older 2 --run.stop_at=8
mv runs/older/checkpoints/step-00000008 runs/left/checkpoints/
train 0 left 2
grep -q 'nothing left to do' out || fail "left: $(cat out)"
left=$(cd runs/left && find checkpoints -name 'step-*' | sort | tr '\n' ' ')
[[ $left == "checkpoints/step-00000012 checkpoints/step-00000016 " ]] ||
  fail "leftovers: $left"
# A damaged checkpoint may be worth a rescue: nothing is removed beside it.
printf x | dd of=runs/left/checkpoints/step-00000016/replica.h5 bs=1 seek=999 \
  conv=notrunc 2>/dev/null
cp -r runs/older/checkpoints/step-00000004 runs/left/checkpoints/
train 0 left 2 --run.stop_at=12
left=$(cd runs/left && find checkpoints -name 'step-*' | sort | tr '\n' ' ')
[[ $left == *"0004 "*"0012 "*"0016 " ]] || fail "beside a damaged one: $left"

# --- a trace --------------------------------------------------------------------
# The checkpoint of step 8 is committed by a rename; the process is killed at the
# flush that follows it.
strace -qq -o /dev/null -e trace=close -e inject=close:error=EIO:when=60000 \
  true 2>why || {
  echo "note: a kill between a checkpoint and its trace was not tried: $(head -n 1 why)"
  finish
  exit
}
traced=(--output.trace=on)
train 0 whole 2 "${traced[@]}"
strace -qq -o calls -e trace=rename,fsync "$SYNCOPATE" train small.ini \
  --run.name=counted --run.workers=2 "${traced[@]}" >out 2>err || fail "$(cat err)"
flush=$(awk '/^fsync/ {++n} /^rename.*step-00000008"/ {print n + 1; exit}' calls)
code=0
{ strace -qq -o /dev/null -e trace=fsync -e "inject=fsync:signal=KILL:when=$flush" \
  "$SYNCOPATE" train small.ini --run.name=cut --run.workers=2 "${traced[@]}" \
  >out 2>err || code=$?; } 2>/dev/null
((code == 137)) || fail "exit $code where a kill was expected: $(cat err)"
[[ -d runs/cut/checkpoints/step-00000008 ]] || fail "killed before the checkpoint"
train 0 cut 2 "${traced[@]}"
resumed cut 8
told() { grep '"ph":"X"' "runs/$1/trace.json" | sed 's/,$//' | sort; }
diff <(told whole) <(told cut) >differences ||
  fail "another trace: $(wc -l <differences) lines differ: $(head -n 3 differences)"
finish
