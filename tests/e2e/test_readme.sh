#!/usr/bin/env bash
# The README files against the tree: links, the table of schemes, the length of the
# first page, files that commands name, and figures that depend on no machine.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
root=$(cd "${SOURCE_DIR:-$here/../..}" && pwd)

(($(wc -l <"$root/README.md") <= 305)) || fail "README.md has more than 305 lines"

echo "links"
python - "$root" <<'PY' || fail "see above"
import os, re, sys
root, faults = sys.argv[1], []

def anchors(path):
    """GitHub's anchors of a file's headings."""
    found, fenced = set(), False
    for line in open(path, encoding="utf-8"):
        fenced ^= line.startswith("```")
        if line.startswith("#") and not fenced:
            title = line.lstrip("#").strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found

for folder, folders, files in os.walk(root):
    folders[:] = [name for name in folders
                  if name not in ("build", "shared", "runs")
                  and not name.startswith(".")]
    for name in files:
        if not name.endswith(".md"):
            continue
        path = os.path.join(folder, name)
        text = open(path, encoding="utf-8").read()
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if target.startswith("http"):
                continue
            file, _, anchor = target.partition("#")
            goal = os.path.normpath(os.path.join(folder, file)) if file \
                else path
            if not os.path.exists(goal):
                faults.append(f"{path}: no {target}")
            elif anchor and anchor not in anchors(goal):
                faults.append(f"{path}: no heading {target}")
print("\n".join(faults))
sys.exit(bool(faults))
PY

echo "schemes, commands and files"
expect_code 0 "$SYNCOPATE" list schemes
awk '{print $1}' out | sort >schemes
sed -n '/^## The schemes/,/^## Train/p' "$root/README.md" | grep '^| `' |
  cut -d'|' -f2 | tr -d '`, ' | sed 's/psgdecd/psgd\necd/' | sort >table
cmp -s schemes table || fail "the table of schemes: $(diff schemes table)"
expect_code 0 "$SYNCOPATE" help
sed -n 's/^  syncopate \([a-z]*\) .*/\1/p' out | sort -u | grep -v help >commands
(($(wc -l <commands) >= 12)) || fail "help lists $(wc -l <commands) commands"
while read -r command; do
  grep -qE "^\| .*\`$command( |\`)" "$root/README.md" ||
    fail "README.md has no command $command"
done <commands
grep -ohE '\b(jobs|inputs|postprocess|tests)/[a-z_0-9/]+\.[a-z]+' \
  "$root/README.md" "$root/jobs/README.md" | sort -u >paths
while read -r path; do
  case $path in inputs/my.ini | jobs/sites/site.sh) continue ;; esac
  [[ -e $root/$path ]] || fail "a README.md names $path, which does not exist"
done <paths

echo "the example of simulate"
sed -n '/^\$ build.*simulate inputs\/smoke.ini/,/^```/p' "$root/README.md" |
  grep -v '^```' >example
sed -n '/^[$ ] /{s/^\$ //; s/\\$//; p}' example | tr -d '\n' >example_words
sed '/^[$ ] /d' example >expected
(($(wc -l <expected) == 5)) || fail "no example: $(cat example)"
read -ra words <example_words
(cd "$root" && "$SYNCOPATE" "${words[@]:1}") >printed 2>&1
head -n 5 printed | cmp -s - expected || fail "simulate prints: $(diff printed expected)"

echo "the example of train: its losses, as near as other processors are"
(cd "$root" && "$SYNCOPATE" train inputs/smoke.ini --run.directory="$scratch" \
  --run.threads=1) >printed 2>&1
for row in "step 40/40" "eval 40/40"; do
  grep "^$row" printed >is
  grep "^$row" "$root/README.md" >says
  paste -d' ' is says | python -c '
import re, sys
line = sys.stdin.read()
loss = [float(v) for v in re.findall(r"loss (\S+)", line)]
accuracy = [float(v) for v in re.findall(r"accuracy (\S+)", line)]
near = abs(loss[0] - loss[1]) < 0.02 and abs(accuracy[0] - accuracy[1]) < 0.02
sys.exit(not near)' || fail "train prints $(cat is), README.md $(cat says)"
done

