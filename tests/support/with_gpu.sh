#!/usr/bin/env bash
# with_gpu.sh COMMAND...: runs it where $SYNCOPATE finds a GPU, else exits 77,
# or 1 where REQUIRE_GPU=1 says that there has to be one.
set -uo pipefail
report=$("${SYNCOPATE:?the path of the executable}" doctor)
if ! grep -Eq '^\[ok\] +gpu +[0-9]' <<<"$report"; then
  echo "skipped: no GPU here"
  [[ ${REQUIRE_GPU:-} == 1 ]] && exit 1
  exit 77
fi
exec "$@"
