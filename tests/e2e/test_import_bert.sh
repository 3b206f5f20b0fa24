#!/usr/bin/env bash
# postprocess/import_bert.py: a small BERT in every format it knows becomes the
# same file; what is no whole BERT is one line and an exit code.
set -uo pipefail
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
# shellcheck source=../../jobs/env/python.sh
source "$source_dir/jobs/env/python.sh"
python=$(find_python "$source_dir") || { echo "skipped: no Python with numpy"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

# Writes the formats, and out.safetensors as it should be. Values are exact in
# bf16, so that F16 and BF16 lose nothing.
cat >make.py <<'PY'
import json
import os

import numpy as np

H, I, V, P, L = 4, 6, 5, 3, 2
draw = np.random.default_rng(1)


def values(*shape):
    return draw.integers(-64, 64, shape).astype(np.float32) / 16


def write(path, tensors, dtype="F32"):
    header, body = {}, b""
    for name, value in tensors.items():
        if dtype == "BF16":
            data = (value.view(np.uint32) >> 16).astype("<u2").tobytes()
        else:
            data = value.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(value.shape),
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + body)


bert = {}
for table, rows in (("word", V), ("position", P), ("token_type", 2)):
    bert[f"bert.embeddings.{table}_embeddings.weight"] = values(rows, H)
parts = [("bert.embeddings.LayerNorm", (H,))]
for layer in range(L):
    at = f"bert.encoder.layer.{layer}."
    parts += [(at + "attention.self." + name, (H, H))
              for name in ("query", "key", "value")]
    parts += [(at + "attention.output.dense", (H, H)),
              (at + "attention.output.LayerNorm", (H,)),
              (at + "intermediate.dense", (I, H)),
              (at + "output.dense", (H, I)), (at + "output.LayerNorm", (H,))]
parts += [("qa_outputs", (2, H))]
for name, shape in parts:
    bert[name + ".weight"] = values(*shape)
    bert[name + ".bias"] = values(shape[0])

write("plain.safetensors", bert)
write("half.safetensors", bert, "F16")
old = {}
for name, value in bert.items():
    if "LayerNorm" in name:
        name = name.replace("weight", "gamma").replace("bias", "beta")
    old["module." + name.removeprefix("bert.")] = value
old["module.pooler.dense.weight"] = values(H, H)
write("old.safetensors", old, "BF16")

flow = {"bert/pooler/dense/kernel": values(H, H),
        "global_step": np.int64(7)}
for name, value in bert.items():
    name = name.replace(".", "/").replace("/layer/", "/layer_")
    name = name.replace("qa_outputs/weight", "cls/squad/output_weights")
    name = name.replace("qa_outputs/bias", "cls/squad/output_bias")
    if "LayerNorm" in name:
        name = name.replace("/weight", "/gamma").replace("/bias", "/beta")
    elif name.endswith("_embeddings/weight"):
        name = name.removesuffix("/weight")
    elif name.endswith("/weight"):
        name, value = name.replace("/weight", "/kernel"), value.T
    flow[name] = value
    flow[name + "/adam_m"] = np.zeros_like(value)
np.savez("flow.npz", **flow)

os.mkdir("whole")
write("whole/model.safetensors", bert)
os.mkdir("parts")
halves = [dict(list(bert.items())[:9]), dict(list(bert.items())[9:])]
index = {}
for number, half in enumerate(halves):
    write(f"parts/part-{number}.safetensors", half)
    index.update({name: f"part-{number}.safetensors" for name in half})
with open("parts/model.safetensors.index.json", "w") as file:
    json.dump({"metadata": {}, "weight_map": index}, file)
os.mkdir("empty")

try:
    import torch
    torch.save({name: torch.from_numpy(value) for name, value in bert.items()},
               "state.bin")
    torch.save({"model": {"x": 1}}, "nothing.pt")
except ImportError:
    pass


def without(*names):
    return {name: value for name, value in bert.items() if name not in names}


def with_one(name, value):
    return {**bert, name: value}


write("headless.safetensors", without("qa_outputs.weight", "qa_outputs.bias"))
write("half_head.safetensors", without("qa_outputs.bias"))
write("no_words.safetensors",
      without("bert.embeddings.word_embeddings.weight"))
write("hole.safetensors", {name: value for name, value in bert.items()
                           if ".layer.0." not in name})
write("gap.safetensors", without("bert.encoder.layer.1.output.dense.bias"))
write("shape.safetensors",
      with_one("bert.encoder.layer.1.output.dense.weight", values(I, H)))
write("nan.safetensors", with_one("qa_outputs.bias",
                                  np.float32([1, float("nan")])))
write("twice.safetensors", with_one(
    "embeddings.word_embeddings.weight", values(V, H)))
with open("plain.safetensors", "rb") as file:
    whole = file.read()
for name, data in (("short", whole[:7]), ("cut", whole[:-1]),
                   ("header", whole[:20]), ("text", b"\5" + bytes(7) + b"hello"),
                   ("list", b"\2" + bytes(7) + b"[]")):
    with open(name + ".safetensors", "wb") as file:
        file.write(data)
with open("text.npz", "w") as file:
    file.write("not an archive")
