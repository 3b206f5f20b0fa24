#!/usr/bin/env bash
# The pictures of postprocess/, and the points in them, of generated results with
# known answers.
# shellcheck source=postprocess.sh
source "$(dirname "$0")/postprocess.sh"
usual_runs
make_run lost scheme=bsp seed=5 accuracy=nan

# Pictures: every scheme has a look of its own, whatever is drawn beside it.
expect "a look for every scheme" 0 '^all [0-9]+ differ$' "$python" - \
  "$source_dir/postprocess" <("${SYNCOPATE:?}" list schemes | cut -d' ' -f1) <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
from styles import HIDDEN, PARTS, styles_of
schemes = open(sys.argv[2]).read().split()
looks = styles_of(schemes)
assert len({str(look) for look in looks}) == len(schemes), looks
assert styles_of(["asp", schemes[-1]])[1] == looks[-1]
# A scheme has its colour and marker, whatever is drawn beside it, unless there are
# more than four lines of it: these have colours and markers that no scheme has. No
# two lines look the same, and no part of a worker's time looks like a scheme.
def mark(look):
    return look["color"], look["marker"]
marks = {scheme: mark(look) for scheme, look in zip(schemes, looks)}
assert len(set(marks.values())) == len(schemes), marks
colours, markers = map(set, zip(*marks.values()))
gossip = ["d_psgd"] + ["choco"] * 5 + ["dcd_psgd"] * 2 + ["ecd_psgd"]
for lines in (["asp"] * 4, ["asp"] * 20, ["asp", "ssp"] * 9, schemes + [None],
              ["asp", None, "asp", "ssp"], ["bsp"] + gossip):
    found = styles_of(lines)
    assert len({str(look) for look in found}) == len(lines), found
    for scheme, look in zip(lines, found):
        if scheme and lines.count(scheme) <= 4:
            assert mark(look) == marks[scheme], (lines, look)
        else:
            assert look["color"] not in colours, (lines, look)
            assert look["marker"] not in markers, (lines, look)
assert not colours & {HIDDEN, *PARTS.values()}, PARTS
first, second = styles_of(["asp", "esync", "asp"])[::2]
assert first["linestyle"] != second["linestyle"], (first, second)
print(f"all {len(schemes)} differ")
PY
expect "points of a target" 0 '^$' post plot km1 km2 km3 km4 --by sync.scheme \
  --target 'accuracy >= 0.6' -o target.csv --data-only
expect "points of a target, exact" 0 \
  'bsp,virtual_s,30.0,0.333.*bsp,virtual_s,60.0,0.666.*virtual_s,20.0,,,,1' \
  cat target.csv
expect "picture of a target" 0 '^$' post plot km1 km2 km3 km4 --by sync.scheme \
  --target 'accuracy >= 0.6' -o target.svg
expect "what it shows" 0 'share of runs with accuracy' cat target.svg
# What is drawn, asked of matplotlib.
expect "markers of a target" 0 '^\[\[30.0, 0.33.*\[60.0, 0.66[0-9]+\]\]$' env \
  PYTHONPATH="$source_dir/postprocess" "$python" -c '
import target
from run_reader import open_runs
from styles import prepare
runs = open_runs(["km1", "km2", "km3", "km4"])
figure = target.figure_of(prepare(), runs, "sync.scheme",
                          target.parse_target("accuracy>=0.6"))
line = figure.axes[0].lines[0]
print(line.get_xydata()[line.get_markevery()].tolist())'
expect "a target without groups" 65 '^error: --target needs --by KEY' \
  post plot km1 --target accuracy=0.6 -o target.svg
expect "unknown suffix" 65 'must end in .png' post plot bsp1 -o x.bmp
expect "cannot create" 73 '^error: no/x.png' post plot bsp1 -o no/x.png

