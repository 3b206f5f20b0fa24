#!/usr/bin/env bash
# jobs/quickstart.sh with a CMake that builds nothing: the line in which a
# failed build says what is wrong, and where the runs go; in an installed tree.
set -uo pipefail
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
need_python
export SYNCOPATE_PACKAGES=skip

# A checkout of its own, as the script writes into build/ and runs/.
mkdir -p checkout/build/cpu bin
cp -r "$source_dir/jobs" checkout
ln -s "$source_dir/postprocess" checkout
mkdir checkout/inputs
touch checkout/CMakePresets.json
sed 's/^kind = idx/kind = synthetic_images/; /^path = /d' \
  "$source_dir/inputs/quickstart.ini" >checkout/inputs/quickstart.ini
ln -s "$SYNCOPATE" checkout/build/cpu/syncopate
cat >bin/cmake <<'END'
#!/bin/sh
cat "$CMAKE_SAYS" >&2
[ ! -s "$CMAKE_SAYS" ]
END
chmod +x bin/cmake
export CMAKE_SAYS=$scratch/cmake.txt
quickstart() { PATH=$scratch/bin:$PATH checkout/jobs/quickstart.sh "$@"; }

# says LINE: of a build whose log is on stdin.
says() {
  cat >"$CMAKE_SAYS"
  expect_code 70 quickstart
  [[ $(head -n 1 "$scratch/err") == "$1" ]] ||
    fail "said $(head -n 1 "$scratch/err"), not $1"
  [[ $(wc -l <"$scratch/err") == 2 ]] || fail "more lines: $(<"$scratch/err")"
}

says "error: g++ 11.4.0 is too old: g++ 12 or newer is needed (a module, or CXX=g++-12 cmake ...)" <<'END'
-- The CXX compiler identification is GNU 11.4.0
CMake Error at CMakeLists.txt:7 (message):
  g++ 11.4.0 is too old: g++ 12 or newer is needed (a module, or CXX=g++-12
  cmake ...)


-- Configuring incomplete, errors occurred!
See also "/tmp/build/cpu/CMakeFiles/CMakeOutput.log".
END
says "error: missing: HDF5 (serial, C). Debian/Ubuntu: apt install libhdf5-dev; elsewhere: a module, or jobs/env/build_dependencies.sh" <<'END'
CMake Error at CMakeLists.txt:39 (message):
  missing: HDF5 (serial, C).  Debian/Ubuntu: apt install libhdf5-dev;
  elsewhere: a module, or jobs/env/build_dependencies.sh
Call Stack (most recent call first):
  CMakeLists.txt:46 (require)


-- Configuring incomplete, errors occurred!
END
says "error: CMake 3.25 or higher is required. You are running version 3.18.4" <<'END'
CMake Error at CMakeLists.txt:1 (cmake_minimum_required):
  CMake 3.25 or higher is required.  You are running version 3.18.4


-- Configuring incomplete, errors occurred!
END
says "error: The CMAKE_CXX_COMPILER: /no/g++ is not a full path to an existing compiler tool." <<'END'
CMake Error at CMakeLists.txt:2 (project):
  The CMAKE_CXX_COMPILER:

    /no/g++

  is not a full path to an existing compiler tool.


CMake Error: CMAKE_C_COMPILER not set, after EnableLanguage
END
says "error: Could not read presets from /src: Unrecognized \"version\" field" <<'END'
CMake Error: Could not read presets from /src: Unrecognized "version" field
END
says "src/base/x.cpp:3:1: error: expected a declaration" <<'END'
[1/2] Building CXX object
src/base/x.cpp:3:1: error: expected a declaration
src/base/x.cpp:4:1: error: and one more
END
says "something else" <<<"something else"

# Runs go to runs/quickstart, or where SYNCOPATE_RUNS says, and to new folders.
: >"$CMAKE_SAYS"
keys=(--data.samples=64 --data.test_samples=16 --data.height=8 --data.width=8
  --data.batch=4 --schedule.warmup=0 --eval.every=0 --run.steps=2
  --run.threads=1)
# went FOLDER: all three runs and the picture are there.
went() {
  for scheme in bsp esync local_sgd; do
    [[ -s $1/$scheme/results.h5 ]] || fail "no $scheme in $1"
  done
  [[ -s $1/quickstart.png ]] || fail "no picture in $1"
}
unset SYNCOPATE_RUNS
cd checkout || exit
expect_code 0 env PATH="$scratch/bin:$PATH" jobs/quickstart.sh "${keys[@]}"
cd .. || exit
went checkout/runs/quickstart
export SYNCOPATE_RUNS=elsewhere # relative paths are those of the current folder
for folder in quickstart quickstart-2; do
  expect_code 0 quickstart "${keys[@]}"
  went "elsewhere/$folder"
done
[[ ! -e checkout/runs/quickstart-2 ]] || fail "runs went to both folders"
echo no weights >mine.safetensors
expect_code 65 quickstart "${keys[@]}" --model.weights=mine.safetensors
grep -q "mine.safetensors" err || fail "another mine.safetensors: $(cat err)"
# The input alone follows the variable, too.
expect_code 0 "$SYNCOPATE" train checkout/inputs/quickstart.ini "${keys[@]}"
[[ -s elsewhere/quickstart-bsp/results.h5 ]] || fail "ran in: $(ls . runs)"

# An installed tree has nothing to build.
mkdir -p prefix/bin prefix/share
cp -r checkout prefix/share/syncopate
rm -r prefix/share/syncopate/{CMakePresets.json,build,runs}
ln -s "$SYNCOPATE" prefix/bin/syncopate
export SYNCOPATE_RUNS=$scratch/installed
expect_code 0 prefix/share/syncopate/jobs/quickstart.sh "${keys[@]}"
went installed/quickstart
[[ ! -e prefix/share/syncopate/build ]] || fail "an installed tree is built"
finish
