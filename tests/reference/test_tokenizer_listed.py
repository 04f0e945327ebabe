"""Tokenizers of translators against transformers' slow classes, id by id and text by text:
MarianMT's pair of SentencePiece models with a list of ids, M2M100's with languages behind it,
T5's with sentinels behind it, the numbers of Pegasus, mBART, mBART-50, NLLB and PLBart, ByT5's
bytes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from answers import newer_answers
from test_tokenizer import DATA, Driver, driver  # noqa: F401

from phasor.sources.hugging_face import numbered, side_tokenizers, tokenizer_json
from phasor.tokenizers import listed
from texts import write_json

sentencepiece = pytest.importorskip("sentencepiece")
tokenizers = pytest.importorskip("tokenizers")
transformers = pytest.importorskip("transformers")
from transformers.models.m2m_100 import tokenization_m2m_100  # noqa: E402

TATOEBA = DATA / "cmn-eng" / "cmn.attrib.txt"
JUNK = "abé漢字猫犬 \t▁</s><pad><unk>>>eng<<>>xx<<ﬁ①Ａñ🙂\u3000.,!?«»__en__"
SPECIAL = [
    ">>nope<< 你好",
    "a</s>>>eng<<b",
    ">>eng<<",
    ">><<x",
    ">>eng< <",
    ">>a>>eng<<x<<",
    "__fr__ hello __en__",
    " a ",
    "  ",
    "",
]


def pairs() -> list[list[str]]:
    """(English, Chinese)."""
    if not TATOEBA.is_file():
        pytest.skip(f"no {TATOEBA}")
    lines = TATOEBA.read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[:2] for line in lines]


def texts() -> list[str]:
    rng, some = random.Random(1), pairs()
    out = [english for english, _ in some[:600]] + [chinese for _, chinese in some[:900]]
    out += [" ".join(pair) for pair in some[1200:1400]]
    out += ["".join(rng.choice(JUNK) for _ in range(rng.randrange(1, 25))) for _ in range(800)]
    return out + [">>eng<< " + chinese for _, chinese in some[:50]] + SPECIAL


def train(path: Path, lines: list[str], size: int, kind: str, **ids: int) -> list[str]:
    """Trains a model; the texts of its pieces."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_prefix=str(path.with_suffix("")),
        vocab_size=size,
        model_type=kind,
        hard_vocab_limit=kind == "bpe",
        character_coverage=0.99,
        minloglevel=2,
        num_threads=1,
        **ids,
    )
    path.with_suffix(".model").rename(path)
    model = sentencepiece.SentencePieceProcessor(str(path))
    return [model.id_to_piece(i) for i in range(3, model.get_piece_size())]


