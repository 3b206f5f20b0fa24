#!/usr/bin/env bash
# shellcheck disable=SC2317  # step() calls functions by their names
# The first contact with a GPU, in nine minutes at most and without a peer: is
# everything there, do the kernels compute what they should, how fast is a step,
# what is it made of. Most important first.
#   gpu.sh first
# A step that fails or takes too long does not keep the next one from starting.
# It has the seconds that stand beside it below; it may also use what the steps
# before it left, up to as much again. $OUT (or the folder it is started in) gets
# summary.txt, a line a step, and up to seven logs, written as things happen. Environment:
#   ARCHIVE    what pack.sh made, unpacked each time; else syncopate-gpu.tar.* in
#              this folder or the checkout's build/; not used in an unpacked tree
#   PREFIX     an installed tree instead; SYNCOPATE, TESTS: programs instead
#   PYTHON     one whose packages may hold cuDNN, cuBLAS, NCCL (python3)
#   SECONDS_IN_ALL    540: every step's time in proportion
#   BENCH_OPTIONS     --section.key=value ... for the steps that are timed
# Exit code: 0, 1 if a step failed, 66 without a program, 77 without a GPU.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=gpu_lib.sh
source "$here/gpu_lib.sh"
# shellcheck source=large.sh
source "$here/large.sh"
case ${1:-} in -h | --help) leading_comment "$0"; exit 0 ;; esac

out=${OUT:-.} python=${PYTHON:-python3}
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 73
scratch=$(mktemp -d) || exit 73
command -v "$python" >/dev/null || python=''
summary=$out/summary.txt
now() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); } # ms
began=$(now) scheduled=0 failures=0 pid='' running=''
read -r -a given <<<"${BENCH_OPTIONS:-}"
export REQUIRE_GPU=1

note() { echo "$*" | tee -a "$summary"; }
leave() { # leave CODE: the summary is what is printed last
  trap - EXIT TERM INT HUP
  [[ -z $pid ]] || kill "$pid" 2>/dev/null
  [[ -z $running ]] || echo "ended from outside in: $running" >>"$summary"
  printf '\n'
  cat "$summary"
  rm -rf "$scratch"
  exit "$1"
}
trap 'leave 143' TERM INT HUP
trap 'leave 70' EXIT

# --- a step ---------------------------------------------------------------------

# result NAME VERDICT MILLISECONDS FIGURE: a line of the summary.
result() {
  [[ $2 == ok ]] || failures=$((failures + 1))
  note "$(printf '%-34s %-12s %6d.%d s  %s' "$1" "$2" $(($3 / 1000)) \
    $(($3 % 1000 / 100)) "$4")"
}

# step NAME SECONDS LOG FIGURE COMMAND...: its output goes to $out/LOG.log, and
# stays in $scratch/step for FIGURE, a function that prints the figure in it.
step() {
  local name=$1 share=$(($2 * 1000 * ${SECONDS_IN_ALL:-540} / 540))
  local log=$out/$3.log figure=$4 begin limit size code=0 ms verdict=ok
  shift 4
  begin=$(now)
  scheduled=$((scheduled + share))
  limit=$((scheduled - begin + began))
  ((limit <= 2 * share)) || limit=$((2 * share))
  ((limit >= 100)) || limit=100
  running=$name
  printf '\n== %s: %s, %d ms at most\n$ %s\n' "$(date -u +%T)" "$name" "$limit" \
    "$*" >>"$log"
  size=$(stat -c %s "$log")
  timeout --kill-after=2 "$((limit / 1000)).$(printf %03d $((limit % 1000)))" \
    "$@" >>"$log" 2>&1 &
  pid=$!
  wait "$pid" || code=$?
  pid='' running=''
  ms=$(($(now) - begin))
  tail -c +$((size + 1)) "$log" >"$scratch/step"
  keep_short "$log" "$size"
  case $code in
    0) ;;
    124 | 137) ((ms < limit)) && verdict="FAILED ($code)" || verdict="timed out" ;;
    126 | 127) verdict=missing ;;
    *) verdict="FAILED ($code)" ;;
  esac
  echo "-- $verdict after $ms ms" >>"$log"
  result "$name" "$verdict" "$ms" "$("$figure")"
  [[ $verdict == ok ]]
}

# keep_short LOG SIZE: two million bytes of a step have to do.
keep_short() {
  local most=$(($2 + 2000000))
  (($(stat -c %s "$1") > most)) || return 0
  truncate -s "$most" "$1"
  printf '\n(the rest is left out)\n' >>"$1"
}

# --- what is told of a step -----------------------------------------------------

last_line() { grep -v '^[[:space:]]*$' "$scratch/step" | tail -n 1 | cut -c 1-110; }

