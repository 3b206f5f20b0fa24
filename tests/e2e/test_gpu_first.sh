#!/usr/bin/env bash
# gpu.sh, its part `first` and pack.sh, with stand-ins for the programs, since
# there may be no GPU here.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
bench=$here/../bench
program=$SYNCOPATE
unset SYNCOPATE PREFIX ARCHIVE TESTS BENCH_OPTIONS LD_LIBRARY_PATH CUDA_HOME
export OUT=$scratch/found PYTHON=/usr/bin/python3
export SECONDS_IN_ALL=103 # a fifth of the time

stand_in() { # stand_in FILE: a program, from stdin
  mkdir -p "$(dirname "$1")"
  { echo '#!/usr/bin/env bash' && cat; } >"$1"
  chmod +x "$1"
}
said() { # said TEXT [FILE]: a line of the last command's output, or of a file
  grep -Eq -- "$1" "${2:-$scratch/out}" || {
    fail "'$1' is not in ${2:-the output}"
    tail -n 45 "${2:-$scratch/out}"
  }
}

# A Python with cuDNN among its packages, and a doctor that finds it only in the
# loader's path.
export CUDNN=$scratch/site/nvidia/cudnn/lib
mkdir -p "$CUDNN"
touch site/{numpy,h5py}.py "$CUDNN/libcudnn.so.9"
cat >site/torch.py <<'PY'
from types import SimpleNamespace as S
__version__ = "0"
version = S(cuda="0")
backends = S(cudnn=S(version=lambda: 0))
PY
export PYTHONPATH=$scratch/site

# Stand-ins that work; $BROKEN is a folder of files that say which do not.
tree=$scratch/tree
export BROKEN=$scratch/broken
mkdir -p "$BROKEN"
stand_in "$tree/bin/syncopate" <<'SH'
words=" $* "
option() { sed -n "s/.* --$1=\([^ ]*\) .*/\1/p" <<<"$words"; }
case $1 in
  doctor)
    echo '       git          stand-in'
    echo '[ok]   gpu          0: NVIDIA Stand-In, 1.0 GiB'
    [[ :${LD_LIBRARY_PATH:-}: != *:$CUDNN:* ]] || exit 0
    echo '[bad]  gpu library  cuDNN: cannot be loaded (no such file)'
    exit 66 ;;
  train)
    name=$(option run.name)
    for step in {1..20}; do
      [[ -e $BROKEN/losses && $words == *cuda* && $step == 20 ]] && shift_by=1
      echo "step   $step/20 | epoch 0 | loss 1.${shift_by:-0}$((500 - step)) | lr 1"
    done
    model=$(option run.directory)/$name/checkpoints/step-00000020
    mkdir -p "$model"
    [[ ! -e $BROKEN/graphs ]] || echo "$name" >"$model/replica.h5"
    echo same >>"$model/replica.h5" ;;
  bench)
    case $3 in
      */wrn26_10.ini)
        failures=$(cat "$BROKEN/memory" 2>/dev/null)
        if ((failures)); then
          echo $((failures - 1)) >"$BROKEN/memory"
          echo "out of memory"
          exit 70
        fi ;;
      */wrn50_2.ini) [[ ! -e $BROKEN/wrn ]] || { echo "no such engine"; exit 70; } ;;
      */bert_mini.ini)
        if [[ -e $BROKEN/bert ]]; then
          trap '' TERM # only SIGKILL ends it
          echo "planning"
          for i in {1..600}; do sleep 0.1; done
        fi ;;
    esac
    if [[ $2 == layers ]]; then
      [[ ! -e $BROKEN/layers ]] || { echo "no such op"; exit 70; }
      echo 'op               shape    calls  ms     share  GB/s  TFLOP/s  engine'
      echo 'conv_forward     1x2 -> 3    4  5.000  90.0%   6.0  7.000    cuDNN engine 8'
      echo 'ops: 5.500 ms per step; an undisturbed step: 6.000 ms'
      exit
    fi
    [[ $words != *data.field_rows=1270000* || $words == *embedding=lazy* ]] || exit 65
    echo "arithmetic 75000.0 GFLOP/s"
    echo "memory    300 MB at most, resident"
    echo "step: 83.100 ms, 3080.6 samples/s" ;;
  validate) echo "model stand-in: 9 parameters in 3 tensors" ;;
esac
SH
mapfile -t names <"$bench/gpu_tests.txt"
for name in "${names[@]}"; do
  stand_in "$tree/libexec/syncopate/tests/$name" <<'SH'
