"""Runs random inputs by `train` and by `simulate`, which must agree.

    random_runs.py FIRST COUNT [SCHEME]
    random_runs.py --KEY=VALUE...           one input

$SYNCOPATE is the program. For each seed from FIRST on, takes the next scheme and
draws its keys, a cluster and boundaries. Virtual seconds, bytes and messages of every
worker must be equal to 1e-9; where sums were computed, the time of the whole run
within 2%. Inputs that are refused must be refused by both with the same line. A
finding is printed as the keys that repeat it.
"""
import os
import random
import subprocess
import sys

import h5py
import numpy as np

BASE = """[run]
threads = 1
[data]
kind = synthetic_images
samples = 320
test_samples = 16
classes = 4
height = 8
width = 8
[optimizer]
lr = 0.01
[eval]
batch = 16
"""
SCHEMES = """bsp ds_sync local_sgd easgd ef_sign_sgd dgc power_sgd asp ssp esync
sync_switch d_psgd choco dcd_psgd ecd_psgd deep_squeeze sgp""".split()
REDUCING = {"bsp", "ds_sync", "local_sgd", "easgd", "power_sgd", "esync"}
GOSSIP = {"d_psgd", "choco", "dcd_psgd", "ecd_psgd", "deep_squeeze"}
COLLECTIVES = """ring butterfly binary_blocks parameter_server hierarchical
native""".split()
COUNTED = ("compute_s", "exposed_s", "wait_s", "overlapped_s", "bytes_sent",
           "messages_sent")
TIMES = ("exposed_s", "wait_s", "overlapped_s")


class Draw:
    """The keys of one input."""

    def __init__(self, seed, scheme):
        self.random = random.Random(seed)
        self.keys = {}
        self.workers = self.random.choice([2, 3, 4, 5, 6, 7, 8, 9, 12, 16])
        self.set("run.workers", self.workers)
        self.set("run.steps", self.random.randint(3, 14))
        self.set("run.seed", self.random.randint(0, 1000))
        self.scheme = scheme or SCHEMES[seed % len(SCHEMES)]
        self.set("sync.scheme", self.scheme)
        self.network_and_data()
        self.scheme_keys()
        self.compute()
        self.network()
        self.stragglers()
        self.maybe(0.3, "eval.every", range(2, 6))
        self.maybe(0.3, "checkpoint.every", range(2, 6))

    def set(self, key, value):
        self.keys[key] = value

    def chance(self, share):
        return self.random.random() < share

    def maybe(self, share, key, values):
        if self.chance(share):
            self.set(key, self.random.choice(list(values)))

    def by_worker(self, values):
        return ",".join(str(self.random.choice(values))
                        for _ in range(self.workers))

    def network_and_data(self):
        self.set("model.family", "logistic")
        if self.chance(0.3):
            self.set("model.family", "resnet")
            self.set("model.depth", 8)
        if self.chance(0.15):
            self.set("data.batch_by_worker", self.by_worker(range(1, 6)))
        else:
            self.set("data.batch", self.random.choice([1, 2, 4]))
        self.maybe(0.15, "data.accumulate", [2])

    def scheme_keys(self):
        scheme = self.scheme
        if scheme in REDUCING:
            self.set("sync.collective", self.random.choice(COLLECTIVES))
            self.maybe(0.6, "sync.bucket_mb", [.001, .002, .005, .01, .1, 1])
        if scheme in {"bsp", "power_sgd", "asp", "ssp", "esync", "d_psgd",
                      "sgp"} and self.keys.get("sync.collective") != "native":
            self.maybe(0.4, "sync.wire", ["bf16"])
        if scheme == "ds_sync":
            self.maybe(0.3, "ds_sync.place", ["after_update"])
            self.maybe(0.3, "ds_sync.final_average", ["yes"])
            self.set("ds_sync.restart", "never")
        if scheme in {"local_sgd", "easgd"}:
            self.set(f"{scheme}.steps", self.random.randint(1, 5))
        if scheme in {"asp", "ssp"}:
            self.maybe(0.7, "asp.servers", range(1, self.workers + 1))
            self.maybe(0.4, "asp.compensation", ["per_worker", "per_key"])
            self.maybe(0.4, "asp.pull", ["before_step"])
        if scheme == "ssp":
            self.set("ssp.bound", self.random.randint(0, 4))
        if scheme == "esync":
            self.maybe(0.4, "esync.query", ["non_blocking"])
            self.maybe(0.3, "esync.epsilon_s", [.003])
        if scheme in GOSSIP:
            self.set("topology.kind", self.random.choice(
                ["complete", "ring", "torus", "expander", "exponential"]))
        if scheme in GOSSIP - {"d_psgd"} | {"dgc"}:
            kind = self.random.choice(["identity", "sign", "top_k", "random_k",
                                       "qsgd"])
            self.set("compress.kind", kind)
            if kind in {"top_k", "random_k"}:
                self.set("compress.ratio", self.random.choice([.5, .9, .99]))
        if scheme == "sync_switch":
            self.set("sync_switch.order", ",".join(self.random.choice(
                ["bsp", "asp", "ssp", "local_sgd", "esync"])
                for _ in range(2)))
            self.set("sync_switch.fractions", "0.5,0.5")

    def compute(self):
        law = self.random.choice(["constant", "lognormal", "gamma"])
        self.set("compute.law", law)
        self.set("compute.step_s", self.random.choice([.001, .01, .05]))
        if law != "constant":
            self.set("compute.spread", self.random.choice([.05, .3, 1.5]))
        self.maybe(0.5, "compute.update_s", [.0005, .003])
        if self.chance(0.4):
            self.set("compute.speed", self.by_worker([.5, 1, 1, 2, 3]))

    def network(self):
        if self.chance(0.9):
            self.set("network.mbit_s", self.random.choice(
                ["1", "20", "100", self.by_worker([1, 5, 20, 100, 0])]))
        if self.chance(0.7):
            self.set("network.latency_us", self.random.choice(
                ["50", "1000", "20000", self.by_worker([0, 100, 3000])]))
        self.maybe(0.4, "network.message_us", [5, 200, 2000])
        self.maybe(0.25, "network.device_mbit_s", [10, 200])
        self.maybe(0.3, "network.ties_seed", range(1, 10))
        if self.chance(0.4):
            self.set("network.group", self.random.choice(
                [n for n in range(1, self.workers + 1)
                 if self.workers % n == 0]))
            self.maybe(0.7, "network.group_mbit_s", [1, 50, 1000])
            self.maybe(0.7, "network.group_latency_us", [3, 500])
            self.maybe(0.7, "network.uplink_mbit_s", [2, 10, 100])
        if self.random.random() < 0.25:
            self.set("network.servers", "apart")
            self.maybe(0.7, "network.server_mbit_s", [2, 20, 500])

    def stragglers(self):
        if self.chance(0.25):
            self.set("stragglers.factor", self.by_worker([1, 1, 1, 4]))
        if self.chance(0.25):
            self.set("stragglers.delay_ms", self.random.choice([5, 50]))
            self.set("stragglers.delay_workers",
                     self.random.randrange(self.workers))
        self.maybe(0.25, "stragglers.random",
                   ["uniform", "exponential", "pareto"])
        if self.chance(0.35):
            who = self.random.choice(["0", "all", "any2"])
            kind = self.random.choice(["compute", "link", "pause"])
            when = self.random.choice(
                ["", ":from=20ms:for=50ms", ":from=2steps:for=3steps",
                 ":for=1steps:every=3steps:at=random"])
            self.set("stragglers.episodes", f"{who}:{kind}:+5ms{when}")

    def words(self):
        return [f"--{key}={value}" for key, value in self.keys.items()]

    def text(self):
        """What repeats it."""
        return " ".join(self.words())


