#!/usr/bin/env bash
# From a fresh machine to a trained network: installs what is missing, builds
# syncopate, trains inputs/quickstart.ini, prints a table and draws a plot.
#   jobs/quickstart.sh [--section.key=value ...]     passed on to the training
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=env/packages.sh
source jobs/env/packages.sh
# shellcheck source=env/python.sh
source jobs/env/python.sh

case ${1:-} in -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

# Waiting OpenMP threads soon yield their core, in case the machine is shared.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000}

started=$SECONDS
install_packages build data plot
python=$(find_python "$PWD")

echo "building (log: build/quickstart.log) ..."
mkdir -p build
if ! { cmake --preset cpu -DSYNCOPATE_TESTS=OFF &&
  cmake --build --preset cpu --target syncopate; } >build/quickstart.log 2>&1
then
  grep -m 1 -E 'missing: |error: ' build/quickstart.log >&2 || tail -n 3 build/quickstart.log >&2
  echo "the build failed; all of it: build/quickstart.log" >&2
  exit 70
fi
built=$SECONDS

# run.name is fixed so that the final message can name the files.
run=runs/quickstart
rm -rf "$run"
build/cpu/syncopate train inputs/quickstart.ini --run.directory=runs \
  --run.name=quickstart "$@"
trained=$SECONDS

echo
"$python" postprocess/summarize.py "$run"
"$python" postprocess/plot.py "$run" -o "$run/quickstart.png"
cat <<END

done in $((SECONDS - started)) s: set up and built in $((built - started)) s, trained in $((trained - built)) s
  plot      $run/quickstart.png
  results   $run/results.h5        (build/cpu/syncopate inspect $run/results.h5)
  input     $run/input.ini         every key as it was used; runnable again
  model     $run/checkpoints/
END