def compare(driver: Driver, section: bytes, tokenizer, lines: list[str], **how) -> None:
    path = driver.section(section)
    want = [
        tokenizer(**{key: line for key in how["keys"]}, add_special_tokens=False) for line in lines
    ]
    made = driver.encode(path, [line.encode() for line in lines])
    wrong = [
        (line, ids, one["input_ids"])
        for line, ids, one in zip(lines, made, want)
        if ids != one["input_ids"]
    ]
    assert not wrong, (len(wrong), wrong[:3])
    if how.get("decode"):
        back = driver.decode(path, made)
        for line, ids, text in zip(lines, made, back):
            theirs = tokenizer.decode(
                ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            assert text.decode().strip() == theirs.strip(), (line, ids)


@pytest.fixture(scope="module", params=["unigram", "bpe", "char"])
def marian(request, tmp_path_factory) -> Path:
    """A directory whose list lacks some of the pieces."""
    folder, some = tmp_path_factory.mktemp("marian"), pairs()
    found: dict[str, None] = {}
    for side, column, size in (("source", 1, 2300), ("target", 0, 700)):
        lines = [pair[column] for pair in some[::9]]
        found.update(dict.fromkeys(train(folder / f"{side}.spm", lines, size, request.param)))
    rng = random.Random(1)
    kept = [text for text in found if rng.random() > 0.03]
    order = ["</s>", "<unk>", *kept[:400], ">>eng<<", ">>cmn_Hans<<", *kept[400:], "<pad>"]
    write_json(folder / "vocab.json", {text: i for i, text in enumerate(order)})
    names = (str(folder / name) for name in ("source.spm", "target.spm", "vocab.json"))
    transformers.MarianTokenizer(*names).save_pretrained(folder / "saved")
    return folder / "saved"


@pytest.mark.parametrize("side", ["source", "target"])
def test_marian(side, marian, driver):
    tokenizer = transformers.MarianTokenizer.from_pretrained(marian)
    sections, _ = listed.marian_sections(marian, side_tokenizers.configuration(marian))
    target = side == "target"
    lines = texts()
    assert len(lines) > 2000
    compare(
        driver,
        sections[side],
        tokenizer,
        lines,
        keys=["text_target" if target else "text"],
        decode=target,
    )


def test_m2m100(tmp_path, driver):
    some = pairs()
    lines = [text for pair in some[::9] for text in pair]
    pieces = train(tmp_path / "spm.model", lines, 3000, "bpe")
    order = ["<s>", "<pad>", "</s>", "<unk>", *pieces[:-20]]
    write_json(tmp_path / "vocab.json", {text: i for i, text in enumerate(order)})
    languages = tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    tokenizer = transformers.M2M100Tokenizer(
        str(tmp_path / "vocab.json"),
        str(tmp_path / "spm.model"),
        src_lang="zh",
        additional_special_tokens=[f"__{code}__" for code in languages],  # as published
    )
    tokenizer.save_pretrained(tmp_path / "saved")
    config = side_tokenizers.configuration(tmp_path / "saved")
    section, found = listed.m2m_section(tmp_path / "saved", config)
    assert found.ids["__fr__"] == tokenizer.get_lang_id("fr")
    compare(driver, section, tokenizer, texts(), keys=["text"], decode=True)


@pytest.mark.parametrize("extra", [100, 0])
def test_t5(extra, tmp_path, driver):
    lines = [text for pair in pairs()[::9] for text in pair]
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}  # as T5 has them
    train(tmp_path / "spm.model", lines, 2500, "unigram", **ids)
    tokenizer = transformers.T5Tokenizer(str(tmp_path / "spm.model"), extra_ids=extra)
    tokenizer.save_pretrained(tmp_path / "saved")
    config = side_tokenizers.configuration(tmp_path / "saved")
    section, found = listed.t5_section(tmp_path / "saved", config)
    assert len(found.texts) == 2500 + extra
    if extra:
        assert found.ids["<extra_id_0>"] == tokenizer.convert_tokens_to_ids("<extra_id_0>") == 2599
    more = ["a <extra_id_0> b", "<extra_id_99>", "x<extra_id_1>\t <extra_id_7>y </s> <unk>z"]
    compare(driver, section, tokenizer, texts() + more, keys=["text"], decode=True)


def test_pegasus(tmp_path, driver):
    lines = [text for pair in pairs()[::9] for text in pair]
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}  # as Pegasus has them
    train(tmp_path / "spm.model", lines, 2500, "unigram", **ids)
    tokenizer = transformers.PegasusTokenizer(str(tmp_path / "spm.model"))
    tokenizer.save_pretrained(tmp_path / "saved")
    (tmp_path / "bare").mkdir()  # and the file alone
    (tmp_path / "bare" / "spiece.model").write_bytes((tmp_path / "spm.model").read_bytes())
    config = side_tokenizers.configuration(tmp_path / "saved")
    section, found = numbered.pegasus_section(tmp_path / "saved", config)
    assert numbered.pegasus_section(tmp_path / "bare", {})[0] == section
    assert found.unknown == tokenizer.unk_token_id == 105
    assert found.ids["<unk_102>"] == tokenizer.convert_tokens_to_ids("<unk_102>") == 104
    more = ["a <mask_1> b", "<mask_2>x", "x<unk_2>\t <unk_102>y </s> <unk>z", "<unk_103>"]
    compare(driver, section, tokenizer, texts() + more, keys=["text"], decode=True)


