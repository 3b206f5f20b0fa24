#!/usr/bin/env python3
"""The same network, data, augmentation and recipe in PyTorch, from the same
input file: what syncopate's speed and accuracy are measured against.

    peer_torch.py INPUT.ini [--section.key=value ...]            train, evaluate
    peer_torch.py --throughput SECONDS INPUT.ini [--key=value]   time steps only
    peer_torch.py --throughput SECONDS --by-line ...  once for each line of its
        input, to be timed in turns with another
    peer_torch.py --find SECONDS INPUT.ini      time them under every setting
    peer_torch.py --serve SECONDS --device=cuda INPUT.ini        time steps on a
        GPU, data and augmentation there too: a rate for each line of its input

--settings "channels_last|nchw eager|compile|jit" of the first two. --losses FILE
writes each step's loss; --samples FILE.h5 is what `syncopate prepare images
INPUT.ini -o FILE.h5` wrote, in place of the input's data; --first CHECKPOINT
begins with the parameters of a checkpoint of syncopate and takes the samples in
its order. --ranks N --rank R --meet FILE: DistributedDataParallel over gloo, one
process a rank.

Workers are emulated as DistributedDataParallel has them: each takes its part
of the global batch through the network with its own BatchNorm statistics, and
gradients are averaged. Of the inputs' keys those of a residual network under
bsp are known; any other that would change the run is refused.
"""
import argparse
import math
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

import peer_device
import peer_replay
import peer_steps
from peer_data import Augment, load
from peer_input import is_yes, read_input, refuse, steps_of
from peer_networks import Unknown, is_norm, make_network


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


class Order:
    """Which samples a step takes: drawn anew each epoch, or as syncopate deals
    them to one worker."""

    def __init__(self, samples, seed, is_replayed):
        self.samples, self.seed = samples, seed
        self.is_replayed, self.epoch, self.order = is_replayed, None, None

    def of(self, epoch):
        if epoch != self.epoch:
            self.epoch = epoch
            self.order = \
                np.array(peer_replay.order_of(self.seed, epoch, self.samples)) \
                if self.is_replayed else torch.randperm(self.samples).numpy()
        return self.order


def train(steps, values, data, augment, workers, options):
    (images, labels), (test_images, test_labels) = data
    batch = int(values["data.batch"])
    steps_per_epoch = len(images) // (workers * batch)
    total = round(float(values["run.epochs"]) * steps_per_epoch)
    if int(values["run.steps"]):
        total = min(total or math.inf, int(values["run.steps"]))
    if total <= 0 or steps_per_epoch == 0:
        refuse("run.epochs, run.steps: nothing to train")
    schedule = Schedule(values, total, steps_per_epoch)
    order = Order(len(images), int(values["run.seed"]), bool(options.first))
    started, losses, shown = time.perf_counter(), [], 0
    for step in range(total):
        epoch, place = divmod(step, steps_per_epoch)
        parts = []
        for worker in range(workers):
            first = (place * workers + worker) * batch
            chosen = order.of(epoch)[first:first + batch]
            parts.append((augment(images[chosen]), labels[chosen]))
        losses.append(steps.step(schedule.rate(step), parts))
        if step == 0:
            print(f"step 1/{total} loss {losses[0]:.4f}", flush=True)
        if options.losses:
            continue
        if place == steps_per_epoch - 1 or step == total - 1:
            seconds = time.perf_counter() - started
            accuracy, loss = evaluate(steps.model, augment, test_images,
                                      test_labels, workers)
            print(f"step {step + 1}/{total} loss "
                  f"{np.mean(losses[shown:]):.4f} test accuracy "
                  f"{accuracy:.4f} test loss {loss:.4f} {seconds:.1f} s of "
                  "training", flush=True)
            started += time.perf_counter() - started - seconds
            shown = len(losses)
    if options.losses:
        np.savetxt(options.losses, losses, "%.9g")
    else:
        print(f"final test accuracy: {accuracy:.4f}")


