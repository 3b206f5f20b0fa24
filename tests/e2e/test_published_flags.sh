#!/usr/bin/env bash
# Each row of the tables "published flag -> key" of inputs/README.md, run by the
# real program (run_flag_table.py says how). Needs numpy and cjpeg.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
: "${SOURCE_DIR:=$(cd "$here/../.." && pwd)}"
export OMP_NUM_THREADS=1
python "$here/make_published_data.py" data || { echo "no data were made"; exit 1; }
python "$here/make_records.py" squad data/squad 60 || { echo "no texts"; exit 1; }
python "$here/make_records.py" criteo data/criteo.tsv 2000 || { echo "no records"; exit 1; }
expect_code 0 "$SYNCOPATE" prepare criteo data/criteo.tsv -o data/criteo --threshold=2
expect_code 0 "$SYNCOPATE" prepare images --path=data/imagenet -o data/prepared
cp tiny.ini data/INPUT.ini
expect_code 0 "$SYNCOPATE" train tiny.ini --run.name=run --run.directory=data
run_table() { python "$here/run_flag_table.py" "$1" "$SYNCOPATE" data "$2"; }
run_table "$SOURCE_DIR/inputs/README.md" 130 || fail "see above"

# Rows that lead to a refusal are found.
cat >wrong.md <<'END'
### DS-Sync
| `--momentum` | `optimizer.momentum = 0.9` |
| `NCCL_DEBUG` | `sync.wire = bf16` |
### Sync-Switch
| `--switch-order` | `sync_switch.order = 12` |
### CHOCO-SGD
| `--comm_op sign`, `--comm_op none` | `compress.kind = sign`, or `compress.kind = none` |
| `-e` | `syncopate evaluate INPUT.ini --checkpoint=nowhere` |
END
expect_code 1 run_table wrong.md 6
for row in NCCL_DEBUG switch-order comm_op -e; do
  grep -q "^FAILED: line .*$row" out || fail "passed: $row"
done
grep -q "^6 rows and alternatives tried, 4 failed$" out || fail "$(tail -n 1 out)"
finish
