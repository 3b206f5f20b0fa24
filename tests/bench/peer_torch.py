#!/usr/bin/env python3
"""The same network, data, augmentation and recipe in PyTorch, from the same
input file: what syncopate's speed and accuracy are measured against.

    peer_torch.py INPUT.ini [--section.key=value ...]            train, evaluate
    peer_torch.py --throughput SECONDS INPUT.ini [--key=value]   time steps only
    peer_torch.py --serve SECONDS --device=cuda INPUT.ini        time steps on a
        GPU, data and augmentation there too: a rate for each line of its input

Workers are emulated as DistributedDataParallel has them: each takes its part
of the global batch through the network with its own BatchNorm statistics, and
gradients are averaged. Of the inputs' keys those of a post-activation residual
network under bsp are known; any other that would change the run is refused.
"""
import argparse
import gzip
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import peer_device
from peer_networks import Unknown, is_norm, make_network

# Defaults of the keys that are understood; what is not here is refused unless
# it says nothing about training.
DEFAULTS = {
    "run.epochs": "0", "run.steps": "0", "run.workers": "1", "run.seed": "1",
    "run.threads": "0", "run.precision": "fp32",
    "model.family": "resnet", "model.depth": "20", "model.stem": "cifar",
    "model.block": "auto", "model.version": "1", "model.width": "1",
    "model.form": "post", "model.dropout": "0",
    "data.kind": "idx", "data.path": "", "data.batch": "128",
    "data.augment": "", "data.crop_pad": "4", "data.normalize": "auto",
    "data.validation": "0", "data.accumulate": "1",
    "data.partition": "interleaved", "data.samples": "2048",
    "data.test_samples": "512", "data.classes": "10", "data.channels": "3",
    "data.height": "32", "data.width": "32",
    "optimizer.kind": "sgd", "optimizer.lr": "0.1",
    "optimizer.momentum": "0.9", "optimizer.nesterov": "no",
    "optimizer.weight_decay": "1e-4", "optimizer.decay_batchnorm": "yes",
    "optimizer.clip_norm": "0", "optimizer.lr_scale": "none",
    "schedule.kind": "constant", "schedule.horizon": "0",
    "schedule.warmup": "0", "schedule.warmup_from": "0",
    "schedule.milestones": "", "schedule.gamma": "0.1",
    "schedule.final_lr": "0",
    "sync.scheme": "bsp", "sync.wire": "fp32", "bsp.batchnorm": "local",
}
# Values without which this is another recipe.
FIXED = {"model.dropout": "0", "data.normalize": "auto", "data.validation": "0", "data.accumulate": "1",
         "data.partition": "interleaved", "optimizer.kind": "sgd",
         "optimizer.clip_norm": "0", "optimizer.lr_scale": "none",
         "schedule.horizon": "0", "sync.scheme": "bsp", "sync.wire": "fp32",
         "bsp.batchnorm": "local"}
IRRELEVANT = ("run.", "eval.", "checkpoint.", "compute.", "network.",
              "sync.collective", "sync.bucket_mb", "data.prefetch",
              "data.noise", "data.synthetic_seed", "data.rotate_degrees",
              "optimizer.", "schedule.")


def refuse(line, code=65):
    print(f"error: {line}", file=sys.stderr)
    sys.exit(code)


def read_input(path, overrides):
    values, section = dict(DEFAULTS), ""
    try:
        lines = open(path, encoding="utf-8").read().splitlines()
    except OSError as error:
        refuse(f"{path}: {error.strerror}", 66)
    pairs = []
    for line in lines:
        line = line.split("#")[0].strip()
        if line.startswith("["):
            section = line.strip("[] ")
        elif "=" in line:
            key, value = line.split("=", 1)
            pairs.append((f"{section}.{key.strip()}", value.strip()))
    for override in overrides:
        key, _, value = override.lstrip("-").partition("=")
        pairs.append((key, value))
    for key, value in pairs:
        if key not in DEFAULTS and not key.startswith(IRRELEVANT):
            refuse(f"{path}: {key}: not known to the PyTorch peer")
        values[key] = value
    for key, value in FIXED.items():
        if values[key] not in (value, value + ".0"):
            refuse(f"{path}: {key} = {values[key]}: the PyTorch peer only has "
                   f"{value}")
    return values