expect "picture" 0 '^$' post plot bsp1 bsp2 asp1 -o out.png
expect "picture is one" 0 'PNG' head -c 8 out.png
expect "picture has ink" 0 'ok' "$python" -c '
import matplotlib.image
image = matplotlib.image.imread("out.png")
ink = (image[..., :3].min(axis=2) < 0.9).mean()
print("ok" if image.shape[1] > 1000 and 0.01 < ink < 0.5 else ink)'
expect "one clock" 0 '^$' post plot bsp1 bsp2 -o one.svg
expect "one panel of bars" 0 '^1$' grep -c 'time went' one.svg
expect "bars of means" 0 'went .*mean over workers' grep 'time went' one.svg
expect "bars of workers" 0 '^$' post plot bsp1 bsp2 --per-worker -o each.svg
expect "each has one" 0 'bsp2, worker 1' grep -o 'bsp[12], worker [01]' each.svg
expect "and no means" 1 '' grep 'mean over workers' each.svg
# Names that matplotlib would take for mathematics, or leave out of legends.
cp -r bsp1 _odd
cp -r bsp1 "a\$x\$b"
expect "odd names" 0 '^$' post plot _odd "a\$x\$b" -o odd.svg
expect "no mathematics" 0 '^False True$' env PYTHONPATH="$source_dir/postprocess" "$python" -c '
import sys
from matplotlib.cbook import is_math_text
from styles import plain
print(bool(is_math_text(plain(sys.argv[1]))), bool(is_math_text(sys.argv[1])))' "a\$x\$b"
[[ $(grep -cE '<!-- *_odd -->' odd.svg) == 2 ]] || { echo "FAILED: no legend of _odd"; exit 1; }
expect "two clocks" 0 '^$' post plot bsp1 wall bsp2 -o two.svg
expect "a panel for each" 0 'went \(virtual s, mean.*went \(s, mean' \
  grep 'time went' two.svg
expect "not a number" 0 '^$' post plot lost -o lost.svg
expect "is told" 0 '^4$' grep -c 'no finite values' lost.svg
expect "pdf" 0 '^$' post plot bsp1 -o out.pdf
expect "pdf is one" 0 '%PDF' head -c 4 out.pdf
expect "points" 0 '^$' post plot bsp1 -o out.csv --data-only
# An evaluation's samples: 80 worker steps of 8 samples in all, half way 320.
expect "points, exact" 0 'bsp1,eval accuracy,samples,320.0,0.45' cat out.csv
expect "points of the bars" 0 'bsp1,waiting for others,worker,1,0.4' cat out.csv

make_run fine scheme=bsp seed=7 rows=70
make_run auc scheme=bsp seed=9 metric=auc accuracy=0.7
make_run f1 scheme=bsp seed=8 metric=f1 accuracy=88
expect "the default picture" 0 '^as it should be$' env \
  PYTHONPATH="$source_dir/postprocess" "$python" - <<'PY'
import plot_runs
from run_reader import open_runs
from styles import prepare

plt = prepare()


def figure_of(*names):
    figure = plot_runs.figure_of(plt, open_runs(names), False)
    figure.canvas.draw()
    return figure


def rows_of(figure):
    return {panel.get_ylabel(): panel for panel in figure.axes
            if panel.get_ylabel()}


def crosses(panel):
    return [line.get_xydata()[0].tolist() for line in panel.lines
            if line.get_marker() == "x"]


# Metrics of different names or units do not share an axis.
rows = rows_of(figure_of("bsp1", "f1", "asp1"))
assert list(rows) == ["training loss", "evaluation accuracy",
                      "evaluation F1 (%)"], rows
assert rows["evaluation accuracy"].get_ylim()[1] < 1
assert "evaluation AUC" in rows_of(figure_of("auc"))
# One that diverged ends with a cross, and does not set the scale.
panel = rows_of(figure_of("bsp1", "nan1", "fine"))["training loss"]
assert crosses(panel) == [[30, 2 / 3]], crosses(panel)
panel = rows_of(figure_of("bsp1", "exploded"))["training loss"]
low, high = panel.get_ylim()
assert 2 < high < 2.5, high
assert crosses(panel) == [[40, high]], crosses(panel)
# Where all did, the scale is logarithmic.
panel = rows_of(figure_of("exploded"))["training loss"]
assert panel.get_yscale() == "log" and crosses(panel) == [[40, 1e20]]
# Labels, legends and panels are within the figure.
every = ["bsp1", "bsp2", "asp1", "wall", "exploded", "f1",
         "long/a-name-of-thirty-one-characters"]
