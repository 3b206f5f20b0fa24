"""Bounds, registers and local memory of kernels.

registers.py KERNELS OBJECTS [LIMIT] reads each KERNELS/NAME.cu and the machine
code in OBJECTS/NAME.cu.o and prints FILE: what for each offence:
 - a kernel has no __launch_bounds__;
 - registers times the threads of __launch_bounds__ exceed what a
   multiprocessor has (LIMIT), so that a launch may fail;
 - a kernel uses local memory, as where registers are spilled, and no comment
   right above the kernel says "local memory" with the reason.
Exit 1 if there is any offence, 77 if no kernel was compiled.
"""
import glob
import os
import re
import struct
import sys

REGISTERS = 65536  # of a multiprocessor
MAX_THREADS = 1024  # of a block
ELF = b"\x7fELF"
CUDA_MACHINE = 190  # EM_CUDA

# Attributes of .nv.info, by NVIDIA's tools called EIATTR_...
SIZED = 4  # the format of an attribute that is followed by `size` bytes
ATTR_MAX_THREADS, ATTR_FRAME_SIZE, ATTR_REGCOUNT = 0x05, 0x11, 0x2F


def text_at(data, start):
    return data[start:data.index(b"\0", start)].decode()


def attributes(data, start, size):
    """(attribute, its 32-bit words) for those that have any."""
    at, end = start, start + size
    while at < end:
        form, attribute, length = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == SIZED:
            words = struct.unpack_from(f"<{length // 4}I", data, at)
            yield attribute, words
            at += length


def kernels_of(data):
    """Mangled name -> [registers, bytes of local memory, threads]."""
    table, = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + 64 * index)
                for index in range(count)]
    named = {text_at(data, sections[names][4] + section[0]): section
             for section in sections}
    symbols, strings = named[".symtab"][4], named[".strtab"][4]

    def symbol(index):
        name, = struct.unpack_from("<I", data, symbols + 24 * index)
        return text_at(data, strings + name)

    kernels, frames = {}, {}
    for attribute, words in attributes(data, *named[".nv.info"][4:6]):
        if attribute == ATTR_REGCOUNT:
            kernels[symbol(words[0])] = [words[1], 0, MAX_THREADS]
        elif attribute == ATTR_FRAME_SIZE:
            frames[symbol(words[0])] = words[1]
    for name, kernel in kernels.items():
        kernel[1] = frames.get(name, 0)
        for attribute, words in attributes(data,
                                           *named[".nv.info." + name][4:6]):
            if attribute == ATTR_MAX_THREADS:
                kernel[2] = words[0] * words[1] * words[2]
    return kernels


def compiled_kernels(path):
    with open(path, "rb") as file:
        data = file.read()
    kernels = {}
    at = data.find(ELF, 1)  # the first is the object itself
    while at >= 0:
        if struct.unpack_from("<H", data, at + 18)[0] == CUDA_MACHINE:
            kernels.update(kernels_of(data[at:]))
        at = data.find(ELF, at + 1)
    return kernels


def reasons(source):
    """Kernel -> whether the comment above it speaks of local memory."""
    with open(source, encoding="utf-8") as file:
        text = file.read()
    found = {}
    for match in re.finditer(
            r"((?://[^\n]*\n)*)(?:template <[^{};]*?>\n)?__global__ void\s+"
            r"(?:__launch_bounds__\([^()]*\)\s+)?(\w+)\(", text):
        comment = " ".join(re.sub(r"\s*//", "", match[1]).split())
        found[match[2]] = "local memory" in comment.lower()
    return found


def unbounded(source):
    """The kernels without __launch_bounds__, as LINE: NAME."""
    with open(source, encoding="utf-8") as file:
        text = re.sub(r"//[^\n]*", "", file.read())
    for match in re.finditer(r"__global__([^(]*)\(", text):
        if "__launch_bounds__" not in match[1]:
            line = text.count("\n", 0, match.start()) + 1
            yield f"{line}: {match[1].split()[-1]}"


def main(folder, objects, limit=REGISTERS):
    offences, count, limit = [], 0, int(limit)
    for source in sorted(glob.glob(os.path.join(folder, "**", "*.cu*"),
                                   recursive=True)):
        offences += [f"{os.path.relpath(source, folder)}:{each}: no "
                     "__launch_bounds__" for each in unbounded(source)]
    for source in sorted(glob.glob(os.path.join(folder, "*.cu"))):
        name = os.path.basename(source)
        path = os.path.join(objects, name + ".o")
        if not os.path.exists(path):
            continue
        allowed, compiled = reasons(source), compiled_kernels(path)
        if len(allowed) > 0 and not compiled:
            offences.append(f"{name}: no machine code in {path}")
        for mangled, (registers, local, threads) in sorted(compiled.items()):
            kernel = next((each for each in allowed
                           if f"{len(each)}{each}" in mangled), mangled)
            count += 1
            if registers * threads > limit:
                offences.append(f"{name}: {kernel}: {registers} registers for "
                                f"{threads} threads ({mangled})")
            if local > 0 and not allowed.get(kernel, False):
                offences.append(f"{name}: {kernel}: {local} bytes of local "
                                f"memory, and no reason above it ({mangled})")
    for line in offences:
        print(line)
    if offences:
        return 1
    if count == 0:
        print(f"skipped: no compiled kernels in {objects}")
        return 77
    print(f"registers: {count} kernels: clean")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