name=$(basename "$0")
echo "libraries from <${LD_LIBRARY_PATH:-}>"
echo '[ RUN      ] Suite.First'
echo '[       OK ] Suite.First (0 ms)'
echo '[ RUN      ] Sizes/Suite.Second/3'
case $name in
  gpu_kernels) [[ ! -e $BROKEN/kernels || $* =~ Sort|MmaProbe|Second ]] || sleep 60 ;;
  gpu_nccl)
    [[ ! -e $BROKEN/nccl || $* != *Second* ]] || echo '[  PASSED  ] 1 test.'
    [[ ! -e $BROKEN/nccl ]] || kill -SEGV $$ ;;
  gpu_ops)
    if [[ -e $BROKEN/ops && -z ${CHECKED:-} && $* =~ =-|Second ]]; then
      echo '[  FAILED  ] Sizes/Suite.Second/3, where GetParam() = 3 (0 ms)'
      echo '[  FAILED  ] 1 test, listed below:'
      echo '[  FAILED  ] Sizes/Suite.Second/3, where GetParam() = 3'
      exit 1
    fi ;;
esac
echo '[       OK ] Sizes/Suite.Second/3 (0 ms)'
echo '[  PASSED  ] 1 test.'
SH
done
stand_in tools/nvidia-smi <<<'echo NVIDIA Stand-In, 1 MiB'
stand_in tools/ncu <<'SH'
echo '==PROF== Connected'
echo '"ID","Process ID","Kernel Name","dram__bytes.sum","gpu__time_duration.sum"'
echo '"","","","byte","ns"'
echo '"0","7","void a::(anonymous namespace)::norm<(int)3>(float *, int)","6,000,000","2,000"'
echo '"1","7","void a::(anonymous namespace)::norm<(int)3>(float *, int)","6,000,000","2,000"'
echo '"2","7","sort_kernel(int)","1000","1,000"'
SH
stand_in tools/compute-sanitizer <<'SH'
tool=$2
while [[ $1 != */gpu_* ]]; do shift; done
CHECKED=yes "$@"
[[ $tool != racecheck || ! -e $BROKEN/races ]] ||
  { echo '========= RACECHECK SUMMARY: 1 hazard displayed (1 error)'; exit 86; }
echo '========= ERROR SUMMARY: 0 errors'
SH
export PATH=$scratch/tools:$PATH

# 1. Libraries of PyTorch are found although doctor ends with 66.
PREFIX=$tree expect_code 0 "$bench/gpu.sh" tests
said "^libraries from <.*$CUDNN>"
expect_code 64 "$bench/gpu.sh" first bench
expect_code 0 "$bench/gpu.sh" --help
said '^See README.md beside it[.]$'
[[ $(tail -n 1 out) == See* ]] || fail "--help ends with: $(tail -n 1 out)"

# Whole runs, by scripts that leave the folder they are started in.
mkdir -p checkout/tests
cp -a "$bench" checkout/tests/bench
stand_in "$tree/bin/mpiexec" <<<''
for name in test_{training,schemes,questions_and_clicks,bf16_weights}; do
  stand_in "checkout/tests/emulator/$name.sh" <<'SH'
name=$(basename "$0" .sh)
cd / || exit
if [[ $name == test_training && -e $BROKEN/endless ]]; then
  echo $$ >"$BROKEN/endless"
  sleep 300
fi
[[ -x $SYNCOPATE && -x $SYNCOPATE_GPU && -x $MPIEXEC ]] && echo "$name: there"
[[ $name != test_schemes ]] || exit 3
SH
done
whole_runs() { # whole_runs [COMMAND...]: of a tree that is named relative to here
  PREFIX=tree MPIEXEC=tree/bin/mpiexec "$@" checkout/tests/bench/gpu.sh runs
}
expect_code 1 whole_runs
for name in test_{training,schemes,questions_and_clicks,bf16_weights}; do
  said "^$name: there"
done
said '^FAILED: test_schemes: exit code 3$'
said '^1 failed$'
# Ended from outside, it ends them.
touch "$BROKEN/endless"
whole_runs exec >killed 2>&1 &
first=$!
for ((i = 0; i < 300; ++i)); do
  [[ ! -s $BROKEN/endless ]] || break
  sleep 0.1
done
kill "$first"
wait "$first"
script=$(<"$BROKEN/endless")
[[ -n $script ]] || fail "test_training was not started"
! kill -0 "$script" 2>/dev/null || fail "test_training goes on"
rm "$BROKEN/endless"

