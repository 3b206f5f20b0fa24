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
python - "$(grep -c ',reproduced$' house)" "$(wc -l <house)" "$root/README.md" <<'PY' ||
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
assert f"Of the {rules} rules of the comparison" in text, rules
assert f"at equal bytes (`house_alike`, `house_slow`, `house_straggler`, `house_bytes`), {holds} hold." in text, holds
PY
  fail "README.md's table of studies"

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