with open("text.bin", "w") as file:
    file.write("not a pickle")
np.savez("object.npz", **{**flow, "bert/embeddings/word_embeddings":
                          np.array([{}], dtype=object)})
PY
"$python" make.py || exit 1

import() { "$python" "$source_dir/postprocess/import_bert.py" "$@"; }
expect() { # expect NAME CODE PATTERN COMMAND...: exit code, text of both streams
  local name=$1 code=$2 pattern=$3 out rc=0
  shift 3
  out=$("$@" 2>&1) || rc=$?
  if [[ $rc == "$code" && $out =~ $pattern ]] &&
    { ((code == 0)) || [[ $out != *$'\n'* ]]; }; then
    echo "ok: $name"
  else
    printf 'FAILED: %s: exit %s (expected %s), no %s, or not one line in\n%s\n' \
      "$name" "$rc" "$code" "$pattern" "$out"
    failures=$((failures + 1))
  fi
}

expect plain 0 'plain.out: 39 tensors, .* vocabulary of 5, with the span head' \
  import plain.safetensors -o plain.out
expect keys 0 'layers = 2.hidden = 4.intermediate = 6.positions = 3' \
  import plain.safetensors -o plain.out
expect "values" 0 '^$' "$python" - <<'PY'
import json

import numpy as np

with open("plain.out", "rb") as file:
    out = file.read()
with open("plain.safetensors", "rb") as file:
    given = file.read()
length = int.from_bytes(out[:8], "little")
header = json.loads(out[8:8 + length])
assert header.pop("__metadata__") == {"format": "pt"}
assert length % 8 == 0 and len(header) == 39
given_length = int.from_bytes(given[:8], "little")
of_given = json.loads(given[8:8 + given_length])
assert header.keys() == of_given.keys()
end = 0
for name, entry in header.items():
    begin, end_of_this = entry["data_offsets"]
    assert begin == end and entry["dtype"] == "F32", name
    end = end_of_this
    assert entry["shape"] == of_given[name]["shape"], name
    from_given = of_given[name]["data_offsets"]
    assert out[8 + length:][begin:end] == \
        given[8 + given_length:][from_given[0]:from_given[1]], name
assert end == len(out) - 8 - length
PY
same_as_plain() { # NAME FROM PATTERN: becomes the same bytes
  expect "$1" 0 "$3" import "$2" -o "$1.out"
  expect "$1 is the same" 0 '^$' cmp "$1.out" plain.out
}
same_as_plain half half.safetensors '39 tensors'
same_as_plain old old.safetensors 'left out: 1: pooler.dense.weight'
same_as_plain flow flow.npz 'left out: .*bert.pooler.dense.weight'
same_as_plain whole whole '39 tensors'
same_as_plain parts parts '39 tensors'
if [[ -e state.bin ]]; then
  same_as_plain state state.bin '39 tensors'
  expect "no tensors" 65 'no bert.embeddings' import nothing.pt -o no.out
  expect "no pickle" 65 'text.bin: PyTorch does not read it' \
    import text.bin -o no.out
else
  echo "not checked: .bin, since this Python has no PyTorch"
fi
expect headless 0 'without a span head: it starts at random' \
  import headless.safetensors -o headless.out

expect "half a head" 65 'no qa_outputs.bias' \
  import half_head.safetensors -o no.out
expect "no words" 65 'no bert.embeddings.word_embeddings.weight, as every' \
  import no_words.safetensors -o no.out
expect "a layer missing" 65 'no layer 0, and a layer 1' \
  import hole.safetensors -o no.out
expect "a tensor missing" 65 'no bert.encoder.layer.1.output.dense.bias' \
  import gap.safetensors -o no.out
expect shape 65 'layer.1.output.dense.weight is .6, 4., expected .4, 6.' \
  import shape.safetensors -o no.out
expect "not finite" 65 'qa_outputs.bias has a value that is not a finite' \
  import nan.safetensors -o no.out
expect "two names" 65 'word_embeddings.weight under two names' \
  import twice.safetensors -o no.out
expect short 65 'expected a safetensors file' import short.safetensors -o no.out
expect header 65 'expected a safetensors file' import header.safetensors -o no.out
expect cut 65 'do not fit' import cut.safetensors -o no.out
expect text 65 'not that of a safetensors' import text.safetensors -o no.out
expect list 65 'not that of a safetensors' import list.safetensors -o no.out
expect "no archive" 65 'text.npz: not an .npz' import text.npz -o no.out
expect "an object" 65 'word_embeddings.weight|cannot be read' \
  import object.npz -o no.out
expect "no file" 66 'nowhere: no such file' import nowhere -o no.out
expect "empty folder" 66 'neither model.safetensors nor' import empty -o no.out
expect "unknown ending" 65 'expected .safetensors' import make.py -o no.out
expect "no output" 64 'required' import plain.safetensors
expect "no folder" 73 'No such file' import plain.safetensors -o none/x.out
expect help 0 'Exit codes' import --help
[[ ! -e no.out && ! -e no.out.tmp ]] ||
  { echo "FAILED: a refused input left a file"; failures=$((failures + 1)); }

((failures == 0)) || { echo "$failures checks failed"; exit 1; }
echo "all checks passed"
