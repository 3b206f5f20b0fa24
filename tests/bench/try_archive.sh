#!/usr/bin/env bash
# Does what pack.sh made run where there is nothing but glibc? In an empty root,
# without a network: --version, doctor, a training on the CPU, and every test
# program as far as it goes without a GPU. Needs root, or user namespaces.
#   tests/bench/try_archive.sh ARCHIVE
set -euo pipefail
case ${1:-} in '' | -h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 64 ;; esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root
mkdir -p "$root"/{lib64,lib,proc,dev,tmp}
tar -xf "$1" -C "$root"
loader=$(readlink -f /lib64/ld-linux-x86-64.so.2)
cp "$loader" "$root/lib64/ld-linux-x86-64.so.2"
for name in c m mvec dl rt pthread resolv util; do
  for file in "$(dirname "$loader")/lib$name".so.[0-9]*; do
    [[ ! -e $file ]] || cp -L "$file" "$root/lib"
  done
done

# try LIMIT_S PROGRAM WORDS...: in the empty root, with hardly a variable.
as_root=(unshare --mount --net)
((EUID == 0)) || as_root=(unshare --map-root-user --mount --net)
try() {
  local limit=$1 code=0
  shift
  # shellcheck disable=SC2016  # for the shell within
  timeout "$limit" env -i HOME=/tmp PATH="$PATH" OMP_WAIT_POLICY=passive \
    "${as_root[@]}" bash -c '
      mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" || exit
      exec chroot "$0" "$@"' "$root" "$@" >"$scratch/log" 2>&1 || code=$?
  echo "in an empty root: ${*#/syncopate/}: exit code $code"
  ((code == 0)) || { tail -n 5 "$scratch/log"; exit 70; }
}

try 60 /syncopate/bin/syncopate --version
try 60 /syncopate/bin/syncopate doctor
# Small: where there is no AVX-512, convolutions take seconds.
try 300 /syncopate/bin/syncopate train \
  /syncopate/share/syncopate/inputs/smoke.ini --run.workers=2 --run.threads=1 \
  --run.steps=4 --data.height=8 --data.width=8 --data.batch=4 \
  --data.samples=64 --data.test_samples=8
[[ -s $root/runs/smoke-bsp-2/results.h5 ]] || { echo "no results were written"; exit 70; }
for program in "$root"/syncopate/libexec/syncopate/tests/*; do
  [[ ! -f $program ]] || try 60 "${program#"$root"}" --gtest_list_tests
done