echo "the commands of Train and of Choose a scheme, as typed"
mkdir -p typed/build/cpu
ln -s "$root/inputs" typed/
ln -s "$(realpath "$SYNCOPATE")" typed/build/cpu/syncopate
for heading in Train "Choose a scheme"; do
  sed -n "/^## $heading\$/,/^## /p" "$root/README.md" |
    awk '/^```/ { blocks++; next } blocks == 1' |
    sed -e ':joined' -e '/\\$/N; s/\\\n//; tjoined'
done >lines
(($(grep -c 'syncopate train' lines) >= 5)) || fail "the commands: $(cat lines)"
while read -r line; do
  (cd typed && bash -c "${line/mpiexec/$MPIEXEC -bind-to none}") >said 2>&1 </dev/null ||
    fail "$line: $(tail -n 3 said)"
done <lines
(($(find typed/runs -name results.h5 | wc -l) == $(grep -c 'syncopate train' lines))) ||
  fail "runs: $(ls typed/runs)"

echo "the table of studies: what postprocess/study.py makes of the recorded runs"
judge() { # judge STUDY[-SIZE]...: "STUDY,OBTAINED,VERDICT" of each rule
  local name study size
  for name in "$@"; do
    study=${name%-*} size=()
    [[ $name == "$study" ]] || size=(--size="${name#*-}")
    mkdir -p "judged/$study"
    # Without curves.csv nothing is drawn.
    cp "$root/inputs/studies/$study/"{study.sweep,results.csv} "judged/$study/"
    "${PYTHON:-/usr/bin/python3}" "$root/postprocess/study.py" "judged/$study" \
      --markdown "${size[@]}" | awk -F' *[|] *' -v study="$study" 'NR > 2 {print study "," $6 "," $7}'
  done
}
sed -n '/^| study | finding/,/^$/p' "$root/README.md" >says
# shellcheck disable=SC2016  # backticks of Markdown
mapfile -t studies < <(
  sed -n 's/^| `\([a-z_]*\)` (\([a-z]*\)).*/\1-\2/p; s/^| `\([a-z_]*\)` |.*/\1/p' says)
judge "${studies[@]}" >is
judge house_alike house_slow house_straggler house_bytes >house
python - "$(grep -cE ',reproduced($|:)' house)" "$(wc -l <house)" "$root/README.md" <<'PY' ||
import re, sys
holds, rules, path = sys.argv[1:]
says, study = [], ""
for line in open("says"):
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if len(cells) != 5 or cells[0] == "study" or cells[0].startswith("---"):
        continue
    study = cells[0].split(" (")[0].strip("`") or study
    says.append((study, cells[3], cells[4].split(":")[0]))
found = [tuple(line.strip().split(",")) for line in open("is")]
def number(text):
    return [float(v) for v in re.findall(r"-?[0-9.]+(?:e-?[0-9]+)?", text)]
def same(said, is_):
    for text, value in zip(re.findall(r"-?[0-9.]+", said), number(is_), strict=True):
        digits = len(text.partition(".")[2])
        if abs(float(text) - value) > 0.501 * 10 ** -digits:
            return False
    return True
assert len(says) == len(found) > 10, (len(says), len(found))
for mine, judged in zip(says, found):
    assert (mine[0], mine[2]) == (judged[0], judged[2].split(":")[0]), (mine, judged)
    assert same(mine[1], judged[1]), (mine, judged)
text = " ".join(open(path).read().split())
assert "at equal bytes (`house_alike`, `house_slow`, `house_straggler`, `house_bytes`) " \
    f"has {rules} rules, of which {holds} hold." in text, (rules, holds)
PY
  fail "README.md's table of studies"

echo "the tables of runs: each row is what results.csv has of a cell"
cat >tables.py <<'PY'
import csv, os, re, sys
root = sys.argv[1]
sys.path.insert(0, os.path.join(root, "postprocess"))
from groups import interval
from study import read_study
SCALES = {"accuracy": ("accuracy", 1), "AUC": ("accuracy", 1), "F1, %": ("accuracy", 1),
          "steps": ("steps", 1), "steps of a worker on average": ("steps", 1),
          "MB sent": ("bytes", 1e-6), "MB sent by a worker": ("bytes", 1e-6),
          "GB sent by a worker": ("bytes", 1e-9), "seconds": ("virtual_s", 1),
          "virtual s": ("virtual_s", 1), "tuned rate": ("tuned", 1), "tuned gamma": ("tuned", 1),
          **{f"seed {seed}": ("accuracy", 1) for seed in (1, 2, 3)}}
