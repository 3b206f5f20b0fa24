"""Steps of the PyTorch peer with the data on the device, as syncopate takes
them on a GPU: crop, flip and normalisation there, autocast, a compiled network,
a fused optimizer, and no value read back between steps. Also serves rates: one
for each line of standard input."""
import fcntl
import sys
import time

import torch
import torch.nn.functional as F

STEPS_TOGETHER = 10  # timed as one: the host runs ahead of a GPU


def fetch(pixels, chosen, dy, dx, mirrored, mean, scale, pad, dtype):
    """Images (N, C, H, W) in channels-last memory, cropped out of zeros and
    mirrored, from stored bytes (S, H, W, C)."""
    _, height, width, _ = pixels.shape
    device = pixels.device
    rows = dy + torch.arange(height, device=device) - pad
    columns = torch.arange(width, device=device)
    columns = dx + torch.where(mirrored, width - 1 - columns, columns) - pad
    inside = (((rows >= 0) & (rows < height))[:, :, None]
              & ((columns >= 0) & (columns < width))[:, None, :])
    x = pixels[chosen[:, None, None], rows.clamp(0, height - 1)[:, :, None],
               columns.clamp(0, width - 1)[:, None, :]]
    x = (x.float() / 255 - mean) * scale * inside[:, :, :, None]
    return x.to(dtype).permute(0, 3, 1, 2)


class ResidentSteps:
    """Training steps over a set that stays on the device."""

    def __init__(self, model, optimizer, augment, data, values, device):
        images, labels = data
        self.device, self.batch = torch.device(device), int(values["data.batch"])
        self.model, self.optimizer = model, optimizer
        self.pixels = torch.from_numpy(images).permute(0, 2, 3, 1) \
            .contiguous().to(self.device)
        self.labels = labels.to(self.device)
        self.mean = augment.mean.flatten().to(self.device)
        self.scale = 1 / augment.std.flatten().to(self.device)
        self.pad, self.has_flip = augment.pad, augment.flip
        self.is_bf16 = values["run.precision"] == "bf16"
        self.order, self.place = None, len(self.labels)
        self.loss_sum = torch.zeros((), device=self.device)
        for group in optimizer.param_groups:
            group["lr"] = float(values["optimizer.lr"])
        self.compiled = ""
        self.fetch, self.loss_of = fetch, self.loss
        self.mark = getattr(getattr(torch, "compiler", None),
                            "cudagraph_mark_step_begin", lambda: None)

    def compile(self, mode):
        if mode != "none" and hasattr(torch, "compile"):
            self.loss_of = torch.compile(self.loss, mode=mode)
            # Its random numbers and its output live from step to step: no
            # graph of its own.
            self.fetch = torch.compile(fetch)
            self.compiled = mode

    def take_back(self, how):
        """Returns to eager steps."""
        self.fetch, self.loss_of, self.compiled = fetch, self.loss, how
        self.optimizer.zero_grad(set_to_none=True)

    def choose_algorithms(self):
        """cuDNN's are timed in the first step; here in one that is not compiled
        and changes no parameter."""
        try:
            x, labels = self.images()
            self.loss(x, labels).backward()
            wait_for(self.device.type)
        except RuntimeError as error:  # no memory for it: in the first step then
            print(f"algorithms: {reason(error)}")
        self.optimizer.zero_grad(set_to_none=True)

    def loss(self, x, labels):
        with torch.autocast(self.device.type, dtype=torch.bfloat16,
                            enabled=self.is_bf16):
            y = self.model(x)
        return F.cross_entropy(y.float(), labels)

    def images(self):
        """A batch of the next samples of a random order."""
        if self.place + self.batch > len(self.labels):
            self.order = torch.randperm(len(self.labels), device=self.device)
            self.place = 0
        chosen = self.order[self.place:self.place + self.batch]
        self.place += self.batch
        shape = (self.batch, 1)
        dy, dx = (torch.randint(0, 2 * self.pad + 1, shape, device=self.device)
                  for _ in range(2))
        mirrored = torch.rand(shape, device=self.device) < \
            (0.5 if self.has_flip else 0)
        x = self.fetch(self.pixels, chosen, dy, dx, mirrored, self.mean,
                       self.scale, self.pad,
                       torch.bfloat16 if self.is_bf16 else torch.float32)
        return x, self.labels[chosen]

    def step(self):
        self.mark()
        x, labels = self.images()
        loss = self.loss_of(x, labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss_sum += loss.detach()

    def seconds_a_step(self, seconds):
        """The median over groups of steps."""
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 3:
            wait_for(self.device.type)
            started = time.perf_counter()
            for _ in range(STEPS_TOGETHER):
                self.step()
            wait_for(self.device.type)
            times.append((time.perf_counter() - started) / STEPS_TOGETHER)
        if not torch.isfinite(self.loss_sum):
            print("the loss is not finite", file=sys.stderr)
            sys.exit(70)
        return sorted(times)[len(times) // 2]


def wait_for(device):
    if device == "cuda":
        torch.cuda.synchronize()


def reason(error):
    """In a line, why there is no compiled step."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines or [''])[0].strip()[:120]}"


def give_back(device):
    """Frees cached memory for the other peers."""
    if device == "cuda":
        torch.cuda.empty_cache()


def memory(device):
    if device != "cuda":
        return ""
    most = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return (f", {most[0] / 1e6:.0f} MB of the GPU at most, "
            f"{most[1] / 1e6:.0f} MB reserved")


def answer(step, seconds_a_step, batch, unit, device):
    """`ready`; then a rate for each line read, until there is none."""
    wait_for(device)
    give_back(device)
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(3):  # warms up after the other peers' turns
            step()
        seconds = seconds_a_step()
        print(f"step: {1e3 * seconds:.3f} ms, {batch / seconds:.1f} "
              f"{unit}/s{memory(device)}", flush=True)


def serve(steps, seconds, mode, lock):
    def warm_up():
        for _ in range(5):  # compiles, records, chooses algorithms
            steps.step()

    device = steps.device.type
    if lock:
        with open(lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            steps.choose_algorithms()
        give_back(device)
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
    steps.compile(mode)
    how = ""
    try:
        warm_up()
    except Exception as error:  # whatever a compiler may run into
        if not steps.compiled:
            raise
        how = f"no, {reason(error)}"
    if how:
        steps.take_back(how)
        torch._dynamo.reset()
        give_back(device)
        warm_up()
    print(f"compiled: {steps.compiled or 'no'}")
    answer(steps.step, lambda: steps.seconds_a_step(seconds), steps.batch,
           "images", device)