# A peer that takes longer than there is time to compile: what syncopate does
# was measured and told before.
stand_in tools/python-with-torch <<'SH'
case $* in
  *--serve*) ;;
  *peer_samples*)
    [[ ! -e $BROKEN/peer ]] || { echo "out of memory" >&2; exit 1; }
    echo "torch 0, 1 threads, 9 parameters"
    echo "compiled: no, InductorError: no compiler"
    echo "memory    600 MB at most, resident"
    echo "step: 100 ms, 1540.3 samples/s (9 steps)"
    exit ;;
  *) exec /usr/bin/python3 "$@" ;;
esac
echo "model: 9 parameters in 3 tensors"
[[ ! -e $BROKEN/peer ]] || sleep 600
case $* in
  */wrn26_10.ini*) [[ ! -e $BROKEN/one-hangs ]] || sleep 600 ;;
  */bert_mini.ini*) [[ ! -e $BROKEN/one-dies ]] || { echo "out of memory" >&2; exit 1; } ;;
  */resnet50.ini*) [[ ! -e $BROKEN/asked ]] || { echo ready; read -r; exit 1; } ;;
  */deepfm.ini*) [[ ! -e $BROKEN/eager ]] || echo "compiled: no, no compiler" ;;
esac
printf rea
sleep 0.5 # longer than one attempt to read a line
echo dy
while read -r; do echo "step: 100 ms, 1540.3 images/s"; done
SH
PREFIX=$tree PYTHON=$scratch/tools/python-with-torch ROUNDS=2 \
  NETWORKS="resnet50 wrn26_10 wrn26_10-512" expect_code 0 "$bench/gpu.sh" bench
said '^round 2: syncopate 3080.6 images/s, PyTorch 1540.3 images/s'
said '^resnet50 +3081 +1540 +2.00 .* 6000 then 7950$'
said '^wrn26_10 +3081 +1540 +2.00 .* 10000$'
said '^wrn26_10-512 +3081 +1540 +2.00 .* 10000 then 14000$'
[[ $(grep -c '^[$] .*wrn26_10.ini .*--data.batch=512$' out) -ge 4 ]] ||
  fail "batch 512 is not asked for"
samples() { # samples CODE
  PREFIX=$tree PYTHON=$scratch/tools/python-with-torch ROUNDS=1 \
    expect_code "$1" "$bench/gpu.sh" samples
}
samples 0
said '^round 1: PyTorch 1540.3 samples/s, compiled: no, InductorError: no compiler$'
for name in DeepFM 'BERT-Large, 384 tokens' 'DeepFM, 33 million rows, lazy'; do
  said "^$name: median syncopate 3080.6, PyTorch 1540.3 samples/s, ratio 2.00"
done
touch "$BROKEN/peer"
started=$SECONDS
PREFIX=$tree PYTHON=$scratch/tools/python-with-torch NETWORKS="resnet50 wrn26_10" \
  SECONDS_IN_ALL=12 expect_code 0 "$bench/gpu.sh" bench
((SECONDS - started < 25)) || fail "took $((SECONDS - started)) s of 12"
said '^resnet50 +3081 +- +-'
said 'left out: resnet50: PyTorch beside it'
said 'left out: wrn26_10 .less than a tenth of the time is left'
samples 1
said '^round 1: PyTorch gave no figure: out of memory$'
said '^DeepFM, 33 million rows, lazy: median syncopate 3080.6 samples/s$'
said '^FAILED: samples.sh ended with 70'
rm "$BROKEN/peer"
peers() { # peers CODE: all of them side by side
  PREFIX=$tree PYTHON=$scratch/tools/python-with-torch expect_code "$1" \
    "$bench/gpu.sh" peers
}
peers 0
for name in resnet50 wrn26_10 bert deepfm; do
  said "^$name: PyTorch is ready"
  said "^round 2: $name: PyTorch 1540.3 a second"
  [[ $(grep -c "^$name +3081 +1540 +2.00" -E out) == 3 ]] || fail "$name: not thrice"
done
# Without memory beside the peers, but not without them; and a peer that could
# not be compiled.
echo 2 >"$BROKEN/memory"
touch "$BROKEN/eager"
PEERS="wrn26_10 deepfm" peers 0
for round in 1 2; do
  said "^left out: round $round: wrn26_10: .* again at the end, without the peers"