@pytest.mark.parametrize("kind", ["MBart", "MBart50", "Nllb"])
def test_fairseq_numbers(kind, tmp_path, driver):
    lines = [text for pair in pairs()[::9] for text in pair]
    train(tmp_path / "spm.model", lines, 2500, "bpe" if kind == "Nllb" else "unigram")
    tokenizer = getattr(transformers, f"{kind}Tokenizer")(str(tmp_path / "spm.model"))
    tokenizer.save_pretrained(tmp_path / "saved")
    config = side_tokenizers.configuration(tmp_path / "saved")
    section, found = numbered.fairseq_section(tmp_path / "saved", config, kind)
    codes = {"MBart": 25, "MBart50": 52, "Nllb": 202}[kind]
    assert len(found.special) == 4 + codes + 1
    own = {text: tokenizer.convert_tokens_to_ids(text) for text in found.special}
    assert own == found.special
    if kind != "Nllb":  # the file alone
        (tmp_path / "bare").mkdir()
        name = "sentencepiece.bpe.model"
        (tmp_path / "bare" / name).write_bytes((tmp_path / "spm.model").read_bytes())
        assert numbered.fairseq_section(tmp_path / "bare", {}, kind)[0] == section
    more = ["a <mask> b", "<mask>x", "en_XX hello ro_ROx", "eng_Latn a\tzho_Hans ", "<s>a<pad>"]
    compare(driver, section, tokenizer, texts() + more, keys=["text"], decode=True)


@pytest.fixture(scope="module")
def merged(tmp_path_factory) -> Path:
    """NLLB's files, by each of the older version's classes."""
    folder = tmp_path_factory.mktemp("merged")
    train(folder / "spm.model", [text for pair in pairs()[::9] for text in pair], 2500, "bpe")
    for kind in ("NllbTokenizer", "NllbTokenizerFast"):
        made = getattr(transformers, kind)(str(folder / "spm.model"))
        made.save_pretrained(folder / kind)
    return folder


def test_a_tokenizer_json_of_nllb(merged, driver):
    """Which goes before the other files, as AutoTokenizer has it."""
    folder = merged / "NllbTokenizerFast"
    assert {"tokenizer.json", "sentencepiece.bpe.model"} <= {p.name for p in folder.iterdir()}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    section, info = tokenizer_json.build_hf_section(folder)
    ids = tokenizer.convert_tokens_to_ids(["eng_Latn", "zul_Latn", "<mask>"])
    assert [info["special"][text] for text in ("eng_Latn", "zul_Latn", "<mask>")] == ids
    assert (info["prefix"], info["suffix"]) == (ids[:1], [tokenizer.eos_token_id])
    more = ["a <mask> b", "<mask>x", "eng_Latn a\tzho_Hans ", "<s>a<pad>", " a  b ", "漢漢🙂🙂a🙂"]
    compare(driver, section, tokenizer, texts() + more, keys=["text"], decode=True)


@pytest.mark.parametrize("kind", ["NllbTokenizer", "NllbTokenizerFast"])
def test_a_tokenizer_json_of_nllb_by_the_newer_version(kind, merged, tmp_path, driver):
    """It keeps a space at a text's end, which the older one's drops: each directory has the ids of
    the version that saved it."""
    lines = [
        *texts(),
        "a <mask> b",
        "<mask>x",
        "eng_Latn a\tzho_Hans ",
        " a  b ",
        "漢漢🙂🙂a🙂",
        "a ",
    ]
    again = tmp_path / "again"
    job = {"kind": "ids", "folder": str(merged / kind), "again": str(again), "asks": lines}
    (want,) = newer_answers(tmp_path, [job])
    section, _ = tokenizer_json.build_hf_section(again)
    made = driver.encode(driver.section(section), [line.encode() for line in lines])
    wrong = [one for one in zip(lines, made, want, strict=True) if one[1] != one[2]]
    assert not wrong, (len(wrong), wrong[:3])
    older = transformers.AutoTokenizer.from_pretrained(merged / "NllbTokenizerFast")
    ids = [older(line, add_special_tokens=False).input_ids for line in lines[:600] + lines[-1:]]
    other = [
        line for line, a, b in zip(lines[:600] + lines[-1:], ids, want[:600] + want[-1:]) if a != b
    ]
    assert other == ["a "]


