"""Layers, foreign headers, caps, headers' first lines, Python syntax.

lint.py ROOT prints FILE:LINE: what for each offence; exit 1 if there is any.
"""
import os
import re
import sys

FILE_CAP = 500  # lines
FUNCTION_CAP = 80  # lines, from the first line of the signature
SKIPPED = {".git", "build", "runs", ".venv", "__pycache__"}

# Header pattern -> path prefixes (in src/ and kernels/) where it may be
# included.
FOREIGN = [
    (r"mpi\.h", ["src/comm/mpi/"]),
    (r"nccl\.h", ["src/comm/nccl/"]),
    (r"(cuda|cudnn|cublas|curand|cub/|nvtx)\w*.*",
     ["src/device/cuda/", "src/comm/nccl/", "kernels/"]),
    (r"(oneapi/dnnl/)?dnnl\w*\.h(pp)?", ["src/ops/cpu/"]),
    (r"hdf5\w*\.h", ["src/base/hdf5_"]),
    (r"(jpeglib|jerror)\.h", ["src/data/images/jpeg.cpp"]),
    (r"turbojpeg\.h", []),
    (r"utf8proc\.h", ["src/base/", "src/data/"]),
    (r"Eigen/.*", ["src/topology/"]),
    (r"boost/context.*", ["src/comm/"]),
    (r"boost/program_options.*", ["src/app/"]),
    (r"boost/(?!context|program_options).*", []),
    (r"omp\.h", ["src/ops/", "src/train/", "src/app/"]),
]

# Files that may hold preprocessor conditionals, each with its reason.
CONDITIONALS = {
    "src/ops/cpu/onednn_adapter.cpp": "oneDNN 2 and 3 construct differently",
    "src/comm/fiber.cpp": "sanitizers must be told of stack switches",
    "src/comm/fiber.h": "sanitizers must be told of stack switches",
}

# Of kernels/, included without its name: the emulator has another cuda/.
KERNEL_FOLDERS = {"cuda", "library"}

offences = []


def offend(path, line, what):
    offences.append(f"{path}:{line}: {what}")


def files(root, suffixes):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED)
        for name in sorted(names):
            if name.endswith(suffixes):
                yield os.path.relpath(os.path.join(folder, name), root)


