#!/usr/bin/env bash
# postprocess/ and sweeps of simulations on what is unusual: runs that end at a
# target, groups that send nothing, tables with gaps, damaged files, waiting that is
# not known, keys with the same last word.
# shellcheck source=postprocess.sh
source "$(dirname "$0")/postprocess.sh"

# Runs that end when they reach a target: the line goes on to the last end, with the
# values in which the others ended.
make_run t1 scheme=bsp seed=1 rows=2 accuracy=0.8
make_run t2 scheme=bsp seed=2 rows=6 accuracy=0.8
make_run t3 scheme=bsp seed=3 rows=9 accuracy=0.8
expect "a line until the last end" 0 '^$' post plot t1 t2 t3 --by sync.scheme \
  --data-only -o held.csv
expect "where all have ended" 0 '^bsp,8,90.0,5666.6[0-9]*,0.8' tail -n 1 held.csv
expect "the first has ended" 0 'bsp,3,40.0,' grep 'bsp,3,' held.csv
expect "its value is held" 0 ok "$python" - <<'PY'
import csv
row = list(csv.reader(open("held.csv")))[4]
mean = (0.8 + 0.8 * 4 / 6 + 0.8 * 4 / 9) / 3
print("ok" if abs(float(row[4]) / mean - 1) < 1e-9 else (row, mean))
PY

# A group that sends nothing has its line where the axis is linear, and a note where
# it is logarithmic.
for workers in 1 2 4; do
  make_run w$workers workers=$workers run.workers=$workers
done
"$python" - <<'PY'
import h5py
for name, factor in (("w1", 0), ("w4", 500)):
    with h5py.File(f"{name}/results.h5", "a") as file:
        file["comm/bytes_sent"][...] *= factor
        if "bytes_sent" in file.get("summary", {}):
            file["summary/bytes_sent"][...] = file["comm/bytes_sent"][...].sum()
PY
lines_of() { # lines_of KEY RUN...: of the panel of bytes, and its texts
  env PYTHONPATH="$source_dir/postprocess" "$python" - "$@" <<'PY'
import sys
import plot_means
from run_reader import METRICS, open_runs
from styles import prepare
kept = {}
plot_means.save = lambda figure, path: kept.update(figure=figure)
plot_means.draw(prepare(), open_runs(sys.argv[2:]), sys.argv[1], "x.png")
panel = kept["figure"].axes[1]
print(sum(len(line.get_xdata()) > 0 for line in panel.lines),
      [text.get_text() for text in panel.texts],
      [text.get_text() for text in kept["figure"].legends[0].get_texts()])
PY
}
expect "nothing sent, linear" 0 "^2 \[\] \['run.workers = 1, n = 1', 'run.workers = 2, n = 1'\]" \
  lines_of run.workers w2 w1
expect "nothing sent, logarithmic" 0 "^2 \['sends nothing: run.workers = 1'\]" \
  lines_of run.workers w1 w2 w4

# Numbers are in order, under the key's name.
expect "an ordered legend" 0 "= 1, n = 1', 'run.workers = 2, n = 1', 'run.workers = 4, n = 1'\]" \
  lines_of run.workers w4 w2 w1

# Runs that cannot be drawn send no less for that, and tables have the bare values.
make_run lost workers=3 run.workers=3 ended=diverged evaluations=0
expect "nothing is said of a group that diverged" 0 "^2 \[\] " \
  lines_of run.workers w2 lost w4
expect "bare values" 0 '^1,0,.*2,0,' bash -c "'$python' \
  '$source_dir/postprocess/plot.py' w1 w2 --by run.workers --data-only -o bare.csv &&
  tr '\n' ';' <bare.csv | sed 's/^[^;]*;//'"

# Missing and unequal columns.
for what in nocomm nobytes nosamples uneven; do make_run $what; done
"$python" - <<'PY'
import h5py
with h5py.File("nocomm/results.h5", "a") as file:
    del file["comm"]
with h5py.File("nobytes/results.h5", "a") as file:
    del file["comm/bytes_sent"]
with h5py.File("nosamples/results.h5", "a") as file:
    del file["train/samples"]
with h5py.File("uneven/results.h5", "a") as file:
    values = file["eval/accuracy"][:-1]
    del file["eval/accuracy"]
    file["eval/accuracy"] = values
PY
for what in nocomm nobytes; do
  expect "$what" 0 '^$' post plot $what --by sync.scheme -o x.png
