"""The tuning runs of a sweep: the grid's values of the tuned key and, with
`grid = auto ...`, values beyond an edge at which a variant's best one lies.
"""
import math

from sweep_file import ROOT  # noqa: F401, puts postprocess/ on the path
from run_reader import METRICS
from sweep_runs import is_refused, job_of, outcome

MOST_EXTENSIONS = 4  # for each variant


def mean_of(sweep, variant, value):
    """The mean of the metric over the tuning seeds, and "finished";
    otherwise None, and "diverged 1 of 3" or "missing"."""
    found = [outcome(sweep, job_of(sweep, "tune", variant, value, seed))
             for seed in sweep.tune_seeds]
    states = [state for state, _ in found]
    if "to do" in states:
        return None, "missing"
    if "diverged" in states:
        return None, "diverged" if len(states) == 1 else \
            f"diverged {states.count('diverged')} of {len(states)}"
    return sum(metric for _, metric in found) / len(found), "finished"


def means_of(sweep, variant, values):
    """{value: mean, or None if it diverged}; None while runs are missing."""
    found = {value: mean_of(sweep, variant, value) for value in values}
    if "missing" in [state for _, state in found.values()]:
        return None
    return {value: mean for value, (mean, _) in found.items()}


def equal(a, b):
    """Whether two means differ by no more than the order of their sums."""
    return None not in (a, b) and math.isclose(a, b, rel_tol=1e-12)


def best_of(sweep, means):
    """The best value of {value: mean or None}; of equal ones the middle one,
    or the larger of the middle two. None if there is no mean."""
    metric = METRICS.get(sweep.metric)  # None: samples_per_s of simulations
    sign = 1 if metric is None or metric.larger_is_better else -1
    whole = [value for value in sorted(means, key=float)
             if means[value] is not None]
    if not whole:
        return None
    best = max(sign * means[value] for value in whole)
    equals = [value for value in whole if equal(sign * means[value], best)]
    return equals[len(equals) // 2]


def neighbour_of(values, value):
    """The value beside one at an edge; None if that is not at an edge."""
    ordered = sorted(values, key=float)
    if len(ordered) > 1 and value == ordered[0]:
        return ordered[1]
    return ordered[-2] if len(ordered) > 1 and value == ordered[-1] else None


def farther(value, neighbour):
    """As far from the value as that one is from its neighbour, in ratio."""
    return value * value / neighbour


def farther_below_one(value, neighbour):
    """The same, as text, in the ratio of x / (1 - x): near 1, of 1 - x."""
    odds = farther(value / (1 - value), neighbour / (1 - neighbour))
    if odds < 1:
        return f"{odds / (1 + odds):.4g}"
    return f"{1 - float(f'{1 / (1 + odds):.3g}'):.10g}"


def beyond(sweep, variant, values, edge):
    """The next value beyond an edge; None if the key does not take it."""
    value, neighbour = float(edge), float(neighbour_of(values, edge))
    if max(value, neighbour) < 1 and is_refused(sweep, variant, "1"):
        further = farther_below_one(value, neighbour)
    elif all(word.isdigit() for word in values) and \
            is_refused(sweep, variant, "1.5"):
        further = str(round(farther(value, neighbour)))
    else:
        further = f"{farther(value, neighbour):.4g}"
    if float(further) in map(float, values) or \
            is_refused(sweep, variant, further):
        return None
    return further


def follows_edge(sweep, means, best):
    """Whether the best value is at an edge, and better than its neighbour."""
    if not sweep.extends or best is None:
        return False
    neighbour = neighbour_of(means, best)
    return neighbour is not None and not equal(means[best], means[neighbour])


def values_of(sweep, variant):
    """The grid, and the extensions that follow from the runs so far."""
    values = list(sweep.grid)
    while len(values) < len(sweep.grid) + MOST_EXTENSIONS:
        means = means_of(sweep, variant, values)
        if means is None:
            break
        best = best_of(sweep, means)
        further = beyond(sweep, variant, values, best) \
            if follows_edge(sweep, means, best) else None
        if further is None:
            break
        values.append(further)
    return values


def remark_on(sweep, variant, means, best):
    """What the user should know of the best one of a variant's values."""
    if best is None:
        return "diverges with every value of the grid"
    if len(means) > 1 and all(equal(mean, means[best])
                              for mean in means.values()):
        return "flat: all values are equally good"
    if neighbour_of(means, best) is None:
        return ""
    added = len(means) - len(sweep.grid)
    if added < MOST_EXTENSIONS and follows_edge(sweep, means, best):
        return "at the limit of the key"
    told = {1: "once", 2: "twice"}.get(added, f"{added} times")
    return "at the edge of the grid" + (
        f", which was extended {told}" if added else "")


def grid_jobs(sweep):
    return [job_of(sweep, "tune", variant, value, seed)
            for variant in sweep.variants for value in sweep.grid
            for seed in sweep.tune_seeds]


def tune_jobs(sweep):
    """Those of the grid, and the extensions that follow from the runs so far,
    of all variants without a recorded value."""
    grid = [job for job in grid_jobs(sweep) if job.variant not in sweep.tuned]
    return grid + [
        job_of(sweep, "tune", variant, value, seed)
        for variant in sweep.variants if variant not in sweep.tuned
        for value in values_of(sweep, variant)[len(sweep.grid):]
        for seed in sweep.tune_seeds]


def extension_slots(sweep, number):
    """The runs of each variant's extension `number` (from 1); None for those
    that are not needed, or not known yet."""
    place = len(sweep.grid) + number - 1
    slots = []
    for variant in sweep.variants:
        values = values_of(sweep, variant)
        slots += [job_of(sweep, "tune", variant, values[place], seed)
                  if place < len(values) else None
                  for seed in sweep.tune_seeds]
    return slots
