#!/usr/bin/env bash
# On a machine with a GPU: does it work there, how fast is it, does it learn.
#   gpu.sh first        nine minutes, no peer: on a machine seen for the first time
#   gpu.sh peers        bench and samples in brief: all peers compile side by side
#   gpu.sh [tests] [runs] [sanitizer] [bench] [samples] [tune] [profile]
#          [accuracy]                                     all without a word
# Figures, versions and commands also go into $OUT/gpu.txt (OUT: the folder it
# is started in; first: see gpu_first.sh). Environment:
#   PREFIX      an installed tree (cmake --install; component tests for tests);
#               else the tree this script lies in, else built from the checkout
#   ARCHIVE     what pack.sh made: unpacked, and used as PREFIX
#   NETWORKS    resnet50 wrn50_2 wrn26_10 wrn26_10-512 resnet20: an input beside
#               this script, and a batch in place of its own     ROUNDS  3 (peers: 2)
#   SECONDS_IN_ALL    by then it has ended, with what there is; else limits of
#               minutes a command. Two NETWORKS of one round take eight minutes
#   PEERS       resnet50 wrn26_10 bert deepfm, of peers; a PyTorch that is not
#               ready READY_BY seconds after the start (55% of all) is ended
#   PYTHON      one that has torch (python3)            COMPILE     reduce-overhead
#   CIFAR       folder of data_batch_1.bin, for accuracy    SEEDS   1 2 3
#   SYNCOPATE, TESTS, MPIEXEC, PEER_DEVICE, PEAK_TFLOPS    in place of what is
#               found; BENCH_OPTIONS, ACCURACY_OPTIONS: --section.key=value ...
# See README.md beside it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
parts=(tests runs sanitizer bench samples tune profile accuracy)
known=("${parts[@]}" peers)

# shellcheck source=gpu_lib.sh
source "$here/gpu_lib.sh"
# shellcheck source=large.sh
source "$here/large.sh"

[[ $* != first ]] || exec "$here/gpu_first.sh"
case ${1:-} in -h | --help) leading_comment "$0"; exit 0 ;; esac
for word in "$@"; do
  [[ " ${known[*]} " == *" $word "* ]] ||
    { echo "$word: not one of ${known[*]} (first stands alone)" >&2; exit 64; }
