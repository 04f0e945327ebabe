"""Tokenizers of many families on one list of texts: the section's ids beside the package's, or the
part that the converter refuses by name. `make tokenizers` writes the table of tokenizers.md;
test_tokenizer_table.py runs a sample of its rows.

    tests/reference/tokenizer_table.py [--write] [--only TEXT]

A row of TABLE builds one: small vocabularies trained here, and around them the parts of the named
family, as `tokenizers` or the class of `transformers` puts them together. Beside it is what was
not written here: `tokenizers`, `sentencepiece`, or the slow class of `transformers`.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support")]

import test_fairseq as dictionaries  # noqa: E402
import test_tokenizer as pieces  # noqa: E402
import test_tokenizer_hf as package  # noqa: E402
import test_tokenizer_listed as translators  # noqa: E402
import test_tokenizer_llm as llm  # noqa: E402
import tokenizers  # noqa: E402
import transformers  # noqa: E402

from exported import exported  # noqa: E402
from phasor.errors import PhasorError  # noqa: E402
from phasor.sources.hugging_face import (
    numbered,  # noqa: E402
    side_tokenizers,  # noqa: E402
)
from phasor.sources.hugging_face.tokenizer_json import build_hf_section  # noqa: E402
from phasor.tokenizers import characters, listed  # noqa: E402
from phasor.tokenizers.tokenizer import build_sentencepiece_section  # noqa: E402

DOCUMENT = ROOT / "docs/reference/tokenizers.md"
START, END = "<!-- table: make tokenizers -->\n", "<!-- end -->"
HEADER = "| tokenizer | parts | beside | texts | ids |\n|---|---|---|---|---|\n"
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]

# ---- The texts

EMOJI = [
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
    "\U0001f44d\U0001f3fd",
    "\U0001f9d1\U0001f3ff\u200d\U0001f680",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "\U0001f1e9\U0001f1ea",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "1\ufe0f\u20e3",
    "\u2764\ufe0f\u200d\U0001f525",
    "\u2764",
    "\U0001f600",
    "\u200d",
    "\U0001f3fb",
    "\ufe0f",
]
SPACES = [
    *" \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2028\u2029\u202f\u205f\u2060\u3000",
    *map(chr, range(0x2000, 0x2010)),
    "\ufeff",
    "\r\n",
]
CONTROLS = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\xad", "\u202e", "\ufffc"]
COMBINING = [*map(chr, range(0x300, 0x370)), "\u0591", "\u064b", "\u093c", "\u0e31", "\u20dd"]
MEGABYTE = 1 << 20
EXPORTED = 1000  # texts


def _mixed(rng: random.Random, pool: list[str], count: int) -> list[str]:
    around = [*"ab e1.,", "the", " ", "中", "é", "E"]
    return [
        "".join(
            rng.choice(pool if rng.random() < 0.5 else around) for _ in range(rng.randrange(1, 16))
        )
        for _ in range(count)
    ]


@functools.lru_cache
def texts() -> tuple[str, ...]:
    """The list that all rows share. The last is a line of a megabyte."""
    rng = random.Random(21)
    out = [*package.make_hf.texts(), *llm.MARKS]
    for plane in range(17):
        code_points = [c for c in range(plane << 16, (plane + 1) << 16) if not 0xD800 <= c < 0xE000]
        out += ["".join(map(chr, rng.sample(code_points, 12))) for _ in range(40)]
    for pool in (EMOJI, SPACES, CONTROLS, COMBINING):
        out += _mixed(rng, pool, 150)
    out += package.random_texts(llm.MARKS, 600)
    line = " ".join(text.replace("\n", " ") for text in package.golden.sentences())
    line *= MEGABYTE // len(line.encode()) + 1
    return (*out, line.encode()[:MEGABYTE].decode(errors="ignore"))


@functools.lru_cache
def broken() -> tuple[bytes, ...]:
    """Texts with bytes that are no UTF-8, each by itself none."""
    rng = random.Random(22)
    parts = [b"\xff", b"\xfe", b"\xc0", b"\x80", b"\xbf", b"\xf5", b"\xc3 ", b"a", b" the", b"."]
    parts += ["ж".encode(), "中".encode()]
    return tuple(
        b"x" + b"".join(rng.choices(parts, k=rng.randrange(1, 12))) + b"." for _ in range(80)
    )


# ---- The rows


class Case(NamedTuple):
    section: Callable[[], bytes]  # PhasorError: refused
    encode: Callable[[list[Any]], list[list[int]]]
    parts: str
    beside: str
    broken: str  # what bytes that are no UTF-8 are: "U+FFFD", "bytes" in the package, "text" again


class Row(NamedTuple):
    name: str
    build: Callable[[Path], Case]


def _kinds(part: dict | None, inside: str) -> str:
    if part is None:
        return "–"
    if part["type"] == "Sequence":
        return " + ".join(_kinds(step, inside) for step in part[inside]) or "–"
    return part["type"]


def _parts(spec: dict) -> str:
    model = spec["model"]
    options = [name for name in ("byte_fallback", "ignore_merges", "fuse_unk") if model.get(name)]
    shown = [
        _kinds(spec["normalizer"], "normalizers"),
        _kinds(spec["pre_tokenizer"], "pretokenizers"),
        " ".join([model["type"], *options]),
        _kinds(spec["post_processor"], "processors"),
        _kinds(spec["decoder"], "decoders"),
    ]
    return "; ".join(shown)


def _of_package(tokenizer: tokenizers.Tokenizer, folder: Path) -> Case:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer.to_str())  # what the file says
    spec = json.loads(tokenizer.to_str())
    level = '"type": "ByteLevel"' in json.dumps(spec["pre_tokenizer"])
    whole = level and set(package.ALPHABET) <= set(spec["model"]["vocab"])
    prefix = '"add_prefix_space": true' in json.dumps(spec["pre_tokenizer"])
    words = spec["model"].get("end_of_word_suffix") == "</w>" and not level
    replaced = words or spec["model"]["type"] in ("WordPiece", "Unigram")
    return Case(
        lambda: build_hf_section(folder / "tokenizer.json")[0],
        lambda lines: [one.ids for one in tokenizer.encode_batch(lines, add_special_tokens=False)],
        _parts(spec),
        "tokenizers",
        "U+FFFD" if replaced else "text" if whole and not prefix else "",
    )


def _wordpiece(name: str, folder: Path) -> Case:
    sentences = package.golden.sentences()
    return _of_package(package.wordpiece(sentences, **package.BERTS[name]), folder)


def _byte_level(name: str, folder: Path) -> Case:
    tokenizer = package.byte_bpe(package.golden.sentences(), 900, **package.BYTE_LEVELS[name])
    return _of_package(tokenizer, folder)


def _language_model(name: str, folder: Path) -> Case:
    return _of_package(llm.trained(llm.spec_of(name, {}, []), 1200), folder)


def _characters(name: str, cut: bool, folder: Path) -> Case:
    spec = json.dumps(llm.character_spec(name, cut))
    return _of_package(tokenizers.Tokenizer.from_str(spec), folder)


def _unigram(name: str, scheme: str, folder: Path) -> Case:
    steps, words = package.UNIGRAMS[name]
    steps = [
        tokenizers.normalizers.Precompiled(package.nmt_nfkc(folder)) if step is None else step
        for step in steps
    ]
    made = package.unigram(package.golden.sentences(), 700, steps, words, scheme)
    return _of_package(made, folder)


def _sentencepiece(name: str, folder: Path) -> Case:
    model = pieces.train(folder, name, package.golden.sentences())
    processor = pieces.sentencepiece.SentencePieceProcessor(model_proto=model)
    options = pieces.KINDS[name]
    parts = [
        f"{options.get('normalization_rule_name', 'nmt_nfkc')}; "
        f"SentencePiece {options['model_type']}",
        *(key for key in ("byte_fallback", "treat_whitespace_as_suffix") if options.get(key)),
    ]
    return Case(
        lambda: build_sentencepiece_section(model),
        lambda lines: [processor.encode(line) for line in lines],
        " ".join(parts),
        "sentencepiece",
        "bytes",
    )


def _spm(folder: Path, kind: str, **ids: int) -> list[str]:
    """spm.model; the texts of its pieces."""
    size = 1100 if "byte_fallback" in ids else 900 if kind == "bpe" else 700
    return translators.train(folder / "spm.model", package.golden.sentences(), size, kind, **ids)


_T5_IDS = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}


def _slow(name: str, side: str, folder: Path) -> Case:
    """Files without a tokenizer.json beside the class that reads them by itself."""
    made = folder / "saved"
    spm = str(folder / "spm.model")
    words = _spm(folder, "bpe" if name in ("M2M100", "Nllb") else "unigram", **(
        _T5_IDS if name in ("T5", "Pegasus") else {}
    )) if name != "ByT5" else []  # fmt: skip
    if name in ("Marian", "M2M100"):
        first = {"Marian": ["</s>", "<unk>"], "M2M100": ["<s>", "<pad>", "</s>", "<unk>"]}[name]
        last = [">>eng<<", "<pad>"] if name == "Marian" else []
        order = dict.fromkeys([*first, *words[:-20], *last])
        (folder / "vocab.json").write_text(json.dumps({text: i for i, text in enumerate(order)}))
    vocabulary = str(folder / "vocab.json")
    if name == "Marian":
        theirs = transformers.MarianTokenizer(spm, spm, vocabulary)
    elif name == "M2M100":
        theirs = transformers.M2M100Tokenizer(vocabulary, spm, src_lang="zh")
    elif name == "ByT5":
        theirs = transformers.ByT5Tokenizer()
    else:
        theirs = getattr(transformers, f"{name}Tokenizer")(spm)
    theirs.save_pretrained(made)

    def section() -> bytes:
        config = side_tokenizers.configuration(made)
        if name == "Marian":
            return listed.marian_sections(made, config)[0][side]
        if name == "ByT5":
            return build_hf_section(made)[0]
        if name in ("MBart", "MBart50", "Nllb", "PLBart"):
            return numbered.fairseq_section(made, config, name)[0]
        read = {
            "M2M100": listed.m2m_section,
            "T5": listed.t5_section,
            "Pegasus": numbered.pegasus_section,
        }
        return read[name](made, config)[0]

    key = "text_target" if side == "target" else "text"
    return Case(
        section,
        lambda lines: [
            theirs(**{key: line}, add_special_tokens=False)["input_ids"] for line in lines
        ],
        f"the class's own files, {side}" if name == "Marian" else "the class's own files",
        f"transformers {name}Tokenizer",
        "",
    )


def _fairseq(name: str, folder: Path) -> Case:
    sentences = package.golden.sentences()
    merges = dictionaries.learned(sentences[:300], 400)
    write = dictionaries.write_small if name == "BlenderbotSmall" else dictionaries.write
    theirs = write(folder / "saved", merges, sentences)
    if name == "BlenderbotSmall":
        theirs.save_pretrained(folder / "saved")
    if name == "Bertweet":
        files = (str(folder / "saved" / file) for file in ("vocab.txt", "bpe.codes"))
        theirs = getattr(transformers, f"{name}Tokenizer")(*files)
    return Case(
        lambda: build_hf_section(next((folder / "saved").glob("vocab.*")))[0],
        lambda lines: [theirs(line, add_special_tokens=False)["input_ids"] for line in lines],
        "the class's own files",
        f"transformers {name}Tokenizer",
        "",
    )


def _bytes(first: int, folder: Path) -> Case:
    theirs = transformers.PerceiverTokenizer()
    return Case(
        lambda: characters.build_bytes_section(first),
        lambda lines: [theirs.convert_tokens_to_ids(theirs._tokenize(line)) for line in lines],
        "the bytes alone",
        "transformers PerceiverTokenizer",
        "text",
    )


def _table_of_characters(unknown: str, folder: Path) -> Case:
    """As people train models of characters; beside it WordLevel, cut at each character."""
    table = [unknown, "<pad>", *sorted({*"\n \t", *"".join(package.golden.sentences())})]
    ids = {c: i for i, c in enumerate(table)}
    theirs = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token=unknown))
    any_one = tokenizers.Regex("(?m:.)")
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Split(any_one, "isolated")
    return Case(
        lambda: characters.build_characters_section(table, None),
        lambda lines: [one.ids for one in theirs.encode_batch(lines)],
        "a table of characters",
        "tokenizers, WordLevel of each",
        "U+FFFD",
    )


def _vocab_txt(folder: Path) -> dict[str, str]:
    marks = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    trained = package.wordpiece(package.golden.sentences()).get_vocab()
    order = [*sorted(trained, key=trained.__getitem__), *SPECIAL, "[QUESTION]", "<sep>", "<cls>"]
    (folder / "vocab.txt").write_text("\n".join([*order, *marks.values()][: len(order)]) + "\n")
    return {"vocab_file": str(folder / "vocab.txt")}


def _merges(folder: Path, suffix: str = "") -> dict[str, str]:
    model = tokenizers.models.BPE(**({"end_of_word_suffix": suffix} if suffix else {}))
    trained = tokenizers.Tokenizer(model)
    cut = tokenizers.pre_tokenizers
    trained.pre_tokenizer = cut.BertPreTokenizer() if suffix == "</w>" else cut.ByteLevel(False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=900,
        show_progress=False,
        special_tokens=[*SPECIAL, "<|endoftext|>", "<|startoftext|>", "[CLS]", "[SEP]", "[PAD]"],
        initial_alphabet=cut.ByteLevel.alphabet() if suffix != "</w>" else [],
        end_of_word_suffix=suffix,
    )
    trained.train_from_iterator(package.golden.sentences(), trainer)
    trained.model.save(str(folder))
    return {"vocab_file": str(folder / "vocab.json"), "merges_file": str(folder / "merges.txt")}


def _fast(name: str, files: str, options: dict, folder: Path) -> Case:
    """What the class of transformers makes of a family's files, as a tokenizer.json."""
    if files == "vocab":
        given = _vocab_txt(folder)
    elif files in ("merges", "words"):
        given = _merges(folder, "</w>" if files == "words" else "")
    else:
        _spm(folder, files, **options.get("ids", {}))
        given = {"vocab_file": str(folder / "spm.model")}
    more = {key: value for key, value in options.items() if key != "ids"}
    made = getattr(transformers, f"{name}TokenizerFast")(**given, **more)
    case = _of_package(made.backend_tokenizer, folder)
    return case._replace(beside=f"tokenizers, by {name}TokenizerFast")


