#!/usr/bin/env python3
"""BERT weights of other formats as safetensors with Hugging Face's names.

    postprocess/import_bert.py bert-large/ -o bert-large.safetensors
    postprocess/import_bert.py pytorch_model.bin -o bert.safetensors
    postprocess/import_bert.py bert_model.npz -o bert.safetensors

FROM is one of
  *.safetensors    with or without the prefix bert., also F16 and BF16
  *.bin *.pt *.pth PyTorch's: a state_dict, or one inside "model" or
                   "state_dict"; only these need PyTorch (1.13 or newer), which
                   unpacks tensors and nothing that a pickle might run
  *.npz            variables of TensorFlow under their names, bert/encoder/
                   layer_0/attention/self/query/kernel and so on, without
                   those of the optimizer; of a checkpoint, where TensorFlow is
                   installed:
                     r = tf.train.load_checkpoint("bert_model.ckpt")
                     np.savez("bert_model.npz", **{n: r.get_tensor(n) for n in
                              r.get_variable_to_shape_map()})
  a folder         with model.safetensors or pytorch_model.bin, or either of
                   them in parts with its .index.json

What is written: the embeddings, all layers, and the span head where there is
one, as fp32: bert.embeddings.word_embeddings.weight,
bert.encoder.layer.0.attention.self.query.weight, ..., qa_outputs.weight. Older
names are corrected (gamma, beta), TensorFlow's kernels transposed. The rest
(the pooler, heads of pre-training) is left out and listed.
It rejects incomplete or inconsistent BERT weights: a missing tensor, shapes that
do not fit each other, a value that is not finite. It prints the matching keys of
[model]; no file of weights has the number of heads (config.json has it).

Needs numpy. Exit codes: 0 done, 64 usage, 65 bad input, 66 no input, 73 the
output cannot be made.
"""
import json
import math
import os
import re
import zipfile
from argparse import RawDescriptionHelpFormatter

import packages  # noqa: F401, says which package is missing
import numpy as np

from exit_codes import BAD_INPUT, INPUT_MISSING, USAGE
from script import Parser, RunError, run_main, whole_file

MAX_HEADER_BYTES = 100_000_000  # the limit of the format's reference reader
TORCH_ENDS = (".bin", ".pt", ".pth")
EMBEDDINGS = ["word_embeddings", "position_embeddings",
              "token_type_embeddings"]
# The tensors of a layer, with shapes in hidden (H) and intermediate (I) width.
LAYER = {"attention.self.query": ("H", "H"), "attention.self.key": ("H", "H"),
         "attention.self.value": ("H", "H"),
         "attention.output.dense": ("H", "H"),
         "attention.output.LayerNorm": ("H",),
         "intermediate.dense": ("I", "H"), "output.dense": ("H", "I"),
         "output.LayerNorm": ("H",)}


def bad(path, what):
    return RunError(BAD_INPUT, f"{path}: {what}")


# --- readers: {name: a function that gives the array} ------------------------

def read_safetensors(path):
    kinds = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "BF16": "<u2"}
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER_BYTES):
            raise bad(path, f"header length {length} in {size} bytes, "
                      "expected a safetensors file")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            entries = [(name, entry["dtype"], [int(n) for n in entry["shape"]],
                        *map(int, entry["data_offsets"]))
                       for name, entry in header.items()]
        except (ValueError, TypeError, KeyError, AttributeError,
                RecursionError):
            raise bad(path, "its header is not that of a safetensors file"
                      ) from None

    def reader(name, dtype, shape, begin, end):
        def read():
            width = np.dtype(kinds[dtype]).itemsize
            if min(shape, default=0) < 0 or \
                    math.prod(shape) * width != end - begin or \
                    not 0 <= begin <= end <= size - 8 - length:
                raise bad(path, f"{name}: bytes {begin} to {end} do not fit "
                          f"{dtype} {shape}")
            values = np.fromfile(path, kinds[dtype], (end - begin) // width,
                                 offset=8 + length + begin)
            if dtype == "BF16":
                values = (values.astype(np.uint32) << 16).view(np.float32)
            return values.reshape(shape)
        return read
    return {entry[0]: reader(*entry) for entry in entries if str(entry[1]) in kinds}


