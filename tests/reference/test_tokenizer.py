"""The tokenizer against the sentencepiece package: the same ids from encode, the same text from
decode.

Compiles tests/cpp/tokenizer_driver.cpp with the tokenizer's sources (CXX, CXXFLAGS) and feeds it
every text in one go. The models: trained here on the committed lines
(tests/golden/tokenizers/text.tsv) and on the whole Tatoeba file where it is at hand ($PHASOR_DATA
or ../shared/data), a published Llama tokenizer, and thousands of random small models with ties,
unused, user-defined and doubly defined pieces and every combination of flags, which reach what
trained models do not.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "golden" / "tokenizers")]

import make as golden  # noqa: E402
from phasor.tokenizers import section as pt  # noqa: E402
from phasor.tokenizers.models.word_list import build_wordlist_section  # noqa: E402
from phasor.tokenizers.sentencepiece import read_model_proto  # noqa: E402
from phasor.tokenizers.tokenizer import build_sentencepiece_section  # noqa: E402
from places import told

sentencepiece = pytest.importorskip("sentencepiece")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import strategies as st  # noqa: E402

DATA = Path(os.environ.get("PHASOR_DATA", ROOT.parent / "shared" / "data"))
TATOEBA = DATA / "cmn-eng" / "cmn.attrib.txt"
LLAMA = DATA / "llama2c" / "tok512.model"
SPACE = "\u2581"
NO_OFFSETS = 3  # EncodeStatus


# ---- The driver


class Driver:
    def __init__(self, program: Path, folder: Path):
        self.program, self.folder, self.sections = program, folder, 0

    def section(self, section: bytes) -> Path:
        self.sections += 1
        path = self.folder / f"section{self.sections}.bin"
        path.write_bytes(section)
        return path

    def _run(self, section: Path, mode: str, data: bytes) -> bytes:
        done = subprocess.run(
            [self.program, section, mode], input=data, capture_output=True, timeout=600
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout

    def _numbers(self, section: Path, mode: str, texts: list[bytes]) -> list[tuple[int, list[int]]]:
        out = self._run(section, mode, b"".join(struct.pack("<I", len(t)) + t for t in texts))
        at, results = 0, []
        for _ in texts:
            status, count = struct.unpack_from("<II", out, at)
            results.append((status, np.frombuffer(out, "<u4", count, at + 8).tolist()))
            at += 8 + 4 * count
        assert at == len(out)
        return results

    def encode(self, section: Path, texts: list[bytes]) -> list[list[int]]:
        results = self._numbers(section, "encode", texts)
        for text, (status, _) in zip(texts, results):
            assert status == 0, f"status {status} for {text[:60]!r}"
        return [ids for _, ids in results]

    def offsets(self, section: Path, texts: list[bytes]) -> list[list[tuple[int, int]] | None]:
        """First byte and end of each id's text; None where the engine refuses them."""
        return [
            None if status == NO_OFFSETS else list(zip(numbers[::2], numbers[1::2]))
            for status, numbers in self._numbers(section, "offsets", texts)
        ]

    def decode(self, section: Path, sequences: list[list[int]]) -> list[bytes]:
        out = self._run(
            section, "decode", b"".join(struct.pack(f"<I{len(s)}I", len(s), *s) for s in sequences)
        )
        at, results = 0, []
        for _ in sequences:
            (size,) = struct.unpack_from("<I", out, at)
            results.append(out[at + 4 : at + 4 + size])
            at += 4 + size
        assert at == len(out)
        return results

    def seconds(self, section: Path, texts: list[bytes]) -> list[float]:
        return [
            float(x)
            for x in self._run(
                section, "time", b"".join(struct.pack("<I", len(t)) + t for t in texts)
            ).split()
        ]


@pytest.fixture(scope="session")
def driver(tmp_path_factory) -> Driver:
    return build_driver(tmp_path_factory.mktemp("tokenizer"))


def build_driver(folder: Path) -> Driver:
    program = folder / "tokenizer_driver"
    flags = os.environ.get("CXXFLAGS", "-O2").split()
    sources = [
        *sorted((ROOT / "src" / "text").glob("*.cpp")),
        ROOT / "tests" / "cpp" / "tokenizer_driver.cpp",
    ]
    told(
        os.environ.get("CXX", "g++"),
        "-std=c++17",
        "-ffp-contract=off",
        *flags,
        f"-I{ROOT / 'src'}",
        *sources,
        "-o",
        program,
    )
    return Driver(program, folder)


