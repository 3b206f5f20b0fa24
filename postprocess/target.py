"""When runs reached a target: Kaplan-Meier medians with 95% intervals.

Leaving out the runs that ended without reaching the target, or counting their
end as the time, would favour what fails. What they count as depends on why
they ended:

- A run that used up its budget (run.steps, run.virtual_limit_s, run.stop_at)
  does not reach the target within it, nor does a run that diverged before. It
  stays among those that have not reached it, however long it took. With a budget
  of steps, fast runs end after fewer seconds; dropping them there would leave
  only slow runs in the estimate. So the estimate is that of reaching the
  target within the budget, in every unit. Where all runs reached it or used
  up their budget, it is the share of those that did.
- A run that was stopped or killed before, or goes on, will need longer. It is
  right-censored at its last evaluation. This assumes that its end has nothing
  to do with how near to the target it was.

A group has a median only if at least half of its runs were seen to reach the
target, also where the estimate goes beyond a half because runs are censored.
"""
import math
import re
from typing import NamedTuple

import numpy as np

from exit_codes import BAD_INPUT
from groups import common_clock, grouped, in_order, note_clocks, \
    refuse_unlike, shown_label
from run_reader import METRICS
from script import RunError
from styles import GREY, TIMES, legend_above, scheme_of, styles_of

# 95% of the normal distribution lies within this.
Z95 = 1.959964
# The mark where a run ended without the target.
ENDED = {"color": GREY, "marker": "|", "markersize": 9, "markeredgewidth": 1.5,
         "linestyle": ""}


class Target:
    """METRIC >= NUMBER or METRIC <= NUMBER."""

    def __init__(self, metric, is_lower_bound, value):
        self.metric, self.value = metric, value
        self.is_lower_bound = is_lower_bound

    def __str__(self):
        return (f"{self.metric} {'>=' if self.is_lower_bound else '<='} "
                f"{self.value:g}")

    def __eq__(self, other):
        return str(self) == str(other)

    def reached_at(self, run):
        """The row of the first evaluation that meets it; None if none does. Of a
        run that diverged, those before the first one that is not finite count.
        """
        values = run.column("eval", self.metric)
        if run.has_diverged:
            finite = np.isfinite(run.drawable("eval", self.metric))
            values = values[:len(finite) if finite.all() else finite.argmin()]
        hits = values >= self.value if self.is_lower_bound \
            else values <= self.value
        return int(np.argmax(hits)) if hits.any() else None


def parse_target(text, source="--target"):
    """As run.target; METRIC=NUMBER takes the metric's better direction."""
    found = re.fullmatch(r"\s*([a-z0-9_]+)\s*(>=|<=|=)\s*(\S+)\s*", text)
    try:
        if found:
            metric, relation, number = found.groups()
            value = float(number)
            if math.isfinite(value) and (relation != "=" or metric in METRICS):
                is_lower_bound = METRICS[metric].larger_is_better \
                    if relation == "=" else relation == ">="
                return Target(metric, is_lower_bound, value)
    except ValueError:
        pass
    raise RunError(BAD_INPUT, f"{source} {text}: not METRIC>=NUMBER, "
                   "METRIC<=NUMBER, or METRIC=NUMBER with one of "
                   f"{' '.join(METRICS)}")


def own_target(run):
    """The run.target that it was started with, or None."""
    text = run.input.get("run.target", "-")
    return None if text == "-" else parse_target(text, "run.target")


def target_of(runs, text=None):
    """The one asked for, else that of all runs, or None."""
    if text:
        target = parse_target(text)
    else:
        own = [own_target(run) for run in runs]
        target = own[0] if all(one == own[0] for one in own) else None
    if target and not any(len(run.column("eval", target.metric))
                          for run in runs):
        raise RunError(BAD_INPUT, f"--target {target}: no run has evaluations "
                       f"of {target.metric}")
    return target


