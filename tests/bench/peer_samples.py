#!/usr/bin/env python3
"""BERT with a span head, and DeepFM, in PyTorch: the networks of an input on the
very samples that syncopate is fed, for tests/bench/samples.sh.

    syncopate prepare squad|criteo INPUT.ini -o SAMPLES.h5 [--key=value ...]
    peer_samples.py SAMPLES.h5 INPUT.ini [--key=value ...] [--seconds 10]
    peer_samples.py --serve SECONDS ...     a rate for each line of its input

Prints the losses of the first steps, the rate (samples by mean time of a step)
and the peak memory. What is fastest in the PyTorch that is found is used: its
fused attention and fused Adam where it has them, and on a GPU torch.compile; a
line says if that fails and why, and that the steps are not compiled. --bucket:
batches of like length, padded to their longest, from windows of 64 steps as
syncopate has them; otherwise all are padded to the longest sample there is.
"""
import argparse
import configparser
import resource
import time

import h5py
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import peer_device


class Attention(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(hidden, 3 * hidden)

    def forward(self, x, mask):
        N, T, H = x.shape
        q, k, v = (part.view(N, T, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(x).split(H, -1))
        p = self.dropout if self.training else 0.0
        if hasattr(F, "scaled_dot_product_attention"):
            out = F.scaled_dot_product_attention(q, k, v, mask, p)
        else:
            scores = q @ k.transpose(2, 3) / (H // self.heads) ** 0.5
            if mask is not None:
                scores = scores + mask
            out = F.dropout(scores.softmax(-1), p, self.training) @ v
        return out.transpose(1, 2).reshape(N, T, H)


class Layer(nn.Module):
    def __init__(self, hidden, heads, intermediate, dropout, attention_dropout):
        super().__init__()
        self.attention = Attention(hidden, heads, attention_dropout)
        self.mix = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden, eps=1e-12)
        self.up = nn.Linear(hidden, intermediate)
        self.down = nn.Linear(intermediate, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout(self.mix(self.attention(x, mask))))
        return self.norm2(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Bert(nn.Module):
    def __init__(self, get, vocabulary):
        super().__init__()
        hidden, heads = int(get("hidden", 768)), int(get("heads", 12))
        inner = get("intermediate", "auto")
        inner = 4 * hidden if inner == "auto" else int(inner)
        p = float(get("hidden_dropout", 0.1))
        self.words = nn.Embedding(vocabulary, hidden)
        self.places = nn.Embedding(int(get("positions", 512)), hidden)
        self.segments = nn.Embedding(2, hidden)
        self.norm, self.dropout = nn.LayerNorm(hidden, eps=1e-12), nn.Dropout(p)
        self.layers = nn.ModuleList(
            Layer(hidden, heads, inner, p, float(get("attention_dropout", 0.1)))
            for _ in range(int(get("layers", 12))))
        self.head = nn.Linear(hidden, 2)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, segments, lengths, is_padded):
        T = tokens.shape[1]
        place = torch.arange(T, device=tokens.device)
        x = self.words(tokens) + self.places(place) + self.segments(segments)
        x = self.dropout(self.norm(x))
        padded = place >= lengths[:, None]
        mask = None
        if is_padded:
            mask = torch.zeros(padded.shape, device=x.device).masked_fill_(padded, -1e9)
            mask = mask[:, None, None, :].to(x.dtype)
        for layer in self.layers:
            x = layer(x, mask)
        scores = self.head(x).float()
        return scores.masked_fill(padded[..., None], -1e9)


class DeepFm(nn.Module):
    def __init__(self, get, rows, fields, sparse):
        super().__init__()
        width = int(get("embedding", 10))
        self.embedding = nn.Embedding(rows, width, sparse=sparse)
        self.first = nn.Embedding(rows, 1, sparse=sparse)
        for table in (self.embedding, self.first):
            nn.init.xavier_uniform_(table.weight)
        self.bias = nn.Parameter(torch.zeros(1))
        layers, last = [], fields * width
        for out in get("mlp", "400, 400, 400").replace(",", " ").split():
            layers += [nn.Linear(last, int(out)), nn.BatchNorm1d(int(out)), nn.ReLU(),
                       nn.Dropout(float(get("mlp_dropout", 0.5)))]
            last = int(out)
        self.mlp = nn.Sequential(*layers, nn.Linear(last, 1))

    def scores(self, v, first):
        pairs = (v.sum(1).square() - v.square().sum(1)).sum(1) / 2
        first = first.sum((1, 2)) + self.bias
        return first + pairs + self.mlp(v.flatten(1))[:, 0]

    def forward(self, rows):
        return self.scores(self.embedding(rows), self.first(rows))


def question_batches(part, batch, bucket, multiple, rng):
    """Endless (tokens, segments, lengths, labels), is_padded of random windows."""
    tokens, segments = part["tokens"][...], part["segments"][...]
    offsets, labels = part["offsets"][...], part["labels"][...]
    lengths = np.diff(offsets)
    longest = lengths.max()
    while True:
        order = rng.permutation(len(lengths))
        steps = [order[i:i + batch] for i in range(0, len(order) - batch + 1, batch)]
        if bucket:
            steps = []
            for i in range(0, len(order), 64 * batch):
                window = order[i:i + 64 * batch]
                window = window[np.argsort(lengths[window], kind="stable")]
                steps += [window[j:j + batch]
                          for j in range(0, len(window) - batch + 1, batch)]
            rng.shuffle(steps)
        for chosen in steps:
            T = lengths[chosen].max() if bucket else longest
            T = -(-T // multiple) * multiple
            t, s = np.zeros((2, batch, T), np.int64)
            for n, i in enumerate(chosen):
                t[n, :lengths[i]] = tokens[offsets[i]:offsets[i + 1]]
                s[n, :lengths[i]] = segments[offsets[i]:offsets[i + 1]]
            yield ([torch.from_numpy(a) for a in
                    (t, s, lengths[chosen].astype(np.int64), labels[chosen].astype(np.int64))],
                   bool((lengths[chosen] < T).any()))


def click_batches(part, batch, device):
    """Endless (rows, labels), gathered where they are needed."""
    rows = torch.from_numpy(part["rows"][...]).to(device)  # int32
    labels = torch.from_numpy(part["labels"][...].astype(np.float32)).to(device)
    while True:
        order = torch.randperm(len(labels), device=device)
        for i in range(0, len(order) - batch + 1, batch):
            chosen = order[i:i + batch]
            yield [rows[chosen].long(), labels[chosen]], False


def adam(kind, parameters, **options):
    """With the fastest implementation that takes these parameters."""
    parameters = list(parameters)
    for fastest in ({"fused": True}, {"foreach": True}, {}):
        try:
            return kind(parameters, **options, **fastest)
        except (TypeError, RuntimeError):
            continue
    raise RuntimeError("no Adam")


class Questions:
    def __init__(self, file, section, batch, args, rng):
        # Its fast kernels want lengths that are multiples of 8.
        self.batches = question_batches(file["train"], batch, args.bucket,
                                        8 if args.device == "cuda" else 1, rng)
        self.device = args.device
        self.net = Bert(section("model"), int(file.attrs["vocabulary"])).to(args.device)
        get = section("optimizer")
        self.optimizers = [adam(torch.optim.AdamW, self.net.parameters(),
                                lr=float(get("lr", 0.1)),
                                weight_decay=float(get("weight_decay", 1e-4)))]
        self.clip = float(get("clip_norm", 0))

    def compile(self, **options):
        compiled_loss = torch.compile(self.loss, **options)
        # One program for batches with padding and without: another would be
        # compiled while steps are timed.
        self.loss = lambda batch, is_padded: compiled_loss(batch, True)

    def loss(self, batch, is_padded):
        tokens, segments, lengths, labels = batch
        scores = self.net(tokens, segments, lengths, is_padded)
        return (F.cross_entropy(scores[..., 0], labels[:, 0])
                + F.cross_entropy(scores[..., 1], labels[:, 1])) / 2


class Clicks:
    def __init__(self, file, section, batch, args, rng):
        get = section("optimizer")
        sparse = get("embedding", "dense") == "lazy"
        rows = int(file["field_rows"][...].sum())
        fields = file["train/rows"].shape[1]
        self.batches = click_batches(file["train"], batch, args.device)
        self.device = args.device
        self.net = DeepFm(section("model"), rows, fields, sparse).to(args.device)
        lr, decay = float(get("lr", 0.1)), float(get("weight_decay", 1e-4))
        tables = [self.net.embedding.weight, self.net.first.weight] if sparse else []
        rest = [p for p in self.net.parameters() if not any(p is t for t in tables)]
        self.optimizers = [adam(torch.optim.Adam, rest, lr=lr, weight_decay=decay)]
        if sparse:
            self.optimizers.append(torch.optim.SparseAdam(tables, lr=lr))
        self.clip = float(get("clip_norm", 0))

    def compile(self, **options):
        if self.net.embedding.sparse:  # the compiler has no sparse gradients
            self.net.scores = torch.compile(self.net.scores, **options)
        else:
            self.loss = torch.compile(self.loss, **options)

    def loss(self, batch, is_padded):
        rows, labels = batch
        return F.binary_cross_entropy_with_logits(self.net(rows).float(), labels)


MARK_STEP = getattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin",
                    lambda: None)


def step(work, autocast):
    MARK_STEP()
    for optimizer in work.optimizers:
        optimizer.zero_grad(set_to_none=True)
    tensors, is_padded = next(work.batches)
    batch = [tensor.to(work.device, non_blocking=True) for tensor in tensors]
    with torch.autocast(work.device, torch.bfloat16, enabled=autocast):
        loss = work.loss(batch, is_padded)
    loss.backward()
    if work.clip:
        nn.utils.clip_grad_norm_(work.net.parameters(), work.clip)
    for optimizer in work.optimizers:
        optimizer.step()
    return loss


def compiled(make, autocast, mode, is_dynamic):
    """make(), compiled if that works; the losses of its first steps; how."""
    def losses_of(work, steps):
        return [step(work, autocast).item() for _ in range(steps)]

    work = make()
    if mode == "none":
        return work, losses_of(work, 3), "no"
    try:
        # A graph of each length there is would be recorded otherwise.
        work.compile(**({"dynamic": True} if is_dynamic else {"mode": mode}))
        # CUDA graphs are recorded in the second; some lengths may need another
        # program.
        losses = losses_of(work, 20 if is_dynamic else 3)
        return work, losses, f"{mode}, any length" if is_dynamic else mode
    except Exception as error:  # whatever a compiler may run into
        how = f"no, {peer_device.reason(error)}"
    if hasattr(torch, "_dynamo"):
        torch._dynamo.reset()
    del work  # what it has on the device
    work = make()
    return work, losses_of(work, 3), how


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples")
    parser.add_argument("input")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--serve", type=float, metavar="SECONDS")
    parser.add_argument("--least-steps", type=int, default=20)
    parser.add_argument("--torch-threads", type=int, default=2)
    parser.add_argument("--bucket", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--compile", metavar="MODE",
                        help="torch.compile's mode, or none (cpu: none, cuda: "
                        "reduce-overhead; default, with any length, if --bucket)")
    args, keys = parser.parse_known_args()
    ini = configparser.ConfigParser(inline_comment_prefixes=("#",))
    ini.read(args.input)
    for key in keys:
        name, value = key.removeprefix("--").split("=", 1)
        where, word = name.split(".", 1)
        if not ini.has_section(where):
            ini.add_section(where)
        ini[where][word] = value

    def section(name):
        return lambda key, otherwise: ini.get(name, key, fallback=otherwise)

    torch.set_num_threads(args.torch_threads)
    file = h5py.File(args.samples)
    batch = int(section("data")("batch", 128))
    kind = Questions if section("model")("family", "") == "bert" else Clicks
    mode = args.compile or ("reduce-overhead" if args.device == "cuda" else "none")
    if args.bucket and mode != "none":
        mode = "default"
    autocast = section("run")("precision", "fp32") == "bf16"

    def make():
        torch.manual_seed(1)
        return kind(file, section, batch, args, np.random.default_rng(1))

    work, losses, how = compiled(make, autocast, mode, args.bucket)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, "
          f"{sum(p.numel() for p in work.net.parameters())} parameters")
    print(f"compiled: {how}")

    def seconds_a_step(seconds):
        """The mean, since steps of questions differ in length; how many; the
        loss of the last."""
        peer_device.wait_for(args.device)
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds or steps < args.least_steps:
            loss = step(work, autocast)
            steps += 1
        peer_device.wait_for(args.device)
        return (time.perf_counter() - begin) / steps, steps, loss

    if args.serve is not None:
        peer_device.answer(lambda: step(work, autocast),
                           lambda: seconds_a_step(args.serve)[0], batch,
                           "samples", args.device)
        return
    seconds, steps, last = seconds_a_step(args.seconds)
    print("loss " + " ".join(f"{x:.4f}" for x in [*losses[:3], last.item()]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6
    print(f"memory    {peak:.0f} MB at most, resident")
    print(f"step: {1e3 * seconds:.3f} ms, {batch / seconds:.1f} samples/s ({steps} steps)")


main()