def is_yes(text):
    return text in ("yes", "true", "on", "1")


def steps_of(text, steps_per_epoch):
    """A length: "500", "500 steps", "2.5 epochs"."""
    number, _, unit = text.strip().partition(" ")
    scale = steps_per_epoch if unit.strip().startswith("epoch") else 1
    return float(number or 0) * scale


# --- data ---------------------------------------------------------------------

def read_idx(folder, name):
    for path in (os.path.join(folder, name), os.path.join(folder, name)
                 + ".gz"):
        if os.path.exists(path):
            opened = gzip.open if path.endswith(".gz") else open
            data = opened(path, "rb").read()
            rank = data[3]
            shape = np.frombuffer(data, ">i4", rank, 4)
            return np.frombuffer(data, np.uint8, offset=4 + 4 * rank
                                 ).reshape(shape)
    return refuse(f"{folder}/{name}: no such file", 66)


def read_cifar(folder, names):
    rows = np.concatenate([
        np.fromfile(os.path.join(folder, name), np.uint8).reshape(-1, 3073)
        for name in names])
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0]


def load(values):
    """(images, labels) of train and test: uint8 (samples, C, H, W)."""
    kind, folder = values["data.kind"], values["data.path"]
    if kind == "idx":
        return [(read_idx(folder, f"{part}-images-idx3-ubyte")[:, None],
                 read_idx(folder, f"{part}-labels-idx1-ubyte"))
                for part in ("train", "t10k")]
    if kind == "cifar10":
        return [read_cifar(folder, [f"data_batch_{i}.bin"
                                    for i in range(1, 6)]),
                read_cifar(folder, ["test_batch.bin"])]
    if kind == "synthetic_images":
        # Noise of the same shape, the same labels: good for timing, not for
        # accuracy.
        generator = np.random.default_rng(7)
        shape = [int(values[f"data.{key}"])
                 for key in ("channels", "height", "width")]
        return [(generator.integers(0, 256, [count] + shape, np.uint8),
                 np.arange(count) % int(values["data.classes"]))
                for count in (int(values["data.samples"]),
                              int(values["data.test_samples"]))]
    return refuse(f"data.kind = {kind}: not known to the PyTorch peer")


class Augment:
    """Normalise by channel, then pad with zeros, crop, flip."""

    def __init__(self, values, images):
        pixels = images.astype(np.float32) / 255
        axes = (0, 2, 3)
        shape = (1, -1, 1, 1)
        self.mean = torch.from_numpy(pixels.mean(axes, np.float64).reshape(
            shape)).float()
        self.std = torch.from_numpy(pixels.std(axes, np.float64).reshape(
            shape)).float()
        kinds = values["data.augment"].replace(",", " ").split()
        if set(kinds) - {"crop", "flip"}:
            refuse(f"data.augment = {' '.join(kinds)}: the PyTorch peer has "
                   "crop and flip")
        self.pad = int(values["data.crop_pad"]) if "crop" in kinds else 0
        self.flip = "flip" in kinds

    def plain(self, images):
        x = (torch.from_numpy(images).float() / 255 - self.mean) / self.std
        return x.contiguous(memory_format=torch.channels_last)

    def __call__(self, images):
        x = (torch.from_numpy(images).float() / 255 - self.mean) / self.std
        n, _, height, width = x.shape
        dy = torch.randint(0, 2 * self.pad + 1, (n, 1))
        dx = torch.randint(0, 2 * self.pad + 1, (n, 1))
        rows = dy + torch.arange(height)
        columns = dx + torch.arange(width)
        if self.flip:
            mirrored = torch.rand(n, 1) < 0.5
            columns = torch.where(mirrored, columns.flip(1), columns)
        x = F.pad(x, [self.pad] * 4).permute(0, 2, 3, 1)
        x = x[torch.arange(n)[:, None, None], rows[:, :, None],
              columns[:, None, :]]
        return x.permute(0, 3, 1, 2)  # stays channels last in memory


