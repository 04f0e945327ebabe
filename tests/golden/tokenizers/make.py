"""Makes the files of this folder; needs the sentencepiece package (0.2.3 was used). From the
repository's root:

    python tests/golden/tokenizers/make.py ids                # the expected ids, from the committed
                                                              models
    python tests/golden/tokenizers/make.py models             # the models and sections, from
                                                              text.tsv; then the ids
    python tests/golden/tokenizers/make.py text cmn.attrib.txt    # text.tsv: every 149th pair of
                                                                  the Tatoeba file

text.tsv is from Tatoeba (https://tatoeba.org) by way of https://www.manythings.org/anki: CC BY 2.0
FR; the third column of each line credits the authors of the two sentences.

A line of *.ids.txt is: text in hexadecimal, tab, the ids that `encode` gives, tab, what `decode`
makes of them in hexadecimal.
"""

import os
import random
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools"))

RULES = [  # the normalizer's map of the unigram model: what is replaced, by what
    *[(chr(0xFF01 + i), chr(0x21 + i)) for i in range(94)],
    ("\u3000", " "),
    ("\t", " "),
    ("\n", " "),
    ("\u00a0", " "),
    ("\u0001", ""),
    ("\u200b", ""),
    ("\ufdfa", "صلى الله عليه وسلم"),
    ("\ufb01", "fi"),
    ("\u00bd", "1\u20442"),
    ("e\u0301", "\u00e9"),
    ("a\u0301", "\u00e1"),
    ("a\u0302\u0301", "\u1ea5"),
]


def sentences() -> list[str]:
    lines = (HERE / "text.tsv").read_text(encoding="utf-8").splitlines()
    return [side for line in lines for side in line.split("\t")[:2]]


def hostile() -> list[bytes]:
    """Texts that a tokenizer may stumble over; the same for every model."""
    texts = [
        b"",
        b" ",
        b"    ",
        b"\t",
        b"\n",
        b"\0",
        b"a\0b",
        b" a",
        b"a ",
        b"  two   spaces  ",
        b"a\tb\nc",
        b"\x01",
        b"\x01 \x01",
        b"\xff",
        b"\xfe\xff",
        b"\x80",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xef\xbf\xbd",
        b"\xf0\x80\x80\x80",
        b"\xf4\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xe4\xbd",
        b"abc\xe4",
        b"\xe4\xbdx",
        b"\xf0\x9f\x98",
        b"\xf0\x9f\x98 ",
        b"a\xffb\xfe c",
        b"<unk>",
        b"<s></s>",
        b"<0x41>",
        b"<unk> <s> <0x0A> </s>",
        b"<sep>",
        b"a<sep>b",
        b"<sep><sep> <se p>",
        b"a" * 100,
        b" " * 100,
        b"ab" * 50,
    ]
    words = [
        "\u2581",
        "\u2581\u2581a\u2581",
        "👩\u200d👩\u200d👧\u200d👦",
        "❤\ufe0f 🇨🇳 👍🏽",
        "e\u0301a\u0302\u0301a\u0302",
        "café naïve Ærø",
        "ｆｕｌｌ　ｗｉｄｔｈ！",
        "ﬁn \ufdfa ½",
        "\u00a0x\u00a0",
        "\u200b\u200bx\u200b",
        "\ufeffbom",
        "line\u2028sep",
        "我有一只猫。",
        "我 有 一只 猫 。",
        "I have a cat.我有一只猫。",
        "日本語カタカナ한국어",
        "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
        "\U0010ffff\ufffe",
    ]
    texts += [word.encode() for word in words]
    rng = random.Random(20)
    characters = [
        chr(c)
        for c in [
            *range(1, 0x180),
            *range(0x300, 0x310),
            *range(0x4E00, 0x4E40),
            *range(0x1F600, 0x1F610),
            *range(0xFF00, 0xFF20),
            0x2581,
            0x3000,
            0xFDFA,
        ]
    ] + [" ", "a", "t", "e", "我"] * 30
    texts += ["".join(rng.choices(characters, k=rng.randrange(1, 40))).encode() for _ in range(60)]
    texts += [
        bytes(rng.choices([*range(256), *b" ate\xe6\x88\x91\xf0\x9f\xc3"], k=rng.randrange(1, 30)))
        for _ in range(60)
    ]
    return texts


def make_text(source: str) -> None:
    lines = Path(source).read_text(encoding="utf-8-sig").splitlines()
    (HERE / "text.tsv").write_text("".join(line + "\n" for line in lines[::149]), encoding="utf-8")


def make_models() -> None:
    import sentencepiece

    from phasor.tokenizers.tokenizer import build_sentencepiece_section

    codes = lambda text: " ".join(f"{ord(c):X}" for c in text)
    common = dict(num_threads=1, minloglevel=2)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the trainer writes the names that it is given into the model
        Path("rules.tsv").write_text(
            "".join(f"{codes(a)}\t{codes(b)}\n" for a, b in RULES), encoding="ascii"
        )
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences()),
            model_prefix="unigram",
            model_type="unigram",
            vocab_size=600,
            character_coverage=0.98,
            normalization_rule_tsv="rules.tsv",
            user_defined_symbols=["<sep>"],
            **common,
        )
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences()),
            model_prefix="bpe",
            model_type="bpe",
            vocab_size=900,
            character_coverage=0.98,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            **common,
        )
        for name in ("unigram", "bpe"):
            model = Path(f"{name}.model").read_bytes()
            (HERE / f"{name}.model").write_bytes(model)
            (HERE / f"{name}.bin").write_bytes(build_sentencepiece_section(model))


def make_ids() -> None:
    import sentencepiece

    for name in ("unigram", "bpe"):
        processor = sentencepiece.SentencePieceProcessor(model_file=str(HERE / f"{name}.model"))
        rows = []
        for text in [*hostile(), *(s.encode() for s in sentences()[::3])]:
            ids = processor.encode(text)
            rows.append(
                f"{text.hex()}\t{' '.join(map(str, ids))}\t{processor.decode(ids).encode().hex()}\n"
            )
        (HERE / f"{name}.ids.txt").write_text("".join(rows), encoding="ascii")


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "text":
        make_text(sys.argv[2])
    if what in ("text", "models"):
        make_models()
    make_ids()
