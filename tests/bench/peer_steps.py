"""Training steps of the PyTorch peer on the CPU: the settings it can run under,
which of them is fastest, and how long its steps take."""
import copy
import resource
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

LAYOUTS = ("channels_last", "nchw")
WAYS = ("eager", "compile", "jit")


def peak_memory_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6


def with_fastest(make):
    """make(**options) with the fastest implementation that this PyTorch has for
    the parameters: one fused loop, else lists of tensors, else one by one."""
    for options in ({"fused": True}, {"foreach": True}):
        try:
            return make(**options)
        except (TypeError, RuntimeError):
            continue
    return make()


def parse_settings(text):
    """"LAYOUT WAY", or "" for what is fast nearly everywhere."""
    layout, way = (text or "channels_last eager").split()
    if layout not in LAYOUTS or way not in WAYS:
        raise ValueError(f"{text}: expected {'|'.join(LAYOUTS)} "
                         f"{'|'.join(WAYS)}")
    return layout, way


class Steps:
    """Steps of `model`, which it changes; `make_optimizer(model, **options)`.
    Raises whatever PyTorch does where it has no such way."""

    def __init__(self, model, make_optimizer, settings, is_bf16, example,
                 ranks=1):
        layout, way = settings
        self.memory_format = torch.channels_last if layout == "channels_last" \
            else torch.contiguous_format
        self.model = model.to(memory_format=self.memory_format).train()
        self.optimizer = with_fastest(
            lambda **options: make_optimizer(self.model, **options))
        self.autocast = dict(device_type="cpu", dtype=torch.bfloat16,
                             enabled=is_bf16)
        self.network = self.model
        if ranks > 1:
            self.network = torch.nn.parallel.DistributedDataParallel(
                self.model, broadcast_buffers=False,
                gradient_as_bucket_view=True, static_graph=True)
        if way == "compile":
            self.network = torch.compile(self.network)
        if way == "jit":
            with torch.autocast(**self.autocast, cache_enabled=False):
                self.network = torch.jit.trace(
                    self.network, example.to(memory_format=self.memory_format),
                    check_trace=False)

    def step(self, rate, parts):
        """`parts`: one (images, labels) a worker. Returns the mean loss."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for worker, (x, labels) in enumerate(parts):
            self.model.as_worker(worker)
            with torch.autocast(**self.autocast):
                y = self.network(x.contiguous(memory_format=self.memory_format))
            loss = F.cross_entropy(y.float(), labels)
            (loss / len(parts)).backward()
            total += loss.item()
        self.optimizer.step()
        return total / len(parts)

    def warm_up(self, parts):
        for _ in range(3):
            self.step(0.01, parts)

    def timed_steps(self, parts, seconds, least):
        """The seconds of each, over so many seconds, `least` steps at least."""
        times, end = [], time.perf_counter() + seconds
        while True:
            started = time.perf_counter()
            self.step(0.01, parts)
            times.append(time.perf_counter() - started)
            over = torch.tensor(float(time.perf_counter() > end
                                      and len(times) >= least))
            if dist.is_initialized():  # one word of rank 0 for all
                dist.broadcast(over, 0)
            if over:
                return times

    def seconds_a_step(self, parts, seconds):
        """The median over so many seconds, five steps at least."""
        self.warm_up(parts)
        return median(self.timed_steps(parts, seconds, 5))


def median(times):
    return sorted(times)[len(times) // 2]


def find_fastest(model, make_optimizer, is_bf16, parts, seconds, turns=8):
    """Times every layout and way for so many seconds each, in turns, so that a
    slow moment of the machine is one of all; a line each, and the fastest."""
    ready = {}
    for settings in [(layout, way) for way in WAYS for layout in LAYOUTS]:
        try:
            steps = Steps(copy.deepcopy(model), make_optimizer, settings,
                          is_bf16, parts[0][0])
            steps.warm_up(parts)
            ready[settings] = steps
        except Exception as error:  # whatever a compiler may run into
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            print(f"PyTorch {' '.join(settings)}: not possible: {reason[:100]}",
                  flush=True)
    times = {settings: [] for settings in ready}
    for _ in range(turns):
        for settings, steps in ready.items():
            steps.step(0.01, parts)  # the caches are another's
            times[settings] += steps.timed_steps(parts, seconds / turns, 1)
    samples = sum(len(labels) for _, labels in parts)
    for settings in ready:
        print(f"PyTorch {' '.join(settings)}: "
              f"{samples / median(times[settings]):.1f} images/s", flush=True)
    print("fastest: " + " ".join(min(ready, key=lambda s: median(times[s]))))
