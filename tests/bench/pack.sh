#!/usr/bin/env bash
# One archive of all that a machine with a GPU needs to test and to measure
# syncopate, where nothing can be built: programs for any x86-64-v3 processor,
# their libraries but glibc's and NVIDIA's, test programs, inputs, scripts.
#   tests/bench/pack.sh [TREE]    TREE: an installed tree; else one is built
# Before it is given its name the archive is unpacked into an empty root, where
# the program has to run. Environment:
#   ARCHIVE    build/syncopate-gpu.tar.xz; .tar.gz for where there is no xz
#   BUILD      build/pack, the folder that is built in    JOBS    nproc
#   MAX_MIB    55: a larger archive is refused
# See gpu.sh (ARCHIVE=FILE, first) for its use.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case ${1:-} in -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
root=$(cd "$here/../.." && pwd)
archive=$(realpath -m "${ARCHIVE:-$root/build/syncopate-gpu.tar.xz}")
build=$(realpath -m "${BUILD:-$root/build/pack}")
max_mib=${MAX_MIB:-55}
mapfile -t programs <"$here/gpu_tests.txt"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" "$archive.part"' EXIT
tree=$scratch/syncopate

build_tree() {
  mkdir -p "$build"
  echo "building in $build (log: $build/pack.log) ..."
  { cmake -S "$root" --preset release -B "$build" -DSYNCOPATE_CUDA=ON \
      -DSYNCOPATE_TESTS=ON -DSYNCOPATE_ARCH=x86-64-v3 &&
    cmake --build "$build" -j "${JOBS:-$(nproc)}" --target syncopate \
      "${programs[@]}" &&
    cmake --install "$build" --prefix "$tree" &&
    cmake --install "$build" --prefix "$tree" --component tests; } \
    >"$build/pack.log" 2>&1 || { tail -n 5 "$build/pack.log"; exit 70; }
  local name
  for name in "${programs[@]}"; do
    [[ -x $tree/libexec/syncopate/tests/$name ]] ||
      { echo "$name was not installed"; exit 70; }
  done
}

objects() { # programs and libraries of the tree
  find "$tree" -type f |
    while read -r file; do
      [[ $(head -c 4 "$file" | tr -d '\0') != $'\x7fELF' ]] || echo "$file"
    done
}

# What the archive asks of a machine, by the newest version that is named.
newest_glibc() {
  { objects | xargs -rd '\n' objdump -T 2>/dev/null || true; } |
    { grep -o 'GLIBC_2[.0-9]*' || true; } | sort -uV | tail -n 1
}

if (($#)); then
  [[ -x $1/bin/syncopate ]] || { echo "$1/bin/syncopate: no such program"; exit 66; }
  cp -a "$1" "$tree"
else
  build_tree
fi
objects | xargs -rd '\n' strip --strip-unneeded
glibc=$(newest_glibc)
# Times and owners say nothing.
case $archive in
  *.tar.xz) compress=(xz -8 -T1) ;;
  *.tar.gz) compress=(gzip -n) ;;
  *) echo "$archive: .tar.xz or .tar.gz"; exit 64 ;;
esac
mkdir -p "$(dirname "$archive")"
tar -C "$scratch" --sort=name --owner=0 --group=0 --mtime=@0 -c syncopate |
  "${compress[@]}" >"$archive.part"
bytes=$(stat -c %s "$archive.part")
if ((bytes > max_mib * 1024 * 1024)); then
  echo "$archive would have $((bytes / 1024 / 1024)) MiB, more than $max_mib:"
  (cd "$tree" && find . -type f -printf '%s %P\n' | sort -rn | head -n 8)
  exit 73
fi

"$here/try_archive.sh" "$archive.part"
mv "$archive.part" "$archive"
echo "$archive: $(awk -v b="$bytes" 'BEGIN {printf "%.1f", b / 1048576}') MiB," \
  "$(du -sm "$tree" | cut -f 1) MiB unpacked; asks for x86-64-v3 and glibc" \
  "${glibc#GLIBC_} or newer"
"$tree/bin/syncopate" --version
