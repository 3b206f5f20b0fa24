#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/bert.safetensors: what each part of a small BERT, and the
whole of it, compute in PyTorch (double precision, CPU), for
tests/unit/models/test_bert.cpp. Parameters, inputs and upstream gradients come
from a formula that both programs evaluate to the same bits (see `uniform`).

    /usr/bin/python3 tests/reference/make_bert_fixtures.py

Sequences are computed one by one, so no token of padding is anywhere. PyTorch
is needed here only; the recorded numbers were made with 1.13.
"""
import json
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

from made_values import uniform

HIDDEN, HEADS, INTERMEDIATE, LAYERS = 32, 4, 48, 2
VOCABULARY, POSITIONS = 50, 20
LENGTHS = [9, 17, 1, 6]
# First and last token of each sequence's answer.
LABELS = [(3, 5), (16, 16), (0, 0), (0, 0)]


def made(tensor, *shape):
    values = 2 * uniform(tensor, int(np.prod(shape)))
    return torch.from_numpy(values).reshape(shape)


class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = nn.Embedding(VOCABULARY, HIDDEN)
        self.position_embeddings = nn.Embedding(POSITIONS, HIDDEN)
        self.token_type_embeddings = nn.Embedding(2, HIDDEN)
        self.LayerNorm = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, tokens, segments):
        return self.LayerNorm(
            self.word_embeddings(tokens)
            + self.token_type_embeddings(segments)
            + self.position_embeddings(torch.arange(len(tokens)))
        )


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(HIDDEN, HIDDEN)
        self.key = nn.Linear(HIDDEN, HIDDEN)
        self.value = nn.Linear(HIDDEN, HIDDEN)


class Output(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.dense = nn.Linear(inputs, HIDDEN)
        self.LayerNorm = nn.LayerNorm(HIDDEN, eps=1e-12)

    def forward(self, x, residual):
        return self.LayerNorm(self.dense(x) + residual)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("self", Parts())
        self.output = Output(HIDDEN)

    def forward(self, x):
        def heads(linear):
            return linear(x).reshape(-1, HEADS, HIDDEN // HEADS).transpose(0, 1)

        parts = getattr(self, "self")
        q, k, v = heads(parts.query), heads(parts.key), heads(parts.value)
        scores = q @ k.transpose(1, 2) / np.sqrt(HIDDEN // HEADS)
        seen = scores.softmax(-1) @ v
        return self.output(seen.transpose(0, 1).reshape(-1, HIDDEN), x)


class Intermediate(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(HIDDEN, INTERMEDIATE)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()
        self.intermediate = Intermediate()
        self.output = Output(INTERMEDIATE)

    def feed_forward(self, x):
        return self.output(F.gelu(self.intermediate.dense(x)), x)

    def forward(self, x):
        return self.feed_forward(self.attention(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.ModuleList(Layer() for _ in range(LAYERS))


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = Embeddings()
        self.encoder = Encoder()


class Questions(nn.Module):
    def __init__(self):
        super().__init__()
        self.bert = Bert()
        self.qa_outputs = nn.Linear(HIDDEN, 2)

    def forward(self, tokens, segments):
        x = self.bert.embeddings(tokens, segments)
        for layer in self.bert.encoder.layer:
            x = layer(x)
        return self.qa_outputs(x)


def scale_of(name, p):
    if name.endswith("_embeddings.weight"):
        return 2
    return 3 / np.sqrt(p.shape[1]) if p.dim() == 2 else 0.5


def fill(net):
    """Parameters by their place among all names in alphabetical order."""
    for number, (name, p) in enumerate(sorted(net.named_parameters())):
        shift = 1 if name.endswith("LayerNorm.weight") else 0
        values = shift + scale_of(name, p) * uniform(number + 1, p.numel())
        values = torch.from_numpy(values.astype(np.float32)).double()
        p.data = values.reshape(p.shape)


def tokens_of(n):
    t = np.arange(LENGTHS[n])
    tokens = (7 * t * t + 3 * t + 5 * n) % VOCABULARY
    return torch.from_numpy(tokens), torch.from_numpy((3 * t > len(t)).astype(int))


def record(recorded, part, net, inputs, run):
    """y, dx and gradients of one part, for a given gradient of y."""
    net.zero_grad(set_to_none=True)
    y = torch.cat([run(x) for x in inputs])
    y.backward(made(1002, *y.shape))
    recorded[part + ".y"] = y
    if inputs[0].is_floating_point():
        recorded[part + ".dx"] = torch.cat([x.grad for x in inputs])
    for name, p in net.named_parameters():
        if p.grad is not None:
            recorded[part + ".gradient." + name] = p.grad.clone()


def record_parts(recorded, net):
    offsets = torch.arange(len(LENGTHS))
    record(
        recorded,
        "embeddings",
        net,
        offsets.unbind(),
        lambda n: net.bert.embeddings(*tokens_of(int(n))),
    )
    layer = net.bert.encoder.layer[0]
    for part, run in {
        "attention": layer.attention,
        "feed_forward": layer.feed_forward,
    }.items():
        x = made(1001, sum(LENGTHS), HIDDEN).split(LENGTHS)
        inputs = [part_x.clone().requires_grad_() for part_x in x]
        record(recorded, part, net, inputs, run)


def record_whole(recorded, net):
    net.zero_grad(set_to_none=True)
    loss = torch.zeros((), dtype=torch.double)
    logits = [net(*tokens_of(n)) for n in range(len(LENGTHS))]
    for scores, label in zip(logits, LABELS):
        for column, place in enumerate(label):
            log_p = scores[:, column].log_softmax(0)
            loss = loss - log_p[place] / (2 * len(LENGTHS))
    loss.backward()
    recorded["loss"] = loss
    recorded["logits"] = torch.cat(logits)
    for name, p in net.named_parameters():
        recorded["gradient." + name] = p.grad.clone()


def write(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.detach().numpy().astype("<f4")
        begin = len(data)
        data += values.tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(values.shape),
            "data_offsets": [begin, len(data)],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text + data)


def main():
    net = Questions().double()
    fill(net)
    recorded = {}
    record_parts(recorded, net)
    record_whole(recorded, net)
    here = os.path.dirname(os.path.abspath(__file__))
    write(os.path.join(here, "fixtures", "bert.safetensors"), recorded)


if __name__ == "__main__":
    main()
