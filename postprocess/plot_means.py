"""plot.py --by: the evaluation's figure over time and over bytes, a line a
group of runs: the mean over seeds with its 95% band.
"""
import numpy as np

from groups import grouped, interval, metric_of, refuse_unlike
from style import styles_for

TIMES = {"virtual_s": "virtual time (s)",
         "time_s": "training time on this machine (s)"}


def curve_of(runs, metric, clock):
    """{"y", "half", "time", "bytes"}: a value an evaluation that all the runs
    have, means over them; half is that of the 95% interval, NaN for one."""
    rows = min(len(run.column("eval", metric)) for run in runs)

    def mean_and_half(columns):
        points = [interval(values) for values in
                  zip(*(column[:rows] for column in columns))]
        return np.array(points).reshape(-1, 2).T

    y, half = mean_and_half([run.column("eval", metric) for run in runs])
    time, _ = mean_and_half([run.column("eval", clock) for run in runs])
    sent, _ = mean_and_half([
        run.sent_per_worker(run.column("eval", "worker_steps"))
        for run in runs])
    return {"y": y, "half": half, "time": time, "bytes": sent}


def curves_of(runs, by):
    """{label: curve}, the metric's name and the clock. Runs that diverged are
    in no mean; the label tells of them."""
    refuse_unlike(runs, by)
    metric = metric_of(runs)
    clock = "virtual_s" if all(run.has_virtual_time() for run in runs) \
        else "time_s"
    curves = {}
    for label, group in grouped(runs, by).items():
        whole = [run for run in group if not run.has_diverged
                 and len(run.column("eval", metric))]
        if len(whole) < len(group):
            label += f" ({len(group) - len(whole)} of {len(group)} diverged)"
        if whole:
            curves[label] = curve_of(whole, metric, clock)
    return curves, metric, clock


def rows_of(runs, by):
    """The plotted points as rows of a table."""
    curves, metric, clock = curves_of(runs, by)
    yield [by, "evaluation", clock, "bytes_sent_a_worker", metric, "half_95"]
    for label, curve in curves.items():
        for row, values in enumerate(zip(curve["time"], curve["bytes"],
                                         curve["y"], curve["half"])):
            yield [label, row] + ["" if value != value else repr(float(value))
                                  for value in values]


def draw(plt, runs, by, path):
    """Two panels that share the metric's axis."""
    curves, metric, clock = curves_of(runs, by)
    figure, panels = plt.subplots(1, 2, sharey=True, figsize=(10, 4.3))
    sent = [curve["bytes"][curve["bytes"] > 0] for curve in curves.values()]
    sent = np.concatenate(sent) if sent else np.empty(0)
    for panel, key, unit in ((panels[0], "time", 1), (panels[1], "bytes", 1e6)):
        for (label, curve), style in zip(curves.items(),
                                         styles_for(curves)):
            x = curve[key] / unit
            shown = x > 0 if key == "bytes" else np.isfinite(x)
            panel.plot(x[shown], curve["y"][shown], label=label, **style)
            if np.isfinite(curve["half"]).any():
                panel.fill_between(
                    x[shown], (curve["y"] - curve["half"])[shown],
                    (curve["y"] + curve["half"])[shown],
                    color=style["color"], alpha=0.13, linewidth=0)
        panel.grid(alpha=0.3)
        panel.margins(x=0.02)
    panels[0].set_xlim(left=0)
    panels[0].set_xlabel(TIMES[clock])
    panels[0].set_ylabel(
        f"evaluation {runs[0].with_unit(metric)}".replace("_", " "))
    panels[1].set_xlabel("payload sent by a worker (MB)")
    # The bytes that schemes send differ by orders of magnitude.
    if len(sent) and sent.max() > 20 * sent.min():
        panels[1].set_xscale("log")
        panels[1].xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    columns = min(4, max(1, len(curves)))
    rows = -(-len(curves) // columns)
    figure.subplots_adjust(left=0.07, right=0.985, bottom=0.12, wspace=0.06,
                           top=0.98 - 0.052 * rows)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncol=columns,
                  frameon=False)
    figure.savefig(path, dpi=150)
