# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # variables of who sources it
# Shared by gpu.sh and gpu_first.sh: the tree that is measured, its test programs,
# and libraries that are there only as parts of PyTorch. Source it; `here` is this folder,
# `python` a Python or nothing.

mapfile -t test_names <"$here/gpu_tests.txt" # a name a line

# leading_comment FILE: what its --help says.
leading_comment() {
  awk 'NR > 1 && !/^# shellcheck/ {if (!sub(/^# ?/, "")) exit; print}' "$1"
}

# torch_folders: where PyTorch's packages have cuDNN, cuBLAS and NCCL.
torch_folders() {
  "$python" - <<'PY'
import glob, importlib.util
spec = importlib.util.find_spec("nvidia")
roots = spec.submodule_search_locations if spec else []
print(":".join(f for root in roots for f in sorted(glob.glob(f"{root}/*/lib"))))
PY
}

# use_torch_libraries REPORT: puts them into the loader's path where REPORT, what
# doctor said, misses one; false where there is nothing to put there.
use_torch_libraries() {
  local folders
  [[ $1 == *'cannot be loaded'* && -n $python ]] || return 1
  folders=$(torch_folders) || return 1
  [[ -n $folders ]] || return 1
  export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folders
}

# unpack ARCHIVE FOLDER: by tar, or by Python where there is no xz.
unpack() {
  mkdir -p "$2"
  tar -xf "$1" -C "$2" ||
    "${python:-python3}" -c 'import sys, tarfile
tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$1" "$2"
}

# The tree that this script lies in, if it does.
own_tree() {
  [[ ! -x $here/../../../bin/syncopate ]] || (cd "$here/../../.." && pwd)
}

# use_programs: sets syncopate and tests, from the environment or PREFIX.
use_programs() {
  syncopate=${SYNCOPATE:-${PREFIX:-none}/bin/syncopate}
  tests=${TESTS:-${PREFIX:-none}/libexec/syncopate/tests}
  # Fixtures of gpu_models: the tree's, or the checkout's.
  if [[ -e $tests/reference/fixtures ]]; then
    SOURCE_DIR=$(dirname "$tests")
  elif [[ -e $here/../reference/fixtures ]]; then
    SOURCE_DIR=$(cd "$here/../.." && pwd)
  fi
  [[ -z ${SOURCE_DIR:-} ]] || export SOURCE_DIR
}

# override --KEY=VALUE...: into `options`, in the place of others of that key.
override() {
  local new old kept
  for new in "$@"; do
    kept=()
    for old in "${options[@]}"; do
      [[ ${old%%=*} == "${new%%=*}" ]] || kept+=("$old")
    done
    options=("${kept[@]}" "$new")
  done
}

# find_tool NAME: compute-sanitizer, ncu; nothing where it is not.
find_tool() {
  command -v "$1" || {
    local folder=${CUDA_HOME:-/usr/local/cuda}/bin
    [[ ! -x $folder/$1 ]] || echo "$folder/$1"
  }
}
