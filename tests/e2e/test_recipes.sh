#!/usr/bin/env bash
# What the recipes of jobs/env copy into a container is enough to configure the
# build there, by the command of their %post. The build can also be configured
# without a preset, by MPI's own compiler, and again once nvcc is found.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$here/../.." || exit 1
# shellcheck source=tests/bench/recipe.sh
source tests/bench/recipe.sh

# configures RECIPE: the command, with this machine's MPI library.
configures() {
  section "$1" post | awk '/cmake --preset/ {inside = 1}
    inside {print} inside && !/\\$/ {exit}' | sed 's/-DMPI_CXX_COMPILER=[^ ]*//'
}

for recipe in syncopate syncopate-cuda; do
  file=jobs/env/$recipe.def
  command=$(configures "$file")
  [[ $command == *SYNCOPATE_TESTS=OFF* ]] || fail "$file: configures by: $command"
  if [[ $command == *SYNCOPATE_CUDA=ON* ]] && ! type nvcc >"$scratch/nvcc" 2>&1; then
    echo "$file: not configured: there is no nvcc"
    continue
  fi
  copy_files "$file" "$scratch/$recipe" || fail "$file: its files"
  expect_code 0 env SYNCOPATE_PACKAGES=skip \
    sh -ec "cd '$scratch/$recipe/opt/syncopate'; $command"
  grep -q '^-- Generating done' "$scratch/out" || fail "$file: not configured"
done

echo "without a preset, by MPI's compiler, with another spelling of OFF"
expect_code 0 env CC=mpicc CXX=mpicxx cmake -S . -B "$scratch/plain" -G Ninja -DSYNCOPATE_CUDA=false
grep -q 'FLAGS = .*-O3' "$scratch/plain/build.ninja" || fail "not optimized"
grep -q no_cuda "$scratch/plain/build.ninja" || fail "CUDA=false: with CUDA"
if type nvcc >"$scratch/nvcc" 2>&1; then
  expect_code 0 env -u CUDA_HOME PATH=/usr/bin:/bin cmake -S . -B "$scratch/again" -G Ninja
  grep -q '^-- CUDA left out' "$scratch/out" || fail "nvcc found outside of PATH"
  expect_code 0 cmake "$scratch/again"
  ! grep -q no_cuda "$scratch/again/build.ninja" || fail "CUDA stays left out: $(cat "$scratch/out")"
fi
finish