def in_characters(text: str, offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Byte ranges as the tokenizers package gives them in characters (its
    BytesToCharOffsetConverter)."""
    of = [i for i, character in enumerate(text) for _ in character.encode()]
    out = []
    for begin, end in offsets:
        if begin == end == len(of):  # what was trimmed to nothing, which it does afterwards
            begin = end = len(text)
        elif begin < len(of) and end < len(of):
            begin, end = of[begin], of[end]
        elif begin < len(of):
            begin, end = of[begin], (of[end - 1] if 0 < end <= len(of) else of[begin] + 1) + 1
        out.append((begin, end))
    return out


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def compare(
    driver: Driver, model: bytes, texts: list[bytes], sequences: list[list[int]] = ()
) -> None:
    """Asserts equal ids and offsets for the texts, and equal text for their ids and for the
    sequences."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    section = driver.section(build_sentencepiece_section(model))
    mappings = [processor.encode(text, return_type="offset_mapping") for text in texts]
    expected = [mapping["ids"] for mapping in mappings]
    for text, want, got in zip(texts, expected, driver.encode(section, texts)):
        assert got == want, f"{text[:200]!r}"
    for text, want, got in zip(texts, mappings, driver.offsets(section, texts)):
        assert got == want["offsets"], f"{text[:200]!r}"
    sequences = [*expected, *sequences]
    for ids, got in zip(sequences, driver.decode(section, sequences)):
        assert got == as_bytes(processor.decode(ids)), f"{ids[:50]}"


# ---- Texts


def long_lines() -> list[bytes]:
    rng = random.Random(3)
    ranges = [(32, 0x2000), (0x2E80, 0xD7FF), (0xE000, 0xFFFE), (0x10000, 0x10FFFF)]
    unicode = "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(50000)).encode()[
        :100000
    ]
    return [
        b"a" * 100000,
        b" " * 100000,
        b"ab" * 50000,
        b"\xff" * 100000,
        b"\0" * 100000,
        unicode,
        "我".encode() * 33333,
        "\ufdfa".encode() * 33333,
        ("a" + SPACE).encode() * 25000,
        b"the cat sat on the mat " * 4348,
    ]


def random_sequences(pieces: int, count: int = 4000) -> list[list[int]]:
    rng = random.Random(4)
    low = min(pieces, 300)
    return [
        [rng.randrange(low if rng.random() < 0.7 else pieces) for _ in range(rng.randrange(12))]
        for _ in range(count)
    ]


# ---- Trained models

KINDS = {
    "unigram": dict(model_type="unigram", vocab_size=700),
    "unigram, identity, no dummy prefix": dict(
        model_type="unigram",
        vocab_size=700,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
    ),
    "unigram, symbols, bytes": dict(
        model_type="unigram",
        vocab_size=900,
        byte_fallback=True,
        control_symbols=["<ctl>", "<x>"],
        user_defined_symbols=["<sep>", "ing", "我们", "  ", "A B"],
    ),
    "unigram, space as suffix": dict(
        model_type="unigram",
        vocab_size=700,
        treat_whitespace_as_suffix=True,
        normalization_rule_name="nfkc_cf",
    ),
    "bpe": dict(model_type="bpe", vocab_size=800),
    "bpe, bytes": dict(
        model_type="bpe", vocab_size=1000, byte_fallback=True, normalization_rule_name="identity"
    ),
    "bpe, symbols": dict(
        model_type="bpe",
        vocab_size=900,
        normalization_rule_name="nmt_nfkc_cf",
        control_symbols=["<ctl>", "<x>"],
        user_defined_symbols=["<sep>", "ing", "我们", "  ", "A B"],
    ),
    "bpe, own unknown surface": dict(
        model_type="bpe", vocab_size=800, unk_surface="<?>", unk_id=3, pad_id=0
    ),
    "char": dict(model_type="char", vocab_size=400),
    "char, symbols, bytes": dict(
        model_type="char",
        vocab_size=600,
        byte_fallback=True,
        normalization_rule_name="identity",
        control_symbols=["<ctl>", "<x>"],
        user_defined_symbols=["<sep>", "ing", "我们", "  ", "A B"],
    ),
    "word": dict(model_type="word", vocab_size=400),
    "word, symbols": dict(
        model_type="word",
        vocab_size=300,
        normalization_rule_name="nmt_nfkc_cf",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        control_symbols=["<ctl>", "<x>"],
        user_defined_symbols=["<sep>", "ing", "我们", "  ", "A B"],
    ),
    "word, bytes": dict(model_type="word", vocab_size=500, byte_fallback=True),
    "word, bytes, no prefix": dict(
        model_type="word", vocab_size=500, byte_fallback=True, add_dummy_prefix=False
    ),
}


