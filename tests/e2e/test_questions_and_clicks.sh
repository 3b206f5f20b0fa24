#!/usr/bin/env bash
# BERT and DeepFM through the whole program: files in the published forms are
# prepared, trained on, evaluated and predicted from; schemes of each kind train
# both, and stopped and resumed they end in the same bits; over MPI as in one process.
# shellcheck source=tests/e2e/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=tests/e2e/scheme_keys.sh
source "$here/scheme_keys.sh"
export OMP_NUM_THREADS=1

# shellcheck source=tests/e2e/question_click_inputs.sh
source "$here/question_click_inputs.sh"

train() { # train NETWORK NAME KEYS...
  expect_code 0 "$SYNCOPATE" train "$1.ini" --run.name="$2" "${@:3}"
}

refuse() { # refuse CODE TEXT WORDS...: of syncopate
  local code=$1 text=$2
  shift 2
  expect_code "$code" "$SYNCOPATE" "$@"
  grep -qF -- "$text" err || fail "$*: $(cat err), expected $text"
  (($(wc -l <err) == 1)) || fail "$*: not one line: $(cat err)"
}

# --- schemes of each kind, stopped and resumed
equal=() # pairs of runs, which are compared further below
for network in bert deepfm; do
  for scheme in $(schemes_of_each_kind); do
    # shellcheck disable=SC2046
    set -- --sync.scheme="$scheme" --run.workers=4 $(scheme_keys "$scheme")
    # Adam's moments are no momentum that could be masked.
    [[ $scheme != dgc ]] || set -- "$@" --dgc.mask_momentum=no
    name=$network-$scheme
    train $network "$name" "$@"
    train $network "$name-cut" "$@" --run.stop_at=4
    train $network "$name-cut" "$@"
    resumed "$name-cut" 4
    equal+=("runs/$name" "runs/$name-cut")
  done
done

# --- MPI and one process
cases=("bert bsp" "bert choco" "deepfm bsp" "deepfm ds_sync")
[[ -z ${EXHAUSTIVE:-} ]] || cases+=("bert ds_sync" "deepfm choco")
for case in "${cases[@]}"; do
  read -r network scheme <<<"$case"
  name=$network-$scheme
  # shellcheck disable=SC2207
  words=(--sync.scheme="$scheme" $(scheme_keys "$scheme"))
  train "$network" "$name-one" "${words[@]}" --run.workers=3
  # shellcheck disable=SC2046
  expect_code 0 $(ranks 3) "$SYNCOPATE" train "$network.ini" \
    --run.name="$name-mpi" "${words[@]}"
  equal+=("runs/$name-one" "runs/$name-mpi")
done

# --- what does not decide the numbers
train bert kept --model.recompute=yes --run.workers=4
equal+=(runs/bert-bsp runs/kept)
# By SGD: Adam makes steps of the rounding where a gradient is 0 by nature.
sed 's/^kind = adam$/kind = sgd/' deepfm.ini >sgd.ini
train sgd rows --run.workers=4
train sgd dense --run.workers=4 --sync.tables=dense
python "$here/compare_states.py" --tolerance=1e-5 runs/rows runs/dense ||
  fail "sync.tables = dense: other parameters"
sent() { python -c "
import h5py, sys
print(int(h5py.File(sys.argv[1])['comm/bytes_sent'][...].sum()))" "runs/$1/results.h5"; }
train deepfm few --run.workers=4 --data.field_rows=5000
train deepfm whole --run.workers=4 --data.field_rows=5000 --sync.tables=dense
few=$(sent few) whole=$(sent whole)
((few * 5 < whole)) || fail "rows: $few bytes, whole tables: $whole"
train deepfm lazy --run.workers=4 --optimizer.embedding=lazy
train deepfm lazy-cut --run.workers=4 --optimizer.embedding=lazy --run.stop_at=3
train deepfm lazy-cut --run.workers=4 --optimizer.embedding=lazy
resumed lazy-cut 3
equal+=(runs/lazy runs/lazy-cut)
python "$here/compare_states.py" --pairs "${equal[@]}" ||
  fail "a resumed run, MPI or model.recompute changes the bits"

# --- texts in the published form
python "$here/make_records.py" squad squad 48 || fail "no texts"
sed -i '/^\(samples\|test_samples\|context_words\) =/d' bert.ini
sed 's/^batch = 16$/batch = 1/; s/^stride = .*/stride = 1/
     s/^max_length = .*/max_length = 24/' bert.ini >narrow.ini
texts_in() { texts=(--data.kind=squad --data.vocabulary=squad/vocab.txt --data.path="$1"); }
texts_in squad
train bert texts "${texts[@]}" --run.steps=20 --optimizer.lr=5e-3
expect_code 0 "$SYNCOPATE" evaluate bert.ini "${texts[@]}" \
  --checkpoint=runs/texts
evaluated=$(grep -o 'f1 [0-9.]*  exact_match [0-9.]*' out)
expect_code 0 "$SYNCOPATE" predict bert.ini "${texts[@]}" \
  --checkpoint=runs/texts --output=predictions.json
for figure in "f1 [0-9.]*" "exact_match [0-9.]*"; do
  awk -v a="$(grep -o "$figure" <<<"$evaluated")" \
    -v b="$(grep -o "$figure" out)" 'BEGIN { split(a, x, " "); split(b, y, " ")
      exit !(x[2] != "" && y[2] != "" && (x[2] - y[2]) ^ 2 < 1e-8) }' ||
    fail "predict: $(cat out), evaluate: $evaluated"
