#!/usr/bin/env bash
# results.h5 opens in h5py, with consistent rows, in 100 of 100 polls while it
# is committed as fast as it goes, and after each of 20 kills.
# shellcheck source=common.sh
. "$(dirname "$0")/common.sh"

python=/usr/bin/python3
"$python" -c 'import h5py' 2>/dev/null || skip "$python has no h5py"
"$python" "$(dirname "$0")/poll_results.py" "$driver" "$work"
