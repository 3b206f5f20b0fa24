#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes fixtures/tokenizer_vocabulary.txt, tokenizer.txt, squad.json and
squad_features.txt: what transformers' BertTokenizer (the one in Python) and
squad_convert_example_to_features make of strings that are hard to read right,
and of a small made SQuAD file. For tests/unit/data/test_wordpiece.cpp and
test_question_set.cpp.

    pip install --target DIR transformers==4.30.2 tokenizers==0.13.3 numpy==1.26.4
    PYTHONPATH=DIR python3 tests/reference/make_tokenizer_fixtures.py

Later versions compose (NFC) before they split, which the published BERT does
not. Strings go straight to BasicTokenizer: BertTokenizer.tokenize lowers letter
by letter before it, and so misses the final sigma that the published BERT
makes. The made SQuAD file has no capital sigma.
"""
import json
import logging
import os
import random
import unicodedata

logging.disable(logging.WARNING)

from transformers.data.processors import squad  # noqa: E402
from transformers.models.bert import tokenization_bert as bert  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fixtures")

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """the of and in to was is for on as by with at from un aff able want run
 ning ing ed er s year years old new york city river man men school university
 what who when where which how many did does cafe resume naive istanbul strasse
 a b c d e f g h i j k l m n o p q r s t u v w x y z
 A B C D E F G H I J K L M N O P Q R S T U V W X Y Z The New York Café
 0 1 2 3 4 5 6 7 8 9 10 19 20 100 2015 18 . , ; : ! ? ' " ( ) - / # [ ] % $
 sep cls unk ## ### sigma""".split()

STRINGS = [
    "", " ", "\t\n\r ", "unaffable", "UNAFFABLE", "unwanted running",
    "The New York Café", "café", "cafe\u0301", "CAFE\u0301", "e\u0301\u0327\u0301",
    "naïve résumé", "Ångström \u212b", "ǅungla ǆ Ǆ", "straße STRASSE \u1e9e",
    "İstanbul", "I\u0307stanbul", "ISTANBUL ıi İI", "ΣΊΣΥΦΟΣ", "ΟΔΟΣ ΟΔΌΣ. Σ",
    "ΑΣ'Σ ΑΣ: ΑΣ\u00adΑ ΑΣ.Α ΑΣ·", "aΣ Σa Σ aΣ\u0301 aΣ\u0301b ⒶΣ ªΣ ⅣΣ ʰΣ",
    "한국어 한\u1161 \u1112\u1161\u11ab", "가각힣", "日本語 にほんご カタカナ ガ か\u3099",
    "中文字符abc中", "\U00020000\U0002a6d6\U0002f800x", "\uf900\ufa0e豈",
    "中\u0301文", "\u3400\u4dbf\u4dc0\u9fff\ua000", "😀 smile😀face 👩\u200d👩\u200d👧 🇩🇪",
    "a\ufe0fb", "zero\u200bwidth", "soft\u00adhyphen", "bom\ufefftext",
    "nul\x00byte", "bell\x07 \x1b[0m", "vt\x0bff\x0cfs\x1cgs\x1d", "nel\x85x",
    "del\x7fx", "bad\ufffdletter", "private\ue000use", "unassigned\u0378x",
    "noncharacter\ufffe\uffff", "tag\U000e0041x", "nbsp\u00a0between",
    "thin\u2009narrow\u202fideographic\u3000ogham\u1680x", "line\u2028par\u2029x",
    "mongolian\u180evowel", "\u2060word\u2060joiner", "שלום עולם", "שָׁלוֹם",
    "مرحبا بالعالم", "مَرْحَبًا", "\u200fRTL\u200e mark", "हिन्दी नमस्ते", "ภาษาไทย ก็",
    "தமிழ்", "বাংলা", "ಕನ್ನಡ", "မြန်မာ", "ខ្មែរ", "བོད་ཡིག", "ﬁ ﬂ ﬃ ﬅ ĳ ŉ", "①②⑩ Ⅷ ½ ²",
    "fullwidth ＡＢＣ ａｂｃ １２３ ！？", "ｶﾞ halfwidth", "3.14 1,000.50 -5 +7 10% $20",
    "2015-12-31 12:30:45 a.m.", "1/2 3×4 5÷6 7−8", "it's don't O'Neil 'quoted'",
    "it’s “curly” ‘single’ «guillemets»", "en–dash em—dash hor―bar",
    "...ellipsis… ¿qué? ¡sí!", "a_b c^d `e` ~f |g", "http://x.org/a?b=c&d#e",
    "me@x.org C++ C# .NET", "[SEP] [CLS] [UNK] [PAD] [MASK]", "a[SEP]b [sep]",
    "## ##ing #", "x" * 99, "x" * 100, "x" * 101, "X" * 250, "é" * 100, "é" * 101,
    "가" * 34, "가" * 33, "\u0301" * 120 + "a", "a" + "\u0301" * 120, "\u0301",
    "\u0301 \u0302", " leading", "trailing ", "two  spaces", "tab\ttab",
    "mixed \t\n\r spaces", "ꙮ ⳩ 𐐀𐐨 𝔘𝔫𝔦 𝟘", "Ꭰꭰ ᏸ", "Ა ა", "ǰ ẖ ẗ ẘ ẙ",
    "\u0344 \u0340 \u0341 \u0343", "\u1fee \u1fef \u037e \u0387 \u2126 \u212a",
    "\u0958 \u09dc \u0a33", "\u0f77 \u0f73 \u0f81", "\u302e가 가\u302e\u0323\u302f",
    "\U0001d15e \U0001d1bb", "\U00011099 \U000110ab", "q\u0307\u0323 q\u0323\u0307",
    "a\u034f\u0308b", "\u0e33 \u0eb3", "¨ ´ ¸ ˘ ª º", "™ ℠ © ® § ¶ † ‡ •",
    "€ £ ¥ ₹ ¢ ¤", "∀x∈ℝ: ⌈x⌉ = −⌊−x⌋", "← ↑ → ↓", "░▒▓", "⟨bra|ket⟩ 〈〉《》「」【】",
    "、。・〜", "‐‑‒–—―‖‗", "⁇⁈⁉ ‼ ‽", "﹏﹐﹑﹒ ＿－", "۔؟،؛", "।॥", "՚՛՜՝՞՟֊ ։",
    "׀׃־׳״", "࠰࠱ ፡።", "᐀ ᙮", "Ⱥ Ⱦ ẞ ꞌ", "sS ſS ſ", "K Å", "\u1e9b\u0323",
]


