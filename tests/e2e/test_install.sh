#!/usr/bin/env bash
# The installed tree runs wherever it is moved, with nothing of this machine but
# glibc: alone, and as ranks of its own launcher.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${BUILD_DIR:?the build folder}"

cmake --install "$BUILD_DIR" --prefix "$scratch/first" >install.log 2>&1 || {
  tail -n 5 install.log
  fail "cmake --install"
  finish
}
mv first "a second place"
tree="$scratch/a second place"
echo "installed: $(du -sh "$tree" | cut -f 1), of it libraries" \
  "$(du -sh "$tree/lib" | cut -f 1)"
bare() { env -i HOME="$HOME" PATH=/usr/bin:/bin OMP_WAIT_POLICY=passive "$@"; }
smoke="$tree/share/syncopate/inputs/smoke.ini"

loaded() { sed -n 's/.*calling init: //p' "$@" | sed 's|/bin/\.\./|/|' | sort -u; }

# from_tree LOG...: of the libraries that the loader named, all but glibc's (and
# drivers of network hardware, which match the kernel) are the tree's.
from_tree() {
  local others
  loaded "$@" | grep -qF "$tree/lib/syncopate/libhdf5" ||
    fail "$*: nothing was loaded from the tree"
  others=$(loaded "$@" | grep -vF "$tree/lib/syncopate/" |
    grep -vE '/(ld-linux[^/]*|lib(c|m|mvec|dl|rt|pthread|resolv)\.so[.0-9]*)$' |
    grep -vE '/lib(ibverbs|rdmacm|mlx[45]|nl-3|nl-route-3)\.so[.0-9]*$')
  [[ -z $others ]] || fail "$*: from outside: $others"
}

# 1. Alone: what --version says, and a training.
expect_code 0 bare "$tree/bin/syncopate" --version
expect_code 0 bare LD_DEBUG=libs LD_DEBUG_OUTPUT="$scratch/alone" \
  "$tree/bin/syncopate" train "$smoke" --run.name=alone --run.workers=2 \
  --run.threads=1
from_tree alone.*

# 2. Ranks of the tree's launcher, if it has one (MPICH's): the same bits.
if [[ -x $tree/bin/mpiexec ]]; then
  expect_code 0 bare LD_DEBUG=libs LD_DEBUG_OUTPUT="$scratch/ranks" \
    "$tree/bin/mpiexec" -bind-to none -n 2 "$tree/bin/syncopate" train \
    "$smoke" --run.name=ranks --run.threads=1
  num_ranks=0
  for log in ranks.*; do # bash, the launcher, its proxy, the ranks
    if loaded "$log" | grep -q libhdf5; then
      from_tree "$log"
      ((++num_ranks))
    fi
    if loaded "$log" | grep -q libhwloc; then
      loaded "$log" | grep libhwloc | grep -qF "$tree/" ||
        fail "$log: libhwloc is not the tree's"
    fi
  done
  ((num_ranks == 2)) || fail "$num_ranks ranks loaded HDF5, not 2"
  python "$here/compare_runs.py" --replica-only runs/alone runs/ranks ||
    fail "ranks learnt something else"
else
  echo "left out: ranks (the tree has no launcher; MPICH's is installed)"
fi

# 3. What else belongs to it.
for path in jobs/train.sbatch inputs/README.md postprocess/summarize.py \
  bench/gpu.sh LICENSE; do
  [[ -e $tree/share/syncopate/$path ]] || fail "no share/syncopate/$path"
done
[[ -s $tree/share/man/man1/syncopate.1 ]] || fail "no manual page"
[[ -s $tree/share/bash-completion/completions/syncopate ]] || fail "no completion"
expect_code 0 bare "$tree/bin/syncopate" doctor
finish
