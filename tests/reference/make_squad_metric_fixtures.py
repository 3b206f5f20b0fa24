#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/squad_metric.json: what the rules of the SQuAD 1.1 evaluation
make of many texts, for tests/unit/data/test_squad_metric.cpp.

    /usr/bin/python3 tests/reference/make_squad_metric_fixtures.py

The rules, as published with SQuAD 1.1: lower case, ASCII punctuation dropped,
the words a, an and the replaced by a space, white space unified. Exact match:
equal after that. F1: harmonic mean of precision and recall over the multiset
of words. Both are the best over the right answers; the score is the mean over
all questions, unanswered ones 0, in percent. Recorded with Python 3.11.
"""
import json
import os
import random
import re
import string
import unicodedata
from collections import Counter

# Words, and what may stand between them: spaces of all kinds, punctuation of
# ASCII and beyond, combining marks, letters whose lower case is special.
WORDS = ["a", "an", "the", "The", "AN", "A", "cat", "Dog", "theory", "Athens",
         "x_a", "a1", "1", "1950", "\u00bd", "\u00b2", "\u2167", "caf\u00e9",
         "cafe\u0301", "a\u0301", "\u00c4pfel", "STRASSE", "stra\u00dfe",
         "\u1e9e", "\u0130stanbul", "I\u0307", "DI\u0307", "\u01c5", "\u01f1",
         "\u039f\u0394\u039f\u03a3", "\u03a3", "\u03a3\u0391\u03a3",
         "\u0391\u03a3\u0301", "A\u03a3.", "A.\u03a3", "A\u03a3'b",
         "\u24b6\u03a3", "\u2167\u03a3", "\u00aa\u03a3", "\u02b0\u03a3",
         "1\u03a3", "A\u00ad\u03a3\u200db", "A\u03a3\u4e2d", "\u4e2d\u6587",
         "\u65e5a\u672c", "\u0627\u0644\u0639", "\u05d0\u05b7",
         "\U0001f600", "\U00010400", "\U0001d400the", "\U0001e900",
         "\u13a0", "\uab70", "\u1c90", "\u10a0", "\u212a", "\u212b",
         "\u2126", "\u0e01", "\u0903", "\u1d2c", "\ufb01", "_", "__a__",
         "\u0660", "\u3007", "\u3038", "\ua62a"]
BETWEEN = [" ", " ", " ", "  ", "\t", "\n", "\r\n", "\x0b", "\x0c", "\x1c",
           "\x1f", "\x00", "\x7f", "\x85", "\u00a0", "\u1680", "\u180e",
           "\u2003", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f",
           "\u2060", "\u3000", "\ufeff", "", "-", "--", "\u2013", "\u2014",
           "'", "\u2019", "\"", "\u201c", "\u00ab", ".", ",", "!", "?",
           "\u00a1", "\u3002", "(", ")", "[", "]", "{", "|", "}", "~", "`",
           "^", "_", "$", "\u20ac", "%", "&", "*", "+", "<", "=", ">", "@",
           "#", "/", "\\", ":", ";", "\u0301", "\u0345", "\u20dd"]


def normalize(text):
    text = text.lower()
    text = "".join(c for c in text if c not in string.punctuation)
    text = re.sub(r"\b(a|an|the)\b", " ", text)
    return " ".join(text.split())


def f1_of(prediction, right):
    mine, theirs = normalize(prediction).split(), normalize(right).split()
    same = sum((Counter(mine) & Counter(theirs)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(mine), same / len(theirs)
    return 2 * precision * recall / (precision + recall)


def ranges(numbers):
    """[first, last, first, last, ...] of rising numbers."""
    flat = []
    for number in numbers:
        if flat and flat[-1] == number - 1:
            flat[-1] = number
        else:
            flat += [number, number]
    return flat


def letters():
    """What becomes of every letter c of Unicode 14, by probes."""
    known = [c for c in range(0x110000)
             if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    probes = {
        "word": lambda c: normalize("a" + c).startswith("a"),
        "space": lambda c: normalize("x" + c + "y") == "x y",
        "dropped": lambda c: normalize("x" + c + "y") == "xy",
        "cased": lambda c: normalize("1" + c + "\u03a3")[-1] == "\u03c2",
        "passed": lambda c: normalize("x" + c + "\u03a3")[-1] == "\u03c2",
        "ended": lambda c: "\u03c2" in normalize("x\u03a3" + c),
    }
    found = {name: ranges(c for c in known if probe(chr(c)))
             for name, probe in probes.items()}
    found["known"] = ranges(known)
    found["lower"] = {chr(c): chr(c).lower() for c in known
                      if chr(c).lower() != chr(c)}
    return found


def make_text(draw, longest):
    text = draw.choice(["", "", "", draw.choice(BETWEEN)])
    for _ in range(draw.randrange(longest)):
        text += draw.choice(WORDS) + draw.choice(BETWEEN)
    return text


def changed(draw, text):
    """What a network might answer where `text` is right."""
    words = text.split(" ")
    kind = draw.randrange(5)
    if kind == 0:
        return text.upper()
    if kind == 1:
        return draw.choice(["the ", "a, ", "An"]) + text + draw.choice(".! ")
    if kind == 2:
        draw.shuffle(words)
    if kind == 3:
        words = words[draw.randrange(len(words)):]
    if kind == 4:
        words += draw.choices(words, k=2)
    return " ".join(words)


def main():
    draw = random.Random(5)
    texts = ["", " ", "a", "the", "The the THE", "a-an-the", "an\u0301",
              "U.S.A.", "don't", "a_the", "\u03a3", "12,500.00"]
    texts += [make_text(draw, 9) for _ in range(300)]

    questions = []
    for number in range(200):
        right = [make_text(draw, 7) for _ in range(draw.randrange(1, 4))]
        prediction = changed(draw, draw.choice(right))
        if number % 17 == 0:
            prediction = make_text(draw, 5)
        questions.append({
            "right": right, "prediction": prediction,
            "exact": float(any(normalize(prediction) == normalize(one)
                               for one in right)),
            "f1": max(f1_of(prediction, one) for one in right)})
        if number % 23 == 0:
            questions[-1]["prediction"] = None  # not answered
    total = {"exact": 0.0, "f1": 0.0}
    for question in questions:
        for figure in total:
            if question["prediction"] is not None:
                total[figure] += question[figure]
    score = {figure: 100.0 * value / len(questions)
             for figure, value in total.items()}

    folder = os.path.join(os.path.dirname(__file__), "fixtures")
    with open(os.path.join(folder, "squad_metric.json"), "w",
              encoding="ascii") as file:
        json.dump({"letters": letters(), "texts": [[text, normalize(text)] for text in texts],
                   "questions": questions, "score": score}, file, indent=None)
        file.write("\n")


if __name__ == "__main__":
    main()