done
expect_code 0 "$SYNCOPATE" evaluate bert.ini "${texts[@]}" \
  --predictions=predictions.json
python - "$evaluated" "$(cat out)" <<'PY' || fail "evaluate: $evaluated, of predictions: $(cat out)"
import json, re, sys
f1, exact = (float(x) for x in re.findall(r"[0-9.]+", sys.argv[1].replace("f1 ", "")))
said = sys.argv[2].split(":")[-1]
got = dict(zip(said.split()[::2], map(float, said.split()[1::2])))
assert abs(got["f1"] - f1) < 1e-5 and abs(got["exact_match"] - exact) < 1e-5
answers = json.load(open("predictions.json"))
questions = [q["id"] for a in json.load(open("squad/dev-v1.1.json"))["data"]
             for p in a["paragraphs"] for q in p["qas"]]
assert list(answers) == questions
best = json.load(open("predictions.n_best.json"))
assert all(best[i][0]["text"] == answers[i] for i in questions)
assert all(abs(sum(c["probability"] for c in best[i]) - 1) < 1e-6 for i in questions)
PY
echo '{"no such": "id"}' >other.json
expect_code 0 "$SYNCOPATE" evaluate bert.ini "${texts[@]}" --predictions=other.json
grep -q "exact_match 0 f1 0" out || fail "answers to no question: $(cat out)"

# --- questions without the training set, and without answers
mkdir asked unanswered
cp squad/dev-v1.1.json asked
python - <<'PY' || fail "no questions were written"
import json
asked = json.load(open("asked/dev-v1.1.json"))
questions = [q for a in asked["data"] for p in a["paragraphs"] for q in p["qas"]]
for number, question in enumerate(questions):
    if number % 2:
        del question["answers"]
    else:
        question["answers"] = []
json.dump(asked, open("unanswered/dev-v1.1.json", "w"))
PY
for folder in asked unanswered; do
  texts_in $folder
  expect_code 0 "$SYNCOPATE" predict bert.ini "${texts[@]}" \
    --checkpoint=runs/texts --output=$folder.json
  cmp -s predictions.json $folder.json || fail "$folder: other answers"
  ! grep -q warning out err || fail "$folder: $(cat out err)"
done
grep -q "some of whose questions have no answers" out || fail "$(cat out)"
refuse 65 "has no answers: only predict can use it" evaluate bert.ini \
  "${texts[@]}" --checkpoint=runs/texts
cp squad/train-v1.1.json unanswered
refuse 65 "no answer, expected at least one" train bert.ini "${texts[@]}"
texts_in asked
refuse 66 "train-v1.1.json" train bert.ini "${texts[@]}"
expect_code 0 "$SYNCOPATE" evaluate bert.ini "${texts[@]}" \
  --checkpoint=runs/texts
grep -qF "$evaluated" out || fail "evaluate: $(cat out), expected $evaluated"
texts_in squad
{
  head -n -2 squad/vocab.txt
  tail -n 1 squad/vocab.txt
  tail -n 2 squad/vocab.txt | head -n 1
} >swapped.txt
refuse 65 "trained with another vocabulary" evaluate bert.ini "${texts[0]}" \
  "${texts[2]}" --checkpoint=runs/texts --data.vocabulary=swapped.txt