# --- training -----------------------------------------------------------------

class Schedule:
    def __init__(self, values, total, steps_per_epoch):
        def length(text):
            return steps_of(text, steps_per_epoch)

        self.kind = values["schedule.kind"]
        if self.kind not in ("constant", "cosine", "multistep"):
            refuse(f"schedule.kind = {self.kind}: the PyTorch peer has "
                   "constant, cosine and multistep")
        self.lr, self.total = float(values["optimizer.lr"]), total
        self.warmup = length(values["schedule.warmup"])
        self.warmup_from = float(values["schedule.warmup_from"])
        self.final = float(values["schedule.final_lr"])
        self.gamma = float(values["schedule.gamma"])
        self.milestones = [length(text) for text in
                           values["schedule.milestones"].split(",") if text]

    def rate(self, step):
        if step < self.warmup:
            return self.warmup_from + (self.lr - self.warmup_from) * step \
                / self.warmup
        if self.kind == "cosine":
            progress = min(1, (step - self.warmup)
                           / max(1, self.total - self.warmup))
            return self.final + (self.lr - self.final) * \
                (1 + math.cos(math.pi * progress)) / 2
        if self.kind == "multistep":
            return self.lr * self.gamma ** sum(step >= m
                                               for m in self.milestones)
        return self.lr


def make_optimizer(model, values, **options):
    decay = float(values["optimizer.weight_decay"])
    norms, others = [], []
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        (norms if is_norm(module) else others).extend(own)
    exempt = not is_yes(values["optimizer.decay_batchnorm"])
    return torch.optim.SGD(
        [{"params": others, "weight_decay": decay},
         {"params": norms, "weight_decay": 0 if exempt else decay}],
        lr=0.1, momentum=float(values["optimizer.momentum"]),
        nesterov=is_yes(values["optimizer.nesterov"]), **options)


def fused_optimizer(model, values, device):
    """Where this PyTorch has one for the device."""
    try:
        return make_optimizer(model, values, fused=device == "cuda")
    except TypeError:
        return make_optimizer(model, values, foreach=True)


def train_step(model, optimizer, rate, parts):
    """`parts`: one (images, labels) a worker. Returns the mean loss."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=False)
    total = 0.0
    for worker, (x, labels) in enumerate(parts):
        loss = F.cross_entropy(model.as_worker(worker)(x), labels)
        (loss / len(parts)).backward()
        total += loss.item()
    optimizer.step()
    return total / len(parts)


def evaluate(model, augment, images, labels, workers, batch=250):
    """Accuracy and loss, the mean over the workers' models."""
    model.eval()
    right, loss = 0, 0.0
    with torch.no_grad():
        for worker in range(workers):
            model.as_worker(worker)
            for first in range(0, len(images), batch):
                y = model(augment.plain(images[first:first + batch]))
                target = labels[first:first + batch]
                right += (y.argmax(1) == target).sum().item()
                loss += F.cross_entropy(y, target, reduction="sum").item()
    model.train()
    count = workers * len(images)
    return right / count, loss / count