def near(text, value):
    """Whether a value was rounded to a text."""
    text = text.replace(",", "")
    return abs(float(text) - value) <= 0.501 * 10 ** -len(text.partition(".")[2])
def holds(said, values):
    """Whether values of all seeds are "MEAN ± HALF", "ONE, ANOTHER" or "MEAN"."""
    mean, half = interval(values)
    texts = re.findall(r"[0-9][0-9,]*[0-9](?:\.[0-9]+)?|[0-9](?:\.[0-9]+)?", said)
    if "±" in said:
        return near(texts[0], mean) and near(texts[1], half)
    if len(texts) == len(values) > 1:
        return all(map(near, texts, values))
    return len(texts) == 1 and near(texts[0], mean)
faults, checked = [], 0
cells, columns = {}, None
for line in open(os.path.join(root, "inputs/studies/README.md"), encoding="utf-8"):
    if heading := re.match(r"### .*\(`(\w+)`(?:, (\w+))?\)$", line):
        folder, size = heading.groups()
        folder, cells = os.path.join(root, "inputs/studies", folder), {}
        with open(os.path.join(folder, "results.csv"), newline="") as file:
            for row in csv.DictReader(file):
                if row["size"] == (size or read_study(folder)[0][0]):
                    cells.setdefault(row["cell"], []).append(row)
    elif line.startswith("###"):
        cells = {}
    parts = [part.strip() for part in line.strip().strip("|").split("|")]
    if not line.startswith("|"):
        columns = None
    elif columns is None:
        columns = parts if {"accuracy", "AUC", "F1, %", "seed 1"} & set(parts) else []
    elif columns and cells and not parts[0].startswith("---"):
        figures = [(SCALES[name], name, text) for name, text in zip(columns, parts)
                   if name in SCALES and not re.search("^-$|diverged|until", text)]
        named = re.match(r"`(\w+)`$", parts[0].split(" (")[0])
        wrong = [text for _, _, text in figures if not re.fullmatch(r"[0-9][0-9., ±]*", text)]
        if wrong:
            faults.append(f"not figures: {wrong} in {line.strip()}")
            continue
        found = [cell for cell, rows in cells.items() if figures and all(
            holds(text, [scale * float(row[name]) for row in rows
                         if not column.startswith("seed ") or column == "seed " + row["seed"]])
            for (name, scale), column, text in figures)]
        if columns[0] == "scheme" or (named and named.group(1) in cells):
            found = [cell for cell in found if cell == named.group(1)]
        if figures and "simulated" not in parts[0]:
            checked += 1
            if not found:
                faults.append(f"{os.path.basename(folder)}: {line.strip()}")
if checked != int(sys.argv[2]):
    faults.append(f"{checked} rows with figures")
sys.stdout.writelines(f"{fault}\n" for fault in faults)
sys.exit(bool(faults))
PY
python tables.py "$root" 118 || fail "inputs/studies/README.md: see above"

echo "the house studies are recorded with the keys that their files have"
for study in house_alike house_slow house_straggler house_bytes house_gamma; do
  expect_code 0 "$root/jobs/study.sh" "$study" --dry-run
  grep -E 'to do$|runs again$' "$scratch/out" && fail "$study: see above"
done

echo "each recorded study has a section with its picture"
for results in "$root"/inputs/studies/*/results.csv; do
  study=$(basename "$(dirname "$results")")
  sed -n "/^### .*(\`$study\`/,/^### /p" "$root/inputs/studies/README.md" |
    grep -q "]($study/figure-" || fail "inputs/studies/README.md has no section of $study"
done

echo "the picture's runs: bytes and virtual seconds, as simulate has them"
for words in "bsp" "esync" "local_sgd --local_sgd.steps=8"; do
  read -ra keys <<<"--sync.scheme=$words"
  scheme=${words%% *}
  expect_code 0 "$SYNCOPATE" simulate "$root/inputs/quickstart.ini" "${keys[@]}"
  seconds=$(awk '/^time/ {printf "%.1f", $2}' out)
  megabytes=$(awk '/^sent/ {printf "%.1f", $2 * 360 * 4 / 1000}' out)
  grep -qE "^$scheme +$scheme .* $seconds .* $megabytes MB$" "$root/README.md" ||
    fail "README.md has other figures for $scheme: $seconds s, $megabytes MB"
done
finish
