#!/usr/bin/env bash
# Files that cannot be read, for the moment or any more: a read error is no damage, so
# no checkpoint is skipped and removed for it; storage that is slow file by file is no
# hang; mapped records that somebody cuts off end a run with one line and code 74.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../e2e/lib.sh"
skip() { echo "skipped: $1"; exit 77; }
[[ $("$MPIEXEC" --version 2>&1) == *HYDRA* ]] || skip "$MPIEXEC is not hydra"
command -v cc >/dev/null || skip "no C compiler"
export OMP_NUM_THREADS=1

# Reads of files whose name holds FAULTY: the first large one fails, or is slow.
cat >reads.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char slow[4096], failing[4096];
int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const int mode = flags & O_CREAT ? va_arg(list, int) : 0;
  va_end(list);
  const int fd = ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
  const char *faulty = getenv("FAULTY");
  if (fd >= 0 && fd < 4096) {
    const int is_faulty = faulty && strstr(path, faulty) && (flags & O_ACCMODE) == O_RDONLY;
    slow[fd] = is_faulty && getenv("SLOW_S");
    failing[fd] = is_faulty && !getenv("SLOW_S");
  }
  return fd;
}
ssize_t read(int fd, void *to, size_t size) {
  static int has_failed;
  if (fd >= 0 && fd < 4096 && size >= 65536) {
    if (slow[fd]) {
      slow[fd] = 0;
      usleep((useconds_t)(1e6 * atof(getenv("SLOW_S"))));
    }
    if (failing[fd] && !has_failed) {
      has_failed = 1;
      errno = EIO;
      return -1;
    }
  }
  return ((ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read"))(fd, to, size);
}
C
cc -shared -fPIC -o reads.so reads.c -ldl || skip "the C compiler makes no library"

{ printf '[run]\nsteps = 400\nthreads = 1\nlog_every = 20\n' && small_network; } >small.ini
run=("$SYNCOPATE" train small.ini --run.name=read --sync.scheme=local_sgd --eval.every=0
  --checkpoint.every=20 --checkpoint.keep=2)
faulty=(env LD_PRELOAD="$PWD/reads.so")
# shellcheck disable=SC2046
expect_code 0 $(ranks 2) "${run[@]}" --run.stop_at=60
kept=$(ls runs/read/checkpoints)
[[ $kept == $'step-00000040\nstep-00000060' ]] || fail "checkpoints: $kept"

echo "a read error of one rank"
expect_code 74 "$MPIEXEC" -bind-to none -n 1 "${run[@]}" --run.stop_at=80 : \
  -n 1 "${faulty[@]}" FAULTY=step-00000060/worker-0001.h5 "${run[@]}" --run.stop_at=80
grep -q '^error: .*step-00000060/worker-0001.h5: read: Input/output error$' err ||
  fail "a read error: $(cat err)"
[[ $(ls runs/read/checkpoints) == "$kept" ]] || fail "left: $(ls runs/read/checkpoints)"
echo "and of a program that only looks"
expect_code 74 "${faulty[@]}" FAULTY=step-00000060/replica.h5 "$SYNCOPATE" evaluate small.ini \
  --checkpoint=runs/read
grep -q 'step-00000060/replica.h5: read: Input/output error' err || fail "$(cat err)"

echo "storage that takes 4 s a file, at a limit of 9 s"
# shellcheck disable=SC2046
expect_code 0 $(ranks 2) "${faulty[@]}" FAULTY=checkpoints/step- SLOW_S=4 "${run[@]}" \
  --run.stop_at=80 --run.io_timeout_s=9
resumed read 60

echo "mapped records that become shorter"
python "$here/make_records.py" criteo records.tsv 3000 || fail "no records"
for rank in 0 1; do
  expect_code 0 "$SYNCOPATE" prepare criteo records.tsv -o mapped-$rank --threshold=3
done
cat >clicks.ini <<'INI'
[run]
steps = 10000000
threads = 1
log_every = 100
[model]
family = deepfm
embedding = 4
mlp = 8
[data]
kind = criteo
path = mapped-0
batch = 16
[optimizer]
kind = adam
lr = 1e-4
[eval]
every = 0
INI
cut_off() { # cut_off CODE NAME FOLDER COMMAND...
  local code=0 expected=$1 name=$2 folder=$3
  shift 3
  cp "$folder/train.records" whole
  timeout 60 "$@" >"$name.out" 2>"$name.err" &
  local pid=$!
  for _ in $(seq 600); do
    grep -q '^step .* 300/' "$name.out" && break
    sleep 0.05
  done
  truncate -s 4096 "$folder/train.records"
  wait "$pid" || code=$?
  cp whole "$folder/train.records"
  ((code == expected)) || fail "$name: exit $code"
  (($(grep -c '^error' "$name.err") == 1)) || fail "$name: not one line: $(cat "$name.err")"
  grep -qE "^error: (\[rank 1\] )?$folder/train.records: can no longer be read: it became shorter" \
    "$name.err" || fail "$name: $(cat "$name.err")"
}
clicks=("$SYNCOPATE" train clicks.ini)
cut_off 74 alone mapped-0 "${clicks[@]}" --run.name=alone
cut_off 74 second mapped-1 "$MPIEXEC" -bind-to none -n 1 "${clicks[@]}" --run.name=second : \
  -n 1 "${clicks[@]}" --run.name=second --data.path=mapped-1
finish