def random_strings(rng, count):
    """Mixtures of what the strings above are made of."""
    letters = sorted({c for s in STRINGS for c in s})
    words = [w for s in STRINGS for w in s.split() if len(w) < 20]
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 6)):
            kind = rng.random()
            if kind < 0.4:
                parts.append(rng.choice(words))
            elif kind < 0.8:
                parts.append("".join(rng.choices(letters, k=rng.randint(1, 6))))
            else:
                parts.append(rng.choice(WORDS))
            parts.append(rng.choice(["", " ", " ", "\u00a0", "-"]))
        yield "".join(parts)


def make_vocabulary(strings):
    """Words, and most letters that the strings are read as, alone and inside a
    word; what is left out becomes [UNK]."""
    letters = set()
    for lower in (True, False):
        basic = bert.BasicTokenizer(do_lower_case=lower)
        for string in strings:
            letters.update("".join(basic.tokenize(string)))
    kept = [c for c in sorted(letters) if ord(c) % 13 != 5]
    tokens = SPECIALS + WORDS + ["##" + w for w in WORDS] + kept
    tokens += ["##" + c for c in kept]
    return list(dict.fromkeys(tokens))


def write(name, lines):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8",
              newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def write_tokens(strings, tokens):
    """Lines: lower|as_written TEXT-IN-HEX IDS..."""
    ids = {token: i for i, token in enumerate(tokens)}
    pieces = bert.WordpieceTokenizer(vocab=ids, unk_token="[UNK]")
    lines = []
    for lower, name in ((True, "lower"), (False, "as_written")):
        basic = bert.BasicTokenizer(do_lower_case=lower)
        for string in strings:
            found = []
            for word in basic.tokenize(string):
                found += pieces.tokenize(word)
            lines.append(" ".join(
                [name, string.encode("utf-8").hex() or "-"]
                + [str(ids[token]) for token in found]))
    write("tokenizer.txt", lines)


