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
# The folders that it is read with, from the table that says who includes whom,
# and those that these include in turn.
case $format in
  ini) layer=config ;;
  manifest) layer=checkpoint ;;
  *) layer=data ;;
esac
folders=("$layer")
for ((i = 0; i < ${#folders[@]}; i++)); do
  read -ra below <<<"$(sed -n "s/^${folders[i]} *://p" "$root/src/LAYERS.txt")"
  for folder in "${below[@]}"; do
    [[ " ${folders[*]} " == *" $folder "* ]] || folders+=("$folder")
  done
done
objects=$root/build/fuzz/objects-$layer
work=$root/build/fuzz/$format
mkdir -p "$objects" "$work/corpus"
export root objects

ccache=()
if command -v ccache >/dev/null; then ccache=(ccache); fi
compiler=("${ccache[@]}" "${CLANG:-clang++}")
checks=address,undefined
# HDF5, Eigen and MPI may lie in folders of their own.
read -ra libraries_flags <<<"$(pkg-config --cflags hdf5 eigen3)"
read -ra libraries <<<"$(pkg-config --libs hdf5)"
if [[ $layer != data ]]; then
  read -ra mpi <<<"$(mpicxx -show)"
  for word in "${mpi[@]}"; do
    case $word in
      -I*) libraries_flags+=("$word") ;;
      -l* | -L*) libraries+=("$word") ;;
    esac
  done
  libraries+=(-ldnnl -lboost_context -lgomp)
fi
common=(-std=c++20 -O1 -g -I"$root/src" -I"$root/tests/fuzz"
  "${libraries_flags[@]}")
flags=(-fno-omit-frame-pointer -fsanitize="fuzzer-no-link,$checks"
  -fno-sanitize-recover=undefined)
"${compiler[@]}" -std=c++20 -fsyntax-only -x c++ - 2>/dev/null \
  <<<$'#include <source_location>\nstd::source_location here;' ||
  flags+=(-include "$root/tests/fuzz/source_location.h")

sources_in() { # sources_in FOLDER
  find "$root/src/$1" -name '*.cpp' -not -path '*/cuda/*' -not -path '*/nccl/*'
}
compile() { # compile SOURCE COMPILER FLAG...
  local object
  object=$objects/$(tr / _ <<<"${1#"$root"/}").o
  "${@:2}" -c "$1" -o "$object"
}
compile_with() { # compile_with COMPILER FLAG...: the sources of standard input
  xargs -P "$(nproc)" -I{} bash -c 'compile "$@"' _ {} "$@" "${common[@]}"
}
export -f compile
rm -f "$objects"/*.o # of sources that are no more
{
  for folder in "${folders[@]}"; do
    [[ $folder == ops ]] || sources_in "$folder"
  done
  printf '%s\n' "$root/tests/fuzz/fuzz.cpp" "$root/tests/fuzz/fuzz_$format.cpp"
} | compile_with "${compiler[@]}" "${flags[@]}"
if [[ " ${folders[*]} " == *" ops "* ]]; then
  # Vectors as g++ has them; no input comes here.
  sources_in ops | compile_with "${ccache[@]}" "${CXX:-g++}" -fopenmp
fi
"${compiler[@]}" -fsanitize="fuzzer,$checks" "$objects"/*.o \
  -o "$work/fuzz_$format" -lfmt -lutf8proc -lxxhash -lz -ljpeg -lpthread \
  "${libraries[@]}"
cd "$work"
exec "./fuzz_$format" -timeout=10 "$@" corpus "$root/tests/fuzz/corpus/$format"
