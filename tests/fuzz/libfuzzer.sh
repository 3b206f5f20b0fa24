#!/usr/bin/env bash
# Builds one fuzz target with libFuzzer, AddressSanitizer and
# UndefinedBehaviorSanitizer in build/fuzz/FORMAT, and runs it.
#   tests/fuzz/libfuzzer.sh FORMAT [LIBFUZZER'S ARGUMENTS]
#   CLANG=clang++-14 tests/fuzz/libfuzzer.sh safetensors -max_total_time=60
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
format=${1:?a format: safetensors predictions squad vocabulary criteo}
shift
target=$root/tests/fuzz/fuzz_$format.cpp
[[ -e $target ]] || { echo "error: no target $format" >&2; exit 64; }
clang=${CLANG:-clang++}
work=$root/build/fuzz/$format
mkdir -p "$work/corpus"

# HDF5 lies in folders of its own where there are several of it.
hdf5=$(pkg-config --cflags --libs hdf5 2>/dev/null ||
  pkg-config --cflags --libs hdf5-serial)
mapfile -t sources < <(find "$root/src/base" "$root/src/data" \
  "$root/src/tensor" "$root/src/device" -maxdepth 1 -name '*.cpp' | sort)
# shellcheck disable=SC2086
"$clang" -std=c++20 -O1 -g -fno-omit-frame-pointer \
  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
  -I"$root/src" -I"$root/tests/fuzz" "$target" "$root/tests/fuzz/fuzz.cpp" \
  "${sources[@]}" "$root"/src/device/cpu/*.cpp \
  "$root"/src/device/no_cuda/*.cpp -o "$work/fuzz_$format" \
  -lfmt -lutf8proc -lxxhash -lz -lturbojpeg -lpthread $hdf5
cd "$work"
exec "./fuzz_$format" -timeout=10 "$@" corpus "$root/tests/fuzz/corpus/$format"