for names in (every[-1:], every[:3], every + [
        "asp2", "bsp3", "stopped", "other", "km1", "km2", "km3", "km4"]):
    figure = figure_of(*names)
    whole = figure.bbox
    for artist in [*figure.legends, *figure.axes]:
        box = artist.get_tightbbox(figure.canvas.get_renderer())
        assert whole.x0 <= box.x0 and box.x1 <= whole.x1, (names, artist, box)
        assert whole.y0 <= box.y0 and box.y1 <= whole.y1, (names, artist, box)
    shown = {text.get_text().removesuffix(" (diverged)")
             for legend in figure.legends for text in legend.get_texts()}
    assert shown == {name.rpartition("/")[2] for name in names}, shown
print("as it should be")
PY
# Means over seeds, against time and bytes: at the second of four evaluations
# 0.9 / 2, 0.91 / 2, 0.92 / 2; half: 0.02484 / 2; two rows of 1000 bytes.
expect "means" 0 '^$' post plot bsp1 bsp2 bsp3 asp1 nan1 --by sync.scheme \
  -o means.csv --data-only
expect "means, exact" 0 'bsp,1,20.0,2000.0,0.455,0.01242' cat means.csv
expect "means, without those that diverged" 0 \
  'asp \(1 of 2 diverged\),3,40.0,4000.0,0.8,' cat means.csv
expect "no mean over one that did not finish" 0 '^$' post plot asp1 asp2 stopped \
  killed --by sync.scheme -o means.csv --data-only
expect "and why" 0 \
  'asp \(1 of 4 unfinished, 1 of 4 without evaluations\)",3,40.0,4000.0,0.81,' \
  cat means.csv
expect "on the clock of what is drawn" 0 '^sync.scheme,evaluation,virtual_s,' \
  cat means.csv
# Means are over equal steps, also where a run lacks the first evaluations; at a
# limit of time, runs may end at other steps.
make_run late2 scheme=bsp seed=2 accuracy=0.7 from=3 restarts=1
make_run late3 scheme=bsp seed=3 accuracy=0.5 from=2 restarts=1
expect "means over equal steps" 0 '^$' post plot bsp1 late2 late3 \
  --by sync.scheme -o equal.csv --data-only
expect "means over equal steps, exact" 0 \
  'half_95.bsp,0,30.0,3000.0,0.525[0-9]*,[0-9.]+.bsp,1,40.0,4000.0,0.7[0-9]*,[0-9.]+$' cat equal.csv
make_run early4 scheme=bsp seed=4 rows=8 evaluations=1
expect "no equal steps" 65 '^error: late2, early4: have no evaluation step in common$' \
  post plot late2 early4 --by sync.scheme -o no.csv --data-only
expect "published runs" 0 '^\[15.0\]$' env PYTHONPATH="$source_dir/postprocess" "$python" -c '
import plot_means
from run_reader import open_runs
runs = open_runs(["bsp1", "late2"])
for run, time in zip(runs, (10, 20)):
    run.is_published = True
    run.tables["eval"]["worker_steps"][:] = time
    run.tables["eval"]["time_s"] = run.tables["eval"]["time_s"][:1] * 0 + time
    for name in run.tables["eval"]:
        run.tables["eval"][name] = run.tables["eval"][name][:1]
print(plot_means.curve_of(runs, "accuracy", "time_s")["time"].tolist())'
expect "where runs end" 0 '^as it should be$' env \
  PYTHONPATH="$source_dir/postprocess" "$python" - <<'PY'
import numpy as np
import plot_means
for steps, expected in (
        (([4, 8, 11], [4, 8, 12]), [[0, 1, 2]] * 2),
        (([4, 8, 11], [4, 8, 12, 14]), [[0, 1, 2]] * 2),
        (([4, 8, 12], [4, 8, 12, 14]), [[0, 1, 2]] * 2),
        (([12], [4, 8, 12]), [[0], [2]]),
        (([12, 14], [4, 8, 12]), [[0], [2]]),
        (([10], [12]), [[0]] * 2),
        (([8, 12], [4, 8]), [[0], [1]])):
    rows = plot_means.common_rows([np.array(one) for one in steps])
    assert [list(one) for one in rows] == expected, (steps, rows)
print("as it should be")
PY
make_run going scheme=ssp seed=1 ended=killed
expect "runs on their way" 0 '^$' post plot bsp1 going nan1 \
  --by sync.scheme -o means.svg
expect "told in the legend" 0 'ssp \(1 of 1 unfinished\)' \
  grep -o 'ssp (.*)' means.svg
