"""What `grid = auto` tries, says and chooses when tuning runs end as made up
here. Which values a key takes, the program itself says.

    check_grid.py SOURCE_DIR      in a folder that has base.ini
"""
import contextlib
import io
import os
import sys

sys.path.insert(0, os.path.join(sys.argv[1], "jobs"))
import sweep  # noqa: E402
import sweep_choice  # noqa: E402
import sweep_file  # noqa: E402
import sweep_grid  # noqa: E402

SWEEP = """
[sweep]
input = base.ini
directory = made_up
[tune]
key = {key}
grid = {grid}
metric = accuracy
seeds = 11 12
[final]
seeds = 1
[variants]
one = sync.scheme=local_sgd
two = sync.scheme=local_sgd optimizer.weight_decay=0
"""


class MadeUp:
    """A sweep whose tuning runs end at once, with metric(value, variant), and
    diverge where that is None."""
    stop_signal = None

    def __init__(self, key, grid, metric):
        with open("made_up.sweep", "w", encoding="utf-8") as file:
            file.write(SWEEP.format(key=key, grid=grid))
        self.sweep = sweep_file.read_sweep("made_up.sweep", [])
        self.metric, self.ended, self.lines = metric, set(), []
        sweep_grid.outcome = self.outcome

    def outcome(self, _, job):
        if job.name not in self.ended:
            return "to do", None
        found = self.metric(float(job.value), job.variant)
        return ("diverged", None) if found is None else ("finished", found)

    def run(self, jobs):
        self.ended |= {job.name for job in jobs}

    def tune(self):
        jobs = sweep_grid.tune_jobs(self.sweep)
        self.run(jobs)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            sweep.extend(self.sweep, {"runs": {}}, self, jobs)
        self.lines = printed.getvalue().splitlines()
        return self

    def tried(self, variant="one"):
        return sweep_grid.values_of(self.sweep, variant)

    def chosen(self, variant="one"):
        best, remarks = sweep_choice.choose(self.sweep)
        return best[variant], remarks[variant]


def expect(found, expected, what):
    if found != expected:
        print(f"FAILED: {what}: {found}, expected {expected}")
        expect.failures += 1


expect.failures = 0


def larger(value, _):
    return value


def smaller(value, _):
    return -value


def equal(*_):
    return 0.5


def chosen_from(grid, accuracies):
    """The grid's values and those beyond it have these accuracies, in order."""
    values = [float(word) for word in grid.removeprefix("auto").split()]
    while len(values) < len(accuracies):
        values.append(values[-1] ** 2 / values[-2])
    found = dict(zip(values, accuracies))
    return MadeUp("optimizer.lr", grid,
                  lambda value, _: found.get(value)).tune()


def check_limits():
    case = MadeUp("optimizer.momentum", "auto 0.5 0.8", larger).tune()
    expect(case.tried(), ["0.5", "0.8", "0.9412", "0.9846", "0.9961",
                          "0.999021"], "momentum stays below 1")
    expect(case.chosen(), ("0.999021", "at the edge of the grid, which was "
                           "extended 4 times"), "momentum")
    case = MadeUp("optimizer.momentum", "auto 0.5 0.8", smaller).tune()
    expect(case.tried()[:3], ["0.5", "0.8", "0.2"], "less momentum")
    case = MadeUp("network.efficiency", "auto 0.2 0.45 0.9", larger).tune()
    expect(case.tried(), ["0.2", "0.45", "0.9", "1"], "1, if that is allowed")
    expect(case.chosen(), ("1", "at the limit of the key"), "share")
    case = MadeUp("model.label_smoothing", "auto 0.5 0.9", larger).tune()
    expect(case.tried(), ["0.5", "0.9", "0.9878", "0.99863"], "up to 0.999")
    expect(case.chosen(), ("0.99863", "at the limit of the key"), "smoothing")
    again = MadeUp("model.label_smoothing", "auto 0.5 0.9", larger)
    again.ended = case.ended
    expect((again.tried(), again.tune().lines), (case.tried(), []),
           "a restart does not go beyond the limit")


def check_whole_numbers():
    case = MadeUp("local_sgd.steps", "auto 2 4 8", smaller).tune()
    expect(case.tried(), ["2", "4", "8", "1"], "down to one step")
    expect(case.chosen(), ("1", "at the limit of the key"), "steps")
    case = MadeUp("local_sgd.steps", "auto 6000 9000", larger).tune()
    expect(case.tried()[2:4], ["13500", "20250"], "many steps")
    case = MadeUp("optimizer.lr", "auto 1 2", smaller).tune()
    expect(case.tried()[2:], ["0.5", "0.25", "0.125", "0.0625"],
           "rates below 1")