def read_torch(path):
    try:
        import torch
    except ImportError:
        raise RunError(USAGE, f"{path}: needs PyTorch, which this Python lacks "
                       "(python3 -m pip install torch)") from None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # many types, all with the same meaning
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise bad(path, f"PyTorch does not read it as weights: {line[:200]}"
                  ) from None
    for inner in ("model", "state_dict"):
        if isinstance(state, dict) and isinstance(state.get(inner), dict):
            state = state[inner]
    if not isinstance(state, dict):
        raise bad(path, "holds no table of tensors")
    return {name: lambda value=value: value.detach().float().numpy()
            for name, value in state.items()
            if isinstance(name, str) and torch.is_tensor(value)
            and value.is_floating_point()}


def read_npz(path):
    try:
        arrays = np.load(path, allow_pickle=False)
        names = arrays.files
    except (ValueError, OSError, AttributeError, EOFError, zipfile.BadZipFile):
        raise bad(path, "not an .npz of numpy") from None

    def reader(name, is_kernel):
        def read():
            try:
                values = np.asarray(arrays[name])
            except (ValueError, OSError, EOFError, zipfile.BadZipFile,
                    MemoryError):
                raise bad(path, f"{name}: cannot be read") from None
            if values.dtype.kind != "f":
                raise bad(path, f"{name}: {values.dtype}, expected floats")
            return values.T if is_kernel else values
        return read
    return {tensorflow_name(name): reader(name, is_kernel(name))
            for name in names if not is_of_optimizer(name)}


def is_of_optimizer(name):
    return re.search(r"/adam_[mv](:0)?$|^global_step(:0)?$", name) is not None


def is_kernel(name):
    return re.search(r"/kernel(:0)?$", name) is not None


def tensorflow_name(name):
    """Hugging Face's name for bert/encoder/layer_0/output/dense/kernel."""
    name = re.sub(r":0$", "", name)
    name = re.sub(r"^cls/squad/output_(weights|bias)$", r"qa_outputs/\1", name)
    name = re.sub(r"/layer_(\d+)/", r"/layer/\1/", name)
    name = re.sub(r"/(kernel|weights)$", "/weight", name)
    name = re.sub(r"_embeddings$", "_embeddings/weight", name)
    return name.replace("/", ".")


def read_parts(folder, index, reader):
    path = os.path.join(folder, index)
    try:
        with open(path, encoding="utf-8") as file:
            parts = sorted(set(json.load(file)["weight_map"].values()))
        if not all(os.path.basename(part) == part for part in parts):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise bad(path, "no index of the parts of a checkpoint") from None
    found = {}
    for part in parts:
        found.update(reader(os.path.join(folder, part)))
    return found


def read_any(path):
    if not os.path.exists(path):
        raise RunError(INPUT_MISSING, f"{path}: no such file or folder")
    if os.path.isdir(path):
        for name, reader in (("model.safetensors", read_safetensors),
                             ("pytorch_model.bin", read_torch)):
            if os.path.exists(os.path.join(path, name)):
                return reader(os.path.join(path, name))
            if os.path.exists(os.path.join(path, name + ".index.json")):
                return read_parts(path, name + ".index.json", reader)
        raise RunError(INPUT_MISSING, f"{path}: neither model.safetensors "
                       "nor pytorch_model.bin in it")
    for ends, reader in ((".safetensors", read_safetensors),
                         (TORCH_ENDS, read_torch), (".npz", read_npz)):
        if path.endswith(ends):
            return reader(path)
    raise bad(path, "expected .safetensors, .bin, .pt, .pth, .npz or a folder")


# --- names and shapes --------------------------------------------------------

def mended(name):
    name = re.sub(r"^((module|model|_orig_mod)\.)+", "", name)
    name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
    if re.match(r"(embeddings|encoder)\.", name):
        name = "bert." + name
    return name