done
said '^without peers: wrn26_10: syncopate 3080.6 a second'
said '^wrn26_10 +3081 +1540 +2.00 .* 10000$'
said '^deepfm +3081 +1540 +2.00 .*, PyTorch eager$'
echo 3 >"$BROKEN/memory"
PEERS=wrn26_10 peers 1
said '^FAILED: without peers: wrn26_10: bench step$'
said '^1 failed$'
rm "$BROKEN"/{memory,eager}
touch "$BROKEN"/one-{hangs,dies} "$BROKEN/asked"
started=$SECONDS
SECONDS_IN_ALL=20 READY_BY=10 peers 1
((SECONDS - started < 25)) || fail "took $((SECONDS - started)) s of 20"
said '^left out: wrn26_10: PyTorch beside it, no figure: not ready after'
said '^FAILED: bert: the PyTorch peer gave no figure: out of memory$'
said '^FAILED: resnet50: the PyTorch peer gave no figure: '
for name in resnet50 wrn26_10 bert; do said "^$name +3081 +- +- "; done
said '^deepfm +3081 +1540 +2.00 '
rm "$BROKEN"/one-{hangs,dies} "$BROKEN/asked"
rm "$OUT"/{wrn26_10,bert,resnet50}.errors

# 2. Everything works, from an archive that is unpacked.
mkdir -p packed/syncopate
cp -a tree/. packed/syncopate
tar -C packed -czf syncopate-gpu.tar.gz syncopate
ARCHIVE=$scratch/syncopate-gpu.tar.gz expect_code 0 "$bench/gpu.sh" first
for line in 'unpack syncopate-gpu.tar.gz +ok ' \
  'doctor +FAILED \(66\).*cuDNN: cannot be loaded' \
  'doctor, libraries of PyTorch +ok .* NVIDIA Stand-In, 1.0 GiB' \
  'nvidia-smi +ok .*Stand-In, 1 MiB' 'MmaProbe, maps of fragments +ok ' 'gpu_ops, convolutions.* ok .* 2 passed' \
  'gpu_kernels +ok ' 'gpu_ops, the rest +ok ' 'gpu_compress +ok ' \
  'gpu_sync +ok ' \
  'gpu_nccl, one rank +ok ' 'gpu_models +ok ' '20 steps, cpu +ok ' \
  'losses of CPU and GPU +ok .* 20 losses, apart by 0.0e\+00' \
  'graphs on and off +ok .*same bits' 'ResNet-50 +ok .*3080.6 samples/s, 75.0 TFLOP/s' \
  'WRN-26-10 +ok' 'WRN-50-2 +ok' 'BERT-Large, 384 tokens +ok' 'DeepFM +ok' \
  'determinism off +ok' 'graphs off +ok' 'batch 512 +ok' \
  'ResNet-50, op by op +ok .*ops: 5.500 ms per step' '^conv_forward .* cuDNN engine 8' \
  'BERT-Large, op by op +ok' 'DeepFM, op by op +ok' \
  'by kernel \(ncu\) +ok .*0.005 ms in 3 launches' \
  '^ +0.004 ms +80.0% +2 launches +3000 GB/s  a::norm<3>$' \
  'memcheck, attention and norms +ok .*ERROR SUMMARY: 0 errors' \
  'racecheck, sort +ok' '^0 failed, [0-9]+ s in all'; do
  said "$line"
done
said "^libraries from <.*$CUDNN>" "$OUT/tests.log"
# The first thing that runs on a device; and no program is forgotten.
grep -m 1 '^\$ ' "$OUT/tests.log" | grep -q 'gpu_kernels .*=MmaProbe' ||
  fail "first runs $(grep -m 1 '^\$ ' "$OUT/tests.log")"
cat "$OUT"/{tests,models}.log >ran
for name in "${names[@]}"; do
  [[ $name == unit_* ]] || said "^[$] .*/tests/$name" ran
done
(($(find "$OUT" -type f ! -name gpu.txt | wc -l) <= 8)) ||
  fail "more than 8 files: $(ls "$OUT")"

ARCHIVE=$scratch/syncopate-gpu.tar.gz expect_code 0 "$bench/gpu.sh" tests
for name in "${names[@]}"; do
  said "^(\$ )?.*/archive/syncopate/libexec/syncopate/tests/$name "
done