class End(NamedTuple):
    """When a run reached the target, by some amount: at the evaluation with
    `amount`, before which `since` is the last one. Of a run that did not reach
    it, `since` is its end, and `amount` the same if it is censored there, or
    infinite if it counts as one that never does."""
    since: float
    amount: float
    is_reached: bool


def was_there_before(run, target):
    """Whether it reached the target at its first evaluation or at one before,
    which is not recorded."""
    return target.reached_at(run) == 0 and run.lacks_first_evaluations


def why_none(runs, target):
    """Why nothing is known of the times of a group, in words."""
    return "reached before its evaluations" if any(
        was_there_before(run, target) for run in runs) \
        else "without evaluations"


def has_used_its_budget(run):
    """Whether it ended where its input let it end, at the end of its plan or at
    run.stop_at, and not before, such as at another target."""
    if run.state == "finished":
        return run.summary.get("target_reached") != 1
    return run.ended == "stopped" and run.stopped_by == "none"


def ends(runs, target, amounts):
    """One End per run. `amounts` gives a run's amounts at its evaluations.
    Without them a run is left out: the clock or the counter is not in its
    results, or not as far. So is a run that was there before its first
    evaluation."""
    found = []
    for run in runs:
        values = amounts(run)
        row = target.reached_at(run)
        if row is None and run.has_diverged:
            found.append(End(math.inf, math.inf, False))
        elif was_there_before(run, target):
            continue
        elif len(values) and not np.isnan(values).all():
            if row is None:
                last = float(values[~np.isnan(values)][-1])
                found.append(End(last, math.inf if has_used_its_budget(run)
                                 else last, False))
            elif not np.isnan(values[row]):
                before = float(values[row - 1]) if row else 0.0
                found.append(End(before, float(values[row]), True))
    return found


class Survival:
    """The Kaplan-Meier estimate from Ends: at amounts `x`, the share that has
    not reached the target yet (`share`), and its 95% limits by Greenwood's
    formula on the scale of log(-log share), NaN where no run is left. At equal
    amounts, runs that reach it come before those that are censored."""

    @classmethod
    def of(cls, runs, target, amounts):
        """Of a group of runs, which has no median unless half of them reached
        it."""
        reached = sum(target.reached_at(run) is not None for run in runs)
        return cls(ends(runs, target, amounts), 2 * reached >= len(runs))

    def __init__(self, found, has_median=True):
        self.found, self.has_median = sorted(found), has_median
        # Where runs ended without it; at infinity, those that diverged.
        self.without = sorted(end.since for end in found if not end.is_reached)
        self.x, self.share, self.low, self.high = [], [], [], []
        share, variance = 1.0, 0.0
        for x in sorted({end.amount for end in found if end.is_reached}):
            at_risk = sum(end.amount >= x for end in found)
            reached = sum(end.amount == x and end.is_reached for end in found)
            share *= 1 - reached / at_risk
            low = high = math.nan
            if at_risk > reached:
                variance += reached / (at_risk * (at_risk - reached))
                width = math.exp(Z95 * math.sqrt(variance) /
                                 -math.log(share))
                low, high = share ** width, share ** (1 / width)
            self.x.append(x)
            self.share.append(share)
            self.low.append(low)
            self.high.append(high)

    @property
    def followed(self):
        """How far any run was watched; NaN if all diverged at once."""
        return max((x for x in (*self.x, *self.without) if math.isfinite(x)),
                   default=math.nan)

    @property
    def is_known_beyond(self):
        """Whether the share stays as it is after `followed`: no run is left, or
        only those that diverged."""
        return self.followed not in self.without and not any(
            math.isinf(end.amount) and math.isfinite(end.since)
            for end in self.found)

    def _first_at_half(self, shares):
        return next((x for x, share in zip(self.x, shares)
                     if share <= 0.5 + 1e-12), None)

    def median(self):
        """The median, or None where more than half have not reached it, and
        the ends of its interval, None where it is open (the runs for whom
        the limit of the share is at most a half; Brookmeyer and Crowley)."""
        median, low, high = map(self._first_at_half,
                                (self.share, self.low, self.high))
        return (median, low, high) if self.has_median else (None, low, None)

    def text(self):
        """"40 [20, >80]"; ">80" is not known beyond the longest run, or, where
        there is no median, the longest of those without the target."""
        if not self.found:
            return "-"
        if math.isnan(self.followed):
            return "never"
        median, low, high = self.median()
        last = self.followed if median is not None else max(
            filter(math.isfinite, self.without), default=self.followed)

        def shown(value):
            return f">{last:.4g}" if value is None else f"{value:.4g}"

        # An interval that says no more than the median is not shown.
        says_low = low is not None and (median is not None or low <= last)
        if not says_low and high is None:
            return shown(median)
        return f"{shown(median)} [{shown(low)}, {shown(high)}]"


