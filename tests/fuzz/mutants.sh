#!/usr/bin/env bash
# Changed files through the real program: each is taken, or ends within 10 s of
# work in one line and exit code 65 or 66 (of an input file: a line for each mistake).
#   tests/fuzz/mutants.sh SYNCOPATE FOLDER_OF_FUZZ_PROGRAMS [FORMAT...]
# MUTANTS of each format: 20, or 10,000 under EXHAUSTIVE=1. SEED=1.
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
syncopate=$(realpath "${1:?the program}")
programs=$(realpath "${2:?where fuzz_ini and the others are}")
shift 2
formats=("$@")
((${#formats[@]})) || formats=(ini idx cifar hdf5 manifest results)
mutants=${MUTANTS:-20}
[[ ${EXHAUSTIVE:-0} == 1 ]] && mutants=${MUTANTS:-10000}
work=$(mktemp -d "${TMPDIR:-/tmp}/mutants-XXXXXX")
trap 'rm -rf "$work"' EXIT
export syncopate work OMP_NUM_THREADS=1

# A small network for whatever images there are; a run to take files from.
cat >"$work/images.ini" <<END
[run]
name = whole
steps = 2
directory = $work/runs
[model]
family = logistic
[data]
kind = synthetic_images
samples = 8
test_samples = 8
batch = 1
END
"$syncopate" train "$work/images.ini" >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }

# What follows is called by xargs, through bash -c.
# shellcheck disable=SC2317
byte_of() { head -c 1 "$1" | od -An -tu1 | tr -d ' '; }

# The folder of a data set with FILE in it, as the fuzz targets of `idx` and
# `cifar` make it; prints its kind.
# shellcheck disable=SC2317
idx_folder() { # idx_folder FILE FOLDER
  local names=(train-images-idx3-ubyte train-labels-idx1-ubyte
    t10k-images-idx3-ubyte t10k-labels-idx1-ubyte) byte i
  for i in 0 2; do
    printf '\0\0\10\3\0\0\0\2\0\0\0\2\0\0\0\3abcdefghijkl' >"$2/${names[i]}"
    printf '\0\0\10\1\0\0\0\2\0\1' >"$2/${names[i + 1]}"
  done
  byte=$(byte_of "$1")
  i=$((${byte:-0} % 4))
  rm "$2/${names[i]}"
  if (((${byte:-0} & 4) != 0)); then names[i]+=.gz; fi
  tail -c +2 "$1" >"$2/${names[i]}"
  echo idx
}
# shellcheck disable=SC2317
cifar_folder() { # cifar_folder FILE FOLDER
  local kind=cifar10 bytes=3073 name byte
  local sets=(data_batch_{1,2,3,4,5}.bin test_batch.bin)
  byte=$(byte_of "$1")
  if (((${byte:-0} & 1) != 0)); then
    kind=cifar100 bytes=3074 sets=(train.bin test.bin)
  fi
  for name in "${sets[@]}"; do head -c "$bytes" /dev/zero >"$2/$name"; done
  case $kind,$((${byte:-0} & 2)) in
    cifar10,0) name=test_batch.bin ;;
    cifar100,0) name=test.bin ;;
    cifar10,2) name=batches.meta.txt ;;
    *) name=fine_label_names.txt ;;
  esac
  tail -c +2 "$1" >"$2/$name"
  echo "$kind"
}

# shellcheck disable=SC2317
one() { # one FORMAT FILE
  local folder command kind code=0 lines
  folder=$(mktemp -d "$work/one-XXXXXX")
  case $1 in
    ini)
      grep -av '^--' "$2" >"$folder/input.ini" || true
      command=(validate "$folder/input.ini")
      ;;
    idx | cifar)
      kind=$("$1_folder" "$2" "$folder")
      ;;&
    idx | cifar | hdf5)
      sed -e "s|^kind = .*|kind = ${kind:-hdf5}\npath = $folder|" \
        -e '/samples/d' "$work/images.ini" >"$folder/images.ini"
      command=(validate "$folder/images.ini")
      if [[ $1 == hdf5 ]]; then
        cp "$2" "$folder/own.h5"
        command+=("--data.path=$folder/own.h5")
      fi
      ;;
    manifest)
      cp -r "$work"/runs/whole/checkpoints/step-* "$folder/"
      cp "$2" "$folder"/step-*/manifest.json
      command=(inspect "$folder"/step-*)
      ;;
    results)
      cp "$2" "$folder/results.h5"
      command=(inspect "$folder/results.h5")
      ;;
  esac
  # By the time at work, as a busy machine is no finding; waiting ends too.
  (ulimit -t 10 && exec timeout 30 "$syncopate" "${command[@]}") \
    >"$folder/out" 2>"$folder/err" || code=$?
  lines=$(wc -l <"$folder/err")
  if ((code == 0)); then
    echo taken
  elif ((code != 65 && code != 66)) || ((lines == 0)) ||
    { [[ $1 != ini ]] && ((lines != 1)); } ||
    grep -aqv '^error: ' "$folder/err"; then
    echo "found: $1 $2: exit code $code, $lines lines: $(head -c 300 "$folder/err")"
  else
    echo "refused $(head -n 1 "$folder/err")"
  fi
  rm -rf "$folder"
}
export -f one byte_of idx_folder cifar_folder

failed=0
for format in "${formats[@]}"; do
  corpus=$here/corpus/$format target=$format
  if [[ $format == results ]]; then
    corpus=$work/corpus target=hdf5
    mkdir "$corpus"
    cp "$work/runs/whole/results.h5" "$corpus/"
  fi
  mkdir "$work/$format"
  "$programs/fuzz_$target" "$corpus" --runs="$mutants" --seed="${SEED:-1}" \
    --write="$work/$format"
  find "$work/$format" -type f -print0 |
    xargs -0 -P "$(nproc)" -I{} bash -c 'one "$@"' _ "$format" {} \
      >"$work/$format.log"
  printf '%-8s seed %s: %d changed files, %d taken, %d refused\n' "$format" \
    "${SEED:-1}" "$mutants" "$(grep -c '^taken' "$work/$format.log")" \
    "$(grep -c '^refused' "$work/$format.log")"
  if grep -a '^found' "$work/$format.log"; then
    failed=1
    mkdir -p findings
    while read -r _ _ file _; do
      cp "${file%:}" "findings/$format-$(basename "${file%:}")"
    done < <(grep -a '^found' "$work/$format.log")
  fi
done
exit $failed