done
(($#)) && parts=("$@")

out=${OUT:-.} rounds=${ROUNDS:-3} python=${PYTHON:-python3}
networks=${NETWORKS:-resnet50 wrn50_2 wrn26_10 wrn26_10-512 resnet20}
mkdir -p "$out"
out=$(cd "$out" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Whatever is printed is in the record too; written to the end before we leave.
exec 3>&1 4>&2
exec > >(tee "$out/gpu.txt") 2>&1
record=$!
exec 5>&1
# Of each PyTorch that runs; begun: a line it has not ended yet.
declare -A pid=() ask=() answer=() begun=()
runs=() # process groups of part_runs
finish() {
  local name
  for name in "${!pid[@]}"; do kill_peer "$name"; done
  for name in "${runs[@]}"; do kill -- "-$name" "$name" 2>/dev/null || true; done
  for name in "${runs[@]}"; do
    wait "$name" || true # 2 s: then timeout kills it
    kill -KILL -- "-$name" 2>/dev/null || true
  done
  rm -rf "$scratch"
  exec 1>&3 2>&4 5>&-
  wait "$record" || true
}
trap finish EXIT
failures=0
title() { printf '\n== %s\n' "$*"; }
failed() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
left_out() { echo "left out: $*"; }
# left LIMIT_S: as much of it as SECONDS_IN_ALL still allows, at least one.
left() {
  local all=$((${SECONDS_IN_ALL:-1000000} - SECONDS))
  ((all > 0)) || all=1
  echo $(($1 < all ? $1 : all))
}
has_time() { ((10 * $(left 1000000) >= ${SECONDS_IN_ALL:-0})); }
# run LIMIT_S COMMAND...: the command is shown, also where its output is not.
run() {
  local limit
  limit=$(left "$1")
  shift
  echo "\$ $*" >&5
  timeout --kill-after=2 "$limit" "$@"
}
median() { sort -g | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }

# --- what there is ------------------------------------------------------------

build() {
  echo "building (log: build/release.log) ..."
  (cd "$here/../.." && mkdir -p build &&
    { cmake --preset release -DSYNCOPATE_CUDA=ON -DSYNCOPATE_TESTS=ON &&
      cmake --build --preset release --target syncopate "${test_names[@]}" &&
      cmake --install build/release --prefix build/release/installed &&
      cmake --install build/release --prefix build/release/installed \
        --component tests; } >build/release.log 2>&1) ||
    { tail -n 3 "$here/../../build/release.log"; exit 70; }
  PREFIX=$here/../../build/release/installed
}

# Whole runs take place in other folders.
absolute() { # absolute VARIABLE...: the paths in them
  local name
  for name in "$@"; do
    [[ -z ${!name:-} ]] || printf -v "$name" %s "$(realpath -ms "${!name}")"
  done
}
absolute PREFIX SYNCOPATE TESTS
[[ ${MPIEXEC:-} != */* ]] || absolute MPIEXEC
[[ ${PYTHON:-} != */* ]] || absolute PYTHON
if [[ -n ${ARCHIVE:-} ]]; then
  unpack "$ARCHIVE" "$scratch/archive"
  PREFIX=$scratch/archive/syncopate
fi
[[ -n ${PREFIX:-} ]] || PREFIX=$(own_tree)
[[ -n ${PREFIX:-} || -n ${SYNCOPATE:-} ]] || build
use_programs
mpiexec=${MPIEXEC:-${PREFIX:-none}/bin/mpiexec}
[[ -x $mpiexec ]] || mpiexec=$(command -v mpiexec || true)
absolute mpiexec
[[ -x $syncopate ]] || { echo "$syncopate: no such program"; exit 66; }
torch=$("$python" -c 'import torch, numpy; print("PyTorch", torch.__version__,
"CUDA", torch.version.cuda, "cuDNN", torch.backends.cudnn.version())' 2>/dev/null) ||
  python=''

# It ends with 66 where a library is missing.
timeout 60 "$syncopate" doctor >"$scratch/doctor" || true
if use_torch_libraries "$(<"$scratch/doctor")"; then
  timeout 60 "$syncopate" doctor >"$scratch/doctor" || true
fi

title "machine"
date -u +%FT%TZ
echo "processor: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
gpu=''
if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,memory.total,driver_version,clocks.max.sm,power.limit \
    --format=csv,noheader || true
fi
cat "$scratch/doctor"
gpu=$(sed -n 's/^\[ok\] *gpu *0: *//p' "$scratch/doctor")
[[ -n $python ]] || torch="PyTorch: none (PYTHON names a Python that has torch)"
echo "$torch"
peer_device=${PEER_DEVICE:-cuda}
[[ -n $gpu ]] || { echo "no GPU here: nothing to measure"; exit 77; }

# Dense bf16 products with fp32 sums, TFLOP/s.
peak='' peak_source="(none: PEAK_TFLOPS=... for this one)"
case $gpu in
  *H200*NVL* | *H100*NVL* | *H100*PCIe*) ;;
  *H200*) peak=989 peak_source="989 TFLOP/s dense bf16: NVIDIA H200 data sheet, SXM, 1,979 with sparsity" ;;
  *H100*) peak=989 peak_source="989 TFLOP/s dense bf16: NVIDIA H100 data sheet, SXM, 1,979 with sparsity" ;;
  *A100*) peak=312 peak_source="312 TFLOP/s dense bf16: NVIDIA A100 data sheet" ;;
esac
[[ -z ${PEAK_TFLOPS:-} ]] || peak=$PEAK_TFLOPS peak_source="$PEAK_TFLOPS TFLOP/s as given"

# --- tests and sanitizer --------------------------------------------------------

test_programs() { # those that are there, and a line for those that are not
  local name
  programs=()
  for name in "$@"; do
    if [[ -x $tests/$name ]]; then
      programs+=("$tests/$name")
    else
      left_out "$name (no $tests/$name: cmake --install ... --component tests)"
    fi
  done
}