done
expect nosamples 0 '^$' post plot nosamples -o x.png
expect uneven 65 '^error: uneven/results.h5: .*/eval: columns of unequal lengths' \
  post export uneven -o x.csv --table eval

# A file on which HDF5 crashes is named.
expect "a crash" 65 '^error: bsp/results.h5: damaged: the HDF5 library crashes' env \
  PYTHONPATH="$source_dir/postprocess" "$python" - <<'PY'
import os, signal, subprocess, sys
import h5py
os.makedirs("bsp", exist_ok=True)
h5py.File("bsp/results.h5", "w").close()
import run_reader
def crash(*_):
    os.kill(os.getpid(), signal.SIGABRT)
run_reader._read = crash
run_reader.run_main(lambda _: run_reader.open_run("bsp"))
PY

# NCCL does not tell waiting from communication.
make_run nccl
"$python" - <<'PY'
import h5py
with h5py.File("nccl/results.h5", "a") as file:
    file["comm/wait_s"][...] = float("nan")
PY
expect "waiting is not known" 0 'communication and waiting' bash -c \
  "'$python' '$source_dir/postprocess/plot.py' nccl -o nccl.svg && cat nccl.svg"
make_run plain
expect "waiting is known" 1 '^$' bash -c "'$python' \
  '$source_dir/postprocess/plot.py' plain -o plain.svg && grep 'ation and waiting' plain.svg"
expect "a column without numbers" 65 '^note: nccl/results.h5: comm/wait_s contains no finite values' \
  post plot nccl --column comm/wait_s -o x.png

# Recorded studies with gaps.
mkdir study
cat >study/study.sweep <<'SWEEP'
[sweep]
input = base.ini
[sizes]
short = run.steps=1
[final]
seeds = 1 2
[variants]
asp = sync.scheme=asp
switch5 = sync.scheme=sync_switch
[rules]
order = accuracy(asp) | >= 0 | -
SWEEP
echo >study/base.ini
cat >study/results.csv <<'CSV'
size,cell,seed,state,git,accuracy,bytes,virtual_s
short,asp,1,diverged,x,,0,10
short,asp,2,diverged,x,,0,10
CSV
cat >study/curves.csv <<'CSV'
size,cell,seed,epoch,virtual_s,bytes,accuracy
short,asp,1,1,5,0,0.1
short,asp,1,2,10,0,
short,asp,2,1,5,0,0.2
CSV
expect "a study with gaps" 0 'not reproduced: diverged' post study study
expect "its ends" 65 'must end in .png or .pdf or .svg' \
  post finals_plot study -o finals
expect "without schemes" 0 '^$' post finals_plot study -o finals.png
expect "beta" 65 '^error: .*--beta: at least 0' post switch_timing next "$work" --beta=nan

# Keys of [over] with the same last word.
cat >over.sweep <<'SWEEP'
[sweep]
input = base.ini
command = simulate
[final]
seeds = 1
[over]
run.steps = 8 16
local_sgd.steps = 4 5
run.workers = 2
[variants]
a = sync.scheme=local_sgd
SWEEP
echo >base.ini
expect "points of a sweep" 0 \
  'a-local_sgd.steps-4 a-local_sgd.steps-5 a-run.steps-16 a-run.steps-8 a-workers-2' env \
  PYTHONPATH="$source_dir/jobs:$source_dir/postprocess" "$python" -c '
import sweep_file
print(*sorted(sweep_file.read_sweep("over.sweep", []).variants))'

# What workers would do without waiting: each at its own rate, updates included.
"$python" - <<'PY'
import h5py
import numpy as np
with h5py.File("simulated.h5", "w", userblock_size=512) as file:
    for name, values in {"rank": [0, 1], "steps": [10, 10], "samples": [160, 160],
                         "compute_s": [10.0, 2.0], "update_s": [10.0, 2.0]}.items():
        file[f"workers/{name}"] = np.array(values)
    file["summary/samples"] = 320.0
PY
expect "without waiting" 0 '^20.0,4.0 48.0$' env PYTHONPATH="$source_dir/postprocess" \
  "$python" -c '
import scaling_plot
from run_reader import Run
import h5py
run = Run("simulated.h5")
with h5py.File("simulated.h5") as file:
    run.tables = {"workers": {key: file["workers"][key][()] for key in file["workers"]}}
    run.summary = {"samples": 320.0}
busy = scaling_plot.busy_seconds(run)
print(",".join(map(str, busy)), scaling_plot.rate_without_waiting(run, busy))'
finish
