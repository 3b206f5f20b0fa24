#!/usr/bin/env bash
# What a reader should not have to check by eye: layers, foreign headers, caps,
# formatting, scripts. Prints FILE:LINE: what for each offence.
#   tests/lint/run.sh [ROOT]      exit 0, or 1 with the offences
set -u # no pipefail: the last grep of a pipe says whether there were offences
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "${1:-$here/../..}" && pwd)
cd "$root" || exit 66
rc=0

/usr/bin/env python3 "$here/lint.py" "$root" || rc=1

list() { # list NAME-PATTERN...: files below the root, built ones left out
  local pattern expression=()
  for pattern in "$@"; do expression+=(-o -path "$pattern"); done
  find . \( -name .git -o -path ./build -o -path ./runs -o -path ./.venv \) \
    -prune -o -type f \( "${expression[@]:1}" \) -print | sort
}

mapfile -t sources < <(list './src/*.h' './src/*.cpp' './kernels/*.cu' \
  './kernels/*.cuh' './kernels/*.cpp' './tests/*.h' './tests/*.cpp')
if command -v clang-format-14 >/dev/null; then
  if ((${#sources[@]})); then
    printf '%s\0' "${sources[@]}" |
      xargs -0 -n 8 -P 2 clang-format-14 --dry-run -Werror 2>&1 |
      grep ': error: ' |
      sed -E 's|^\./||; s|:[0-9]+:[0-9]+: error: .*|:1: not as clang-format-14 has it|' |
      uniq | grep . && rc=1
  fi
else
  echo "lint: formatting not checked: clang-format-14 is not installed"
fi

mapfile -t scripts < <(list '*.sh' '*.sbatch' './.ci/run')
if command -v shellcheck >/dev/null; then
  if ((${#scripts[@]})); then
    shellcheck -f gcc -x -P SCRIPTDIR "${scripts[@]}" | sed 's|^\./||' |
      grep . && rc=1
  fi
else
  echo "lint: shell scripts not checked: shellcheck is not installed"
fi

if ((rc == 0)); then echo "lint: ${#sources[@]} sources, ${#scripts[@]} scripts: clean"; fi
exit "$rc"
