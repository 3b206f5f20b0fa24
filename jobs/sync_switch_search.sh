#!/usr/bin/env bash
# Finds when to switch from bsp to asp by Sync-Switch's binary search over runs
# of INPUT (postprocess/switch_timing.py has the rule).
#   jobs/sync_switch_search.sh [-r RUNS] [-m SETTINGS] [-b BETA] [-d DIR]
#                              INPUT.ini [--section.key=value ...]
#     -r RUNS      runs per setting, with seeds from 1 (3)
#     -m SETTINGS  settings to try (4)
#     -b BETA      tolerated loss of accuracy against bsp (0.01)
#     -d DIR       folder for the runs and search.csv (runs/sync_switch_search);
#                  an interrupted search resumes from there, with the same INPUT
#                  and keys (search.input)
# Costs (SETTINGS + 1) * RUNS runs. The schemes of INPUT do not matter; its
# sync_switch.lr_rule and momentum_rule do. Accuracies are those of the samples that
# INPUT holds out (data.validation > 0); without any they are those of the test set,
# on which the runs of the comparison should then not be judged.
# Environment:
#   SYNCOPATE  the executable (build/release/syncopate, build/cpu/..., an installed one)
#   LAUNCHER   a launcher such as "srun --ntasks=8" or "mpiexec -n 8"
# Exit codes: 0 the last line is "use FRACTION", 64 usage, 65 DIR has the search of
# another INPUT or of other keys, or bsp alone diverged, 66 missing; otherwise the
# failed run's code. A run that diverges (76) counts as accuracy 0.
set -euo pipefail
unset CDPATH # with which cd may print, or go elsewhere
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=env/python.sh
source "$here/env/python.sh"
# shellcheck source=env/site.sh
source "$here/env/site.sh"

usage() { sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }
runs=3 settings=4 beta=0.01 dir=${SYNCOPATE_RUNS:-runs}/sync_switch_search
[[ ${1:-} != --help ]] || { usage; exit 0; }
while getopts r:m:b:d:h option; do
  case $option in
  r) runs=$OPTARG ;;
  m) settings=$OPTARG ;;
  b) beta=$OPTARG ;;
  d) dir=$OPTARG ;;
  h) usage; exit 0 ;;
  *) usage >&2; exit 64 ;;
  esac
done
shift $((OPTIND - 1))
(($# >= 1)) || { usage >&2; exit 64; }
input=$1
shift
[[ -r $input ]] || { echo "error: $input: no such input" >&2; exit 66; }
syncopate=$(find_program "$here/..")
read -ra launcher <<<"${LAUNCHER:-}"
python=$(find_python "$here/..")
timing() { "$python" "$here/../postprocess/switch_timing.py" "$@"; }

# The value of data.validation: of the keys, else of INPUT.
held_out=$(PYTHONPATH=$here/../postprocess "$python" -c '
import sys
from run_reader import parse_ini
with open(sys.argv[1], encoding="utf-8") as file:
    keys = parse_ini(file.read())
keys.update(word[2:].partition("=")[::2] for word in sys.argv[2:])
print(keys.get("data.validation", "0"))' "$input" "$@")
note=''
if [[ " $*" != *" --eval.on="* ]]; then
  if [[ $held_out == *[1-9]* ]]; then
    set -- "$@" --eval.on=validation
  else
    note="note: $input holds out no samples (data.validation): the search uses the test set"
  fi
fi

mkdir -p "$dir"
log=$dir/search.csv
[[ -s $log ]] || echo "fraction,seed,accuracy" >"$log"
asked=$(cat "$input"; printf '%s\n' "$@")
if [[ $(wc -l <"$log") == 1 ]]; then # no result yet
  echo "$asked" >"$dir/search.input"
elif [[ $asked != "$(cat "$dir/search.input" 2>/dev/null)" ]]; then
  echo "error: $dir: has the search of another input or of other keys: remove" \
    "it, or choose another folder with -d" >&2
  exit 65
fi
[[ -z $note ]] || echo "$note" >&2

while true; do
  action=$(timing next "$log" --runs="$runs" --settings="$settings" --beta="$beta")
  read -r verb fraction seed <<<"$action"
  [[ $verb == run ]] || break
  rest=$("$python" -c "print(1 - $fraction)")
  phases=("--sync_switch.order=bsp,asp" "--sync_switch.fractions=$fraction,$rest"
    --sync_switch.train_steps=none)
  name=bsp-$fraction-seed$seed code=0
  "${launcher[@]}" "$syncopate" train "$input" "$@" --sync.scheme=sync_switch \
    "${phases[@]}" --run.seed="$seed" --run.directory="$dir" \
    --run.name="$name" >"$dir/$name.log" 2>&1 || code=$?
  case $code in
  0) accuracy=$(timing result "$dir/$name") ;;
  76) accuracy=0 ;;
  *)
    tail -n 3 "$dir/$name.log" >&2
    exit "$code"
    ;;
  esac
  echo "$fraction,$seed,$accuracy" >>"$log"
  echo "bsp $fraction seed $seed: $accuracy"
done
echo "$action"