def read_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("--throughput", type=float, metavar="SECONDS")
    parser.add_argument("--by-line", action="store_true")
    parser.add_argument("--find", type=float, metavar="SECONDS")
    parser.add_argument("--serve", type=float, metavar="SECONDS")
    parser.add_argument("--settings", default="")
    parser.add_argument("--losses", metavar="FILE")
    parser.add_argument("--samples", metavar="FILE.h5")
    parser.add_argument("--first", metavar="CHECKPOINT")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--meet", metavar="FILE")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu",
                        help="of --serve")
    parser.add_argument("--compile", default="reduce-overhead", metavar="MODE",
                        help="of --serve: torch.compile's mode, or none")
    parser.add_argument("--lock", metavar="FILE", help="of --serve: to choose "
                        "cuDNN's algorithms while no other with it does")
    parser.add_argument("--torch-threads", type=int, default=2)
    options, overrides = parser.parse_known_args()
    values = read_input(options.input, overrides)
    if options.serve is None and options.device != "cpu":
        refuse("--device: of --serve only", 64)
    if options.by_line and (options.throughput is None or options.ranks > 1):
        refuse("--by-line: with --throughput, of one process", 64)
    if options.ranks > 1 and (options.throughput is None or not options.meet):
        refuse("--ranks: with --throughput and --meet=FILE only", 64)
    try:
        options.settings = peer_steps.parse_settings(options.settings)
    except ValueError as error:
        refuse(f"--settings: {error}", 64)
    return options, values


def serve(options, values, model, augment, data):
    device = options.device
    model = model.to(device).to(memory_format=torch.channels_last)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    optimizer = peer_steps.with_fastest(
        lambda **more: make_optimizer(model, values, **more))
    steps = peer_device.ResidentSteps(model, optimizer, augment, data, values,
                                      device)
    peer_device.serve(steps, options.serve, options.compile, options.lock)


def on_cpu(options, values, model, augment, data, workers):
    imported_mb = peer_steps.peak_memory_mb()
    torch.set_flush_denormal(True)
    is_bf16 = values["run.precision"] == "bf16"
    batch = int(values["data.batch"])
    images, labels = data[0]
    parts = [(augment(images[w * batch:(w + 1) * batch]),
              labels[w * batch:(w + 1) * batch]) for w in range(workers)]

    def optimizer_of(network, **more):
        return make_optimizer(network, values, **more)

    if options.find:
        peer_steps.find_fastest(model, optimizer_of, is_bf16, parts,
                                options.find)
        return
    if options.ranks > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{options.meet}", rank=options.rank,
            world_size=options.ranks)
    if options.first:
        peer_replay.load_parameters(model, options.first)
    steps = peer_steps.Steps(model, optimizer_of, options.settings, is_bf16,
                             parts[0][0], options.ranks)
    if options.throughput is None:
        train(steps, values, data, augment, workers, options)
        return
    if options.by_line:
        steps.warm_up(parts)
        print("ready", flush=True)
    for _ in sys.stdin if options.by_line else [""]:
        seconds = steps.seconds_a_step(parts, options.throughput)
        samples = options.ranks * workers * batch
        if options.rank == 0:
            print(f"memory    {peer_steps.peak_memory_mb():.0f} MB at most, "
                  f"resident; {imported_mb:.0f} MB before the first step")
            print(f"step: {1e3 * seconds:.2f} ms, {samples / seconds:.1f} "
                  "images/s", flush=True)


def main():
    options, values = read_arguments()
    torch.set_num_threads(options.torch_threads)
    torch.manual_seed(int(values["run.seed"]) + options.rank)
    workers = 1 if values["run.workers"] == "auto" else \
        int(values["run.workers"])
    # Copies: what was read from a file may not be written to, which torch minds.
    data = [(np.array(images), torch.from_numpy(labels.astype(np.int64)))
            for images, labels in load(values, options.samples)]
    classes = max(int(labels.max()) + 1 for _, labels in data)
    try:
        model = make_network(values, data[0][0].shape[1], classes, workers)
    except Unknown as unknown:
        refuse(f"{unknown} is what the PyTorch peer has")
    augment = Augment(values, data[0][0])
    count = sum(p.numel() for p in model.parameters())
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads: "
          f"{values['model.family']}-{values['model.depth']}, {count} "
          f"parameters in {len(list(model.parameters()))} tensors, {workers} "
          "workers", flush=True)
    if options.serve is None:
        on_cpu(options, values, model, augment, data, workers)
        return
    if workers != 1:
        refuse("run.workers: --serve has one worker")
    serve(options, values, model.train(), augment, data[0])


if __name__ == "__main__":
    main()