def train(folder: Path, name: str, sentences: list[str], scale: int = 1) -> bytes:
    options = dict(KINDS[name])
    options["vocab_size"] *= scale
    prefix = str(folder / name.replace(", ", "-").replace(" ", "_"))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_prefix=prefix,
        num_threads=1,
        minloglevel=2,
        character_coverage=0.98,
        **options,
    )
    return Path(prefix + ".model").read_bytes()


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("models")
    return {name: train(folder, name, golden.sentences()) for name in KINDS}


def test_the_goldens_are_what_the_package_says(driver):
    for name in ("unigram", "bpe"):
        model = (golden.HERE / f"{name}.model").read_bytes()
        assert (golden.HERE / f"{name}.bin").read_bytes() == build_sentencepiece_section(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        rows = [
            line.split("\t") for line in (golden.HERE / f"{name}.ids.txt").read_text().splitlines()
        ]
        for text, ids, decoded in rows:
            ids = [int(i) for i in ids.split()]
            assert processor.encode(bytes.fromhex(text)) == ids
            assert as_bytes(processor.decode(ids)).hex() == decoded


@pytest.mark.parametrize("name", KINDS)
def test_hostile_text(driver, models, name):
    texts = [*golden.hostile(), *(s.encode() for s in golden.sentences()), *long_lines()]
    processor = sentencepiece.SentencePieceProcessor(model_proto=models[name])
    compare(driver, models[name], texts, random_sequences(processor.get_piece_size()))


@pytest.mark.parametrize("name", KINDS)
def test_names_of_reserved_pieces(driver, models, name):
    """As a word of its own: a control symbol's, a byte's, the unknown's. None gives its id."""
    names = ("<x>", "<ctl>", "<s>", "</s>", "<unk>", "<0x41>", "<sep>")
    forms = ("{0}", "{0} a", "a {0}", "{0}\u2581{0}")
    texts = [form.format(one).encode() for one in names for form in forms]
    processor = sentencepiece.SentencePieceProcessor(model_proto=models[name])
    section = driver.section(build_sentencepiece_section(models[name]))
    assert driver.encode(section, texts) == [processor.encode(text) for text in texts]


@pytest.mark.parametrize("name", KINDS)
def test_random_strings(driver, models, name):
    section = driver.section(build_sentencepiece_section(models[name]))
    processor = sentencepiece.SentencePieceProcessor(model_proto=models[name])
    characters = st.one_of(st.sampled_from("ab tein,.我你的 \u2581\u3000é\u0301"), st.characters())
    texts = st.lists(
        st.one_of(
            st.text(characters).map(lambda t: t.encode("utf-8", "surrogatepass")), st.binary()
        ),
        min_size=1,
        max_size=100,
    )

    @hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
    @hypothesis.given(texts)
    def check(batch):
        assert driver.encode(section, batch) == [processor.encode(text) for text in batch]

    check()


@pytest.mark.parametrize("name", KINDS)
def test_a_line_of_100_kb_is_never_quadratic(driver, models, name):
    section = driver.section(build_sentencepiece_section(models[name]))
    assert (
        max(driver.seconds(section, long_lines())) < 5
    )  # 0.25 on an idle machine; quadratic would be minutes


@pytest.mark.parametrize("name", KINDS)
def test_every_line_of_the_training_data(driver, tmp_path, name):
    if not TATOEBA.exists():
        pytest.skip(f"{TATOEBA} is not at hand")
    sentences = [
        side
        for line in TATOEBA.read_text(encoding="utf-8-sig").splitlines()
        for side in line.split("\t")[:2]
    ]
    assert len(sentences) > 58000
    compare(driver, train(tmp_path, name, sentences, scale=6), [s.encode() for s in sentences])


def test_a_published_llama_tokenizer(driver):
    if not LLAMA.exists():
        pytest.skip(f"{LLAMA} is not at hand")
    texts = [*golden.hostile(), *(s.encode() for s in golden.sentences()), *long_lines()]
    compare(driver, LLAMA.read_bytes(), texts, random_sequences(512))


# ---- Random models


def _number(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _field(number: int, value: int | float | bytes) -> bytes:
    if isinstance(value, bytes):
        return _number(number << 3 | 2) + _number(len(value)) + value
    if isinstance(value, float):
        return _number(number << 3 | 5) + struct.pack("<f", value)
    return _number(number << 3) + _number(value)


def model_proto(
    pieces: list[tuple[bytes, float, int]],
    trainer: dict[int, object],
    normalizer: dict[int, object],
    more: bytes = b"",
) -> bytes:
    out = b""
    for text, score, kind in pieces:
        out += _field(1, _field(1, text) + _field(2, score) + _field(3, kind))
    out += _field(2, b"".join(_field(n, v) for n, v in trainer.items()))
    return out + _field(3, b"".join(_field(n, v) for n, v in normalizer.items())) + more


def charsmap_of(model: bytes) -> bytes:
    return read_model_proto(model)["charsmap"]


def random_model(rng: random.Random, charsmap: bytes) -> tuple[bytes, str]:
    """A small model over a small alphabet, with what trained models rarely have; and that
    alphabet."""
    alphabet = "".join(rng.sample("abc é我\U0001f600" + SPACE, rng.randrange(2, 6)))
    bpe, byte_fallback = rng.random() < 0.6, rng.random() < 0.4
    pieces = [(b"<unk>", 0.0, pt.UNKNOWN), (b"<s>", 0.0, pt.CONTROL), (b"</s>", 0.0, pt.CONTROL)]
    if byte_fallback:
        pieces += [(b"<0x%02X>" % value, 0.0, pt.BYTE) for value in range(256)]
    step = rng.choice([0.0, 0.5, 0.25])  # 0: scores that rarely tie
    texts = {c for c in alphabet if rng.random() < 0.8}
    for _ in range(rng.randrange(1, 40)):
        texts.add("".join(rng.choices(alphabet, k=rng.randrange(1, 7))))
    if bpe:  # pieces that can be reached by merges
        pool = sorted(texts)
        texts |= {rng.choice(pool) + rng.choice(pool) for _ in range(len(pool))}
    if rng.random() < 0.1 and not bpe:
        texts.add("<s>")  # a normal piece beside a reserved one; BPE does not allow it
    if rng.random() < 0.2:
        text = rng.choice(sorted(texts - {"<s>"}))
        texts.discard(text)
        pieces.append((text.encode(), 0.0, pt.CONTROL))  # a control piece that text could spell
    texts = sorted(texts)
    rng.shuffle(texts)
    shares = rng.choice([(1, 0, 0), (0.7, 0.3, 0), (0.8, 0.1, 0.1), (0.5, 0.5, 0)])
    for text in texts:
        score = -rng.uniform(0, 12)
        score = round(score / step) * step if step else score
        kind = rng.choices([pt.NORMAL, pt.UNUSED, pt.USER_DEFINED], shares)[0]
        pieces.append((text.encode(), score, kind))
    if all(kind != pt.NORMAL for _, _, kind in pieces):
        pieces.append((b"normal", -1.0, pt.NORMAL))
    trainer = {3: 2 if bpe else 1, 24: int(rng.random() < 0.2), 35: int(byte_fallback)}
    if rng.random() < 0.2:
        trainer[44] = rng.choice([b"", b"?", b" \xe2\x96\x81?"])
    normalizer = {3: rng.randrange(2), 4: rng.randrange(2), 5: int(rng.random() < 0.8)}
    if rng.random() < 0.5:
        normalizer[2] = charsmap
    return model_proto(pieces, trainer, normalizer), alphabet


def random_text(rng: random.Random, alphabet: str) -> bytes:
    if rng.random() < 0.1:
        return bytes(
            rng.choices(b" ab\xe6\x88\x91\xf0\x9f\x98\x80\xe2\x96\x81\xff<s>", k=rng.randrange(12))
        )
    extra = rng.choice(["", "", " ", "z", "ａﷺ"])
    return "".join(rng.choices(alphabet + extra, k=rng.randrange(1, 30))).encode()


def test_random_models(driver):
    """Ties, unused pieces taken apart, user-defined pieces, hidden pieces, every combination of
    flags."""
    charsmap = charsmap_of((golden.HERE / "unigram.model").read_bytes())
    rng = random.Random(5)
    for _ in range(int(os.environ.get("PHASOR_RANDOM_MODELS", "500"))):
        model, alphabet = random_model(rng, charsmap)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        sequences = [
            rng.choices(range(processor.get_piece_size()), k=rng.randrange(10)) for _ in range(20)
        ]
        compare(driver, model, [random_text(rng, alphabet) for _ in range(40)], sequences)


# ---- What is refused

UNKNOWN_PIECE = (b"<unk>", 0.0, pt.UNKNOWN)
A = (b"a", -1.0, pt.NORMAL)


@pytest.mark.parametrize(
    "model, message",
    [
        (b"", "the model has no pieces"),
        (b"not a model", "ModelProto"),
        (
            model_proto([UNKNOWN_PIECE, A, (b"ab", -1.0, pt.NORMAL)], {3: 4}, {}),
            "piece 2 .'ab'. of a model of characters is none",
        ),
        (
            model_proto([UNKNOWN_PIECE, A, (b"b", 0.0, pt.CONTROL)], {3: 4}, {}),
            "piece 2 .'b'. of a model of characters is special",
        ),
        (model_proto([UNKNOWN_PIECE, A], {3: 9}, {}), "model type 9"),
        (model_proto([A], {}, {}), "no unknown piece"),
        (model_proto([UNKNOWN_PIECE, (b"a", -1.0, pt.USER_DEFINED)], {}, {}), "no normal piece"),
        (
            model_proto([UNKNOWN_PIECE, (b"<u>", 0.0, pt.UNKNOWN)], {}, {}),
            "the unknown piece is already defined",
        ),
        (model_proto([UNKNOWN_PIECE, A, A], {}, {}), "already defined as piece 1"),
        (model_proto([UNKNOWN_PIECE, (b"", 0.0, 1)], {}, {}), "piece 1 is empty"),
        (model_proto([UNKNOWN_PIECE, (b"a\0", 0.0, 1)], {}, {}), "zero byte"),
        (model_proto([UNKNOWN_PIECE, (b"a" * 40000, 0.0, 1)], {}, {}), "longer than"),
        (model_proto([UNKNOWN_PIECE, (b"a", 0.0, 7)], {}, {}), "type 7"),
        (model_proto([UNKNOWN_PIECE, (b"a", float("nan"), 1)], {}, {}), "not finite"),
        (model_proto([UNKNOWN_PIECE, (b"<0x41>", 0.0, pt.BYTE)], {}, {}), "byte_fallback is off"),
        (
            model_proto([UNKNOWN_PIECE, (b"<0x41>", 0.0, pt.BYTE)], {35: 1}, {}),
            "1 of 256 byte pieces",
        ),
        (
            model_proto([UNKNOWN_PIECE, (b"<0xZZ>", 0.0, pt.BYTE)], {35: 1}, {}),
            "is not a byte piece",
        ),
        (model_proto([UNKNOWN_PIECE, A], {}, {9: 1}), "normalizer_spec has field 9"),
        (model_proto([UNKNOWN_PIECE, A], {}, {}, _field(9, 1)), "ModelProto has field 9"),
        (
            model_proto([UNKNOWN_PIECE, A], {}, {}, _field(5, _field(2, b"map"))),
            "denormalizer_spec",
        ),
        (model_proto([UNKNOWN_PIECE, A], {}, {2: b"\x08\0\0\0abc"}), "size of its trie"),
        (model_proto([UNKNOWN_PIECE, A], {}, {2: b"\x04\0\0\0abcdx"}), "not terminated"),
        (model_proto([UNKNOWN_PIECE, A], {}, {2: b"\x04\0\0\0abcd\0"}), "points outside itself"),
        (model_proto([UNKNOWN_PIECE, A], {}, {})[:-3], "cut off"),
    ],
)
def test_a_model_that_is_not_understood_is_refused_by_name(model, message):
    with pytest.raises(pt.TokenizerError, match=message):
        build_sentencepiece_section(model)


def test_word_list(driver):
    section = driver.section(build_wordlist_section(["<pad>", "<unk>", "a", "cat", "猫"], 1, [0]))
    assert driver.encode(section, [b"", b"a cat", "  猫\tdog\n<pad> ".encode()]) == [
        [],
        [2, 3],
        [4, 1, 1],
    ]
    assert driver.decode(section, [[0, 2, 3, 1, 0, 4]]) == ["a cat <unk> 猫".encode()]
    for arguments, message in [
        (([], None), "empty"),
        ((["a", ""], None), "word 1 is empty"),
        ((["a"], 1), "unknown id 1"),
        ((["a"], None, [3]), "control id 3"),
        ((["a"], 0, [0]), "both"),
    ]:
        with pytest.raises(pt.TokenizerError, match=message):
            build_wordlist_section(*arguments)


def test_read_section_gives_the_parts_back(models):
    for model in models.values():
        proto, parts = (
            read_model_proto(model),
            pt.read_section(build_sentencepiece_section(model)),
        )
        assert parts["pieces"] == proto["pieces"]
        assert parts["trie"] + parts["strings"] == proto["charsmap"][4:]
        assert parts["unknown_surface"] == proto["unknown_surface"]
