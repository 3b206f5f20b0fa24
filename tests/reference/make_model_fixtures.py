#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/models.txt: one training step and one evaluation of small
networks in PyTorch (double precision, CPU), for
tests/unit/models/test_fixtures.cpp. Parameters, images and labels come from a
formula that both programs evaluate to the same bits (see `uniform`).

    /usr/bin/python3 tests/reference/make_model_fixtures.py

PyTorch is needed here only; the recorded numbers were made with 1.13, those of
Tensor2Tensor's and Gluon's networks with 2.15.
"""
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from made_values import uniform


def conv(c, k, window, stride=1):
    return nn.Conv2d(c, k, window, stride, window // 2, bias=False)


def convolutions(kind, c, inner, outer, stride, is_gluon=False):
    if kind == "basic":
        return [conv(c, outer, 3, stride), conv(outer, outer, 3)]
    if is_gluon:  # BottleneckV1 of mxnet/gluon/model_zoo/vision/resnet.py
        return [
            nn.Conv2d(c, inner, 1, stride),
            conv(inner, inner, 3),
            nn.Conv2d(inner, outer, 1),
        ]
    return [
        conv(c, inner, 1),
        conv(inner, inner, 3, stride),
        conv(inner, outer, 1),
    ]


class PostBlock(nn.Module):
    """relu(bn(conv(...)) + shortcut), He et al. 2016a."""

    def __init__(self, kind, c, inner, outer, stride, variant):
        super().__init__()
        self.stages = nn.ModuleList()
        is_gluon = variant == "gluon"
        for layer in convolutions(kind, c, inner, outer, stride, is_gluon):
            norm = nn.BatchNorm2d(layer.out_channels)
            self.stages.append(nn.ModuleList([layer, norm]))
        self.shortcut = None
        if c != outer or stride != 1:
            self.shortcut = nn.Sequential(
                conv(c, outer, 1, stride), nn.BatchNorm2d(outer)
            )

    def forward(self, x):
        h = x
        for number, (layer, norm) in enumerate(self.stages):
            h = norm(layer(h))
            if number + 1 < len(self.stages):
                h = F.relu(h)
        return F.relu(h + (self.shortcut(x) if self.shortcut else x))


class PreBlock(nn.Module):
    """conv(relu(bn(...))) + shortcut, He et al. 2016b; Tensor2Tensor's
    residual_block has a BatchNorm behind the projection."""

    def __init__(self, kind, c, inner, outer, stride, variant):
        super().__init__()
        self.stages = nn.ModuleList()
        for layer in convolutions(kind, c, inner, outer, stride):
            norm = nn.BatchNorm2d(layer.in_channels)
            self.stages.append(nn.ModuleList([norm, layer]))
        self.shortcut = None
        if c != outer or stride != 1:
            self.shortcut = nn.Sequential(conv(c, outer, 1, stride))
            if variant == "t2t":
                self.shortcut.append(nn.BatchNorm2d(outer))

    def forward(self, x):
        h = x
        for number, (norm, layer) in enumerate(self.stages):
            a = F.relu(norm(h))
            if number == 0:
                first = a
            h = layer(a)
        return h + (self.shortcut(first) if self.shortcut else x)


class Net(nn.Module):
    def __init__(self, form, stem, stages, classes, variant="he"):
        super().__init__()
        block = PostBlock if form == "post" else PreBlock
        has_stem_norm = form == "post" or variant in ("t2t", "gluon")
        has_final_norm = form == "pre" and variant != "t2t"
        self.input_norm = None
        if form == "pre" and variant == "gluon":
            self.input_norm = nn.BatchNorm2d(3, affine=False)
        k, window, stride, self.has_pool = stem
        self.stem = conv(3, k, window, stride)
        self.stem_norm = nn.BatchNorm2d(k) if has_stem_norm else None
        self.blocks = nn.ModuleList()
        c = k
        for kind, count, inner, outer, stride in stages:
            for number in range(count):
                first = number == 0
                self.blocks.append(
                    block(kind, c, inner, outer, stride if first else 1, variant)
                )
                c = outer
        self.final_norm = nn.BatchNorm2d(c) if has_final_norm else None
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        h = self.stem(x if self.input_norm is None else self.input_norm(x))
        if self.stem_norm is not None:
            h = F.relu(self.stem_norm(h))
        if self.has_pool:
            h = F.max_pool2d(h, 3, 2, 1)
        for block in self.blocks:
            h = block(h)
        if self.final_norm is not None:
            h = F.relu(self.final_norm(h))
        return self.fc(h.mean(dim=(2, 3)))


def cifar(kind, count, width=1):
    outer = 4 if kind == "bottleneck" else 1
    return [
        (kind, count, w * width, w * width * outer, 1 if w == 16 else 2)
        for w in (16, 32, 64)
    ]


def stages(kind, counts, width):
    """Each stage twice as wide as the one before."""
    outer = 4 if kind == "bottleneck" else 1
    return [
        (kind, count, width << s, (width << s) * outer, 1 if s == 0 else 2)
        for s, count in enumerate(counts)
    ]


RESNET18 = [("basic", 2, 0, w, 1 if w == 64 else 2) for w in (64, 128, 256, 512)]
CIFAR_STEM = (16, 3, 1, False)
# name: network, (N, H, W); the options are in test_fixtures.cpp
NETWORKS = {
    "resnet20": (Net("post", CIFAR_STEM, cifar("basic", 3), 10), (4, 8, 8)),
    "resnet8-bottleneck": (
        Net("post", CIFAR_STEM, cifar("bottleneck", 1), 10),
        (4, 9, 7),
    ),
    "resnet8-v2": (Net("pre", CIFAR_STEM, cifar("basic", 1), 10), (4, 9, 7)),
    "resnet18-imagenet": (
        Net("post", (64, 7, 2, True), RESNET18, 10),
        (3, 40, 33),
    ),
    "wrn8x2-post": (Net("post", CIFAR_STEM, cifar("basic", 1, 2), 10), (4, 8, 8)),
    "wrn10x2-pre": (Net("pre", CIFAR_STEM, cifar("basic", 1, 2), 10), (4, 8, 8)),
    # resnet_cifar_* and resnet_50 with is_cifar, shorter and narrower.
    "t2t-basic": (
        Net("pre", (8, 7, 1, False), stages("basic", (2, 1, 2), 16), 10, "t2t"),
        (4, 9, 7),
    ),
    "t2t-bottleneck": (
        Net("post", (8, 7, 1, False), stages("bottleneck", (2, 1, 2), 8), 10, "t2t"),
        (4, 9, 7),
    ),
    # resnet50_v1 and resnet50_v2, the same.
    "gluon-v1": (
        Net("post", (8, 7, 2, True), stages("bottleneck", (2, 1, 2), 8), 10, "gluon"),
        (3, 40, 33),
    ),
    "gluon-v2": (
        Net("pre", (8, 7, 2, True), stages("bottleneck", (2, 1, 2), 8), 10, "gluon"),
        (3, 40, 33),
    ),
}


def fill(parameters):
    for number, p in enumerate(parameters):
        u = uniform(number + 1, p.numel())
        if p.dim() == 4:
            values = u * np.sqrt(24.0 / (p.shape[0] * p.shape[2] * p.shape[3]))
        elif p.dim() == 2:
            values = u * (2 / np.sqrt(p.shape[1]))
        elif p.is_gamma:
            values = 1 + 0.5 * u
        else:
            values = 0.5 * u
        values = torch.from_numpy(values.astype(np.float32)).double()
        p.data = values.reshape(p.shape)


def line(*words):
    return " ".join(w if isinstance(w, str) else f"{w:.9g}" for w in words) + "\n"


def summary(t):
    flat = t.reshape(-1)
    n = flat.numel()
    picked = [float(flat[i]) for i in (0, n // 2, n - 1)]
    return [float(flat.sum()), float(flat.norm()), *picked]


def record(name, net, shape):
    net = net.double().train()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d) and module.affine:
            module.weight.is_gamma = True
        if getattr(module, "bias", None) is not None:
            module.bias.is_gamma = False
    parameters = list(net.parameters())
    fill(parameters)
    n, h, w = shape
    images = torch.from_numpy(4 * uniform(0, n * 3 * h * w)).reshape(n, 3, h, w)
    labels = torch.tensor([(3 * i + 1) % 10 for i in range(n)])
    loss = F.cross_entropy(net(images), labels)
    loss.backward()
    text = line("network", name, n, h, w) + line("loss", loss.item())
    for p in parameters:
        # 0 but for rounding: of a bias in front of a BatchNorm.
        is_zero = p.grad.norm() < 1e-12
        text += line("gradient", *summary(p.grad * 0 if is_zero else p.grad))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            text += line("buffer", *summary(module.running_mean))
            text += line("buffer", *summary(module.running_var))
    net.eval()
    with torch.no_grad():
        text += line("scores", *summary(net(images)))
    return text


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "fixtures", "models.txt"), "w") as out:
        for name, (net, shape) in NETWORKS.items():
            out.write(record(name, net, shape))


if __name__ == "__main__":
    main()
