"""make_records.py squad FOLDER QUESTIONS | criteo FILE RECORDS [SEED]

squad: FOLDER/train-v1.1.json and dev-v1.1.json of made texts in the published
form, two thirds and one third of the questions, and vocab.txt. The answer to
"where is KEY" is what follows KEY in the context. criteo: tab-separated records
in the published form; a click hangs on a few of the fields.
"""
import json
import pathlib
import sys

import numpy as np

KEYS = [f"key{letter}" for letter in "abcdefghijklmnop"]
PLACES = ["Graz", "Malmö", "Cork", "Łódź", "Kyoto", "Oslo", "Bonn", "Lima"]
FILLERS = "the a of in and near by old new red blue small large then now".split()


def article(rng, index):
    keys = list(rng.choice(KEYS, 3, replace=False))
    text, qas = "", []
    for number, key in enumerate(keys):
        text += " ".join(rng.choice(FILLERS, rng.integers(2, 9))) + " "
        answer = " ".join(rng.choice(PLACES, rng.integers(1, 3)))
        start = len(text) + len(key) + 1
        text += f"{key} {answer}, "
        qas.append({"id": f"{index:06}-{number}", "question": f"where is {key}?",
                    "answers": [{"text": answer, "answer_start": start}]})
    return {"title": str(index), "paragraphs": [{"context": text, "qas": qas}]}


def squad(folder, questions):
    rng = np.random.default_rng(5)
    articles = [article(rng, i) for i in range((questions + 2) // 3)]
    held_out = max(1, len(articles) // 3)
    folder.mkdir(parents=True)
    for name, part in (("train", articles[held_out:]), ("dev", articles[:held_out])):
        with open(folder / f"{name}-v1.1.json", "w", encoding="utf-8") as file:
            json.dump({"version": "1.1", "data": part}, file, ensure_ascii=False)
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "where", "is", "?", ",",
               "key"] + [w for w in FILLERS if len(w) > 1]
              + ["graz", "malmo", "cork", "kyoto", "oslo", "bonn", "lima"]
              + letters + ["##" + letter for letter in letters])
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")


def criteo(path, records, seed):
    rng = np.random.default_rng(seed)
    with open(path, "w", encoding="ascii") as file:
        for _ in range(records):
            numbers = np.floor(rng.exponential(20, 13)).astype(int) - 1
            words = rng.zipf(1.5, 26) % 40
            odds = 0.05 * numbers[0] + (words[0] % 2) - 1.5
            click = int(rng.random() < 1 / (1 + np.exp(-odds)))
            cells = ["" if rng.random() < 0.1 else str(n) for n in numbers]
            cells += ["" if rng.random() < 0.1 else f"{w * 2654435761 % 2**32:08x}"
                      for w in words]
            file.write("\t".join([str(click), *cells]) + "\n")


def main():
    if sys.argv[1] == "squad":
        squad(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
    else:
        criteo(sys.argv[2], int(sys.argv[3]), int((sys.argv[4:] or ["5"])[0]))


main()