def time_steps(model, optimizer, parts, seconds):
    """The median step on fixed batches, data preparation left out."""
    for _ in range(3):
        train_step(model, optimizer, 0.01, parts)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        started = time.perf_counter()
        train_step(model, optimizer, 0.01, parts)
        times.append(time.perf_counter() - started)
    median = sorted(times)[len(times) // 2]
    samples = sum(len(labels) for _, labels in parts)
    print(f"step: {1e3 * median:.2f} ms, {samples / median:.1f} images/s")


def train(model, optimizer, values, data, augment, workers):
    (images, labels), (test_images, test_labels) = data
    batch = int(values["data.batch"])
    steps_per_epoch = len(images) // (workers * batch)
    total = round(float(values["run.epochs"]) * steps_per_epoch)
    if int(values["run.steps"]):
        total = min(total or math.inf, int(values["run.steps"]))
    if total <= 0 or steps_per_epoch == 0:
        refuse("run.epochs, run.steps: nothing to train")
    schedule = Schedule(values, total, steps_per_epoch)
    started, sums = time.perf_counter(), [0.0, 0]
    order = None
    for step in range(total):
        place = step % steps_per_epoch
        if place == 0:
            order = torch.randperm(len(images)).numpy()
        parts = []
        for worker in range(workers):
            first = (place * workers + worker) * batch
            chosen = order[first:first + batch]
            parts.append((augment(images[chosen]), labels[chosen]))
        sums[0] += train_step(model, optimizer, schedule.rate(step), parts)
        sums[1] += 1
        if place == steps_per_epoch - 1 or step == total - 1:
            seconds = time.perf_counter() - started
            accuracy, loss = evaluate(model, augment, test_images, test_labels,
                                      workers)
            print(f"step {step + 1}/{total} loss {sums[0] / sums[1]:.4f} test "
                  f"accuracy {accuracy:.4f} test loss {loss:.4f} "
                  f"{seconds:.1f} s of training", flush=True)
            started += time.perf_counter() - started - seconds
            sums = [0.0, 0]
    print(f"final test accuracy: {accuracy:.4f}")


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("input")
    parser.add_argument("--throughput", type=float, metavar="SECONDS")
    parser.add_argument("--serve", type=float, metavar="SECONDS")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu",
                        help="of --serve")
    parser.add_argument("--compile", default="reduce-overhead", metavar="MODE",
                        help="of --serve: torch.compile's mode, or none")
    parser.add_argument("--torch-threads", type=int, default=2)
    options, overrides = parser.parse_known_args()
    values = read_input(options.input, overrides)
    if options.serve is None:
        if values["run.precision"] != "fp32":
            refuse(f"run.precision = {values['run.precision']}: the PyTorch "
                   "peer has it with --serve only")
        if options.device != "cpu":
            refuse("--device: of --serve only", 64)
    return options, values


def serve(options, values, model, augment, data):
    device = options.device
    model = model.to(device)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    steps = peer_device.ResidentSteps(
        model, fused_optimizer(model, values, device), augment, data, values,
        device, options.compile)
    peer_device.serve(steps, options.serve)


def main():
    options, values = read_arguments()
    torch.set_num_threads(options.torch_threads)
    torch.manual_seed(int(values["run.seed"]))
    workers = 1 if values["run.workers"] == "auto" else \
        int(values["run.workers"])
    # Copies: what was read from a file may not be written to, which torch minds.
    data = [(np.array(images), torch.from_numpy(labels.astype(np.int64)))
            for images, labels in load(values)]
    classes = max(int(labels.max()) + 1 for _, labels in data)
    try:
        model = make_network(values, data[0][0].shape[1], classes, workers)
    except Unknown as unknown:
        refuse(f"{unknown} is what the PyTorch peer has")
    model = model.to(memory_format=torch.channels_last).train()
    augment = Augment(values, data[0][0])
    count = sum(p.numel() for p in model.parameters())
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads: "
          f"{values['model.family']}-{values['model.depth']}, {count} "
          f"parameters in {len(list(model.parameters()))} tensors, {workers} "
          "workers", flush=True)
    if options.serve is not None:
        if workers != 1:
            refuse("run.workers: --serve has one worker")
        serve(options, values, model, augment, data[0])
        return
    optimizer = make_optimizer(model, values)
    if options.throughput:
        batch = int(values["data.batch"])
        images, labels = data[0]
        parts = [(augment(images[w * batch:(w + 1) * batch]),
                  labels[w * batch:(w + 1) * batch]) for w in range(workers)]
        time_steps(model, optimizer, parts, options.throughput)
    else:
        train(model, optimizer, values, data, augment, workers)


if __name__ == "__main__":
    main()
