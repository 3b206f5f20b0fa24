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


def best_values(sweep, means):
    """The equally good best values of {value: mean or None}, in order; none if
    there is no mean."""
    metric = METRICS.get(sweep.metric)  # None: samples_per_s of simulations
    sign = 1 if metric is None or metric.larger_is_better else -1
    whole = [value for value in sorted(means, key=float)
             if means[value] is not None]
    best = max((sign * means[value] for value in whole), default=None)
    return [value for value in whole if equal(sign * means[value], best)]


def best_of(sweep, means):
    """The best value, or None. Among equally good ones it is not at an edge if
    that is possible, and it is the middle one, or the smaller of the middle
    two."""
    equals = best_values(sweep, means)
    inside = [value for value in equals if neighbour_of(means, value) is None]
    found = inside or equals
    return found[(len(found) - 1) // 2] if found else None


def neighbour_of(values, value):
    """The value beside one at an edge; None if that is not at an edge."""
    ordered = sorted(values, key=float)
    if len(ordered) > 1 and value == ordered[0]:
        return ordered[1]
    return ordered[-2] if len(ordered) > 1 and value == ordered[-1] else None


def farther(value, neighbour):
    """The next value in the geometric series of neighbour and value."""
    return value * value / neighbour


def farther_below_one(value, neighbour):
    """The same, as text, of x / (1 - x): near 1, the series of 1 - x."""
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
    # Of a key that takes at most 1, that is still to be tried.
    if value < 1 < float(further) and is_refused(sweep, variant, further):
        further = "1"
    if float(further) in map(float, values) or \
            is_refused(sweep, variant, further):
        return None
    return further


def edges_to_follow(sweep, means):
    """The best values that are at an edge and better than their neighbour; the
    smallest value if all of them diverged."""
    if not sweep.extends:
        return []
    if len(means) > 1 and not best_values(sweep, means):
        return [min(means, key=float)]
    pairs = [(value, neighbour_of(means, value))
             for value in best_values(sweep, means)]
    return [value for value, neighbour in pairs if neighbour is not None
            and not equal(means[value], means[neighbour])]


def values_of(sweep, variant):
    """The grid, and the extensions that follow from the runs so far."""
    values = list(sweep.grid)
    while len(values) < len(sweep.grid) + MOST_EXTENSIONS:
        means = means_of(sweep, variant, values)
        if means is None:
            break
        further = [value for value in (
            beyond(sweep, variant, values, edge)
            for edge in edges_to_follow(sweep, means)) if value is not None]
        if not further:
            break
        values.append(further[0])
    return values


def is_flat(sweep, means):
    return 1 < len(means) == len(best_values(sweep, means))


def is_at_limit(sweep, means, best):
    """Whether the best value is at an edge because the key allows no further
    one."""
    return len(means) < len(sweep.grid) + MOST_EXTENSIONS and \
        best in edges_to_follow(sweep, means)


def is_at_edge(sweep, means, best):
    """Whether a better value may lie beyond the best one."""
    return neighbour_of(means, best) is not None and \
        not is_flat(sweep, means) and not is_at_limit(sweep, means, best)


def remark_on(sweep, means, best):
    """What the user should know of the best one of a variant's values."""
    added = len(means) - len(sweep.grid)
    times = {1: "once", 2: "twice"}.get(added, f"{added} times")
    extended = f", which was extended {times}" if added else ""
    if best is None:
        return f"diverges with every value of the grid{extended}"
    if is_flat(sweep, means):
        return "flat: all values are equally good"
    told = []
    *others, last = best_values(sweep, means)
    if others:
        told.append(f"{', '.join(others)} and {last} are equally good; {best} "
                    "taken")
    if is_at_limit(sweep, means, best):
        told.append("at the limit of the key")
    if is_at_edge(sweep, means, best):
        told.append(f"at the edge of the grid{extended}")
    return "; ".join(told)


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