_FAST = {
    "vocab": "Bert DistilBert Electra MPNet LayoutLM Funnel MobileBert SqueezeBert Lxmert ConvBert "
    "Splinter DPRReader",
    "merges": "GPT2 Roberta Bart Longformer LED Deberta Mvp CodeGen Whisper Blenderbot Qwen2 "
    "LayoutLMv3",
    "words": "CLIP OpenAIGPT",
    "unigram": "Albert BigBird Camembert DebertaV2 XLMRoberta XLNet RemBert Pegasus MBart "
    "MBart50 T5 XGLM Barthez FNet",
    "bpe": "Llama CodeLlama Gemma Nllb Reformer SeamlessM4T",
}
_IDS = dict.fromkeys(("T5", "Pegasus"), {"ids": _T5_IDS})
_IDS |= dict.fromkeys(("Llama", "CodeLlama", "Gemma"), {"ids": {"byte_fallback": True}})
_IDS |= {"DebertaV2": {"ids": {"pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3}}}


_DICTIONARIES = ("Phobert", "Bertweet", "BlenderbotSmall")


def _table() -> list[Row]:
    of = functools.partial
    rows = [Row(f"WordPiece, {name}", of(_wordpiece, name)) for name in package.BERTS]
    rows += [Row(f"bytes, {name}", of(_byte_level, name)) for name in package.BYTE_LEVELS]
    rows += [Row(f"BPE of bytes, {name}", of(_language_model, name)) for name in llm.BYTE_LEVEL]
    rows += [
        Row(
            f"BPE of characters, {name}{'' if cut else ', over spaces'}", of(_characters, name, cut)
        )
        for name in llm.CHARACTER
        for cut in (True, False)
    ]
    rows += [
        Row(f"Unigram, {name}, {scheme}", of(_unigram, name, scheme))
        for name in package.UNIGRAMS
        for scheme in ("always", "first", "never")
    ]
    rows += [Row(f"SentencePiece, {name}", of(_sentencepiece, name)) for name in pieces.KINDS]
    slow = ["Marian", "M2M100", "T5", "Pegasus", "MBart", "MBart50", "Nllb", "PLBart", "ByT5"]
    rows += [Row(f"files of {name}", of(_slow, name, "source")) for name in slow]
    rows += [Row(f"files of {name}", of(_fairseq, name)) for name in _DICTIONARIES]
    rows.append(Row("files of Marian, target", of(_slow, "Marian", "target")))
    rows.append(Row("bytes+6", of(_bytes, 6)))
    rows.append(Row("characters", of(_table_of_characters, "[UNK]")))
    rows += [
        Row(f"{name}TokenizerFast", of(_fast, name, files, _IDS.get(name, {})))
        for files, names in _FAST.items()
        for name in names.split()
    ]
    return rows


TABLE = {row.name: row for row in _table()}

# ---- What a row shows


class Outcome(NamedTuple):
    parts: str
    beside: str
    texts: int
    ids: str  # "equal", or "refused: " and the message


def measure(row: Row, driver: pieces.Driver, phasor: Path | None = None) -> Outcome:
    """AssertionError, with the text, where an id differs, of the tokenizer.json too that the
    program makes of the section."""
    with tempfile.TemporaryDirectory() as folder:
        case = row.build(Path(folder))
        try:
            made = case.section()
            section = driver.section(made)
        except PhasorError as error:
            message = " ".join(str(error).replace(folder, "").split())
            return Outcome(case.parts, case.beside, 0, "refused: " + message[:120])
        lines = list(texts())
        want = case.encode(lines)
        found = driver.encode(section, [line.encode() for line in lines])
        for line, theirs, ours in zip(lines, want, found, strict=True):
            assert ours == theirs, f"{row.name}: {line[:120]!r}: {ours[:30]}, not {theirs[:30]}"
        if phasor is not None and (case.beside == "tokenizers" or " by " in case.beside):
            again = tokenizers.Tokenizer.from_file(str(exported(phasor, Path(folder), made)))
            few = lines[:EXPORTED]
            ids = [one.ids for one in again.encode_batch(few, add_special_tokens=False)]
            assert ids == want[: len(few)], f"{row.name}: other ids of the exported file"
        if not case.broken:
            return Outcome(case.parts, case.beside, len(lines), "equal")
        bad = list(broken())
        found = driver.encode(section, bad)
        replaced = [data.decode(errors="replace") for data in bad]
        if case.broken == "text":
            back = [data.decode() for data in driver.decode(section, found)]
            for line, theirs, ours in zip(bad, replaced, back, strict=True):
                assert ours == theirs, f"{row.name}: {line!r}: {ours!r}, not {theirs!r}"
        else:
            want = case.encode(bad if case.broken == "bytes" else replaced)
            for line, theirs, ours in zip(bad, want, found, strict=True):
                assert ours == theirs, f"{row.name}: {line!r}: {ours}, not {theirs}"
        return Outcome(case.parts, case.beside, len(lines) + len(bad), "equal")


def line_of(name: str, outcome: Outcome) -> str:
    cells = (name, outcome.parts, outcome.beside, str(outcome.texts or "–"), outcome.ids)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |"


def written() -> dict[str, str]:
    """The lines of docs/reference/tokenizers.md by their tokenizers."""
    rows = DOCUMENT.read_text().split(START)[1].split(END)[0].splitlines()[2:]
    return {line.split(" | ")[0][2:]: line for line in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="the table of tokenizers.md")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with this in their names")
    given = parser.parse_args()
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        driver = pieces.build_driver(Path(folder))
        for row in TABLE.values():
            if given.only not in row.name:
                continue
            try:
                rows.append(line_of(row.name, measure(row, driver)))
                print(rows[-1], flush=True)
            except AssertionError as error:
                wrong += 1
                print(f"WRONG {str(error)[:400]}", flush=True)
    print(f"{len(rows)} rows, {wrong} wrong")
    if given.write and not wrong and not given.only:
        before, rest = DOCUMENT.read_text().split(START)
        table = HEADER + "".join(line + "\n" for line in rows)
        DOCUMENT.write_text(before + START + table + END + rest.split(END, 1)[1])
    return int(wrong > 0)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers.logging.set_verbosity_error()
    sys.exit(main())
