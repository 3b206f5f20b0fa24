#!/usr/bin/env bash
# How postprocess/ counts and draws runs that end without a target, diverge or
# have a single point, with answers that follow from the definitions.
# shellcheck source=postprocess.sh
source "$(dirname "$0")/postprocess.sh"
asked() { # asked NAME CODE PATTERN ARGUMENT... <PROGRAM: in Python
  expect "$1" "$2" "$3" env PYTHONPATH="${POSTPROCESS:-$source_dir/postprocess}" \
    "$python" - "${@:4}"
}
post() { "$python" "${POSTPROCESS:-$source_dir/postprocess}/$1.py" "${@:2}"; }
attribute() { # attribute RUN NAME VALUE: of its summary
  "$python" -c 'import h5py, sys
with h5py.File(f"{sys.argv[1]}/results.h5", "a") as file:
    file["summary"].attrs[sys.argv[2]] = sys.argv[3]' "$@"
}

# Five runs of 40 steps each, of which the slowest reaches 0.6, at its third
# evaluation, after 60 s. The others have used up the same steps after 40 to 52 s:
# as of steps, one of five has reached it, at every time.
for seed in 1 2 3 4; do
  make_run few$seed scheme=bsp seed=$seed accuracy=0.3 virtual_s=1$((seed - 1))
done
make_run few5 scheme=bsp seed=5 accuracy=0.9 virtual_s=20
for seed in 1 2 3; do
  make_run all$seed scheme=asp seed=$seed accuracy=0.9 virtual_s=25
done
expect "no median of fewer than half" 0 \
  'bsp +1 of 5 +>40 \[30, >40\] +>8 \[6, >8\] +>52 +>0.004 ' \
  post compare few? all? --target accuracy=0.6
expect "no verdict on it" 0 'verdict: fastest to accuracy >= 0.6: asp, median 75 ' \
  post compare few? all? --target accuracy=0.6
expect "why they count" 0 \
  '4 of 8 runs ended before they reached it: 4 used up their budget and count as runs that do not reach it$' \
  bash -c "'$python' '${POSTPROCESS:-$source_dir/postprocess}/compare.py' few? all? --target accuracy=0.6 | grep ended"
reached_shares() { # reached_shares RUN...: the steps of the curve over virtual time
  rm -f shares.csv
  post plot "$@" --by sync.scheme --target accuracy=0.6 --data-only -o shares.csv
  awk -F, '$2 == "virtual_s" && $4 { printf "%s %.3f, ", $3, $4 }' shares.csv
}
expect "a curve up to the share that reached it" 0 '^60.0 0.200, $' reached_shares few?
# Three of five reach it, after 36, 39 and 60 s; two have used up their steps after
# 20 and 24 s: half of the five have reached it after 60 s.
make_run most1 scheme=bsp seed=1 accuracy=0.3 virtual_s=5
make_run most2 scheme=bsp seed=2 accuracy=0.3 virtual_s=6
make_run most3 scheme=bsp seed=3 accuracy=0.9 virtual_s=12
make_run most4 scheme=bsp seed=4 accuracy=0.9 virtual_s=13
make_run most5 scheme=bsp seed=5 accuracy=0.9 virtual_s=20
expect "a median within the budget" 0 'bsp +3 of 5 +30 \[30, >40\] .* 60 \[36, >60\] ' \
  post compare most? --target accuracy=0.6
expect "its curve" 0 '^36.0 0.200, 39.0 0.400, 60.0 0.600, $' reached_shares most?
# The same two, cut short by what has nothing to do with them: of three that are
# left, each one that reaches it is a third.
for seed in 1 2; do
  mkdir -p cut$seed && cp most$seed/results.h5 cut$seed
  attribute cut$seed ended stopped
  attribute cut$seed stopped_by "time limit"
  "$python" -c 'import h5py, sys
with h5py.File(f"{sys.argv[1]}/results.h5", "a") as file:
    file["summary/finished"][...] = 0' cut$seed
