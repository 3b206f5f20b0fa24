#!/usr/bin/env bash
# Two real steps of every published input and of each of its "# try:" variants
# (of WRN-50-2, whose replicas are large, under EXHAUSTIVE=1; otherwise they are
# validated), on data of the true shape, with the published number of workers in
# one process. What is not as published, so that two cores and 8 GB do in time:
#
#   data     random images, fewer of them (make_published_data.py); the input of
#            ESync itself runs on Fashion-MNIST where that is installed, with its
#            batch of 64
#   batch    1 to 4 a worker otherwise
#   network  a small one instead of a large one, but for the inputs themselves
#            under EXHAUSTIVE=1; of BERT-Large, whose four replicas alone would
#            take 21 GB, always
#   workers  4 or 8 instead of 16 and 32 on ImageNet, whose replicas alone would
#            take 13 GB and more, and 2 for the baselines of WRN-50-2
#
# A row that is changed in its network or its workers is validated without that
# change first.
#
# Needs numpy and cjpeg.
export TMPDIR=${TMPDIR:-/tmp}
# Checkpoints of large networks go to memory where there is room.
room_kb=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
if ((${room_kb:-0} > 6000000)); then TMPDIR=/dev/shm; fi
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${SOURCE_DIR:=$(cd "$here/../.." && pwd)}"
inputs=$SOURCE_DIR/inputs
data=$scratch/data
python "$here/make_published_data.py" data || { echo "no data were made"; exit 1; }
python "$here/make_records.py" squad data/squad 60 || { echo "no texts"; exit 1; }
python "$here/make_records.py" criteo data/criteo.tsv 2000 || { echo "no records"; exit 1; }
expect_code 0 "$SYNCOPATE" prepare criteo data/criteo.tsv -o data/criteo --threshold=2
fashion=/usr/share/datasets/fashion-mnist
[[ -r $fashion/train-images-idx3-ubyte.gz ]] || fashion=$data/fashion

# merge WORDS...: into ${merged[@]}, where of one key's words the last counts.
merge() {
  local word earlier kept
  merged=()
  for word in "$@"; do
    kept=()
    for earlier in "${merged[@]}"; do
      [[ ${earlier%%=*} == "${word%%=*}" ]] || kept+=("$earlier")
    done
    merged=("${kept[@]}" "$word")
  done
}

# changes INPUT VARIANT: what is not as published, ${small[@]} of the data and
# ${smaller[@]} of the network and the workers.
changes() {
  smaller=()
  case $1 in
    ds_sync_cifar10_*) small=(--data.path="$data/cifar10" --data.batch=2) ;;
    *_cifar10_*) small=(--data.path="$data/cifar10" --data.batch=4) ;;
    *_cifar100_*) small=(--data.path="$data/cifar100" --data.batch=2) ;;
    *_imagenet_*)
      small=(--data.kind=image_folder --data.path="$data/imagenet" --data.batch=1)
      smaller=(--run.workers=4)
      ;;
    ds_sync_squad_*)
      small=(--data.path="$data/squad" --data.vocabulary="$data/squad/vocab.txt"
        --data.batch=2 --model.weights=none)
      smaller=(--model.layers=2 --model.hidden=64 --model.heads=4)
      ;;
    ds_sync_criteo_*) small=(--data.path="$data/criteo" --data.batch=16) ;;
    esync_fashion_*)
      small=(--data.path="$fashion")
      [[ -z $2 ]] || small=(--data.path="$data/fashion" --data.batch=4)
      ;;
    *) fail "$1: this test does not know the input" ;;
  esac
  [[ -n $2 || -z ${EXHAUSTIVE:-} ]] || return
  case $1 in
    choco_cifar10_*)
      [[ -z $2 || -n ${EXHAUSTIVE:-} ]] || smaller=("--model.widths=8,8,16")
      ;;
    ds_sync_cifar*) smaller+=(--model.width=1) ;;
    ds_sync_imagenet_*)
      smaller+=(--model.width=1 --data.height=64 --data.width=64)
      [[ $1 != *_[ab]sp || -n ${EXHAUSTIVE:-} ]] || smaller+=(--run.workers=2)
      ;;
    choco_imagenet_*)
      smaller+=("--model.widths=8,8,16,16" --data.height=64 --data.width=64
        --run.workers=8)
      ;;
    sync_switch_*) smaller+=("--model.widths=8,8,16") ;;
    esync_*) smaller+=("--model.widths=8,8,16,16") ;;
  esac
}

# two_steps INPUT WORDS...: trains it so.
two_steps() {
  local name=$1
  shift
  merge --run.stop_at=2 --run.threads=1 --eval.batch=4 "$@"
  rows=$((rows + 1))
  expect_code 0 "$SYNCOPATE" train "$inputs/$name.ini" "${merged[@]}"
  grep -qE "^(finished|stopped): 2 steps" out || fail "no 2 steps: $name $*"
  rm -rf runs
}

# all_of INPUT: itself and its variants.
all_of() {
  local name=$1 variant words
  while read -r variant; do
    read -ra words <<<"$variant"
    changes "$name" "$variant"
    if ((${#smaller[@]})); then
      merge "${words[@]}" "${small[@]}" --eval.batch=4
      expect_code 0 "$SYNCOPATE" validate "$inputs/$name.ini" "${merged[@]}"
    fi
    [[ $name != ds_sync_imagenet_* || -z $variant || -n ${EXHAUSTIVE:-} ]] ||
      continue
    two_steps "$name" "${words[@]}" "${small[@]}" "${smaller[@]}"
  done < <(echo && sed -n 's/^# try: *//p' "$inputs/$name.ini")
}

# lane INPUTS...: one after the other, in a folder of their own. Two lanes share
# the cores; only one has networks of gigabytes.
lane() (
  scratch=$scratch/$1
  mkdir "$scratch" && cd "$scratch" || exit 1
  rows=0
  for name in "$@"; do all_of "$name"; done
  # From bsp to asp within the two steps: 16 mini-batches, 8 of each.
  if [[ $1 == sync_switch* ]]; then
    changes "$1" ""
    two_steps "$1" "${small[@]}" --run.steps=2 --sync_switch.train_steps=1,9
  fi
  echo "$rows rows of $*"
  finish
)

mapfile -t all < <(cd "$inputs" && grep -l '^# try: ' -- *.ini | sed 's/\.ini$//')
large=() others=(sync_switch_cifar10_resnet32)
for name in "${all[@]}"; do
  case $name in
    ds_sync_cifar* | ds_sync_imagenet_* | choco_imagenet_*) large+=("$name") ;;
    sync_switch_cifar10_resnet32) ;;
    *) others+=("$name") ;;
  esac
done
# A baseline trains the network of the method it is compared with.
network() { # network INPUT
  sed -n '/^\[model\]/,/^\[data\]/p' "$inputs/$1.ini" |
    sed 's/ *#.*//; /^$/d' | sort
}
for name in "${all[@]}"; do
  main=${name%_[ab]sp}
  [[ $(network "${main%_modes}") == "$(network "$name")" ]] ||
    fail "$name: not the network of ${main%_modes}"
done
((${#all[@]} >= 13)) || fail "only ${#all[@]} published inputs in $inputs"
lane "${large[@]}" >large.log 2>&1 &
lane_of_large=$!
lane "${others[@]}" || fail "see above"
wait "$lane_of_large" || fail "see below"
cat large.log
finish