@pytest.mark.parametrize("codes", ["base", "multi"])
def test_plbart(codes, tmp_path, driver):
    lines = [text for pair in pairs()[::9] for text in pair]
    train(tmp_path / "spm.model", lines, 2500, "unigram")
    tokenizer = transformers.PLBartTokenizer(str(tmp_path / "spm.model"), language_codes=codes)
    tokenizer.save_pretrained(tmp_path / "saved")
    config = side_tokenizers.configuration(tmp_path / "saved")
    section, found = numbered.fairseq_section(tmp_path / "saved", config, "PLBart")
    own = {text: tokenizer.convert_tokens_to_ids(text) for text in found.special}
    assert own == found.special and len(own) == {"base": 8, "multi": 12}[codes]
    more = ["a <mask> b", "<mask>x", "__java__ int a; __python__x", "<s>a<pad>", "__go__ __ruby__"]
    more += ["public static void main ( String [ ] args ) { NEW_LINE INDENT return 0 ; }"]
    compare(driver, section, tokenizer, texts() + more, keys=["text"], decode=True)


def test_byt5(tmp_path, driver):
    tokenizer = transformers.ByT5Tokenizer()
    tokenizer.save_pretrained(tmp_path)
    section, info = tokenizer_json.build_hf_section(tmp_path)
    assert (info["suffix"], info["pad"], info["unknown"], info["pieces"]) == ([1], 0, 2, 384)
    compare(driver, section, tokenizer, texts(), keys=["text"])


@pytest.fixture(scope="module")
def blenderbot(tmp_path_factory) -> Path:
    """A directory of each class; its mask, as the published one's, is no word of vocab.json."""
    folder = tmp_path_factory.mktemp("blenderbot")
    made = tokenizers.ByteLevelBPETokenizer(add_prefix_space=True)
    names = ["<s>", "<pad>", "</s>", "<unk>"]
    lines = [text for pair in pairs()[::9] for text in pair]
    made.train_from_iterator(lines, vocab_size=900, special_tokens=names)
    made.save_model(str(folder))
    files = (str(folder / name) for name in ("vocab.json", "merges.txt"))
    transformers.BlenderbotTokenizer(*files, add_prefix_space=True).save_pretrained(folder / "slow")
    transformers.AutoTokenizer.from_pretrained(folder / "slow").save_pretrained(folder / "fast")
    return folder


@pytest.mark.parametrize("form", ["slow", "fast", "newer"])
def test_blenderbot(form, blenderbot, tmp_path, driver):
    """As AutoTokenizer has it, which takes the fast class; the newer version's directory as that
    one has it. The mask, behind the rows, is left out."""
    folder, lines = blenderbot / form, texts()
    if form == "newer":
        folder = tmp_path / "again"
        job = {"kind": "ids", "folder": str(blenderbot / "fast"), "again": str(folder)}
        (want,) = newer_answers(tmp_path, [{**job, "asks": lines}])
    else:
        own = transformers.AutoTokenizer.from_pretrained(folder)
        want = [own(line, add_special_tokens=False).input_ids for line in lines]
        assert own("a").input_ids[-1] == 2 != own("a").input_ids[0]
    section, info = tokenizer_json.build_hf_section(folder, rows=900)
    assert (info["prefix"], info["suffix"], info["pair"]) == ([], [2], None)
    assert (info["pieces"], info["mask"]) == (900, None)
    assert tokenizer_json.build_hf_section(folder)[1]["mask"] == 900
    made = driver.encode(driver.section(section), [line.encode() for line in lines])
    wrong = [one for one in zip(lines, made, want, strict=True) if one[1] != one[2]]
    assert not wrong, (len(wrong), wrong[:3])
