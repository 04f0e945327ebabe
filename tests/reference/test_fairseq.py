"""Dictionaries of fairseq with merges of fastBPE, beside PhoBERT's class of transformers, which
reads the same files; BlenderbotSmall's, which has a vocab.json; subword-nmt's own program where it
is installed."""

from __future__ import annotations

import collections
import io
import random
import re
from pathlib import Path

import pytest
from answers import newer_answers
from test_tokenizer import Driver, driver  # noqa: F401
from test_tokenizer_hf import golden, make_hf, random_texts

from phasor.sources.fairseq import dictionary as fairseq
from phasor.sources.hugging_face.tokenizer_json import build_hf_section
from phasor.tokenizers.models.word_bpe import from_dictionary
from texts import write_json

transformers = pytest.importorskip("transformers")


def learned(sentences: list[str], count: int) -> list[tuple[str, str]]:
    """Merges as Sennrich et al. 2016 learn them: the most frequent pair, again and again."""
    words = collections.Counter(word for line in sentences for word in line.split())
    split = {word: [*word[:-1], word[-1] + "</w>"] for word in words}
    found = []
    for _ in range(count):
        pairs = collections.Counter()
        for word, parts in split.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        found.append(best)
        for word, parts in split.items():
            out = []
            for part in parts:
                if out and (out[-1], part) == best and not isinstance(out[-1], tuple):
                    out[-1] = (out[-1], part)
                else:
                    out.append(part)
            split[word] = ["".join(part) if isinstance(part, tuple) else part for part in out]
    return found


def drawn(rng: random.Random) -> list[tuple[str, str]]:
    """Merges in no order that could be learned, of which many give the same text."""
    found = [(a, b) for a in "ab" for b in ("a", "b", "a</w>", "b</w>")]
    for _ in range(40):
        left, right = rng.choice(found), rng.choice(found)
        if not left[1].endswith("</w>") and len("".join(left + right)) < 14:
            kind = rng.randrange(3)
            found.append(
                ("".join(left), "".join(right))
                if kind == 0
                else (left[0], left[1] + "".join(right))
                if kind == 1
                else ("".join(left), right[0])
            )
    found = [*dict.fromkeys(found)]
    rng.shuffle(found)
    return found


def write(folder: Path, merges: list[tuple[str, str]], texts: list[str], least: int = 2):
    """vocab.txt and bpe.codes: the tokens that the class itself makes of the texts."""
    folder.mkdir(exist_ok=True)
    (folder / "bpe.codes").write_text("".join(f"{a} {b} 7\n" for a, b in merges))
    (folder / "vocab.txt").write_text("a 1\n")
    before = transformers.PhobertTokenizer(str(folder / "vocab.txt"), str(folder / "bpe.codes"))
    counts = collections.Counter(token for text in texts for token in before._tokenize(text))
    rows = [f"{token} {n}\n" for token, n in counts.most_common() if n >= least and token.strip()]
    (folder / "vocab.txt").write_text("".join(rows))
    return transformers.PhobertTokenizer(str(folder / "vocab.txt"), str(folder / "bpe.codes"))


def write_small(folder: Path, merges: list[tuple[str, str]], texts: list[str], least: int = 2):
    """vocab.json and merges.txt of BlenderbotSmall, likewise; its tokenizer."""
    folder.mkdir(exist_ok=True)
    files = [folder / "vocab.json", folder / "merges.txt"]
    files[1].write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    special = ["__null__", "__start__", "__end__", "__unk__"]
    write_json(files[0], {text: i for i, text in enumerate(special)})
    before = transformers.BlenderbotSmallTokenizer(*map(str, files))
    counts = collections.Counter(token for text in texts for token in before._tokenize(text))
    kept = [token for token, n in counts.most_common() if n >= least and token != "@@"]
    kept[5:5] = special
    kept += [text for text in ("σ@@", "σ", "ς", "__newln__", "Up") if text not in kept]
    write_json(files[0], {text: i for i, text in enumerate(kept)})
    return transformers.BlenderbotSmallTokenizer(*map(str, files))


def equal(driver: Driver, section: bytes, theirs, texts: list[str]) -> None:  # noqa: F811
    path = driver.section(section)
    found = driver.encode(path, [text.encode() for text in texts])
    want = [theirs(text, add_special_tokens=False)["input_ids"] for text in texts]
    for text, ids, their in zip(texts, found, want, strict=True):
        assert ids == their, repr(text)
    backs = driver.decode(path, want)
    for text, ids, back in zip(texts, want, backs, strict=True):
        whole = not ids or not theirs.convert_ids_to_tokens(ids[-1]).endswith("@@")
        said = theirs.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        if whole and theirs.unk_token_id not in ids:
            assert back.decode().strip() == said, repr(text)  # of \x1c … \x1f


def test_phobert(driver, tmp_path):  # noqa: F811
    sentences = golden.sentences()
    theirs = write(tmp_path, learned(sentences[:300], 400), sentences)
    section, info = build_hf_section(tmp_path / "vocab.txt")
    marks = ["<mask>", "<s>", "</s>", "@@", "th@@", "</w>", "the\n", "a\n\n", "\u3000", "\x1c"]
    texts = [*make_hf.texts(), *sentences, *random_texts(marks, 1500)]
    equal(driver, section, theirs, texts)
    assert len(texts) > 2000 and info["pieces"] == len(theirs)
    pair = theirs("a", "b")["input_ids"]
    a, b = (theirs(text, add_special_tokens=False)["input_ids"] for text in "ab")
    assert pair == [*info["prefix"], *a, *info["pair"], *b, *info["suffix"]]
    assert (info["pad"], info["unknown"], info["mask"]) == (1, 3, theirs.mask_token_id)


