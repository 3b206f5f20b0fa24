#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/export.txt for tests/unit/models/test_file_names.cpp: names
and shapes of the networks of torchvision, Hugging Face and this file, and what
they compute (double precision, CPU) with weights of a formula that both
programs evaluate to the same bits.

    python3 tests/reference/make_export_fixtures.py
    python3 tests/reference/make_export_fixtures.py --load NETWORK FILE
    EXPORTED=DIR build/cpu/tests/unit_models --gtest_filter='*FileNames*'
    python3 tests/reference/make_export_fixtures.py --load-all DIR

--load loads a file that syncopate exported, strictly, and prints the outputs.
PyTorch, torchvision and transformers are needed here only; the recorded numbers
were made with 2.15, 0.29 and 5.24.
"""
import collections
import os
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torchvision.models.resnet import BasicBlock, Bottleneck
from transformers import BertConfig, BertForQuestionAnswering

from made_values import uniform

CLASSES = 10
FIELD_ROWS, WIDTH, MLP, RECORDS = [3, 7, 4, 11, 2], 4, [8, 6], 5
LENGTHS, VOCABULARY = [9, 17, 1, 6], 50


def projection(c, k, stride, is_normed=True):
    layers = [nn.Conv2d(c, k, 1, stride, bias=False)]
    return nn.Sequential(*layers, *[nn.BatchNorm2d(k)] * is_normed)


class CifarNet(nn.Module):
    """torchvision's ResNet with a 3x3 stem and three stages."""

    def __init__(self, block, blocks, width, stem=16):
        super().__init__()
        self.conv1 = nn.Conv2d(3, stem, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(stem)
        c = stem
        for stage, planes in enumerate((width, 2 * width, 4 * width)):
            layers = []
            for number in range(blocks):
                stride = 2 if stage and not number else 1
                out = planes * block.expansion
                shortcut = None
                if stride != 1 or c != out:
                    shortcut = projection(c, out, stride)
                layers.append(block(c, planes, stride, shortcut))
                c = out
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(c, CLASSES)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class PreBlock(nn.Module):
    """A pre-activation block in torchvision's manner."""

    def __init__(self, c, k, stride):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(c)
        self.conv1 = nn.Conv2d(c, k, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(k)
        self.conv2 = nn.Conv2d(k, k, 3, padding=1, bias=False)
        self.downsample = None
        if stride != 1 or c != k:
            self.downsample = projection(c, k, stride, is_normed=False)

    def forward(self, x):
        a = F.relu(self.bn1(x))
        y = self.conv2(F.relu(self.bn2(self.conv1(a))))
        return y + (self.downsample(a) if self.downsample else x)


class PreNet(nn.Module):
    """Wide-ResNet of Zagoruyko and Komodakis."""

    def __init__(self, blocks, width):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        c = 16
        for stage, k in enumerate((width, 2 * width, 4 * width)):
            layers = []
            for number in range(blocks):
                layers.append(PreBlock(c, k, 2 if stage and not number else 1))
                c = k
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.norm = nn.BatchNorm2d(c)
        self.fc = nn.Linear(c, CLASSES)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(self.conv1(x))))
        return self.fc(F.relu(self.norm(x)).mean((2, 3)))


class FirstOrder(nn.Embedding):
    """Weights of single values, and a bias."""

    def __init__(self, rows):
        super().__init__(rows, 1)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, rows):
        return super().forward(rows).sum((1, 2)) + self.bias


class Hidden(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.linear = nn.Linear(width, out)
        self.bn = nn.BatchNorm1d(out)

    def forward(self, x):
        return F.relu(self.bn(self.linear(x)))


class DeepFm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(sum(FIELD_ROWS), WIDTH)
        self.linear = FirstOrder(sum(FIELD_ROWS))
        self.mlp, width = nn.Sequential(), len(FIELD_ROWS) * WIDTH
        for number, out in enumerate(MLP):
            self.mlp.add_module(str(number), Hidden(width, out))
            width = out
        self.mlp.add_module("last", nn.Linear(width, 1))

    def forward(self, rows):
        v = self.embedding(rows)
        pairs = (v.sum(1) ** 2 - (v**2).sum(1)).sum(1) / 2
        return self.linear(rows) + pairs + self.mlp(v.flatten(1))[:, 0]


class Logistic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3 * 5 * 4, CLASSES)

    def forward(self, x):
        return self.fc(x.flatten(1))


