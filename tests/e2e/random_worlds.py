"""Trains random inputs in one process and on MPI ranks, which must agree.

    random_worlds.py FIRST COUNT [SCHEME]

$SYNCOPATE is the program, $MPIEXEC the launcher. For each seed from FIRST on, draws
an input as random_resumes.py does, of a scheme whose workers wait for each other
(the others depend on the clock), without the clusters and the native collective,
which only one of the worlds has. Both runs of two to four workers must end with the
same parameters and state of the scheme, to the bit, and the same rows of /train and
/eval. A finding is printed as the keys that repeat it.
"""
import os
import pathlib
import subprocess
import sys

import compare_runs
import random_resumes
import random_runs

LOCKSTEP = [scheme for scheme in random_runs.SCHEMES
            if scheme not in {"asp", "ssp", "esync", "sync_switch"}]


class Draw(random_resumes.Draw):
    """The keys of one input, and how many workers train it."""

    def __init__(self, seed, scheme):
        super().__init__(seed, scheme or LOCKSTEP[seed % len(LOCKSTEP)])
        self.workers = self.random.randint(2, 4)
        for key in list(self.keys):
            if key.split(".")[0] in {"compute", "network", "stragglers"}:
                self.keys.pop(key)
        self.keys.pop("run.workers")
        if self.keys.pop("data.batch_by_worker", None):
            self.set("data.batch_by_worker", self.by_worker(range(2, 6)))
        if self.keys.get("data.batch") == 1:  # BatchNorm refuses it
            self.set("data.batch", 2)
        if self.keys.get("sync.collective") == "native":
            self.set("sync.collective", "butterfly")
        if "topology.kind" in self.keys:  # those of any number of workers
            self.set("topology.kind", self.random.choice(
                ["complete", "ring", "exponential"]))

    def text(self):
        return f"{self.base} {self.workers} workers {' '.join(self.words())}"


def compare(draw):
    """"equal", "refused", "diverged", or what differs."""
    subprocess.run(["rm", "-rf", "runs"], check=True)
    program, workers = os.environ["SYNCOPATE"], str(draw.workers)
    train = [program, "train", draw.base, *draw.words()]
    launch = [os.environ.get("MPIEXEC", "mpiexec"), "-bind-to", "none", "-n",
              workers]
    both = [subprocess.run(command, text=True, capture_output=True, timeout=300,
                           check=False)
            for command in ([*train, "--run.name=one", f"--run.workers={workers}"],
                            [*launch, *train, "--run.name=ranks"])]
    codes = [done.returncode for done in both]
    if codes in ([65, 65], [76, 76]):
        return "refused" if codes[0] == 65 else "diverged"
    if codes != [0, 0]:
        return f"exit codes {codes}: {both[0].stderr} | {both[1].stderr}"
    found = compare_runs.differences(pathlib.Path("runs/one"),
                                     pathlib.Path("runs/ranks"), True,
                                     {"time_s"})
    states = subprocess.run(
        [sys.executable, pathlib.Path(__file__).with_name("compare_states.py"),
         "runs/one", "runs/ranks"], text=True, capture_output=True, check=False)
    if states.returncode != 0:
        found.append(states.stdout + states.stderr)
    return "; ".join(found) or "equal"


def main(words):
    for name, text in random_resumes.BASES.items():
        pathlib.Path(name).write_text(text, encoding="utf-8")
    return random_runs.compare_many(Draw, compare, *words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
