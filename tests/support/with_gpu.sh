#!/usr/bin/env bash
# with_gpu.sh COMMAND...: runs it where $SYNCOPATE finds a GPU, else exits 77.
set -euo pipefail
if ! "${SYNCOPATE:?the path of the executable}" doctor |
  grep -Eq '^\[ok\] +gpu {2,}'; then
  echo "skipped: no GPU here"
  exit 77
fi
exec "$@"