_PARTS = [*"__newln_", "_</w>"]
NEW_LINE = [("".join(_PARTS[:i]), _PARTS[i]) for i in range(1, len(_PARTS))]
SMALL_MARKS = [
    *["'", "'\n", ".\n", "\n", "a\n\nb", "\r\n", "!?", "(", ")", ",", "it's", "I'M ", "@@", "th@@"],
    *[
        "ΑΣ",
        "Σ",
        "Σ.",
        "ΑΣ'",
        "Σ\u0301",
        "\u02b0",
        "ΟΔΥΣΣΕΥΣ",
        "a:Σ",
        "Σ:b",
        "ς",
        "σ",
        "İ",
        "ẞ",
        "A.",
    ],
    *[
        "__newln__",
        "__END__",
        "__end__",
        "__start__",
        "__unk__",
        "\x1c",
        "\u3000",
        "\0",
        "</w>",
        "🙂",
    ],
]


def test_blenderbot_small(driver, tmp_path):  # noqa: F811
    """Words of lower case, signs that begin words, apostrophes and line feeds that are some. The
    class is the same in both versions, and so are their directories."""
    sentences = golden.sentences()
    texts = [*make_hf.texts(), *sentences[:900], *random_texts(SMALL_MARKS, 1500)]
    theirs = write_small(tmp_path / "m", [*NEW_LINE, *learned(sentences[:300], 400)], texts)
    theirs.save_pretrained(tmp_path / "saved")
    section, info = build_hf_section(tmp_path / "saved")
    equal(driver, section, theirs, texts)
    job = {"kind": "ids", "folder": str(tmp_path / "saved"), "again": str(tmp_path / "again")}
    (answers,) = newer_answers(tmp_path, [{**job, "asks": texts, "back": True}])
    ids = [one for one, _ in answers]
    assert ids == driver.encode(driver.section(section), [text.encode() for text in texts])
    assert [text for _, text in answers] == [theirs.decode(one, True) for one in ids]
    bare = {"tokenizer_class": "BlenderbotSmallTokenizer"}
    assert section == build_hf_section(tmp_path / "m" / "vocab.json", bare)[0]
    assert section == build_hf_section(tmp_path / "again")[0]
    used = theirs.convert_ids_to_tokens({id_ for one in ids for id_ in one})
    assert {"σ@@", "σ", "ς", ".", "'", "__newln__"} <= {*used}
    assert len(texts) > 2000 and info["pieces"] == len(theirs)
    assert (info["prefix"], info["suffix"], info["unknown"]) == ([], [], theirs.unk_token_id)
    assert theirs.build_inputs_with_special_tokens([5], [6]) == [5, *info["pair"], 6]


def test_any_merges_of_blenderbot_small(driver, tmp_path):  # noqa: F811
    rng = random.Random(32)
    texts = [
        " ".join("".join(rng.choices("abAB.'", k=rng.randrange(1, 30))) for _ in range(6))
        for _ in range(60)
    ]
    for trial in range(5):
        theirs = write_small(tmp_path / str(trial), drawn(rng), texts, least=rng.randrange(1, 4))
        bare = {"tokenizer_class": "BlenderbotSmallTokenizer"}
        equal(driver, build_hf_section(tmp_path / str(trial), bare)[0], theirs, texts)


def test_merges_in_any_order(driver, tmp_path):  # noqa: F811
    """All pairs of the best rank go together, from the left, before another: in short words and in
    long ones."""
    rng = random.Random(31)
    for trial in range(25):
        sizes = (3, 8, 20, 60)
        texts = [
            " ".join(
                "".join(rng.choices("ab", k=rng.randrange(1, rng.choice(sizes)))) for _ in range(6)
            )
            for _ in range(60)
        ]
        theirs = write(tmp_path / str(trial), drawn(rng), texts, least=rng.randrange(1, 4))
        section, _ = build_hf_section(tmp_path / str(trial) / "vocab.txt")
        equal(driver, section, theirs, texts)


def test_subword_nmt(driver, tmp_path):  # noqa: F811
    apply_bpe = pytest.importorskip("subword_nmt.apply_bpe")
    sentences = golden.sentences()
    codes = "".join(f"{a} {b}\n" for a, b in learned(sentences[:300], 400))
    bpe = apply_bpe.BPE(io.StringIO("#version: 0.2\n" + codes))
    (tmp_path / "codes").write_text("#version: 0.2\n" + codes)
    texts = [re.sub(r"\s+", " ", text) for text in [*sentences, *random_texts(["the"], 1500)]]
    counts = collections.Counter(t for text in sentences for t in bpe.process_line(text).split())
    kept = [token for token, n in counts.items() if n > 1]
    (tmp_path / "dict.txt").write_text("".join(f"{token} 2\n" for token in kept))
    ids = {token: id_ for id_, token in enumerate(kept, 4)}
    found = driver.encode(
        driver.section(fairseq.dictionary_section(tmp_path / "dict.txt")),
        [text.encode() for text in texts],
    )
    for text, ours in zip(texts, found, strict=True):
        assert ours == [ids.get(token, 3) for token in bpe.process_line(text).split()], repr(text)


def test_a_word_of_a_megabyte(driver):  # noqa: F811
    merges = [("a", "a"), ("aa", "aa"), ("aaaa", "aaaa"), ("aa", "b"), ("a", "aa")]
    section = from_dictionary(
        ["aaaaaaaa@@", "a"], merges, {text: i for i, text in enumerate(fairseq.FIRST)}
    )[0]
    path = driver.section(section)
    (ids,) = driver.encode(path, [b"a" * (1 << 20)])
    assert ids.count(4) == (1 << 17) - 1
    assert max(driver.seconds(path, [b"a" * (1 << 20), b"aab" * (1 << 18)])) < 10