def made_text(rng, words):
    text = ""
    for i in range(words):
        word = rng.choice(["the", "Unwanted", "river", "café", "running", "York,",
                           "(2015)", "中文", "cities", "10%", "O'Neil's", "x-y-z",
                           "école", "σοφός", "new", "1,000", "😀", "a\u00a0b"])
        text += ("" if i == 0 else rng.choice([" ", " ", " ", "  ", "\n"])) + word
    return text


def made_squad(rng):
    paragraphs = []
    number = 0
    for words in (5, 12, 30, 60, 90):
        context = made_text(rng, words)
        questions = []
        for _ in range(4):
            # From the begin of a word or within one, to anywhere.
            begin = rng.randrange(len(context))
            while rng.random() < 0.7 and begin > 0 and context[begin - 1] != " ":
                begin -= 1
            text = context[begin:begin + rng.randint(1, 25)].strip()
            begin = context.index(text, begin) if text else begin
            if not text:
                continue
            questions.append({
                "id": f"q{number}",
                "question": made_text(rng, rng.choice([2, 6, 20])) + "?",
                "answers": [{"text": text, "answer_start": begin}]})
            number += 1
        # An answer that is not where it is said to be.
        questions.append({
            "id": f"q{number}", "question": "Where?",
            "answers": [{"text": "Atlantis", "answer_start": 1}]})
        number += 1
        # White space unlike the context's.
        spaced = " ".join(context.split()[1:4])
        questions.append({
            "id": f"q{number}", "question": "?",
            "answers": [{"text": spaced,
                         "answer_start": len(context.split()[0]) + 1}]})
        number += 1
        paragraphs.append({"context": context, "qas": questions})
    return {"version": "1.1", "data": [
        {"title": "made", "paragraphs": paragraphs[:4]},
        {"title": "made too", "paragraphs": paragraphs[4:]}]}


def write_features(data, vocabulary):
    """Lines: CASE MAX_LENGTH STRIDE MAX_QUESTION ID CONTEXT_AT FIRST LAST
    IDS,... MAX_CONTEXT-BITS, or "ID left_out"."""
    lines = []
    for lower, length, stride, question in (
            (True, 200, 60, 64), (True, 64, 24, 20), (False, 48, 30, 9)):
        tokenizer = bert.BertTokenizer(vocabulary, do_lower_case=lower)
        squad.squad_convert_example_to_features_init(tokenizer)
        prefix = f"{'lower' if lower else 'as_written'} {length} {stride} {question}"
        for article in data["data"]:
            for paragraph in article["paragraphs"]:
                for qa in paragraph["qas"]:
                    answer = qa["answers"][0]
                    example = squad.SquadExample(
                        qa["id"], qa["question"], paragraph["context"],
                        answer["text"], answer["answer_start"], "")
                    features = squad.squad_convert_example_to_features(
                        example, length, stride, question, "do_not_pad", True)
                    if not features:
                        lines.append(f"{prefix} {qa['id']} left_out")
                    for f in features:
                        context_at = f.token_type_ids.index(1)
                        bits = "".join(
                            "01"[f.token_is_max_context.get(i, False)]
                            for i in range(len(f.input_ids)))
                        ids = ",".join(map(str, f.input_ids))
                        lines.append(
                            f"{prefix} {qa['id']} {context_at} "
                            f"{f.start_position} {f.end_position} {ids} {bits}")
    write("squad_features.txt", lines)


def main():
    assert unicodedata.unidata_version >= "14"
    rng = random.Random(7)
    strings = STRINGS + list(random_strings(rng, 250))
    data = made_squad(rng)
    texts = [p["context"] for a in data["data"] for p in a["paragraphs"]]
    tokens = make_vocabulary(strings + texts)
    write("tokenizer_vocabulary.txt", tokens)
    write_tokens(strings, tokens)
    write("squad.json", [json.dumps(data, indent=1)])
    write_features(data, os.path.join(FOLDER, "tokenizer_vocabulary.txt"))


if __name__ == "__main__":
    main()