part_tests() {
  local program code filter='*'
  test_programs "${test_names[@]}"
  if [[ -z ${SOURCE_DIR:-} ]]; then
    filter='-*Fixtures.*:DeepFm.Step*'
    left_out "tests with fixtures (neither in the tree nor in a checkout)"
  fi
  for program in "${programs[@]}"; do
    code=0
    run 900 "$program" --gtest_brief=1 --gtest_filter="$filter" >"$scratch/log" 2>&1 || code=$?
    tail -n 25 "$scratch/log"
    ((code == 0)) || failed "$program: exit code $code"
  done
}

part_runs() { # whole runs, by the scripts that also take the emulated GPU
  local folder=$here/../emulator name code
  local names=(test_training test_schemes test_questions_and_clicks
    test_bf16_weights)
  [[ -d $folder ]] || { left_out "whole runs (their scripts are in a checkout)"; return; }
  for name in "${names[@]}"; do # side by side, each a process group
    echo "\$ $folder/$name.sh"
    SYNCOPATE=$syncopate SYNCOPATE_GPU=$syncopate MPIEXEC=$mpiexec \
      PYTHON=${PYTHON:-python3} setsid timeout --kill-after=2 "$(left 600)" \
      "$folder/$name.sh" >"$scratch/$name.log" 2>&1 3>&- 4>&- 5>&- &
    runs+=("$!")
  done
  for name in "${names[@]}"; do
    code=0
    wait "${runs[0]}" || code=$?
    runs=("${runs[@]:1}")
    tail -n 12 "$scratch/$name.log"
    ((code == 0)) || failed "$name: exit code $code"
  done
}

part_sanitizer() {
  local program tool code sanitizer
  sanitizer=$(find_tool compute-sanitizer)
  [[ -n $sanitizer ]] || { left_out "compute-sanitizer is not here (CUDA's package of that name)"; return; }
  test_programs gpu_ops gpu_kernels gpu_models
  for tool in memcheck racecheck initcheck synccheck; do
    for program in "${programs[@]}"; do
      code=0
      run "${SANITIZER_LIMIT:-600}" "$sanitizer" --tool "$tool" \
        --error-exitcode 86 "$program" --gtest_brief=1 >"$scratch/log" 2>&1 ||
        code=$?
      tail -n 6 "$scratch/log"
      ((code == 0)) || failed "$tool, $(basename "$program"): exit code $code (86: found something; 124: too long)"
    done
  done
}

# --- throughput -----------------------------------------------------------------

input_of() { # input_of NETWORK[-BATCH]: its file, and `options`
  local given name=${1%-*}
  read -r -a given <<<"${BENCH_OPTIONS:-}"
  options=(--run.precision=bf16)
  case $1 in
    # The other inputs are made for a GPU; these are the processors' too.
    resnet20) options+=(--data.batch=1024 --data.samples=32768) ;;
    bert) name=bert_mini && override "${large_bert[@]}" "${full_windows[@]}" ;;
    deepfm) override "${large_deepfm[@]}" ;;
  esac
  [[ $1 != *-* ]] || options+=(--data.batch="${1##*-}")
  override "${given[@]}"
  input=$here/$name.ini
  [[ -r $input ]] || { echo "$input: no such input"; exit 66; }
}
rate() { sed -n 's|^step: .*, \([0-9.]*\) [a-z]*/s.*|\1|p' "$@" | tail -n 1; }
goal_of() {
  case $1 in
    resnet50) echo "6000 then 7950" ;;
    wrn26_10) echo 10000 ;;
    wrn26_10-512) echo "10000 then 14000" ;;
    wrn50_2) echo 2900 ;;
    bert) echo 600 ;;
    deepfm) echo 10000000 ;;
    *) echo - ;;
  esac
}
size_of() { # N parameters, in how many tensors if that is told
  sed -n 's/.*[ :]\([0-9][0-9]* parameters\( in [0-9]* tensors\)\{0,1\}\).*/\1/p' \
    "$1" | head -n 1
}