def steps_of(run):
    return run.column("eval", "worker_steps") / run.workers


def clock_of(name):
    def amounts(run):
        if name == "virtual_s" and not run.has_virtual_time():
            return np.empty(0)
        return run.column("eval", name)
    return amounts


def sent_of(run):
    """MB per worker."""
    return run.sent_per_worker(run.column("eval", "worker_steps")) / 1e6


AMOUNTS = {"steps": steps_of, "time s": clock_of("time_s"),
           "virtual s": clock_of("virtual_s"), "MB per worker": sent_of}


def table(groups, by, target):
    """Header and rows."""
    rows = []
    for label, runs in groups.items():
        reached = sum(target.reached_at(run) is not None for run in runs)
        rows.append([label, f"{reached} of {len(runs)}"] +
                    [Survival.of(runs, target, amounts).text()
                     for amounts in AMOUNTS.values()])
    return [by, "reached by", *AMOUNTS], rows


def spacings(runs):
    """The distances of evaluations, in steps, as text."""
    found = set()
    for run in runs:
        steps = steps_of(run)
        if len(steps):
            found.add(float(np.diff(steps, prepend=0).max()))
    shown = [f"{value:g}" for value in sorted(found)]
    return ", ".join(shown) or "?"


def remarks(groups, target):
    """What the table means, and what makes it weaker."""
    everyone = [run for runs in groups.values() for run in runs]
    unknown = [run for run in everyone if not run.has_diverged
               and not len(run.column("eval", target.metric))]
    without = [run for run in everyone if target.reached_at(run) is None
               and not run.has_diverged and run not in unknown]
    spent = sum(map(has_used_its_budget, without))
    yield ("Kaplan-Meier medians, given for groups in which at least half of "
           "the runs reached the target [95% interval of the median, "
           "approximate below ten runs]; \">\" marks a lower bound")
    if without:
        told = [f"{spent} used up their budget and count as runs that do not "
                "reach it"] * (spent > 0)
        if spent < len(without):
            told.append(f"{len(without) - spent} ended early and are censored "
                        "at their last evaluation (assumed unrelated to "
                        "progress)")
        yield (f"{len(without)} of {len(everyone)} runs ended before they "
               f"reached it: {'; '.join(told)}")
    if unknown:
        yield (f"{len(unknown)} of {len(everyone)} runs have no evaluations: "
               "in no median")
    before = sum(was_there_before(run, target) for run in everyone)
    if before:
        yield (f"{before} of {len(everyone)} runs had already reached the "
               "target at their first recorded evaluation and are excluded "
               "from the medians")
    if any(run.has_diverged and target.reached_at(run) is None
           for run in everyone):
        yield "runs that diverged before they reached the target never do"
    yield f"resolution: evaluations, {spacings(everyone)} steps apart at most"
    early = [run for run in everyone if target.reached_at(run) is None and
             run.summary.get("target_reached") == 1]
    if early:
        yield (f"{len(early)} runs stopped at a different run.target; "
               "censoring depends on progress, so the medians are biased")