# Of gtest: how many passed, which failed, where it stopped; the names of the
# latter two go to $scratch/unfinished.
of_tests() {
  : >"$scratch/unfinished"
  awk -v unfinished="$scratch/unfinished" '/^\[       OK \]/ {++passed; open = ""}
    /^\[ RUN      \]/ {open = $4}
    /^\[  FAILED  \] [^ ]*[.][^ ]*( \(|,)/ {
      sub(/,$/, "", $4); open = ""
      if (!($4 in seen)) {
        seen[$4]
        print $4 >unfinished
        if (++failed <= 2) names = names " " $4
      }}
    /^\[  SKIPPED \] [^ ]*[.][^ ]* \(/ {++skipped; open = ""}
    /^========= (ERROR|RACECHECK) SUMMARY/ {tool = $0; sub(/^=* /, "; ", tool)}
    END {
      if (passed + failed + skipped + (open != "") == 0) exit 1
      printf "%d passed", passed
      if (skipped) printf ", %d skipped", skipped
      if (failed) printf ", %d failed:%s", failed, names
      if (open != "") {printf ", ended in %s", open; print open >unfinished}
      print tool}' "$scratch/step" || last_line
}

of_bench() { # 83.1 ms, 3080.6 samples/s, 75.8 TFLOP/s
  awk '/^arithmetic/ {tflops = $2 / 1000}
    /^step: / {sub(/^step: /, ""); text = $0}
    END {if (text == "") exit 1; printf "%s, %.1f TFLOP/s\n", text, tflops}' \
    "$scratch/step" || last_line
}

of_layers() { grep '^ops: ' "$scratch/step" || last_line; }

of_doctor() {
  local gpu
  gpu=$(sed -n 's/^\[ok\] *gpu *0: *//p' "$scratch/step")
  grep '^\[bad\]' "$scratch/step" | head -n 1 | cut -c 1-110 | grep . ||
    echo "${gpu:-no GPU}"
}

# Of ncu's table of kernels: the ten that take longest, by name.
of_kernels() {
  awk -F '","' '/^"ID"/ {
      for (i = 1; i <= NF; ++i) {
        sub(/"$/, "", $i)
        if ($i == "Kernel Name") name = i
        if ($i == "gpu__time_duration.sum") time = i
        if ($i == "dram__bytes.sum") bytes = i}
      next}
    time && /^"[0-9]/ {
      gsub(/[",]/, "", $time); gsub(/[",]/, "", $bytes)
      kernel = $name; sub(/^void /, "", kernel)
      gsub(/\([a-z ]*\)(::)?/, "", kernel); sub(/\(.*/, "", kernel)
      ++launches; all += $time; t[kernel] += $time; b[kernel] += $bytes
      ++n[kernel]}
    END {
      if (!all) exit 1
      for (k in t) printf "%9.3f ms %5.1f%% %6d launches %7.0f GB/s  %s\n",
        t[k] * 1e-6, 100 * t[k] / all, n[k], b[k] / t[k], substr(k, 1, 90)
      printf "%.3f ms in %d launches\n", all * 1e-6, launches >"/dev/stderr"}' \
    "$scratch/step" 2>"$scratch/sum" | sort -rn | head -n 10 >"$scratch/kernels"
  cat "$scratch/sum"
  [[ -s $scratch/sum ]] || last_line
}

# --- losses ---------------------------------------------------------------------

train() { # train NAME KEYS...: 20 steps in fp32 with one seed
  local name=$1 inputs=$here/../inputs
  shift
  [[ -d $inputs ]] || inputs=$here/../../inputs # of a checkout
  step "20 steps, $name" 10 models last_line "$syncopate" train \
    "$inputs/smoke.ini" --run.name="$name" --run.directory="$scratch/runs" \
    --run.steps=20 --run.log_every=1 --run.seed=1 --run.precision=fp32 "$@"
  sed -n 's/^step .*| loss *\([^ ]*\) .*/\1/p' "$scratch/step" \
    >"$scratch/losses-$name"
}

# Other orders of sums alone: as in tests/emulator/test_training.sh.
compare_losses() {
  local verdict=ok
  paste "$scratch/losses-cpu" "$scratch/losses-gpu" | tee -a "$out/models.log" |
    awk -v most=2e-3 '!/^[0-9.]+\t[0-9.]+$/ || !$1 {bad = 1; next}
      {d = $2 / $1 - 1; if (d < 0) d = -d; if (d > worst) worst = d; ++n}
      END {
        printf "%d losses, apart by %.1e at most, allowed %.0e\n", n, worst, most
        exit bad || n != 20 || worst > most}' >"$scratch/step" ||
    verdict=FAILED
  result "losses of CPU and GPU" $verdict 0 "$(last_line)"
}
compare_graphs() {
  local model=checkpoints/step-00000020/replica.h5 verdict=ok
  local text="the same bits after 20 steps"
  cmp -s "$scratch/runs/gpu/$model" "$scratch/runs/plain/$model" ||
    verdict=FAILED text="the models differ, or are missing, after 20 steps"
  result "graphs on and off" $verdict 0 "$text"
}

# bench NAME SECONDS LOG INPUT KEYS...
bench() {
  local name=$1 seconds=$2 log=$3 input=$here/$4.ini
  shift 4
  options=(--run.device=cuda)
  override "$@" "${given[@]}"
  step "$name" "$seconds" "$log" of_bench "$syncopate" bench step "$input" \
    "${options[@]}"
}

# --- the lines ------------------------------------------------------------------

find_archive() {
  local file
  for file in "$here"/syncopate-gpu.tar.* "$here"/../../build/syncopate-gpu.tar.*; do
    [[ ! -r $file ]] || { echo "$file"; return; }
  done
}

line_machine() { # 24 s; 8 s more where doctor is asked twice
  if [[ -z ${SYNCOPATE:-} && -z ${PREFIX:-} ]]; then
    PREFIX=$(own_tree)
    archive=${ARCHIVE:-$(find_archive)}
    if [[ -z $PREFIX && -z $archive ]]; then
      note "no program: ARCHIVE=FILE (tests/bench/pack.sh makes it), or PREFIX"
      leave 66
    fi
    if [[ -z $PREFIX ]]; then
      PREFIX=$scratch/archive/syncopate
      export -f unpack
      export python
      step "unpack $(basename "$archive")" 12 machine last_line bash -c \
        'unpack "$@"' - "$archive" "$scratch/archive" || leave 66
    fi
  fi
  use_programs
  [[ -x $syncopate ]] || { note "$syncopate: no such program"; leave 66; }
  cd "$scratch" || leave 73
  local failures_before=$failures report
  step "doctor" 8 machine of_doctor "$syncopate" doctor
  report=$(<"$scratch/step")
  # Libraries that come from a cold disk may take longer than that; then nobody
  # knows whether some are missing.
  [[ $(tail -n 1 "$out/machine.log") != '-- timed out'* ]] ||
    report+='cannot be loaded in time'
  if use_torch_libraries "$report"; then
    failures=$failures_before # the first answer was a question
    step "doctor, libraries of PyTorch" 8 machine of_doctor "$syncopate" doctor
  fi
  gpu=$(sed -n 's/^\[ok\] *gpu *0: *//p' "$scratch/step")
  step "nvidia-smi" 4 machine last_line nvidia-smi --format=csv,noheader \
    --query-gpu=name,memory.total,driver_version,clocks.max.sm,power.limit &&
    gpu=${gpu:-$(last_line)}
  "$syncopate" --version >>"$out/machine.log" 2>&1
  [[ -n $gpu ]] || { note "no GPU here"; leave 77; }
}

# --- tests, and those that failed once more -----------------------------------------

# cases NAME SECONDS LOG PROGRAM [FILTER]: a step of test cases, whose failures
# are put down in $scratch/failed.
cases() {
  local name=$1 seconds=$2 log=$3 program=$4
  shift 4
  step "$name" "$seconds" "$log" of_tests "$tests/$program" "$@" ||
    sed "s|^|$program |" "$scratch/unfinished" >>"$scratch/failed"
}

# alone PROGRAM TEST: the test in a process of its own; under memcheck if it fails
# there too. The first error of a device fails every later test of a process.
alone() {
  local log verdict=fails
  log=$(mktemp -p "$scratch")
  printf '\n== %s %s\n' "$1" "$2" >"$log"
  if timeout --foreground --kill-after=1 15 "$tests/$1" --gtest_filter="$2" \
    >>"$log" 2>&1 && grep -q '^\[  PASSED  \] 1 test' "$log"; then
    verdict=passes
  elif [[ -n $sanitizer ]]; then
    timeout --foreground --kill-after=1 20 "$sanitizer" --tool memcheck \
      "$tests/$1" --gtest_filter="$2" >>"$log" 2>&1
  fi
  head -c 40000 "$log" # at once: several run side by side
  printf '\nalone, %s: %s %s\n' "$verdict" "$1" "$2"
}

of_alone() {
  awk '/^alone, / {++n; if ($2 == "fails:") {++bad; if (bad <= 2) names = names " " $4}}
    END {printf "%d of %d fail again:%s\n", bad, n, names; exit !n}' "$scratch/step" ||
    last_line
}

line_again() { # 17 s, where a test failed
  [[ -s $scratch/failed ]] || return 0
  export tests scratch sanitizer
  sanitizer=$(find_tool compute-sanitizer)
  export -f alone
  # shellcheck disable=SC2016  # expanded by that shell
  step "failed tests again, each alone" 17 again of_alone bash -c \
    'head -n 64 "$1" | xargs -P 8 -L 1 bash -c '\''alone "$@"'\'' -' - "$scratch/failed"
}

line_kernels() { # 120 s
  # Which lane holds what of a product on tensor cores: if that is wrong, so is
  # all attention.
  cases "MmaProbe, maps of fragments" 5 tests gpu_kernels \
    --gtest_filter='MmaProbe.*'
  cases "gpu_ops, convolutions, linear" 30 tests gpu_ops \
    --gtest_filter='*Conv*:*Linear*'
  cases "gpu_kernels" 25 tests gpu_kernels
  cases "gpu_ops, the rest" 36 tests gpu_ops \
    --gtest_filter='-*Conv*:*Linear*'
  cases "gpu_compress" 8 tests gpu_compress
  cases "gpu_sync" 6 tests gpu_sync
  cases "gpu_nccl, one rank" 10 tests gpu_nccl
}

line_models() { # 60 s
  cases "gpu_models" 30 models gpu_models
  train cpu --run.device=cpu
  train gpu --run.device=cuda --run.cuda_graphs=on
  train plain --run.device=cuda --run.cuda_graphs=off
  compare_losses
  compare_graphs
}

line_bench() { # 5 x 30 s
  bench "ResNet-50" 30 bench resnet50
  bench "WRN-26-10" 30 bench wrn26_10
  bench "WRN-50-2" 30 bench wrn50_2
  bench "BERT-Large, 384 tokens" 30 bench bert_mini "${large_bert[@]}" \
    "${full_windows[@]}"
  bench "DeepFM" 30 bench deepfm "${large_deepfm[@]}"
}

line_variants() { # 45 s
  bench "ResNet-50, determinism off" 15 bench resnet50 --run.deterministic=off
  bench "ResNet-50, graphs off" 15 bench resnet50 --run.cuda_graphs=off
  bench "ResNet-50, batch 512" 15 bench resnet50 --data.batch=512
}

# layers NAME INPUT KEYS...: the table goes to the log, its head to the summary.
layers() {
  local name=$1 input=$here/$2.ini
  shift 2
  options=(--run.device=cuda)
  override "$@" "${given[@]}"
  if step "$name, op by op" 12 profile of_layers "$syncopate" bench layers \
    "$input" "${options[@]}"; then
    note "$(grep -A 5 '^op  ' "$scratch/step" | tail -n 5 | cut -c 1-110)"
  fi
}

# 60 s. Without its guardian the program is one process. ncu prints its table at
# the end, and some 10 ms go by for each launch that it measures: these are about
# one step, after two of warming up.
line_profile() {
  local profiler
  layers "ResNet-50" resnet50
  layers "BERT-Large" bert_mini "${large_bert[@]}" "${full_windows[@]}"
  layers "DeepFM" deepfm "${large_deepfm[@]}"
  profiler=$(find_tool ncu)
  options=(--run.device=cuda --run.cuda_graphs=off)
  override "${given[@]}"
  step "ResNet-50 by kernel (ncu)" 24 profile of_kernels \
    env SYNCOPATE_GUARDIAN=0 "${profiler:-ncu}" --clock-control none \
    --target-processes all --metrics gpu__time_duration.sum,dram__bytes.sum \
    --launch-skip 1200 --launch-count 600 --kill yes --csv --page raw \
    --print-units base "$syncopate" bench step "$here/resnet50.ini" \
    "${options[@]}"
  [[ ! -s $scratch/kernels ]] || note "$(<"$scratch/kernels")"
}

line_sanitizer() { # 60 s
  local sanitizer tool filter
  sanitizer=$(find_tool compute-sanitizer)
  for tool in memcheck racecheck; do
    filter='*Attention*:*Norm*:*Layernorm*'
    # All shapes of attention take it minutes: see the part `sanitizer`.
    [[ $tool == memcheck ]] || filter='Attention.*:Layernorm.*:Norm.*'
    step "$tool, attention and norms" 20 sanitizer of_tests \
      "${sanitizer:-compute-sanitizer}" --tool "$tool" --error-exitcode 86 \
      "$tests/gpu_ops" --gtest_filter="$filter"
    step "$tool, sort" 10 sanitizer of_tests \
      "${sanitizer:-compute-sanitizer}" --tool "$tool" --error-exitcode 86 \
      "$tests/gpu_kernels" --gtest_filter='Sort.*'
  done
}

rm -f "$out"/{machine,tests,models,again,bench,profile,sanitizer}.log
{
  echo "gpu.sh first, $(date -u +%FT%TZ)"
  echo "processor: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
} >"$summary"
line_machine
note "program: $(sed -n 's/^ *git *//p' "$out/machine.log" | tail -n 1); GPU: $gpu"
line_kernels
line_models
line_again
line_bench
line_variants
line_profile
line_sanitizer
ms=$(($(now) - began))
note "$failures failed, $((ms / 1000)) s in all; logs: $out"
leave $((failures > 0))