done
expect "cut by chance" 0 '^36.0 0.333, 39.0 0.667, 60.0 1.000, $' \
  reached_shares cut1 cut2 most3 most4 most5
expect "and told" 0 \
  '2 of 5 runs ended before they reached it: 2 ended early and are censored at their last evaluation \(assumed unrelated to progress\)' \
  post compare cut1 cut2 most3 most4 most5 --target accuracy=0.6
# run.stop_at is a budget, too.
for seed in 1 2; do attribute cut$seed stopped_by none; done
expect "stopped as asked" 0 '^36.0 0.200, 39.0 0.400, 60.0 0.600, $' \
  reached_shares cut1 cut2 most3 most4 most5
# What ended at another target might have gone on.
for seed in 1 2; do
  "$python" -c 'import h5py, sys
with h5py.File(f"{sys.argv[1]}/results.h5", "a") as file:
    file["summary/target_reached"] = 1.0' most$seed
done
expect "ended at another target" 0 '^36.0 0.333, 39.0 0.667, 60.0 1.000, $' \
  reached_shares most?
# Cut by chance as most are, one of five is still no half.
for seed in 1 2 3 4; do
  make_run none$seed scheme=bsp seed=$seed accuracy=0.3 ended=killed rows=2
done
make_run none5 scheme=bsp seed=5 accuracy=0.9
expect "no median of a few that were left" 0 'bsp +1 of 5 +>20 ' \
  post compare none? --target accuracy=0.6
expect "nor a verdict" 0 'no group reached accuracy >= 0.6 in half of its runs$' \
  post compare none? --target accuracy=0.6

# Two runs reach it after 30 and 60 s: half have until 60 s, and that interval has
# a band from 30 to 60, as wide as it is. The mark has a legend entry.
make_run pair1 scheme=bsp seed=1 accuracy=0.9
make_run pair2 scheme=bsp seed=2 accuracy=0.9 virtual_s=20
asked "the band of the last step" 0 '^30 60 0.09 0.994 none; share of runs with accuracy >= 0.6; a run ended without it$' <<'PY'
import math
import target
from run_reader import open_runs
from styles import prepare
def panel_of(*names):
    figure = target.figure_of(prepare(), open_runs(names), "sync.scheme",
                              target.parse_target("accuracy=0.6"))
    return figure.axes[0], figure.legends[0].get_texts()
panel, texts = panel_of("pair1", "pair2")
points = [point for path in panel.collections[0].get_paths()
          for point in path.vertices.tolist() if point[0] >= 30 and point[1] > 0]
x, y = zip(*points)
# At a share of 1/2 of two, Greenwood's variance of the logarithm is 1/2.
width = math.exp(1.959964 * math.sqrt(0.5) / math.log(2))
assert abs(min(y) - (1 - 0.5 ** (1 / width))) < 1e-6, y
assert abs(max(y) - (1 - 0.5 ** width)) < 1e-6, y
told = [text.get_text() for text in texts]
ended = [text.get_text() for text in panel_of("few1", "few5")[1]][-1]
print(*map(round, (min(x), max(x))), *(round(v, 3) for v in (min(y), max(y))),
      *["none"] * ("a run ended without it" not in told), end="; ")
print(panel.get_ylabel(), ended, sep="; ")
PY

# A run of which the last two of four evaluations are of a model that is NaN, and
# one that has no finite value. The accuracy before is 0.225 and 0.45.
make_run lost1 scheme=asp seed=1 ended=diverged
make_run lost2 scheme=ssp seed=1 ended=diverged
"$python" - <<'PY'
import h5py
for name, kept in (("lost1", 2), ("lost2", 0)):
    with h5py.File(f"{name}/results.h5", "a") as file:
        file["eval/loss"][kept:] = float("nan")
        file["eval/accuracy"][kept:] = 0.0
        file["train/loss"][kept:] = float("nan")
