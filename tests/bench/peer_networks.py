"""Residual networks in PyTorch as src/models defines them (resnet.cpp, wrn.cpp):
the same layers, the same first values, the same number of parameters."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class Unknown(Exception):
    """A network that is not here, in words."""


class WorkerBatchNorm(nn.Module):
    """BatchNorm whose running statistics are one row a worker."""

    def __init__(self, channels, workers):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(workers, channels))
        self.register_buffer("var", torch.ones(workers, channels))
        self.worker = 0

    def forward(self, x):
        return F.batch_norm(x, self.mean[self.worker], self.var[self.worker],
                            self.weight, self.bias, self.training, 0.1, 1e-5)


def norm(channels, workers):
    # One worker has PyTorch's own, which its compiler knows best.
    return nn.BatchNorm2d(channels) if workers == 1 else \
        WorkerBatchNorm(channels, workers)


def is_norm(module):
    return isinstance(module, (nn.BatchNorm2d, WorkerBatchNorm))


def conv(inputs, outputs, kernel, stride=1):
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    # He et al. 2015 by fan-out.
    nn.init.normal_(layer.weight, 0, math.sqrt(2 / (outputs * kernel ** 2)))
    return layer


class Block(nn.Module):
    """Convolutions of (channels, kernel, stride), each with BatchNorm; the
    shortcut is projected where the shape changes."""

    def __init__(self, inputs, convolutions, workers):
        super().__init__()
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        width, stride = inputs, 1
        for outputs, kernel, step in convolutions:
            self.convs.append(conv(width, outputs, kernel, step))
            self.norms.append(norm(outputs, workers))
            width, stride = outputs, stride * step
        self.shortcut = None
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(conv(inputs, width, 1, stride),
                                          norm(width, workers))

    def forward(self, x):
        y = x
        for index, (layer, bn) in enumerate(zip(self.convs, self.norms)):
            y = bn(layer(y))
            if index + 1 < len(self.convs):
                y = F.relu(y, inplace=True)
        y += x if self.shortcut is None else self.shortcut(x)
        return F.relu(y, inplace=True)


class PreBlock(nn.Module):
    """The same with BatchNorm and ReLU before each convolution (He et al.
    2016b); a projection reads the first of them."""

    def __init__(self, inputs, convolutions, workers):
        super().__init__()
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        width, stride = inputs, 1
        for outputs, kernel, step in convolutions:
            self.norms.append(norm(width, workers))
            self.convs.append(conv(width, outputs, kernel, step))
            width, stride = outputs, stride * step
        self.shortcut = None
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(conv(inputs, width, 1, stride))

    def forward(self, x):
        first = F.relu(self.norms[0](x), inplace=True)
        y = self.convs[0](first)
        for layer, bn in zip(self.convs[1:], self.norms[1:]):
            y = layer(F.relu(bn(y), inplace=True))
        y += x if self.shortcut is None else self.shortcut(first)
        return y


class ResidualNet(nn.Module):
    """Stem (channels, kernel, stride, whether pooled), then stages: lists of
    blocks' convolutions. Pre-activation blocks have their first BatchNorm
    behind them instead of in the stem."""

    def __init__(self, stem, stages, channels, classes, workers, is_pre=False):
        super().__init__()
        width, kernel, stride, self.is_pooled = stem
        self.is_pre = is_pre
        self.stem = conv(channels, width, kernel, stride)
        blocks, self.names = [], []
        inputs = width
        for number, stage in enumerate(stages, 1):
            for index, convolutions in enumerate(stage):
                blocks.append((PreBlock if is_pre else Block)(
                    inputs, convolutions, workers))
                self.names.append(f"stage{number}.block{index}")
                inputs = convolutions[-1][0]
        self.bn = norm(inputs if is_pre else width, workers)
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(inputs, classes)  # U(-1/sqrt(D), 1/sqrt(D))

    def forward(self, x):
        y = self.stem(x)
        if not self.is_pre:
            y = F.relu(self.bn(y), inplace=True)
        if self.is_pooled:
            y = F.max_pool2d(y, 3, 2, 1)
        y = self.blocks(y)
        if self.is_pre:
            y = F.relu(self.bn(y), inplace=True)
        return self.fc(y.mean((2, 3)))

    def tensors(self):
        """(name, parameter) of each, as src/models names them."""
        modules = [("stem.conv", self.stem),
                   ("final.bn" if self.is_pre else "stem.bn", self.bn)]
        for name, block in zip(self.names, self.blocks):
            for number, layer in enumerate(block.convs, 1):
                modules.append((f"{name}.conv{number}", layer))
            for number, layer in enumerate(block.norms, 1):
                modules.append((f"{name}.bn{number}", layer))
            for layer in block.shortcut or ():
                kind = "bn" if is_norm(layer) else "conv"
                modules.append((f"{name}.shortcut.{kind}", layer))
        modules.append(("fc", self.fc))
        for name, module in modules:
            for word, value in module.named_parameters(recurse=False):
                yield f"{name}.{word}", value

    def as_worker(self, worker):
        for module in self.modules():
            if isinstance(module, WorkerBatchNorm):
                module.worker = worker
        return self


def basic(outputs, stride, _):
    return [(outputs, 3, stride), (outputs, 3, 1)]


def bottleneck(outputs, stride, inner):
    return [(inner, 1, 1), (inner, 3, stride), (outputs, 1, 1)]


def stage(block, blocks, outputs, stride, inner=0):
    return [block(outputs, stride if index == 0 else 1, inner)
            for index in range(blocks)]


# He et al. 2016a, table 1.
IMAGENET = {18: (basic, (2, 2, 2, 2)), 34: (basic, (3, 4, 6, 3)),
            50: (bottleneck, (3, 4, 6, 3)), 101: (bottleneck, (3, 4, 23, 3))}


def imagenet_stages(depth, widening):
    block, counts = IMAGENET[depth]
    stages = []
    for index, blocks in enumerate(counts):
        width, stride = 64 << index, 1 if index == 0 else 2
        outputs = width if block is basic else 4 * width
        stages.append(stage(block, blocks, outputs, stride, width * widening))
    return stages


def cifar_stages(block, blocks, widening):
    stages = []
    for width in (16, 32, 64):
        outputs = width * widening * (4 if block is bottleneck else 1)
        stages.append(stage(block, blocks, outputs, 1 if width == 16 else 2,
                            width))
    return stages


IMAGENET_STEM = (64, 7, 2, True)


def resnet(depth, stem, block):
    if depth in IMAGENET:
        return (IMAGENET_STEM if stem == "imagenet" else (64, 3, 1, False),
                imagenet_stages(depth, 1))
    if stem == "imagenet" or depth < 8 or depth % 6 != 2:
        raise Unknown(f"model.depth = {depth}: 6n+2 layers, or 18, 34, 50, 101")
    is_deep = block == "bottleneck" or (block == "auto" and depth >= 44)
    return ((16, 3, 1, False),
            cifar_stages(bottleneck if is_deep else basic, (depth - 2) // 6, 1))


def wrn(depth, stem, width, is_pre):
    if stem == "imagenet":
        if depth not in (50, 101) or is_pre:
            raise Unknown(f"model.depth = {depth}: 50 or 101, form post")
        return IMAGENET_STEM, imagenet_stages(depth, width)
    others = 4 if is_pre else 2  # layers outside of blocks
    if depth <= others or depth % 6 != others:
        raise Unknown(f"model.depth = {depth}: 6n+{others} layers")
    return (16, 3, 1, False), cifar_stages(basic, depth // 6, width)


def make_network(values, channels, classes, workers):
    """The network of an input's [model] section; else Unknown."""
    family, depth = values["model.family"], int(values["model.depth"])
    is_pre = family == "wrn" and values["model.form"] == "pre"
    if family == "resnet":
        if values["model.version"] != "1":
            raise Unknown("model.version = 2: only 1 (post-activation)")
        stem, stages = resnet(depth, values["model.stem"],
                              values["model.block"])
    elif family == "wrn":
        stem, stages = wrn(depth, values["model.stem"],
                           int(values["model.width"]), is_pre)
    else:
        raise Unknown(f"model.family = {family}: resnet or wrn")
    return ResidualNet(stem, stages, channels, classes, workers, is_pre)