def check_ties():
    case = MadeUp("local_sgd.steps", "auto 1 2 4", equal).tune()
    expect(case.tried(), ["1", "2", "4"], "nothing to follow")
    expect(case.chosen(), ("2", "flat: all values are equally good"), "equal")
    low = "0.02 and 0.1 are equally good; 0.1 taken"
    high = "0.1 and 0.5 are equally good; 0.1 taken"
    for accuracies, remark in (((0.5, 0.5, 0.3), low), ((0.3, 0.5, 0.5), high),
                               ((0.5, 0.5, None), low)):
        case = chosen_from("auto 0.02 0.1 0.5", accuracies)
        expect((case.tried(), case.chosen()),
               (["0.02", "0.1", "0.5"], ("0.1", remark)), f"{accuracies}")
    for accuracies, chosen in (
            ((0.3, 0.5, 0.5, 0.3),
             ("0.1", "0.1 and 0.5 are equally good; 0.1 taken")),
            ((0.5, 0.5, 0.5, 0.3),
             ("0.1", "0.02, 0.1 and 0.5 are equally good; 0.1 taken")),
            ((0.5, 0.3, 0.2, 0.5),
             ("0.02", "0.02 and 2 are equally good; 0.02 taken; at the edge of "
              "the grid"))):
        case = chosen_from("0.02 0.1 0.5 2", accuracies)
        expect(case.chosen(), chosen, f"{accuracies}")
    case = chosen_from("0.02 0.1", (0.5, 0.5))
    expect(case.chosen(), ("0.02", "flat: all values are equally good"),
           "the smaller one")
    # A best value inside does not keep the grid from following one at an edge.
    case = chosen_from("auto 1 2 4 8 16", (0.3, 0.5, 0.3, 0.3, 0.5, 0.4))
    expect((case.tried(), case.chosen()),
           (["1", "2", "4", "8", "16", "32"],
            ("2", "2 and 16 are equally good; 2 taken")), "inside and outside")
    # A value beyond the grid that equals the edge becomes the edge.
    case = chosen_from("auto 1 2 4", (0.2, 0.3, 0.4, 0.5, 0.5))
    expect((case.tried(), case.chosen()),
           (["1", "2", "4", "8", "16"],
            ("8", "8 and 16 are equally good; 8 taken")), "extended to a tie")


def check_divergence():
    case = MadeUp("optimizer.lr", "auto 1 2", lambda value, _:
                  value if value < 0.4 else None).tune()
    expect((case.tried(), case.chosen()),
           (["1", "2", "0.5", "0.25", "0.125"], ("0.25", "")),
           "below a grid that diverged")
    case = MadeUp("optimizer.lr", "auto 1 2", lambda *_: None).tune()
    expect(case.chosen(), (None, "diverges with every value of the grid, which "
                           "was extended 4 times"), "always")
    expect(case.tried()[2:], ["0.5", "0.25", "0.125", "0.0625"], "four times")
    case = MadeUp("optimizer.lr", "1 2", lambda *_: None).tune()
    expect(case.chosen(), (None, "diverges with every value of the grid"),
           "a grid that does not extend itself")


def check_lines():
    def metric(value, variant):
        return value if variant == "one" else min(value, 3)

    case = MadeUp("optimizer.lr", "auto 0.1 0.2", metric).tune()
    expect(case.lines, ["tune: beyond the grid: one 0.4, two 0.4",
                        "tune: beyond the grid: one 0.8, two 0.8",
                        "tune: beyond the grid: one 1.6, two 1.6",
                        "tune: beyond the grid: one 3.2, two 3.2"],
           "what is run beyond the grid")
    case = MadeUp("optimizer.lr", "auto 0.1 0.2",
                  lambda value, _: -abs(value - 0.4)).tune()
    expect(case.chosen(), ("0.4", ""), "extended twice, back by one")
    case = MadeUp("optimizer.lr", "auto 0.1 0.2", lambda value, _:
                  value if value < 0.5 else None).tune()
    expect(case.chosen(), ("0.4", ""), "diverged beyond")


for check in (check_limits, check_whole_numbers, check_ties, check_divergence,
              check_lines):
    check()
sys.exit(1 if expect.failures else 0)