PY
make_run whole scheme=bsp seed=1
asked "what diverged, drawn up to there" 0 '^as it should be$' <<'PY'
import numpy as np
import plot_means
import plot_runs
from run_reader import open_runs
from styles import prepare
runs = open_runs(["whole", "lost1", "lost2"])
kept = {}
plot_means.save = lambda figure, path: kept.update(figure=figure)
plot_means.draw(prepare(), runs, "sync.scheme", "x.png")
alone = plot_runs.figure_of(prepare(), runs, False)
expected = np.array([[10, 0.225], [20, 0.45]])
for figure, panel in ((kept["figure"], 0), (alone, 4)):
    lines = figure.axes[panel].lines
    drawn = [line.get_xydata() for line in lines if line.get_marker() == "D"]
    assert len(drawn) == 1 and len(drawn[0]) == 2, drawn
    assert np.allclose(drawn[0][:, 1], expected[:, 1]), drawn
    crosses = [line.get_xydata()[0, 1] for line in lines
               if line.get_marker() == "x"]
    assert np.allclose(crosses, 0.45), crosses
told = [[text.get_text() for text in figure.legends[0].get_texts()]
        for figure in (kept["figure"], alone)]
assert told[0] == ["bsp, n = 1", "asp (1 of 1 diverged), n = 1",
                   "ssp (1 of 1 diverged, no evaluation to draw)"], told
assert told[1] == ["whole", "lost1 (diverged)",
                   "lost2 (diverged, no finite values)"], told
print("as it should be")
PY
# It has no say in the scale of a metric without bounds, and its cross is inside.
asked "no scale" 0 '^2 1.0$' <<'PY'
import math
import numpy as np
import plot_means
from styles import prepare
x = np.array([1.0, 2.0])
blank = np.full(2, math.nan)
def curve(y, **more):
    y = np.array(y)
    return {"time": (x, y, blank, blank), "bytes": (x, y, blank, blank),
            "runs": 1, **more}
figure = plot_means.figure_of(
    prepare(), {"a": curve([2, 1]), "b": curve([3, 1e20], diverged=True)},
    ["bsp", "asp"], ("time", "loss"), (0, math.inf))
panel = figure.axes[0]
low, high = panel.get_ylim()
cross, = (line.get_ydata()[0] for line in panel.lines
          if line.get_marker() == "x")
print(round(high), cross / high)
PY

# Panels of their own: the lines of the others are darker than any band, over it and
# under the panel's line; the panels above have no room for intervals that are not
# drawn there.
asked "lines of the others" 0 '^0.5 0.7 0.1 0.9$' <<'PY'
import numpy as np
import plot_means
from matplotlib.colors import to_rgb
from styles import SCHEMES, prepare
x = np.arange(1.0, 5.0)
def curve(level):
    y = 0 * x + level
    line = (x, y, y - 0.35, y + 0.15)
    return {"time": line, "bytes": line, "runs": 3}
curves = {str(level): curve(level) for level in (0.5, 0.55, 0.6, 0.7)}
figure = plot_means.figure_of(prepare(), curves,
                              ["bsp", "dgc", "power_sgd", "asp"],
                              ("time", "accuracy"), (0, 1))
def light(colour):
    return np.dot(to_rgb(colour), (0.2126, 0.7152, 0.0722))
for panel in figure.axes[2:]:
    band, = panel.collections
    mine = max(panel.lines, key=lambda line: line.get_linewidth())
    others = [line for line in panel.lines if line is not mine]
    assert len(others) == 3, others
    for line in others:
        assert band.get_zorder() < line.get_zorder() < mine.get_zorder()
        for colour, *_ in SCHEMES.values():
            shade = 1 - band.get_alpha() * (1 - light(colour))
            assert light(line.get_color()) < shade - 0.1, (colour, shade)
main, small = (panel.get_ylim() for panel in figure.axes[1:3])
assert 0.45 < main[0] < 0.5 and 0.7 < main[1] < 0.75, main
assert small[0] < 0.15 and small[1] > 0.85, small
print("0.5 0.7 0.1 0.9")
PY