def wanted(found, path):
    """Names in the network's order with their shapes, and the sizes."""
    def shape_of(name, rank):
        shape = np.shape(found[name]()) if name in found else None
        if shape is None or len(shape) != rank or 0 in shape:
            raise bad(path, f"{name} is {list(shape)}" if shape is not None
                      else f"no {name}, as every BERT has it")
        return shape
    tables = {table: shape_of(f"bert.embeddings.{table}.weight", 2)
              for table in EMBEDDINGS}
    hidden = tables["word_embeddings"][1]
    layers = {int(match[1]) for match in
              (re.match(r"bert\.encoder\.layer\.(\d{1,4})\.", name)
               for name in found) if match}
    missing = set(range(len(layers))) - layers
    if missing:
        raise bad(path, f"no layer {min(missing)}, and a layer {max(layers)}")
    wide = shape_of("bert.encoder.layer.0.intermediate.dense.weight", 2)[0]
    sizes = {"H": hidden, "I": wide}
    shapes = {f"bert.embeddings.{table}.weight": (rows, hidden)
              for table, (rows, _) in tables.items()}

    def add(name, shape):
        shapes[name + ".weight"] = shape
        shapes[name + ".bias"] = shape[:1]
    add("bert.embeddings.LayerNorm", (hidden,))
    for layer in range(len(layers)):
        for part, shape in LAYER.items():
            add(f"bert.encoder.layer.{layer}.{part}",
                tuple(sizes[letter] for letter in shape))
    if "qa_outputs.weight" in found or "qa_outputs.bias" in found:
        add("qa_outputs", (2, hidden))
    keys = {"layers": len(layers), "hidden": hidden, "intermediate": wide,
            "positions": tables["position_embeddings"][0]}
    return shapes, keys, tables["word_embeddings"][0]


def values_of(found, name, shape, path):
    if name not in found:
        raise bad(path, f"no {name}, which the other layers have")
    values = found[name]()
    if values.shape != shape:
        raise bad(path, f"{name} is {list(values.shape)}, expected "
                  f"{list(shape)} as the other tensors have it")
    with np.errstate(over="ignore"):  # becomes infinite, which is refused
        values = np.ascontiguousarray(values, np.dtype("<f4"))
    if not np.isfinite(values).all():
        raise bad(path, f"{name} has a value that is not a finite fp32")
    return values


def write(output, found, shapes, path):
    """Writes header length, header and values; the file appears atomically."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(map(int, shape)),
                        "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that values are aligned
    with whole_file(output, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, shape in shapes.items():
            file.write(values_of(found, name, shape, path).data)
    return len(text) + 8 + end


def convert(options):
    """Writes the safetensors file and prints what it holds."""
    path = options.weights
    found = {}
    for name, reader in read_any(path).items():
        if mended(name) in found:
            raise bad(path, f"{mended(name)} under two names")
        found[mended(name)] = reader
    shapes, keys, vocabulary = wanted(found, path)
    size = write(options.output, found, shapes, path)
    unused = sorted(set(found) - set(shapes))
    print(f"{options.output}: {len(shapes)} tensors, {size / 1e6:.1f} MB, "
          f"vocabulary of {vocabulary}, "
          + ("with the span head" if "qa_outputs.weight" in shapes else
             "without a span head: it starts at random"))
    if unused:
        print(f"left out: {len(unused)}: " + " ".join(unused[:8]) +
              (" ..." if len(unused) > 8 else ""))
    print("[model]\nfamily = bert\n" +
          "\n".join(f"{key} = {value}" for key, value in keys.items()) +
          f"\nweights = {options.output}")


def main(arguments):
    parser = Parser(description=__doc__, allow_abbrev=False,
                    formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("weights", metavar="FROM", help="file or folder")
    parser.add_argument("-o", "--output", required=True, metavar="FILE",
                        help="the safetensors file to write")
    options = parser.parse_args(arguments)
    try:
        convert(options)
    except OSError as error:
        raise RunError(BAD_INPUT, f"{error.filename}: {error.strerror}") \
            from None
    return 0


if __name__ == "__main__":
    run_main(main)
