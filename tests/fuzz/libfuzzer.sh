#!/usr/bin/env bash
# Builds one fuzz target with libFuzzer, AddressSanitizer and
# UndefinedBehaviorSanitizer below build/fuzz, and runs it.
#   tests/fuzz/libfuzzer.sh FORMAT [LIBFUZZER'S ARGUMENTS]
#   CLANG=clang++-16 tests/fuzz/libfuzzer.sh safetensors -max_total_time=60
set -euo pipefail
case ${1:-} in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
format=${1:?a format: safetensors predictions squad vocabulary criteo ini idx
  cifar hdf5 manifest jpeg}
shift
[[ -e $root/tests/fuzz/fuzz_$format.cpp ]] ||
  { echo "error: no target $format" >&2; exit 64; }
# The folders that it is read with, from the table that says who includes whom.
case $format in
  ini) layer=config ;;
  manifest) layer=checkpoint ;;
  *) layer=data ;;
esac
read -ra folders <<<"$layer $(sed -n "s/^$layer *://p" "$root/src/LAYERS.txt")"
objects=$root/build/fuzz/objects-$layer
work=$root/build/fuzz/$format
mkdir -p "$objects" "$work/corpus"
export root objects

compiler=("${CLANG:-clang++}")
if command -v ccache >/dev/null; then compiler=(ccache "${compiler[@]}"); fi
checks=address,undefined
# HDF5 and MPI may lie in folders of their own.
read -ra libraries_flags <<<"$(pkg-config --cflags hdf5)"
read -ra libraries <<<"$(pkg-config --libs hdf5)"
if [[ $layer != data ]]; then
  mpi=$(mpicxx -show)
  mapfile -t -O "${#libraries_flags[@]}" libraries_flags \
    < <(grep -oE -- '-I[^ ]+' <<<"$mpi"; echo -fopenmp)
  mapfile -t -O "${#libraries[@]}" libraries \
    < <(grep -oE -- '-[lL][^ ]+' <<<"$mpi"
      printf '%s\n' -ldnnl -lboost_context -fopenmp)
fi
flags=(-std=c++20 -O1 -g -fno-omit-frame-pointer -I"$root/src"
  -I"$root/tests/fuzz" -fsanitize="fuzzer-no-link,$checks"
  -fno-sanitize-recover=undefined)
"${compiler[@]}" -std=c++20 -fsyntax-only -x c++ - 2>/dev/null \
  <<<$'#include <source_location>\nstd::source_location here;' ||
  flags+=(-include "$root/tests/fuzz/source_location.h")

compile() { # compile SOURCE COMPILER FLAG...
  local object
  object=$objects/$(tr / _ <<<"${1#"$root"/}").o
  "${@:2}" -c "$1" -o "$object"
}
export -f compile
rm -f "$objects"/*.o # of sources that are no more
{
  for folder in "${folders[@]}"; do
    find "$root/src/$folder" -name '*.cpp' -not -path '*/cuda/*' \
      -not -path '*/nccl/*'
  done
  printf '%s\n' "$root/tests/fuzz/fuzz.cpp" "$root/tests/fuzz/fuzz_$format.cpp"
} | xargs -P "$(nproc)" -I{} bash -c 'compile "$@"' _ {} "${compiler[@]}" \
  "${flags[@]}" "${libraries_flags[@]}"
"${compiler[@]}" -fsanitize="fuzzer,$checks" "$objects"/*.o \
  -o "$work/fuzz_$format" -lfmt -lutf8proc -lxxhash -lz -lturbojpeg -lpthread \
  "${libraries[@]}"
cd "$work"
exec "./fuzz_$format" -timeout=10 "$@" corpus "$root/tests/fuzz/corpus/$format"