# shellcheck disable=SC2016  # dollar signs of titles
asked "titles as they are" 0 'a\\\$b\\\$' <<'PY'
import plot_means
import numpy as np
from styles import prepare
x = np.arange(1.0, 5.0)
line = (x, x, x - 0.35, x + 0.15)
curves = {f"{name}$b$": {"time": line, "bytes": line, "runs": 3} for name in "abcd"}
figure = plot_means.figure_of(prepare(), curves, [None] * 4, ("time", "x"), (0, 9))
print(figure.axes[2].get_title())
PY

# Markers: also at the last point; of a single point, which run it is of.
asked "the last point has a marker" 0 '^as it should be$' <<'PY'
import numpy as np
import plot_means
from styles import prepare, styles_of
for count in (1, 2, 9, 17, 18, 23, 200):
    x = np.arange(count, dtype=float)
    blank = np.full(count, np.nan)
    panel = prepare().figure().add_subplot()
    plot_means.draw_line(panel, (x, x, blank, blank), styles_of(["bsp"])[0],
                         False)
    line, = panel.lines
    places = np.arange(count)[line.get_markevery()] \
        if not isinstance(line.get_markevery(), int) \
        else np.arange(count)[::line.get_markevery()]
    assert places[0] == 0 and places[-1] == count - 1, (count, places)
    assert len(places) <= 18, (count, places)
def point(look):
    return {name: value for name, value in look.items() if name != "linestyle"}
looks = [str(point(look)) for look in styles_of(["choco"] * 4)]
assert len(set(looks)) == 4, looks
print("as it should be")
PY

# A histogram of pushes by staleness: of one run a map of colours, of several the
# mean that its rows count; values that never were have no line in the table.
for seed in 1 2; do
  make_run pushes$seed scheme=asp seed=$seed
  "$python" - pushes$seed <<'PY'
import sys
import h5py
import numpy as np
counts = np.zeros((4, 9))
counts[:, 1], counts[:2, 3] = 3, 1    # means 1.5 and 1
with h5py.File(f"{sys.argv[1]}/results.h5", "a") as file:
    del file["sync/staleness"]
    file["sync/staleness"] = counts
    file["sync/staleness"].attrs["units"] = "pushes"
PY
done
expect "pushes of one run" 0 '^$' post plot pushes1 --column sync/staleness \
  --data-only -o pushes.csv
expect "only values there were" 0 '^staleness 1 staleness 3 $' \
  bash -c "sed 1d pushes.csv | cut -d, -f1 | sort -u | tr '\n' ' '"
expect "pushes of two runs" 0 '^$' post plot pushes1 pushes2 \
  --column sync/staleness --data-only -o pushes.csv
expect "their mean" 0 'pushes1,20.0,1.5.*pushes1,30.0,1.0.*pushes2,10.0,1.5' \
  cat pushes.csv
expect "a map of one run" 0 '^$' post plot pushes1 --column sync/staleness -o one.svg
expect "what it shows" 0 'pushes in each row.*(updates)' \
  bash -c "grep -o 'pushes in each row' one.svg; grep -o '(updates[^<]*' one.svg"
# Among more than 256 workers a bin has several values: here 2, with means 3.5 and 2.5.
mkdir -p wide && cp pushes1/results.h5 wide
"$python" -c 'import h5py
with h5py.File("wide/results.h5", "a") as file:
    file["sync/staleness"].attrs["description"] = "pushes by how many, 2 values to a column"'
expect "bins of two values" 0 '^staleness 2 to 3 staleness 6 to 7 $' \
  bash -c "'$python' '${POSTPROCESS:-$source_dir/postprocess}/plot.py' wide --column sync/staleness \
    --data-only -o wide.csv && sed 1d wide.csv | cut -d, -f1 | sort -u | tr '\n' ' '"