expect "a group that diverged is in the legend" 0 'asp \(1 of 1 diverged\)' \
  grep -o 'asp (.*)' means.svg
expect "picture of means" 0 '^$' \
  post plot bsp1 bsp2 bsp3 asp1 --by sync.scheme -o means.svg
expect "what its bands are" 0 'band: 95% interval of the mean, n = 3 ' \
  grep 'band: ' means.svg
expect "picture of unequal means" 0 '^$' \
  post plot bsp1 bsp2 bsp3 asp1 asp2 --by sync.scheme -o unequal.svg
expect "what they are in this" 0 'band: 95% interval of the mean ' \
  grep 'band: ' unequal.svg
expect "no bands" 0 '^$' post plot bsp1 asp1 --by sync.scheme -o bare.svg
expect "none to explain" 1 '^$' grep 'band: ' bare.svg
expect "its two panels" 0 'virtual time.*payload sent' \
  grep -E 'virtual time|payload' means.svg
expect "their axis holds the last interval, not the first" 0 '^0.2 1.0$' \
  env PYTHONPATH="$source_dir/postprocess" "$python" -c '
import numpy as np, plot_means
line = [np.array(v) for v in ((1, 2), (0.5, 0.6), (0.1, 0.3), (0.9, 0.95))]
print(*(round(end, 1) for end in plot_means.limits_of({"a": {"time": line}}, (0, 1))))'
expect "a band that the axis cuts is said to be cut" 0 \
  '^95% interval of the mean, n = 3 and .* n = 3 .cut by the axis.$' \
  env PYTHONPATH="$source_dir/postprocess" "$python" -c '
import numpy as np, plot_means
def band(first):
    line = [np.array(v) for v in ((1, 2), (0.5, 0.6), (first, 0.3), (0.9, 0.95))]
    curves = {"a": {"time": line, "runs": 3}}
    return plot_means.band_of(curves, plot_means.limits_of(curves, (0, 1)))
print(band(0.3), "and", band(0.1))'
expect "bands that hide each other have panels of their own" 0 '^False True False$' \
  env PYTHONPATH="$source_dir/postprocess" "$python" -c '
import numpy as np, plot_means
def lines(shifts, last=10):
    x = np.arange(1.0, last)
    return {str(shift): {"time": (x, 0 * x + shift, 0 * x + shift - 1,
                                  0 * x + shift + 1)} for shift in shifts}
hides = plot_means.bands_hide_each_other
print(hides(lines([0, 3, 6, 9])), hides(lines([0, 0.5, 1, 9])),
      hides(lines([0, 0.5]) | lines([1], 2)))'
expect "axes of bytes, and ends of what diverged" 0 '^as it should be$' env \
  PYTHONPATH="$source_dir/postprocess" "$python" - <<'PY'
import numpy as np

import plot_means
import study
from styles import prepare

plt = prepare()


def bytes_panel(sent, **more):
    x = np.array([1.0, 2.0, 3.0])
    blank = np.full(3, np.nan)
    curves = {str(part): {"time": (x, x, blank, blank), "runs": 1,
                          "bytes": (x * part, x, blank, blank), **more}
              for part in sent}
    figure = plot_means.figure_of(plt, curves, ["bsp"] * len(sent),
                                  ("time", "loss"), (0, np.inf))
    figure.canvas.draw()
    return figure.axes[1]


def labelled(panel):
    low, high = panel.get_xlim()
    return [tick.get_text() for tick in panel.get_xticklabels()
            if tick.get_text() and low <= tick.get_position()[0] <= high]


# Linear from 0; logarithmic with more labels than powers of ten.
panel = bytes_panel([2, 3])
assert panel.get_xscale() == "linear" and panel.get_xlim()[0] == 0
assert labelled(bytes_panel([12, 200])) == ["20", "50", "100", "200", "500"]
assert labelled(bytes_panel([1, 9e5])) == [
    "1", "10", "100", "1000", "10000", "100000", "1e+06"]
# A study's line ends in a cross if all seeds diverged; those that diverged are no
# part of the others' mean, and neither are those without an evaluation.
row = {"cell": "bad", "scheme": "choco", "state": "diverged", "seed": "1"}
second = {**row, "seed": "2"}
whole = {**second, "state": "finished"}
evaluations = [{"cell": "bad", "seed": seed, "virtual_s": time, "bytes": 9e6,
                "accuracy": int(seed) / 10} for seed in "12" for time in (1, 2)]
