#!/usr/bin/env bash
# with_gpu.sh COMMAND...: runs it if $SYNCOPATE finds a GPU. Otherwise exits with
# 77 (skipped), or with 1 if REQUIRE_GPU=1.
set -uo pipefail
report=$("${SYNCOPATE:?the path of the executable}" doctor)
if ! grep -Eq '^\[ok\] +gpu +[0-9]' <<<"$report"; then
  echo "skipped: no GPU here"
  [[ ${REQUIRE_GPU:-} == 1 ]] && exit 1
  exit 77
fi
exec "$@"