def differences(said_computed):
    """What `train` measured and `simulate` does not have, as lines."""
    with h5py.File("runs/x/results.h5") as run, h5py.File("x.h5") as other:
        trained = {name: run["comm"][name][()].sum(axis=0)
                   for name in COUNTED}
        trained["virtual_s"] = run["summary/virtual_s"][()]
        simulated = {name: other["workers"][name][()] for name in COUNTED}
        simulated["virtual_s"] = other["summary/virtual_s"][()]
    for name, expected in trained.items():
        if said_computed and name in TIMES:
            continue
        near = 0.02 if said_computed and name == "virtual_s" else 1e-9
        if not np.allclose(simulated[name], expected, rtol=near, atol=1e-11):
            yield f"{name}: train {expected}, simulate {simulated[name]}"


def compare(words):
    """"equal", "refused", or what differs."""
    subprocess.run(["rm", "-rf", "runs"], check=True)
    program = os.environ["SYNCOPATE"]
    both = [subprocess.run([program, *command, *words], text=True,
                           capture_output=True, timeout=300, check=False)
            for command in (["train", "base.ini", "--run.name=x"],
                            ["simulate", "base.ini", "--output=x.h5"])]
    codes = [done.returncode for done in both]
    if codes == [65, 65]:
        return "refused" if both[0].stderr == both[1].stderr else \
            f"refused differently: {both[0].stderr} | {both[1].stderr}"
    if codes != [0, 0]:
        return f"exit codes {codes}: {both[0].stderr} | {both[1].stderr}"
    found = list(differences("\nsums " in both[1].stdout))
    return "; ".join(found) or "equal"


def compare_many(make_draw, compare_draw, first, count, scheme=None):
    """Compares `count` draws, whose findings it prints. Returns an exit code."""
    first, count = int(first), int(count)
    counts = {"equal": 0, "refused": 0, "diverged": 0}
    found = 0
    for seed in range(first, first + count):
        draw = make_draw(seed, scheme)
        outcome = compare_draw(draw)
        if outcome in counts:
            counts[outcome] += 1
        else:
            found += 1
            print(f"seed {seed}: {outcome}\n  {draw.text()}", flush=True)
    print(f"seeds {first} to {first + count - 1}: {counts['equal']} inputs "
          f"equal, {counts['refused']} refused, {counts['diverged']} diverged, "
          f"{found} differ")
    return 1 if found or counts["equal"] < count / 2 else 0


def main(words):
    with open("base.ini", "w", encoding="utf-8") as file:
        file.write(BASE)
    if not words[0].startswith("--"):
        return compare_many(Draw, lambda draw: compare(draw.words()), *words)
    outcome = compare(words)
    print(outcome)
    return 0 if outcome == "equal" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