for rows, points, expected in (
        ([row, second], evaluations, (True, 2, 0.15)),
        ([row, whole], evaluations, (False, 1, 0.2)),
        ([row, whole], evaluations[2:], (False, 1, 0.2))):
    (label, line), = study.lines_of(rows, points, (0, 1))[0].items()
    found = line["diverged"], line["runs"], round(line["time"][1][-1], 6)
    assert found == expected, (found, expected)
    assert label == f"bad ({2 if rows[1] is second else 1} diverged)", label
crosses = [each.get_xydata().tolist() for each in bytes_panel(
    [2], diverged=True).lines if each.get_marker() == "x"]
assert crosses == [[[6, 3]]], crosses
print("as it should be")
PY
# What was recorded is drawn: slices, and an arrow from a send to its receive.
cat >trace.json <<'JSON'
{"otherData": {"scheme": "bsp", "clock": "virtual"},
"traceEvents": [
{"pid": 0, "tid": 1, "ph": "X", "ts": 0, "dur": 600000000, "name": "step", "args": {"step": 1}},
{"pid": 0, "tid": 2, "ph": "X", "ts": 600000000, "dur": 400000000, "name": "wait", "args": {"step": 1}},
{"pid": 0, "tid": 3, "ph": "X", "ts": 500000000, "dur": 100000000, "name": "bucket 0", "args": {"step": 1}},
{"pid": 0, "tid": 3, "ph": "s", "id": "a", "ts": 500000000},
{"pid": 1, "tid": 103, "ph": "X", "ts": 600000000, "dur": 200000000, "name": "bucket 0", "args": {"step": 1}},
{"pid": 1, "tid": 103, "ph": "f", "id": "a", "ts": 700000000}
]}
JSON
expect "its slices, each worker under the one before, and its arrow" 0 \
  "^\{'compute': \[\[0, 0.0, 600\]\], 'communication': \[\[500, 0.47, 100\], \[600, 1.47, 200\]\], 'blocked': \[\[600, 0.0, 400\]\]\} \[500, 0.66, 700, 1.66\]$" \
  env PYTHONPATH="$source_dir/postprocess" "$python" -c '
import timeline
from matplotlib.colors import to_rgba
panel = timeline.figure_of(timeline.read_trace("trace.json"), (0, 1000), [0, 1]).axes[0]
found = {}
for name, colour in timeline.COLOURS.items():
    for each in panel.collections:
        if len(each.get_facecolor()) and tuple(each.get_facecolor()[0]) == to_rgba(colour):
            found.setdefault(name.split()[0], []).extend(
                [round(box.x0), round(box.y0, 2), round(box.width)]
                for box in (path.get_extents() for path in each.get_paths()))
(begin, end), = (arrow._posA_posB for arrow in panel.patches)
print(found, [round(begin[0]), round(begin[1], 2), round(end[0]), round(end[1], 2)])'

# A tick at the end of the time axis has all of its label.
cat >trace.json <<'JSON'
{"otherData": {"scheme": "bsp", "clock": "virtual"},
"traceEvents": [
{"pid": 0, "tid": 1, "ph": "X", "ts": 0, "dur": 600000000, "name": "step", "args": {"step": 1}},
{"pid": 0, "tid": 2, "ph": "X", "ts": 600000000, "dur": 400000000, "name": "wait", "args": {"step": 1}}
]}
JSON
expect "the timeline" 0 '^within. compute communication blocked' env \
  PYTHONPATH="$source_dir/postprocess" "$python" -c '
import timeline
figure = timeline.figure_of(timeline.read_trace("trace.json"), (0, 1000), [0])
figure.canvas.draw()
box = figure.axes[0].get_tightbbox(figure.canvas.get_renderer())
print("within," if box.x1 <= figure.bbox.x1 else (box, figure.bbox),
      *(text.get_text() for text in figure.legends[0].get_texts()))'
expect "means of unlike data" 65 '^error: unlike data' \
  post plot bsp1 other --by sync.scheme -o no.png