def curves_of(runs, by, target):
    """{label: {"time": Survival, "bytes": Survival}} and the clock."""
    refuse_unlike(runs, by)
    clock = common_clock(runs)
    note_clocks(runs)
    return {label: {"time": Survival.of(group, target, clock_of(clock)),
                    "bytes": Survival.of(group, target, sent_of)}
            for label, group in in_order(grouped(runs, by)).items()}, clock


def rows_of(runs, by, target):
    """What is drawn, as rows of a table."""
    curves, clock = curves_of(runs, by, target)
    yield [by, "amount", "value", "reached", "low_95", "high_95", "censored"]
    for label, pair in curves.items():
        for name, curve in zip((clock, "MB_per_worker"), pair.values()):
            for x, share, low, high in zip(curve.x, curve.share, curve.low,
                                           curve.high):
                yield [label, name, repr(x)] + [
                    "" if value != value else repr(1 - value)
                    for value in (share, high, low)] + [0]
            for x in curve.without:
                yield [label, name, repr(x), "", "", "", 1]


def draw_curve(panel, curve, longest, label, style):
    """The share of runs that reached it so far, as far as it is known, at most
    to the panel's end, `longest`; a mark where one ended without it."""
    if not curve.found:  # the legend says why
        return
    end = longest if curve.is_known_beyond else curve.followed
    x = [0.0, *curve.x, end]
    reached = [1 - share for share in (1.0, *curve.share)]
    # Markers where runs reached it: not at the start, nor at the end.
    panel.step(x, [*reached, reached[-1]], where="post", label=label, **style,
               markevery=slice(1, len(x) - 1, max(1, len(x) // 8)))
    # fill_between(step="post") leaves out the step before one without limits.
    panel.fill_between(
        np.repeat(x, 2)[1:-1],
        np.repeat([0.0] + [1 - value for value in curve.high], 2),
        np.repeat([0.0] + [1 - value for value in curve.low], 2),
        color=style["color"], alpha=0.1, linewidth=0)
    ended = [at for at in curve.without if math.isfinite(at)]
    panel.plot(ended, [reached[np.searchsorted(x[:-1], at, "right") - 1]
                       for at in ended], **{**ENDED, "color": style["color"]})


def figure_of(plt, runs, by, target):
    """Two panels: over time and over bytes."""
    curves, clock = curves_of(runs, by, target)
    groups = grouped(runs, by)
    styles = styles_of([scheme_of(groups[label]) for label in curves])
    labels = [shown_label(label, by) if pair["time"].found else
              f"{shown_label(label, by)} ({why_none(groups[label], target)})"
              for label, pair in curves.items()]
    figure, panels = plt.subplots(1, 2, sharey=True, figsize=(10, 4.3))
    has_bands = any(np.less(pair["time"].low, pair["time"].high).any()
                    for pair in curves.values())
    has_ended = any(math.isfinite(at) for pair in curves.values()
                    for at in pair["time"].without)
    labels_in = legend_above(
        figure, labels, styles, most=5,
        band="95% interval" if has_bands else None,
        mark=(ENDED, "a run ended without it") if has_ended else None)
    height = 4.0 + labels_in
    figure.set_figheight(height)
    for panel, key in zip(panels, ("time", "bytes")):
        longest = max((pair[key].followed for pair in curves.values()
                       if math.isfinite(pair[key].followed)), default=1.0)
        for (label, pair), style in zip(curves.items(), styles):
            draw_curve(panel, pair[key], longest, label, style)
        panel.grid(alpha=0.3)
        panel.set_xlim(left=0)
        panel.set_ylim(-0.02, 1.02)
    panels[0].set_xlabel(TIMES[clock])
    panels[1].set_xlabel("payload sent per worker (MB)")
    panels[0].set_ylabel(f"share of runs with {target}")
    figure.subplots_adjust(left=0.07, right=0.985, bottom=0.48 / height,
                           wspace=0.06, top=1 - (labels_in + 0.05) / height)
    return figure
