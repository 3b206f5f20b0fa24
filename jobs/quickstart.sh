#!/usr/bin/env bash
# From a fresh machine to a comparison: installs what is missing, builds
# syncopate, trains inputs/quickstart.ini under three synchronization schemes,
# prints a table and draws accuracy over virtual time and over bytes.
#   jobs/quickstart.sh [--section.key=value ...]     passed on to the training
# The runs go to runs/quickstart in the current folder, or to runs/quickstart-2
# (-3, ...) if that exists: earlier runs are kept. SYNCOPATE_RUNS replaces runs/.
# In an installed tree, nothing is built.
set -euo pipefail
unset CDPATH # with which cd may go elsewhere
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=env/packages.sh
source "$root/jobs/env/packages.sh"
# shellcheck source=env/python.sh
source "$root/jobs/env/python.sh"

case ${1:-} in -h | --help)
  sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"
  exit 0
  ;;
esac

schemes=("--sync.scheme=bsp" "--sync.scheme=esync"
  "--sync.scheme=local_sgd --local_sgd.steps=8")

# CMake's first error in a log, which it wraps and indents, as one line. Fails
# if there is none.
cmake_error() {
  awk '/^CMake Error/ && !found {
         found = 1
         if (sub(/^CMake Error: */, "")) text = $0
         next
       }
       found && /^[^ ]/ { exit }
       found { text = text " " $0 }
       END {
         $0 = text
         $1 = $1  # single blanks
         if (found) print "error: " $0
         exit !found
       }' "$1"
}

build() {
  local log=${at}build/quickstart.log
  echo "building, which takes minutes the first time (log: $log) ..."
  mkdir -p "${at}build"
  if ! (cd "$root" && cmake --preset cpu -DSYNCOPATE_TESTS=OFF &&
    cmake --build --preset cpu --target syncopate) >"$log" 2>&1; then
    { cmake_error "$log" || grep -m 1 'error: ' "$log" || tail -n 3 "$log"; } >&2
    echo "the build failed; all of it: $log" >&2
    exit 70
  fi
}

at=$root/ # how this script writes paths in the tree
[[ ! $root -ef . ]] || at=''
started=$SECONDS
program=${at}build/cpu/syncopate needs=(build data plot)
if [[ ! -e $root/CMakePresets.json && -x $root/../../bin/syncopate ]]; then
  program=$(realpath "$root/../../bin/syncopate") needs=(data plot)
fi
install_packages "${needs[@]}"
python=$(find_python "$root")
[[ ${needs[0]} != build ]] || build
built=$SECONDS

folder=${SYNCOPATE_RUNS:-runs}/quickstart
runs=$folder
for ((number = 2; ; number++)); do
  [[ -e $runs ]] || break
  runs=$folder-$number
done
for scheme in "${schemes[@]}"; do
  read -ra keys <<<"$scheme"
  echo
  "$program" train "${at}inputs/quickstart.ini" --run.directory="$runs" \
    --run.name='{scheme}' "${keys[@]}" "$@"
done
trained=$SECONDS

echo
"$python" "${at}postprocess/summarize.py" "$runs"/*/
"$python" "${at}postprocess/plot.py" "$runs"/*/ --by sync.scheme \
  -o "$runs/quickstart.png"
cat <<END

done in $((SECONDS - started)) s: set up and built in $((built - started)) s, trained in $((trained - built)) s
  picture   $runs/quickstart.png      accuracy over virtual time and over bytes
  results   $runs/SCHEME/results.h5   ($program inspect $runs/bsp)
  input     $runs/SCHEME/input.ini    every key as it was used; runnable again
  model     $runs/SCHEME/checkpoints/
END
