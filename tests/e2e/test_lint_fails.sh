#!/usr/bin/env bash
# The lint refuses each kind of offence, and accepts the tree without them.
set -uo pipefail
source_dir=${SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fresh_tree() { # a small clean tree, whose every path the lint knows
  rm -rf "$work/tree"
  mkdir -p "$work/tree"/{src/{base,ops,comm},tests,jobs,kernels}
  cp "$source_dir/.clang-format" "$work/tree/"
  cat >"$work/tree/src/LAYERS.txt" <<'END'
base :
ops  : base
comm : base
END
  cat >"$work/tree/src/base/good.h" <<'END'
// A header as it should be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>
END
  printf '#include "base/good.h"\n' >"$work/tree/src/ops/good.cpp"
  printf '#!/usr/bin/env bash\necho "good"\n' >"$work/tree/jobs/good.sh"
  chmod +x "$work/tree/jobs/good.sh"
  printf 'x = 1\n' >"$work/tree/tests/good.py"
}

check() { # check NAME PATTERN: the lint names exactly this offence
  local out rc=0
  out=$("$source_dir/tests/lint/run.sh" "$work/tree" 2>&1) || rc=$?
  if [[ -z $2 ]]; then
    [[ $rc == 0 ]] && { echo "ok: $1"; return; }
  elif [[ $rc == 1 && $out =~ $2 ]]; then
    echo "ok: $1"
    return
  fi
  printf 'FAILED: %s: exit %s, expected %s in\n%s\n' "$1" "$rc" "$2" "$out"
  failures=$((failures + 1))
}

refused() { # refused NAME FILE TEXT PATTERN
  fresh_tree
  mkdir -p "$(dirname "$work/tree/$2")"
  printf '%b' "$3" >"$work/tree/$2"
  check "$1" "$4"
}

fresh_tree
check "a clean tree" ""

refused "upward include" src/base/a.cpp '#include "ops/x.h"\n' \
  'src/base/a.cpp:1: base may not include'
refused "folders in a circle" src/LAYERS.txt 'base : comm\nops  : base\ncomm : base\n' \
  'src/LAYERS.txt:1: base names comm, which is not above it'
refused "include without folder" src/base/a.cpp '\n#include "good.h"\n' \
  'src/base/a.cpp:2: "good.h"'
refused "kernels included" src/ops/a.cpp '#include "kernels/x.cuh"\n' \
  'src/ops/a.cpp:1: ops may not include'
refused "unknown folder" src/extra/a.cpp 'int x;\n' \
  'src/extra/a.cpp:1: folder extra'
refused "foreign header mpi" src/ops/a.cpp '#include <mpi.h>\n' \
  'src/ops/a.cpp:1: <mpi.h> belongs in src/comm/mpi/'
refused "foreign header hdf5" src/base/a.cpp '#include <hdf5.h>\n' \
  '<hdf5.h> belongs in src/base/hdf5_'
refused "foreign header dnnl" src/base/a.cpp '#include <dnnl.hpp>\n' \
  '<dnnl.hpp> belongs'
refused "foreign header cuda" src/ops/a.cpp '#include <cuda_runtime.h>\n' \
  '<cuda_runtime.h> belongs'
refused "foreign header omp" src/comm/a.cpp '#include <omp.h>\n' \
  '<omp.h> belongs'
refused "foreign header boost" src/base/a.cpp \
  '#include <boost/context/fiber.hpp>\n' 'fiber.hpp> belongs in src/comm/'
refused "conditional" src/base/a.cpp '#ifdef X\nint x;\n#endif\n' \
  'src/base/a.cpp:1: preprocessor conditional'

long_file=$(printf 'int a%s;\\n' {1..501})
refused "file cap" src/base/a.cpp "$long_file" '501 lines, the cap is 500'
long_body=$(printf '  int a%s;\\n' {1..79})
refused "function cap" src/base/a.cpp \
  "int x;\n\nvoid f() {\n$long_body}\n" 'a.cpp:3: a function of 81 lines'
refused "function cap, member" src/base/a.cpp \
  "struct S {\n  S() : a{1} {\n$long_body  }\n  int a;\n};\n" \
  'a.cpp:2: a function of 81 lines'
refused "function cap, lambda in a table" src/base/a.cpp \
  "Table t = {\n    {1, [](int x) {\n$long_body    }},\n};\n" \
  'a.cpp:2: a function of 81 lines'
refused "long table is no function" tests/a.txt "" ""
fresh_tree
{ echo "int table[] = {"; printf '    %s,\n' {1..100}; echo "};"; } \
  >"$work/tree/src/base/a.cpp"
out=$("$source_dir/tests/lint/run.sh" "$work/tree" 2>&1)
[[ $out == *"a function of"* ]] && {
  echo "FAILED: a table counted as a function: $out"
  failures=$((failures + 1))
}

refused "header without licence" src/base/a.h \
  '// A header.\n#pragma once\n' 'a.h:1: no line // SPDX'
refused "header without purpose" src/base/a.h \
  '// SPDX-License-Identifier: Apache-2.0\n' 'no #pragma once'
refused "header's first line" src/base/a.h \
  '#pragma once\n// SPDX-License-Identifier: Apache-2.0\n' \
  'a.h:1: the first line says'
refused "Python syntax" tests/a.py 'def f(:\n' 'tests/a.py:1: Python'
refused "script not executable" jobs/a.sh '#!/bin/sh\necho a\n' \
  'jobs/a.sh:1: has #! and may not be executed'
if command -v clang-format-14 >/dev/null; then
  refused "format" src/base/a.cpp 'int   x ;\n' \
    'src/base/a.cpp:1: not as clang-format-14'
fi
if command -v shellcheck >/dev/null; then
  # shellcheck disable=SC2016
  refused "shell" jobs/a.sh '# shellcheck shell=bash\necho $1\n' \
    'jobs/a.sh:2:.*SC2086'
fi

# Registers: of the real kernels, with one thing wrong at a time.
registers() { # registers NAME CODE PATTERN LIMIT SED_EXPRESSION FILE
  local out rc=0
  rm -rf "$work/kernels"
  cp -r "$source_dir/kernels" "$work/kernels"
  sed -i -E "$5" "$work/kernels/$6"
  out=$(python3 "$source_dir/tests/lint/registers.py" "$work/kernels" \
    "$objects" "$4" 2>&1) || rc=$?
  if [[ $rc == "$2" && $out =~ $3 ]]; then
    echo "ok: $1"
    return
  fi
  printf 'FAILED: %s: exit %s, expected %s and %s in\n%s\n' "$1" "$rc" "$2" "$3" "$out"
  failures=$((failures + 1))
}
objects=$work/none
registers "a kernel without bounds" 1 'sort.cu:[0-9]+: [a-z_]+: no __launch_bounds__' \
  65536 's/__launch_bounds__\([^()]*\)//' sort.cu
registers "bounds alone, nothing compiled" 77 'no compiled kernels' 65536 '' sort.cu
objects=${BUILD_DIR:-none}/CMakeFiles/gpu.dir/kernels
if compgen -G "$objects/*.cu.o" >/dev/null; then
  registers "kernels as they are" 0 'kernels: clean' 65536 '' sort.cu
  registers "more registers than there are" 1 \
    'layernorm_[a-z_]+: [0-9]+ registers for [0-9]+ threads' 32768 '' sort.cu
  registers "a spill without a reason" 1 \
    'layernorm.cu: [a-z_]+: [0-9]+ bytes of local memory, and no reason' \
    65536 's/[Ll]ocal memory/spill/' layernorm.cu
else
  echo "left out: registers of compiled kernels (no CUDA)"
fi

((failures == 0)) || { echo "$failures failed"; exit 1; }