# Predictions: variants of a scheme that differ in a number have a line each, in
# any order of the files, and a point is of one configuration.
made() { # made NAME SAMPLES_PER_S KEY=VALUE...
  "$python" - "$@" <<'PY'
import sys
import h5py
name, rate, *pairs = sys.argv[1:]
with h5py.File(name + ".h5", "w") as file:
    file["workers/compute_s"] = [1.0, 1.0]
    for key, value in (("samples_per_s", float(rate)), ("virtual_s", 2.0),
                       ("samples", 2 * float(rate))):
        file["summary/" + key] = value
    file.create_group("provenance").attrs.update(
        world="simulation", input="".join("[{}]\n{}\n".format(
            *pair.split(".", 1)) for pair in pairs))
PY
}
for workers in 2 4; do
  made of_bsp-$workers ${workers}0 sync.scheme=bsp run.workers=$workers run.seed=1
  for steps in 8 64; do
    made of_local$steps-$workers $((workers * steps)) sync.scheme=local_sgd \
      run.workers=$workers local_sgd.steps=$steps run.seed=1
  done
  made other_seed-$workers ${workers}2 sync.scheme=bsp run.workers=$workers run.seed=2
done
cat >lines.csv <<'END'
run.workers,2.0,bsp,21.0
run.workers,2.0,local_sgd steps=64,128.0
run.workers,2.0,local_sgd steps=8,16.0
run.workers,2.0,without waiting,256.0
run.workers,4.0,bsp,41.0
run.workers,4.0,local_sgd steps=64,256.0
run.workers,4.0,local_sgd steps=8,32.0
run.workers,4.0,without waiting,512.0
END
expect "lines of variants" 0 '^$' post scaling_plot of_bsp* of_local8* of_local64* \
  other_seed* -o of.csv --data-only
expect "lines of variants, exact" 0 '^$' diff lines.csv \
  <(sed 1d of.csv | cut -d, -f1-4 | sort)
expect "in another order" 0 '^$' post scaling_plot of_local64* of_local8* \
  other_seed* of_bsp* -o of.csv --data-only
expect "in another order, exact" 0 '^$' diff lines.csv \
  <(sed 1d of.csv | cut -d, -f1-4 | sort)
expect "their picture" 0 '^$' post scaling_plot of_* -o of.svg
expect "their legend" 0 'steps=8.*steps=64|steps=64.*steps=8' \
  grep -o 'local_sgd steps=[0-9]*' of.svg
# With one scheme, both keys have panels; each panel is of one value of the other.
expect "two keys of one scheme" 0 '^note: 1 of 4 simulations are not drawn: they differ from the majority in two keys' \
  post scaling_plot of_local* -o of.csv --data-only
made of_longer 99 sync.scheme=bsp run.workers=4 run.seed=1 run.steps=50
expect "two lengths in one point" 65 \
  '^error: unlike simulations: run.steps is \(unset\) in of_bsp-4.h5, 50 in of_longer.h5, both at run.workers = 4 of bsp$' \
  post scaling_plot of_bsp* of_longer.h5 -o of.csv --data-only
# Any column: by worker for one run, means for several, virtual time from /train.
expect "a column" 0 '^$' post plot asp1 --column sync/staleness \
  --axis virtual_s -o column.csv --data-only
expect "a column, exact" 0 'worker 1,30.0,2.0' cat column.csv
expect "a column of two runs" 0 '^$' post plot asp1 asp2 \
  --column sync/staleness -o column.csv --data-only
expect "its mean, exact" 0 'asp2,40.0,1.5' cat column.csv
expect "its picture" 0 '^$' post plot asp1 asp2 --column sync/staleness \
  -o staleness.svg
expect "its label" 0 'staleness \(updates; mean over workers\)' \
  grep 'mean over' staleness.svg
expect "an axis that is not asked for" 65 '^error: --axis needs --column' \
  post plot bsp1 bsp2 --by sync.scheme --axis samples -o x.png
expect "picture of a column" 0 '^$' post plot bsp1 asp1 \
  --column sync/phase -o column.svg
expect "its axes" 0 'steps \(worker_steps / workers\).*phase' \
  grep -E 'steps \(|phase' column.svg
expect "no such column" 65 '^error: --column sync/phases: no run has it; asp1 has .*sync/phase ' \
  post plot asp1 --column sync/phases -o no.png

finish