# A peer is compiled once, then timed in turns with syncopate: start_peer,
# await_peers, ask_peer as often as wanted, stop_peer or kill_peer.
start_peer() { # start_peer NAME SECONDS_A_ROUND THREADS, of `input`
  local what fd to from file=$scratch/$1
  # The compilers of one do not take the cores of the others.
  local command=(env
    TORCHINDUCTOR_COMPILE_THREADS="${TORCHINDUCTOR_COMPILE_THREADS:-$3}" "$python")
  case $1 in
    bert | deepfm)
      [[ $1 == bert ]] && what=squad || what=criteo
      run 60 "$syncopate" prepare $what "$input" -o "$file.h5" "${options[@]}" \
        >"$file.log" 2>&1 || {
        failed "$1: prepare: $(tail -n 1 "$file.log")"
        return
      }
      command+=("$here/peer_samples.py" "$file.h5") ;;
    *) command+=("$here/peer_torch.py" ${lock:+--lock="$lock"}) ;;
  esac
  command+=("$input" --serve="$2" --device="$peer_device"
    --compile="${COMPILE:-reduce-overhead}" --torch-threads="$3" "${options[@]}")
  echo "\$ ${command[*]}"
  rm -f "$file".{ask,answer}
  mkfifo "$file".{ask,answer}
  : >"$file.peer"
  # A session of its own, to be ended with what compiles for it.
  (
    for fd in 3 4 5 "${ask[@]}" "${answer[@]}"; do exec {fd}>&-; done
    exec setsid "${command[@]}" <"$file.ask" >"$file.answer" 2>"$file.errors"
  ) &
  what=$!
  exec {to}>"$file.ask" {from}<"$file.answer"
  ask[$1]=$to answer[$1]=$from pid[$1]=$what begun[$1]=''
}
# await_peers SECONDS: all peers; one that has ended, or is not ready SECONDS
# after the start of this script, is killed.
await_peers() {
  local name line code waiting=("${!pid[@]}") still begin=$SECONDS
  while ((${#waiting[@]} && SECONDS < $1)); do
    still=()
    for name in "${waiting[@]}"; do
      code=0
      IFS='' read -r -t 0.2 -u "${answer[$name]}" line || code=$?
      line=${begun[$name]}$line
      begun[$name]=''
      if ((code > 128)); then # no whole line yet
        begun[$name]=$line
        still+=("$name")
      elif ((code)); then
        drop_peer "$name"
      elif [[ $line == ready ]]; then
        echo "$name: PyTorch is ready after $((SECONDS - begin)) s"
      else
        echo "$line" >>"$scratch/$name.peer"
        echo "$name: $line"
        still+=("$name")
      fi
    done
    waiting=("${still[@]}")
  done
  for name in "${waiting[@]}"; do
    left_out "$name: PyTorch beside it, no figure: not ready after $((SECONDS - begin)) s"
    keep_errors "$name"
    kill_peer "$name"
  done
}
ask_peer() { # ask_peer NAME: the line it answers
  local line
  (echo >&"${ask[$1]}") 2>/dev/null || return 1 # in a shell that SIGPIPE may end
  read -r -t "$(left "${ASK_LIMIT:-120}")" -u "${answer[$1]}" line || return 1
  echo "$line"
}
hang_up() {
  local to=${ask[$1]} from=${answer[$1]}
  exec {to}>&- {from}<&-
  unset "ask[$1]" "answer[$1]" "begun[$1]"
}
kill_peer() {
  kill -KILL -- "-${pid[$1]}" "${pid[$1]}" 2>/dev/null || true
  hang_up "$1"
  wait "${pid[$1]}" 2>/dev/null || true
  unset "pid[$1]"
}
stop_peer() {
  hang_up "$1"
  wait "${pid[$1]}" || failed "the PyTorch peer: $(tail -n 1 "$scratch/$1.errors")"
  unset "pid[$1]"
}
keep_errors() { tail -n 200 "$scratch/$1.errors" >"$out/$1.errors"; }
# The peer gave no figure, or has no time for one.
drop_peer() {
  local why
  why=$(tail -n 1 "$scratch/$1.errors")
  failed "$1: the PyTorch peer gave no figure: ${why:-no answer}"
  keep_errors "$1"
  kill_peer "$1"
}
same_size() { # same_size NAME: by validate and by its peer
  local ours theirs
  ours=$(size_of "$scratch/$1.plan") theirs=$(size_of "$scratch/$1.peer")
  [[ $theirs == *' in '* ]] || ours=${ours% in *}
  [[ $ours == "$theirs" ]] ||
    failed "$1: the peer has ${theirs:-no size}, syncopate ${ours:-no size}"
}

plan_of() { # plan_of NAME, which is `input`
  run "$2" "$syncopate" validate "$input" "${options[@]}" >"$scratch/$1.plan" || {
    failed "$1: validate"
    return 1
  }
  grep -E '^(model|memory)' "$scratch/$1.plan"
}
our_round() { # our_round LIMIT_S, of `input`; adds to `ours`
  run "$1" "$syncopate" bench step "$input" "${options[@]}" >"$scratch/step" || {
    tail -n 3 "$scratch/step"
    return 1
  }
  ours+=("$(rate "$scratch/step")")
}
head_of_table() {
  echo "$gpu; MFU: model FLOP utilisation of $peak_source"
  printf '%-12s %10s %10s %7s %8s   %s\n' network syncopate PyTorch ratio MFU \
    "goal on an H200"
}
# row NAME: of `ours` and `theirs`, and of the last step.
row() {
  local gflops a b='' note=''
  # 3 * 2 * forward_macs * images/s, as bench step prints it for its own rate.
  gflops=$(sed -n 's|^arithmetic *\([0-9.]*\) GFLOP/s.*|\1|p' "$scratch/step")
  a=$(printf '%s\n' "${ours[@]}" | median)
  if ((${#theirs[@]})); then
    b=$(printf '%s\n' "${theirs[@]}" | median)
    ! grep -q '^compiled: no' "$scratch/$1.peer" || note=', PyTorch eager'
  fi
  awk -v name="$1" -v a="$a" -v b="$b" -v last="$(rate "$scratch/step")" \
    -v gflops="$gflops" -v peak="$peak" -v goal="$(goal_of "$1")$note" 'BEGIN {
      use = peak == "" ? "-" : sprintf("%.1f%%", gflops * a / last / peak / 10)
      printf "%-12s %10.0f %10s %7s %8s   %s\n", name, a,
        b == "" ? "-" : sprintf("%.0f", b),
        b == "" ? "-" : sprintf("%.2f", a / b), use, goal
    }'
}

# bench_network NAME: rounds in turns, then its line of the table, which is also
# kept for the end. The first of our rounds comes before the peer compiles: what
# is ended from outside has told what syncopate does.
bench_network() {
  local name=$1 round ours=() theirs=() value line
  title "bench $name"
  has_time || { left_out "$name (less than a tenth of the time is left)"; return; }
  input_of "$name"
  plan_of "$name" 300 || return 0
  for ((round = 1; round <= rounds; ++round)); do
    our_round 300 || { failed "$name: bench step"; break; }
    line="round $round: syncopate ${ours[-1]} images/s"
    if ((round == 1)); then
      echo "$line"
      add_peer "$name"
    fi
    if [[ -n ${pid[$name]:-} ]]; then
      if value=$(ask_peer "$name" | rate); then
        theirs+=("$value")
        line+=", PyTorch $value images/s"
      else
        drop_peer "$name"
      fi
    fi
    ((round == 1 && ${#theirs[@]} == 0)) || echo "$line"
  done
  [[ -z ${pid[$name]:-} ]] || stop_peer "$name"
  ((${#ours[@]})) || return 0
  cat "$scratch/step" # the last round by segment
  row "$name" | tee -a "$scratch/table"
}
add_peer() { # starts it, if there is one
  if [[ -z $python ]]; then
    left_out "PyTorch beside it (no Python with torch)"
    return
  fi
  start_peer "$1" "${PEER_SECONDS:-5}" "$(nproc)"
  await_peers $((SECONDS + $(left 400)))
  [[ -z ${pid[$1]:-} ]] || same_size "$1"
}

part_bench() {
  local name
  : >"$scratch/table"
  for name in $networks; do
    bench_network "$name"
  done
  title "throughput, images/s, medians of $rounds rounds in turns, bf16, one GPU"
  head_of_table
  cat "$scratch/table"
}

# peers_round ROUND NAME: syncopate, then its peer, if it is still there; their
# rates are added to those in `our_rates` and `their_rates`. If syncopate fails
# beside peers, which may have left no memory, the name is put into `again`.
peers_round() {
  local name=$2 ours theirs value line has_step=''
  has_time || { left_out "$1: $name (less than a tenth of the time is left)"; return; }
  input_of "$name"
  read -r -a ours <<<"${our_rates[$name]:-}"
  read -r -a theirs <<<"${their_rates[$name]:-}"
  if our_round 60; then
    has_step=yes
    our_rates[$name]=${ours[*]}
    echo "$1: $name: syncopate ${ours[-1]} a second"
  elif ((${#pid[@]})); then
    left_out "$1: $name: syncopate; again at the end, without the peers"
    again[$name]=yes
  else
    failed "$1: $name: bench step"
  fi
  if [[ -n ${pid[$name]:-} ]]; then
    if line=$(ASK_LIMIT=40 ask_peer "$name") && value=$(rate <<<"$line") &&
      [[ -n $value ]]; then
      theirs+=("$value")
      their_rates[$name]=${theirs[*]}
      echo "$1: $name: PyTorch $value a second; $line"
    else
      drop_peer "$name"
    fi
  fi
  [[ -z $has_step ]] || row "$name" | tee "$scratch/$name.row"
}

part_peers() { # bench and samples in brief
  local name names rounds=${ROUNDS:-2} round ready_by lock=$scratch/lock
  local -A our_rates=() their_rates=() again=()
  read -r -a names <<<"${PEERS:-resnet50 wrn26_10 bert deepfm}"
  ready_by=${READY_BY:-$((${SECONDS_IN_ALL:-700} * 55 / 100))}
  [[ -n $python ]] || left_out "PyTorch beside it (no Python with torch)"
  for name in "${names[@]}"; do
    input_of "$name"
    [[ -z $python ]] || start_peer "$name" "${PEER_SECONDS:-3}" 4
  done
  for name in "${names[@]}"; do
    input_of "$name"
    plan_of "$name" 30 || true
  done
  echo "started after $SECONDS s; PyTorch has until second $ready_by"
  await_peers "$ready_by"
  for name in "${!pid[@]}"; do same_size "$name"; done
  ! command -v nvidia-smi >/dev/null ||
    echo "memory of the GPU in use, all peers: $(timeout 5 nvidia-smi \
      --query-gpu=memory.used --format=csv,noheader || true)"
  for ((round = 1; round <= rounds; ++round)); do
    for name in "${names[@]}"; do peers_round "round $round" "$name"; done
  done
  for name in "${!pid[@]}"; do kill_peer "$name"; done
  for name in "${names[@]}"; do
    [[ -z ${again[$name]:-} ]] || peers_round "without peers" "$name"
  done
  title "throughput, samples/s, medians of $rounds rounds in turns, bf16, one GPU"
  head_of_table
  for name in "${names[@]}"; do
    cat "$scratch/$name.row" 2>/dev/null || echo "$name: no figure"
  done
}

part_samples() { # BERT and DeepFM
  title "DeepFM and BERT-Large beside PyTorch, bf16, one GPU; goals on an H200:" \
    "10000000 samples/s, 600 sequences/s of 384 tokens, 1000 of SQuAD's lengths"
  local code=0
  DEVICE=cuda SYNCOPATE=$syncopate PYTHON=$python ROUNDS=$rounds \
    run 1800 "$here/samples.sh" || code=$?
  ((code == 0)) ||
    failed "samples.sh ended with $code (70: PyTorch gave no figure; 124: no time left)"
}

# step_with LABEL KEYS...: a line of `bench step` of the input.
step_with() {
  if run 300 "$syncopate" bench step "$input" "${options[@]}" "${@:2}" \
    >"$scratch/step" 2>&1; then
    echo "$1: $(tail -n 1 "$scratch/step")"
  else
    tail -n 3 "$scratch/step"
    failed "$1"
  fi
}

part_tune() { # the fastest plans of cuDNN and cuBLASLt, and what they gain
  local name
  for name in $networks; do
    has_time || { left_out "$name (no time left)"; continue; }
    input_of "$name"
    step_with "$name, plans by heuristics"
    if run 300 "$syncopate" bench ops "$input" "${options[@]}" \
      --tune="$out/$name.plans"; then
      step_with "$name, plans by timing" --run.plans="$out/$name.plans"
    else
      failed "$name: bench ops --tune"
    fi
  done
}

# What the step is made of, from outside: what changes when a thing is left out.
part_profile() {
  local variant name=${PROFILE_NETWORK:-resnet50}
  for variant in --run.cuda_graphs=on --run.cuda_graphs=off \
    --run.deterministic=off --run.bf16_weights=off --data.augment=none \
    --run.precision=fp32; do
    input_of "$name"
    override "$variant"
    step_with "$name $variant"
  done
  input_of "$name"
  run 300 "$syncopate" bench ops "$input" "${options[@]}" || failed "bench ops"
  run 300 "$syncopate" bench layers "$input" "${options[@]}" ||
    failed "bench layers"
}

# --- accuracy -------------------------------------------------------------------

part_accuracy() {
  local seed kind command value
  [[ -n ${CIFAR:-} ]] || { left_out "accuracy (CIFAR=DIR: folder of data_batch_1.bin)"; return; }
  local given
  read -r -a given <<<"${ACCURACY_OPTIONS:-}"
  local common=("$here/cifar10_wrn16_4.ini" --data.path="$CIFAR"
    --run.directory="$scratch/runs" "${given[@]}")
  : >"$scratch/accuracies"
  for seed in ${SEEDS:-1 2 3}; do
    for kind in one four ranks; do
      command=("$syncopate" train "${common[@]}" --run.seed="$seed"
        --run.name="$kind-$seed")
      case $kind in
        one) command+=(--run.workers=1) ;;
        four) command+=(--run.workers=4 --data.batch="${QUARTER:-32}") ;;
        ranks)
          [[ -n $mpiexec ]] || { left_out "four ranks (no mpiexec)"; continue; }
          command=("$mpiexec" -bind-to none -n 4 "${command[@]}"
            --data.batch="${QUARTER:-32}") ;;
      esac
      run 900 "${command[@]}" >"$scratch/log" 2>&1 || {
        tail -n 3 "$scratch/log"
        failed "accuracy, $kind, seed $seed"
        continue
      }
      value=$(sed -n 's/^eval .* accuracy \([0-9.]*\).*/\1/p' "$scratch/log" | tail -n 1)
      echo "$kind, seed $seed: accuracy $value,$(grep -o ' [0-9]* samples/s' "$scratch/log" | tail -n 1)"
      echo "$kind $value" >>"$scratch/accuracies"
    done
  done
  # Means may differ by the larger of the two ranges over seeds; by half a
  # percent in any case, since three seeds may lie close together by chance.
  awk '{n[$1]++; s[$1] += $2
        if (!($1 in lo) || $2 < lo[$1]) lo[$1] = $2
        if (!($1 in hi) || $2 > hi[$1]) hi[$1] = $2}
    END {
      if (!n["one"]) exit 1
      for (k in n) printf "%-6s mean %.4f, %.4f to %.4f over %d seeds\n", k, s[k] / n[k], lo[k], hi[k], n[k]
      for (k in n) {
        d = s[k] / n[k] - s["one"] / n["one"]
        if (d < 0) d = -d
        r = hi[k] - lo[k] > hi["one"] - lo["one"] ? hi[k] - lo[k] : hi["one"] - lo["one"]
        if (r < 0.005) r = 0.005
        if (d > r) { printf "%s is %.4f from one worker, %.4f is allowed\n", k, d, r; bad = 1 }
      }
      exit bad
    }' "$scratch/accuracies" || failed "accuracy of four workers is not that of one"
}

for part in "${parts[@]}"; do
  title "$part"
  started=$SECONDS
  "part_$part"
  echo "($part: $((SECONDS - started)) s)"
done
title "end"
echo "record: $out/gpu.txt"
((failures == 0)) || { echo "$failures failed"; exit 1; }
