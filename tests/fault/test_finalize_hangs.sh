#!/usr/bin/env bash
# MPI_Finalize that does not return on some ranks, as MPICH's sometimes does over
# TCP: all processes end within seconds, with the exit code of the run, and
# without a word. Where it waits for all ranks, the others hang as well.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
skip() { echo "skipped: $1"; exit 77; }
[[ $("$MPIEXEC" --version 2>&1) == *HYDRA* ]] || skip "$MPIEXEC is not hydra"
command -v cc >/dev/null || skip "no C compiler"
cat >hang.c <<'C'
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int PMPI_Finalize(void);
int MPI_Finalize(void) {
  const char* rank = getenv("PMI_RANK");
  if (strstr(getenv("HANGING_RANKS"), rank)) {
    char name[32];
    snprintf(name, sizeof name, "hung.%s", rank);
    close(creat(name, 0600));
    for (;;) pause();
  }
  return PMPI_Finalize();
}
C
cc -shared -fPIC -o hang.so hang.c

# ends CODE HANGING_RANKS KEYS...
ends() {
  local began=$SECONDS
  read -ra start <<<"$(ranks 3)"
  rm -rf runs hung.*
  expect_code "$1" "${start[@]}" env LD_PRELOAD="$PWD/hang.so" \
    HANGING_RANKS="$2" "$SYNCOPATE" train tiny.ini --run.workers=auto \
    --run.threads=1 "${@:3}"
  local hung=(hung.*)
  [[ -f ${hung[0]} && ${#hung[@]} == "${#2}" ]] || fail "$2: ${hung[*]}"
  ((SECONDS - began < 15)) || fail "$2: $((SECONDS - began)) s"
  grep -Ev '^(warning|note)' err | grep . && fail "$2: not silent"
}
for hanging in 0 1 02 012; do
  ends 0 $hanging --run.steps=4 --schedule.warmup=0 --eval.every=0
done
ends 75 0 --run.time_limit_s=0.1 --run.steps=1000000
ends 75 12 --run.time_limit_s=0.1 --run.steps=1000000
finish