def bert():
    return BertForQuestionAnswering(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            max_position_embeddings=20,
        )
    )


def torchvisions(name):
    return lambda: getattr(torchvision.models, name)(num_classes=CLASSES)


# Images: height and width; None: only names and shapes.
NETWORKS = {
    "logistic": (Logistic, (5, 4)),
    "resnet8": (lambda: CifarNet(BasicBlock, 1, 16), (8, 6)),
    "resnet8-bottleneck": (lambda: CifarNet(Bottleneck, 1, 16), (8, 6)),
    "wrn8x2-post": (lambda: CifarNet(BasicBlock, 1, 32), (8, 6)),
    "wrn10x2-pre": (lambda: PreNet(1, 32), (8, 6)),
    "resnet18": (torchvisions("resnet18"), (40, 36)),
    "resnet34": (torchvisions("resnet34"), None),
    "resnet50": (torchvisions("resnet50"), (40, 36)),
    "resnet101": (torchvisions("resnet101"), None),
    "wide_resnet50_2": (torchvisions("wide_resnet50_2"), None),
    "wide_resnet101_2": (torchvisions("wide_resnet101_2"), None),
    "bert": (bert, ()),
    "deepfm": (DeepFm, ()),
}


def is_counter(name):
    return name.endswith("num_batches_tracked")


def filled(name, number, shape):
    """Weights by their place among all names in alphabetical order."""
    scale, shift = 0.5, 0
    if len(shape) == 4:
        scale = np.sqrt(24 / np.prod(shape[1:]))
    elif len(shape) == 2:
        scale = 2 / np.sqrt(shape[1])
    elif name.endswith(("weight", "running_var")):
        shift = 1
    values = shift + scale * uniform(number + 1, int(np.prod(shape)))
    return torch.from_numpy(values.astype(np.float32)).double().reshape(shape)


def fill(net):
    state = collections.OrderedDict()
    names = sorted(n for n in net.state_dict() if not is_counter(n))
    for number, name in enumerate(names):
        shape = tuple(net.state_dict()[name].shape)
        state[name] = filled(name, number, shape)
    for name in filter(is_counter, net.state_dict()):
        state[name] = torch.tensor(7)
    net.load_state_dict(state, strict=True)


def outputs(network, net):
    if network == "bert":
        found = []
        for n, length in enumerate(LENGTHS):
            t = np.arange(length)
            tokens = torch.from_numpy((7 * t * t + 3 * t + 5 * n) % VOCABULARY)
            segments = torch.from_numpy((3 * t > length).astype(int))
            scores = net(tokens[None], token_type_ids=segments[None])
            found.append(
                torch.stack([scores.start_logits[0], scores.end_logits[0]], 1)
            )
        return torch.cat(found)
    if network == "deepfm":
        begin = np.cumsum([0] + FIELD_ROWS[:-1])
        n, f = np.arange(RECORDS)[:, None], np.arange(len(FIELD_ROWS))
        rows = begin + (n * n + 3 * n * f + f) % np.array(FIELD_ROWS)
        return net(torch.from_numpy(rows))
    shape = (2, 3, *NETWORKS[network][1])
    images = 4 * uniform(0, int(np.prod(shape)))
    return net(torch.from_numpy(images).reshape(shape))


def load(network, path):
    from safetensors.torch import load_file
    net = NETWORKS[network][0]().double().eval()
    net.load_state_dict(load_file(path), strict=True)
    return net


def main(arguments):
    torch.set_grad_enabled(False)
    if arguments[:1] == ["--load"]:
        net = load(*arguments[1:])
        print(outputs(arguments[1], net))
        return
    if arguments[:1] == ["--load-all"]:
        for network, (_, size) in NETWORKS.items():
            net = load(network,
                       os.path.join(arguments[1], network + ".safetensors"))
            said = "" if size is None else f"{outputs(network, net).norm():.6g}"
            print(f"{network}: loaded strictly {said}")
        return
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "fixtures", "export.txt"), "w") as file:
        for network, (make, size) in NETWORKS.items():
            net = make().double().eval()
            print("network", network, file=file)
            for name, value in sorted(net.state_dict().items()):
                print("tensor", name, *value.shape, file=file)
            if size is None:
                continue
            fill(net)
            values = outputs(network, net).flatten().tolist()
            print("output", *(f"{value:.9g}" for value in values), file=file)


if __name__ == "__main__":
    main(sys.argv[1:])