expect "means of bins" 0 '^$' post plot wide pushes1 --column sync/staleness --data-only -o wide.csv
expect "the mean of bins" 0 'wide,20.0,3.5.*wide,30.0,2.5.*pushes1,10.0,1.5' cat wide.csv
# Before a resume with more workers there were fewer columns, or other bins.
asked "a histogram of fewer workers" 0 '^1.5 0.0$' <<'PY'
import numpy as np
from plot import mean_of_histograms
print(*mean_of_histograms(np.array([[0, 1, 1, np.nan], [2, 0, 0, 0]]), 1))
PY
mkdir -p parts && cp wide/results.h5 parts/results.h5 && cp pushes1/results.h5 parts/early.h5
"$python" -c 'import h5py
with h5py.File("parts/results.h5", "a") as file:
    file["provenance"].attrs["continues"] = "early.h5"
    file["provenance"].attrs["continues_from"] = 40'
expect "other bins before" 0 \
  '^note: .*parts/results.h5: sync/staleness of its earlier part is left out: it counts by other bins$' \
  post plot parts pushes1 --column sync/staleness --data-only -o parts.csv
expect "are left out" 0 'parts,10.0,nan.*parts,20.0,nan.*parts,10.0,3.5' cat parts.csv
# The mean over many workers says so, also of one run.
make_run many scheme=asp workers=40
expect "a column of many workers" 0 '^$' post plot many --column sync/staleness -o many.svg
expect "its label" 0 'updates; mean over workers' grep 'mean over' many.svg
expect "a map has no legend of columns" 1 '^$' grep -E 'column 0|staleness 1 ' one.svg

# A loss that exploded has an exponent in the table, and in the verdict.
for seed in 1 2; do
  make_run huge$seed scheme=bsp seed=$seed metric=loss accuracy=1
  "$python" -c 'import h5py, sys
with h5py.File(f"{sys.argv[1]}/results.h5", "a") as file:
    file["eval/loss"][-1] = 1e23 * int(sys.argv[2])' huge$seed $seed
done
expect "a loss that exploded" 0 ' 1.5e\+23 ± 6.353e\+23 ' post compare huge1 huge2
expect "and in the verdict" 0 'lowest loss .*: bsp, 1.5e\+23 ± 6.353e\+23 ' \
  post compare huge1 huge2

# The legend of predictions is within the figure, also where its names are long.
"$python" - <<'PY'
import h5py
for scheme, ratio in (("asp", ""), ("sgp", ""), ("dgc", "0.99"), ("dgc", "0.9")):
    for key, value in (("run.workers", "3"), ("run.workers", "6"),
                       ("network.mbit_s", "20"), ("network.mbit_s", "90")):
        keys = {"sync.scheme": scheme, "run.workers": "3",
                "network.mbit_s": "20", key: value}
        if ratio:
            keys["compress.ratio"] = ratio
        name = f"of-{scheme}{ratio}-{key}-{value}.h5"
        with h5py.File(name, "w") as file:
            file["workers/compute_s"] = [1.0, 1.0]
            for figure, number in (("samples_per_s", 9.0), ("virtual_s", 2.0),
                                   ("samples", 18.0)):
                file["summary/" + figure] = number
            file.create_group("provenance").attrs.update(
                world="simulation", input="".join("[{}]\n{} = {}\n".format(
                    *one.split(".", 1), set_to)
                    for one, set_to in keys.items()))
PY
asked "a legend within the figure" 0 '^as it should be$' <<'PY'
import glob
import scaling_plot
from run_reader import open_simulation
kept = {}
scaling_plot.save = lambda figure, path, dpi: kept.update(figure=figure)
runs = [open_simulation(path) for path in sorted(glob.glob("of-*.h5"))]
scaling_plot.draw(runs, scaling_plot.varied_keys(runs), "x.png")
figure = kept["figure"]
figure.canvas.draw()
box = figure.legends[0].get_window_extent()
space = 0.05 * figure.dpi
assert box.x0 >= space and box.x1 <= figure.bbox.x1 - space, (box, figure.bbox)
assert box.y0 >= figure.axes[0].get_window_extent().y1, box
print("as it should be")
PY
finish
