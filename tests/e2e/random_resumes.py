"""Stops and resumes runs of random inputs, which must end as without a stop.

    random_resumes.py FIRST COUNT [SCHEME]
    random_resumes.py BASE STOP,... --KEY=VALUE...      one input

$SYNCOPATE is the program. For each seed from FIRST on, draws an input as
random_runs.py does, and what else has a state: an optimizer, a schedule, dropout,
a moving average, policies of sync_switch. The run that was stopped at one or two
of its checkpoints must have the other's parameters, rows and virtual times to the
bit. A finding is printed as the keys that repeat it.
"""
import os
import pathlib
import subprocess
import sys

import h5py

import compare_runs
import random_runs

BASES = {
    "images.ini": random_runs.BASE,
    "clicks.ini": """[run]
threads = 1
[model]
family = deepfm
embedding = 4
mlp = 8
[data]
kind = synthetic_criteo
samples = 320
test_samples = 16
field_rows = 20
[optimizer]
lr = 0.01
[eval]
batch = 16
""",
    "questions.ini": """[run]
threads = 1
[model]
family = bert
layers = 1
hidden = 8
heads = 2
positions = 32
[data]
kind = synthetic_squad
samples = 320
test_samples = 16
max_length = 32
stride = 8
max_question = 8
context_words = 12
[optimizer]
lr = 0.01
[eval]
batch = 16
""",
}


