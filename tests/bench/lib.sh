#!/usr/bin/env bash
# Shared by the comparisons with PyTorch: the program, a Python that has the
# peer, medians. Source it; `here` is this folder, `scratch` goes away at exit.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Threads that spin while they wait cost far more than they save where cores
# are shared; both sides get the same.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-10000}
threads=${THREADS:-2}

if [[ -z ${SYNCOPATE:-} ]]; then
  SYNCOPATE=$here/../../build/release/syncopate
  [[ -x $SYNCOPATE ]] || SYNCOPATE=$here/../../build/cpu/syncopate
  [[ -x $SYNCOPATE ]] || SYNCOPATE=$here/../../../bin/syncopate # installed
fi
[[ -x $SYNCOPATE ]] || { echo "$SYNCOPATE: not built" >&2; exit 66; }
SYNCOPATE=$(cd "$(dirname "$SYNCOPATE")" && pwd)/$(basename "$SYNCOPATE")
export MPIEXEC=${MPIEXEC:-mpiexec}
peer='' # what find_python found

# find_python MODULES: the first that can import them, or nothing. PYTHON= with
# no value: none.
find_python() {
  local candidate
  for candidate in ${PYTHON-python3 /usr/bin/python3}; do
    "$candidate" -c "import $1" 2>/dev/null && { echo "$candidate"; return; }
  done
  return 0
}

peer_torch() { "$peer" "$here/peer_torch.py" "$@"; }

# Of what `bench step` or the peer printed.
rate() { sed -n 's|^step: .*, \([0-9.]*\) [a-z]*/s.*|\1|p' "$1" | tail -n 1; }
memory() { sed -n 's|^memory *\([0-9]*\) MB at most.*|\1|p' "$1"; }
parameters() { sed -n 's/.* \([0-9][0-9]*\) parameters in.*/\1/p' "$1" | head -n 1; }

median() { printf '%s\n' "$@" | sort -g | awk '{v[NR] = $1} END {print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.2f", a / b}'; }

# have WHAT VALUE: fails where a figure is missing.
have() { [[ -n $2 ]] || { echo "no $1 was printed" >&2; exit 70; }; }

machine_line() {
  echo "machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)," \
    "$(nproc) processors, load $(cut -d' ' -f1 /proc/loadavg); $threads threads"
}