# 3. What fails, hangs or is missing does not keep the others from their turn,
# and is told; started in the tree itself.
mkdir -p "$tree/share/syncopate"
cp -a "$bench" "$tree/share/syncopate"
rm "$tree/libexec/syncopate/tests/gpu_models"
touch "$BROKEN"/{ops,kernels,nccl,losses,graphs,wrn,bert,layers,races}
started=$SECONDS
expect_code 1 "$tree/share/syncopate/bench/gpu.sh" first
for line in 'gpu_ops, convolutions.* ok ' \
  'gpu_kernels +timed out .* 1 passed, ended in Sizes/Suite.Second/3' \
  'gpu_ops, the rest +FAILED \(1\) .* 1 passed, 1 failed: Sizes/Suite.Second/3$' \
  'gpu_nccl, one rank +FAILED \(139\) .* ended in' \
  'gpu_models +missing ' 'failed tests again, each alone +ok .* 2 of 3 fail again: Sizes' '20 steps, gpu +ok ' \
  'losses of CPU and GPU +FAILED .* apart by' 'graphs on and off +FAILED .*the models differ' \
  'WRN-50-2 +FAILED \(70\) .* no such engine' \
  'BERT-Large, 384 tokens +timed out .* planning' 'DeepFM +ok ' \
  'DeepFM, op by op +FAILED \(70\) .*no such op' \
  'memcheck, sort +ok ' 'racecheck, sort +FAILED \(86\).*RACECHECK SUMMARY: 1 haz' \
  '^1[0-9] failed, '; do
  said "$line"
done
((SECONDS - started < 60)) || fail "took $((SECONDS - started)) s"
said '^alone, passes: gpu_kernels Sizes/Suite.Second/3$' "$OUT/again.log"
# Passes under compute-sanitizer; passes, and dies.
for name in gpu_ops gpu_nccl; do
  said "^alone, fails: $name Sizes/Suite.Second/3$" "$OUT/again.log"
done
said '^========= ERROR SUMMARY: 0' "$OUT/again.log"
said '== .*: BERT-Large' "$OUT/bench.log"
said '^-- timed out after' "$OUT/bench.log"

# 4. Ended from outside, by a signal or without a word: what there is, is kept.
for signal in TERM KILL; do
  rm -r "$OUT"
  PREFIX=$tree setsid "$bench/gpu.sh" first >killed 2>&1 &
  first=$!
  for ((i = 0; i < 200; ++i)); do
    grep -q 'gpu_kernels, ' "$OUT/tests.log" 2>/dev/null && break
    sleep 0.1
  done
  kill -$signal "$first"
  wait "$first" 2>/dev/null
  said 'gpu_ops, convolutions.* ok ' "$OUT/summary.txt"
  said 'gpu_kernels, [0-9]* ms at most' "$OUT/tests.log"
  [[ $signal == KILL ]] || said 'ended from outside in: gpu_kernels' killed
  kill -KILL -- "-$first" 2>/dev/null
done

# 5. Without a GPU, and without a program.
rm tools/nvidia-smi
SYNCOPATE=$program expect_code 77 "$bench/gpu.sh" first
said '^no GPU here'
if [[ ! -e $here/../../build/syncopate-gpu.tar.xz ]]; then
  expect_code 66 "$bench/gpu.sh" first
  said '^no program: ARCHIVE=FILE'
fi
ARCHIVE=$scratch/none expect_code 66 "$bench/gpu.sh" first

# 6. What is too large or does not run by itself is not packed: stand-ins need a
# shell, which an empty root has not.
export ARCHIVE=$scratch/packed.tar.gz
head -c 2000000 /dev/urandom >"$tree/libexec/large"
MAX_MIB=1 expect_code 73 "$bench/pack.sh" "$tree"
said 'more than 1:$'
said '2000000 libexec/large'
expect_code 70 "$bench/pack.sh" "$tree"
[[ ! -e $ARCHIVE && ! -e $ARCHIVE.part ]] || fail "$ARCHIVE was left behind"

# 7. This build, packed.
if [[ -n ${BUILD_DIR:-} ]] && unshare --mount --net true 2>/dev/null; then
  expect_code 0 cmake --install "$BUILD_DIR" --prefix "$scratch/installed"
  expect_code 0 "$bench/pack.sh" "$scratch/installed"
  said 'in an empty root: bin/syncopate doctor: exit code 0'
  said 'asks for x86-64-v3 and glibc 2[.][0-9]+ or newer'
  SECONDS_IN_ALL=1000 expect_code 77 "$bench/gpu.sh" first
  said 'unpack packed.tar.gz +ok'
  said '^no GPU here'
else
  echo "left out: the packed build (BUILD_DIR, and root)"
fi
finish