def read_layers(root):
    """Folder -> folders it may include, from src/LAYERS.txt. A row names rows
    above it only, so that folders cannot form a circle."""
    layers = {}
    with open(os.path.join(root, "src/LAYERS.txt"), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = re.match(r"([a-z_]+)\s*:(.*)", line)
            if not match:
                continue
            for below in match[2].split():
                if below not in layers:
                    offend("src/LAYERS.txt", number,
                           f"{match[1]} names {below}, which is not above it")
            layers[match[1]] = set(match[2].split()) | {match[1]}
    layers["kernels"] = {"kernels", "ops", "tensor", "device", "base"}
    return layers


def check_includes(path, lines, layers):
    parts = path.split("/")
    folder = "kernels" if parts[0] == "kernels" else parts[1]
    is_main = parts[0] == "src" and len(parts) == 2
    if not is_main and folder not in layers:
        offend(path, 1, f"folder {folder} is not in src/LAYERS.txt")
        return
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not match:
            continue
        header = match[2]
        if match[1] == '"':
            other = header.split("/")[0]
            if folder == "kernels" and other in KERNEL_FOLDERS:
                continue
            if "/" not in header or other not in layers:
                offend(path, number,
                       f'"{header}": include as "folder/file.h" of src/')
            elif not is_main and other not in layers[folder]:
                offend(path, number, f'{folder} may not include "{header}" '
                       "(src/LAYERS.txt)")
        for pattern, homes in FOREIGN:
            if re.fullmatch(pattern, header):
                if not any(path.startswith(home) for home in homes):
                    offend(path, number, f"<{header}> belongs in "
                           f"{' '.join(homes) or 'no folder'} only")
                break


def check_conditionals(path, lines):
    if path in CONDITIONALS or not path.startswith(("src/", "kernels/")):
        return
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*#\s*(if|ifdef|ifndef)\b", line):
            offend(path, number, "preprocessor conditional: choose a file "
                   "instead, or give a reason in tests/lint/lint.py")


def blank(text):
    """Comments, literals and directives become spaces; lines stay."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^(\s]{0,16})\(.*?\)\1"'
        r'|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
        r"|^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.DOTALL | re.MULTILINE)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def brace_kind(head, depth_of_parens):
    """What a { after `head` (the text since the last ; { or }) opens."""
    stripped = head.rstrip()
    after_list = re.search(r"(\)|\]|\bconst|\boverride|\bnoexcept|\bmutable"
                           r"|\btry|->[^(){}]*)$", stripped)
    if depth_of_parens > 0:
        return "function" if after_list else "value"
    declared = re.sub(r"^\s*(template\s*<[^{}]*?>\s*)*", "", stripped)
    if re.match(r"(inline\s+)?namespace\b|extern\b\s*$", declared):
        return "scope"
    if re.match(r"(typedef\s+)?(class|struct|union|enum)\b", declared):
        return "scope"
    if "(" not in stripped or stripped.endswith("="):
        return "value"
    # A member initialiser a_{...} before the body of a constructor.
    if (re.search(r"\)\s*(noexcept\s*)?:", stripped) and not after_list
            and re.search(r"[\w>]$", stripped)):
        return "value"
    return "function"


def functions(text):
    """(first line, last line) of every outermost function body."""
    text = blank(text)
    stack, head_start, parens, line = [], 0, 0, 1
    for position, char in enumerate(text):
        if char == "\n":
            line += 1
        elif char == "(":
            parens += 1
        elif char == ")":
            parens -= 1
        elif char == "{":
            head = text[head_start:position]
            if any(kind == "function" for kind, *_ in stack):
                kind = "block"
            else:
                kind = brace_kind(head, parens)
            first = line - head.lstrip().count("\n")
            stack.append((kind, first, head_start, parens))
            head_start, parens = position + 1, 0
        elif char == "}" and stack:
            kind, first, start, parens = stack.pop()
            if kind == "value":
                head_start = start
            else:
                head_start = position + 1
            if kind == "function":
                yield first, line
        elif char == ";" and parens <= 0:
            head_start = position + 1


def check_caps(path, text):
    length = text.count("\n")
    if length > FILE_CAP:
        offend(path, FILE_CAP + 1, f"{length} lines, the cap is {FILE_CAP}")
    for first, last in functions(text):
        if last - first + 1 > FUNCTION_CAP:
            offend(path, first, f"a function of {last - first + 1} lines, "
                   f"the cap is {FUNCTION_CAP}")


def check_header(path, lines):
    if not lines or not re.match(r"// \S", lines[0]):
        offend(path, 1, "the first line says what the header is for")
    if "// SPDX-License-Identifier: Apache-2.0" not in lines[:40]:
        offend(path, 1, "no line // SPDX-License-Identifier: Apache-2.0")
    if "#pragma once" not in lines:
        offend(path, 1, "no #pragma once")


def main(root):
    layers = read_layers(root)
    for path in files(root, (".h", ".cuh", ".cpp", ".cu")):
        top = path.split("/")[0]
        if top not in ("src", "kernels", "tests"):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        lines = text.split("\n")
        if path.endswith((".h", ".cuh")):
            check_header(path, lines)
        if top != "tests":
            check_includes(path, lines, layers)
            check_conditionals(path, lines)
            check_caps(path, text)
    for path in files(root, (".py",)):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            try:
                compile(file.read(), path, "exec")
            except SyntaxError as error:
                offend(path, error.lineno or 1, f"Python: {error.msg}")
    for path in files(root, (".sh", ".py")):
        full = os.path.join(root, path)
        with open(full, encoding="utf-8") as file:
            if file.read(2) == "#!" and not os.access(full, os.X_OK):
                offend(path, 1, "has #! and may not be executed: chmod +x")
    for line in offences:
        print(line)
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