class Draw(random_runs.Draw):
    """The keys of one input, which extend a base, and where to stop it."""

    def __init__(self, seed, scheme):
        super().__init__(seed, scheme)
        self.keys.pop("checkpoint.every", None)
        steps = self.random.randint(4, 14)
        every = self.random.randint(1, max(1, steps // 2))
        self.set("run.steps", steps)
        self.set("checkpoint.every", every)
        self.base = self.random.choice(
            ["images.ini", "images.ini", "clicks.ini", "questions.ini"])
        self.network_and_data_of_base()
        self.training()
        self.scheme_state()
        stops = range(every, steps, every)
        self.stops = sorted(self.random.sample(
            stops, min(len(stops), self.random.choice([1, 1, 2]))))

    def network_and_data_of_base(self):
        if self.base == "images.ini":
            self.maybe(0.2, "data.augment", ["flip", "crop,flip"])
            return
        self.keys.pop("model.family")
        self.keys.pop("model.depth", None)
        if self.scheme == "bsp":
            self.maybe(0.7, "sync.tables", ["rows", "dense"])

    def training(self):
        if self.chance(0.4):
            self.set("optimizer.kind", self.random.choice(["adam", "adamw"]))
            if self.base == "clicks.ini":
                self.maybe(0.5, "optimizer.embedding", ["lazy"])
        elif self.chance(0.5):
            self.set("optimizer.nesterov", "yes")
        self.maybe(0.2, "optimizer.clip_norm", [.1, 1])
        self.maybe(0.3, "schedule.warmup", ["3 steps"])
        if self.chance(0.3):
            self.set("schedule.kind", "cosine")
        elif self.chance(0.3):
            self.set("schedule.kind", "multistep")
            self.set("schedule.milestones", "2 steps,5 steps")
        self.maybe(0.5, "eval.every", range(1, 6))
        self.maybe(0.4, "eval.model", ["each", "rank0", "ema"])
        if self.keys.get("eval.model") == "ema":
            self.maybe(0.5, "eval.ema_every", [2, 3])
        if self.chance(0.2):
            self.set("data.validation", 40)
            self.set("eval.on", "validation")
        self.maybe(0.2, "run.log_every", [1, 2, 5])
        if self.keys.get("model.family") == "resnet":
            self.maybe(0.2, "eval.batchnorm", ["recomputed"])
            if self.scheme in {"bsp", "ds_sync", "local_sgd", "esync"}:
                self.maybe(0.3, f"{self.scheme}.batchnorm",
                           ["local", "averaged"])

    def scheme_state(self):
        scheme = self.scheme
        if scheme == "sync_switch":
            self.phases()
        if scheme == "local_sgd":
            if self.chance(0.5):
                self.set("local_sgd.outer", "momentum")
                self.maybe(0.5, "local_sgd.outer_nesterov", ["yes"])
            self.maybe(0.4, "local_sgd.start", [2, 5])
        if scheme == "dgc" and "compress.ratio" in self.keys:
            if self.chance(0.5):
                self.set("dgc.warmup_ratios", "0.3,0.5")
                self.set("dgc.warmup", 6)
            self.maybe(0.3, "dgc.clip", [.5])
        if scheme == "power_sgd":
            self.maybe(0.3, "power_sgd.warm_start", ["no"])
        if scheme == "easgd":
            self.maybe(0.3, "eval.model", ["centre"])
        if scheme == "ds_sync":
            self.set("ds_sync.restart", self.random.choice(["epoch", "never"]))
        if scheme in {"asp", "ssp"}:
            self.maybe(0.2, "asp.record", ["yes"])

    def phases(self):
        order = [self.random.choice(["bsp", "asp", "ssp", "local_sgd", "esync"])
                 for _ in range(self.random.choice([2, 2, 3]))]
        self.set("sync_switch.order", ",".join(order))
        shares = {2: ["0.5,0.5", "0.2,0.8", "0.7,0.3"],
                  3: ["0.3,0.3,0.4", "0.5,0.25,0.25"]}
        self.set("sync_switch.fractions",
                 self.random.choice(shares[len(order)]))
        if self.chance(0.4):
            self.set("sync_switch.policy",
                     self.random.choice(["greedy", "elastic"]))
            self.set("sync_switch.window", self.random.randint(1, 3))
            self.set("sync_switch.consecutive", self.random.randint(1, 2))
        elif self.chance(0.3):
            self.set("sync_switch.plateau", "eval_loss")
            self.set("sync_switch.patience", self.random.randint(1, 2))
        if any(one == "bsp" and two in ("asp", "ssp", "esync")
               for one, two in zip(order, order[1:])):
            self.maybe(0.3, "sync_switch.momentum_rule", ["zero", "scaled"])

    def text(self):
        stops = ",".join(map(str, self.stops))
        return f"{self.base} {stops} {super().text()}"


def compare(base, stops, words):
    """"equal", "refused", "diverged", or what differs."""
    subprocess.run(["rm", "-rf", "runs"], check=True)

    def train(name, *more):
        return subprocess.run(
            [os.environ["SYNCOPATE"], "train", base, *words,
             f"--run.name={name}", *more],
            text=True, capture_output=True, timeout=300, check=False)
    whole = train("whole")
    if whole.returncode == 65:
        return "refused"
    if whole.returncode == 76:
        return "diverged"
    if whole.returncode != 0:
        return f"exit code {whole.returncode}: {whole.stderr}"
    for stop in [*stops, 0]:
        part = train("parts", f"--run.stop_at={stop}")
        if part.returncode != 0:
            return f"exit code {part.returncode} to {stop}: {part.stderr}"
    with h5py.File("runs/parts/results.h5") as file:
        restarts = int(file["provenance"].attrs["restarts"])
    if restarts != len(stops):
        return f"resumed {restarts} times, not {len(stops)}"
    found = compare_runs.differences(pathlib.Path("runs/whole"),
                                     pathlib.Path("runs/parts"), False,
                                     {"time_s"})
    return "; ".join(found) or "equal"


def main(words):
    for name, text in BASES.items():
        pathlib.Path(name).write_text(text, encoding="utf-8")
    if not words[0].endswith(".ini"):
        return random_runs.compare_many(
            Draw, lambda draw: compare(draw.base, draw.stops, draw.words()),
            *words)
    outcome = compare(words[0], [int(s) for s in words[1].split(",")],
                      words[2:])
    print(outcome)
    return 0 if outcome == "equal" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