# --- weights are read where a run starts, and nowhere else
python - <<'PY' || fail "no weights were written"
import glob, json, struct
import h5py
import numpy as np
found, data = {}, b""
path = sorted(glob.glob("runs/texts/checkpoints/step-*/replica.h5"))[-1]
with h5py.File(path) as file:
    def add(name, item):
        global data
        if isinstance(item, h5py.Dataset) and name.startswith("parameters/"):
            values = np.asarray(item, "<f4").tobytes()
            elems = int(item.size)
            shape = [elems]  # checkpoints hold flat ranges
            if name.endswith("weight") and "LayerNorm" not in name:
                wide = name.endswith("output.dense.weight") and "attention" not in name
                shape = [elems // (40 if wide else 24), 40 if wide else 24]
            found[name[11:]] = {"dtype": "F32", "shape": shape,
                                "data_offsets": [len(data), len(data) + len(values)]}
            data += values
    file.visititems(add)
head = json.dumps(found).encode()
open("own.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + data)
PY
tuned=("${texts[@]}" --model.weights=own.safetensors --run.steps=6)
train bert tuned "${tuned[@]}" --run.stop_at=3
grep -q "^start     own.safetensors (XXH3-128 [0-9a-f]*): 39 tensors" \
  runs/tuned/log.txt || fail "what it starts from: $(cat runs/tuned/log.txt)"
rm own.safetensors
train bert tuned "${tuned[@]}"
expect_code 0 "$SYNCOPATE" evaluate bert.ini "${texts[@]}" --checkpoint=runs/tuned
refuse 66 "own.safetensors" train bert.ini "${tuned[@]}" --run.name=other

# --- records in the published form
python "$here/make_records.py" criteo records.tsv 3000 || fail "no records"
expect_code 0 "$SYNCOPATE" prepare criteo records.tsv -o records --threshold=3
records=(--data.kind=criteo --data.path=records)
sed -i '/^\(samples\|test_samples\|field_rows\) =/d' deepfm.ini
train deepfm records "${records[@]}" --run.steps=60 --run.workers=2
expect_code 0 "$SYNCOPATE" evaluate deepfm.ini "${records[@]}" \
  --checkpoint=runs/records
area=$(grep -o 'auc [0-9.]*' out)
# shellcheck disable=SC2046
expect_code 0 $(ranks 3) "$SYNCOPATE" evaluate deepfm.ini "${records[@]}" \
  --checkpoint=runs/records
[[ $(grep -o 'auc [0-9.]*' out) == "$area" ]] || fail "3 ranks: not $area"
expect_code 0 "$SYNCOPATE" predict deepfm.ini "${records[@]}" \
  --checkpoint=runs/records --output=clicks.csv
python - "$area" <<'PY' || fail "clicks.csv does not have the AUC of evaluate: $area"
import csv, sys
rows = list(csv.DictReader(open("clicks.csv")))
yes = [float(r["probability"]) for r in rows if r["label"] == "1"]
no = [float(r["probability"]) for r in rows if r["label"] == "0"]
area = sum((y > n) + (y == n) / 2 for y in yes for n in no) / len(yes) / len(no)
assert len(rows) > 200 and abs(area - float(sys.argv[1].split()[1])) < 1e-6, area
PY

# --- records of a later day, numbered as the model knows them, or otherwise
expect_code 0 "$SYNCOPATE" prepare criteo records.tsv -o later \
  --vocabulary=records
later=(--data.kind=criteo --checkpoint=runs/records)
expect_code 0 "$SYNCOPATE" predict deepfm.ini "${later[@]}" --data.path=later \
  --output=later.csv
expect_code 0 "$SYNCOPATE" evaluate deepfm.ini "${later[@]}" --data.path=later
grep -q "test set, 3000 samples" out || fail "evaluate later: $(cat out)"
python - <<'PY' || fail "records have other probabilities with their day's"
import csv
known, later = ([(r["label"], float(r["probability"])) for r in csv.DictReader(open(name))]
                for name in ("clicks.csv", "later.csv"))
assert len(later) == 3000
places = iter(later)
for label, value in known:  # the test records, in this order
    assert any(label == other and abs(value - found) < 1e-6 for other, found in places), value
numbers = [line.rstrip("\n").split("\t") for line in open("records.tsv")]
with open("renamed.tsv", "w") as file:
    for row in numbers:
        row[20] = row[20] and "%08x" % (int(row[20], 16) ^ 0xF0000000)
        file.write("\t".join(row) + "\n")
with open("clicked.tsv", "w") as file:
    file.writelines("\t".join(row) + "\n" for row in numbers if row[0] == "1")
PY
expect_code 0 "$SYNCOPATE" prepare criteo clicked.tsv -o clicked \
  --vocabulary=records
expect_code 0 "$SYNCOPATE" evaluate deepfm.ini "${later[@]}" --data.path=clicked
grep -q "warning: .*every test record is a click, so there is no AUC" out err ||
  fail "clicks alone: $(cat out err)"
expect_code 0 "$SYNCOPATE" prepare criteo renamed.tsv -o renamed --threshold=3
refuse 65 "trained with another vocabulary" evaluate deepfm.ini "${later[@]}" \
  --data.path=renamed
refuse 65 "has no training records" train deepfm.ini --data.kind=criteo \
  --data.path=later --run.name=nothing
refuse 64 "--threshold cannot be combined with --vocabulary=records" \
  prepare criteo records.tsv -o x --vocabulary=records --threshold=3
expect_code 0 "$SYNCOPATE" validate deepfm.ini "${records[@]}"
grep -q "all 3000 read, all intact" out || fail "validate: $(cat out)"

# --- what postprocess/ makes of them: judged by F1 in percent, and by AUC
: "${SOURCE_DIR:=$(cd "$here/../.." && pwd)}"
post() { expect_code 0 python "$SOURCE_DIR/postprocess/$1.py" "${@:2}"; }
said() { grep -qE "$1" out || fail "no '$1' in $(cat out)"; }
post summarize runs/texts runs/records
said '^texts +bsp +bert-2-24 .* f1\(%\) '
said '^records +bsp +deepfm-5 .* auc '
post compare runs/texts --target=f1=0
said 'final f1 \(%\)'
said '^bsp +1 of 1 '
post export runs/records -o - --format=csv --table=eval
said '^step,.*,auc,'

# --- wrong input: one line, the right code
refuse 65 "model.heads: is 5, which does not divide" \
  train bert.ini "${texts[@]}" --model.heads=5
refuse 65 "model.positions: is 32, expected at least" \
  train bert.ini "${texts[@]}" --model.positions=32
refuse 65 "data.vocabulary: is missing" \
  train bert.ini --data.kind=squad --data.path=squad
texts_in nowhere
refuse 66 "nowhere" train bert.ini "${texts[@]}"
texts_in squad
refuse 66 "nothing.safetensors" \
  train bert.ini "${texts[@]}" --model.weights=nothing.safetensors
refuse 65 "is a network for clicks" train deepfm.ini --data.kind=synthetic_images
refuse 65 "data.partition: by_class" \
  train bert.ini "${texts[@]}" --data.partition=by_class
refuse 65 "data.augment" train deepfm.ini "${records[@]}" --data.augment=flip
refuse 65 "optimizer.momentum" \
  train deepfm.ini "${records[@]}" --optimizer.momentum=0.9
refuse 65 "windows of a question" train narrow.ini "${texts[@]}"
refuse 64 "ending in .json" predict bert.ini "${texts[@]}" \
  --checkpoint=runs/texts --output=answers.csv
refuse 64 "expected one of questions" \
  evaluate deepfm.ini "${records[@]}" --predictions=other.json
refuse 64 "both are given" evaluate bert.ini "${texts[@]}" \
  --checkpoint=runs/texts --predictions=other.json
refuse 64 "nothing to evaluate" evaluate bert.ini "${texts[@]}"
refuse 64 "no images, expected prepare squad" \
  prepare images bert.ini "${texts[@]}" -o x.h5
echo "not json" >bad.json
refuse 65 "bad.json" evaluate bert.ini "${texts[@]}" --predictions=bad.json
sed -i '17s/\t/;/' records.tsv
refuse 65 "records.tsv: line 17" prepare criteo records.tsv -o again
expect_code 0 "$SYNCOPATE" prepare criteo records.tsv -o again --on-bad-line=skip
grep -q "1 bad line" out || fail "the skipped line is not told: $(cat out)"
refuse 64 "--size belongs to prepare images" prepare criteo records.tsv -o x --size=3
printf 'x' | dd of=records/train.records bs=1 seek=200 conv=notrunc 2>/dev/null ||
  fail "no records/train.records: $(ls records)"
expect_code 65 "$SYNCOPATE" validate deepfm.ini "${records[@]}"
finish
