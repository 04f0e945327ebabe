"""Tokenizers, configurations, descriptions and adapters of strangers: one line that names the file
and the thing, exit 1, nothing written, in 10 s and 1 GB."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chat_model
import hostile
import torch_zip
from phasor import convert
from phasor.chat.instructions import Refused
from phasor.checkpoints.checkpoint import open_checkpoint
from phasor.errors import PhasorError, Problems, named, shown
from phasor.families.hf_config import Config
from phasor.files import fits, parse_json
from phasor.moments import read_moments
from phasor.program import ProgramFailed
from phasor.sources.hugging_face.tokenizer_json import build_hf_section
from phasor.sources.lora.adapter import _is_end, _tokens
from phasor.tokenizers.charsmap import build_trie, map_bounds
from phasor.tokenizers.section import TokenizerError
from phasor.tokenizers.tokenizer import build_sentencepiece_section
from translators import CONTROLS, proto

SHARED = hostile.ROOT.parent / "shared" / "hostile" / "conv"
DEEP = "[" * 300000


def bert_words(vocabulary: dict, added: str = "", merges: list[str] = []) -> dict:
    """A tokenizer.json as the first GPT has it."""
    token = {"id": vocabulary.get(added, len(vocabulary)), "content": added, "special": True}
    return {
        "added_tokens": [token] if added else [],
        "normalizer": None,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "BPEDecoder", "suffix": "</w>"},
        "model": {
            "type": "BPE",
            "vocab": vocabulary,
            "merges": merges,
            "end_of_word_suffix": "</w>",
        },
    }


def bombs(good: dict) -> dict[str, tuple[object, str]]:
    """name -> (a tokenizer.json: its text or its value, what the line says)."""
    model, token = good["model"], good["added_tokens"][0]

    def with_(**more) -> dict:
        return {**good, **more}

    def split(regex: object, behavior: object = "Isolated") -> dict:
        return with_(
            pre_tokenizer={
                "type": "Split",
                "pattern": {"Regex": regex},
                "behavior": behavior,
                "invert": False,
            }
        )

    def sequence(part: object, field: str, inside: str, count: int) -> str:
        marked = json.dumps(with_(**{field: "HERE"}))
        return marked.replace(
            '"HERE"',
            ('{"type":"Sequence","%s":[' % inside) * count + json.dumps(part) + "]}" * count,
        )

    return {
        "nested": (DEEP, "nested deeper"),
        "not_json": ("{", "not a JSON object"),
        "list": ("[]", "not a JSON object"),
        "twice": ('{"model": 1, "model": 2}', "is there twice"),
        "not_utf8": (b'{"\xff": 1}', "is not UTF-8"),
        "digits": ('{"version": ' + "9" * 100000 + "}", "too many digits"),
        "infinite": ('{"version": 1e999}', "no number of JSON"),
        "regex": (split(r"(a+)+\1" * 50), "a reference back"),
        "regex_states": (split(r"(?:a|b)*a(?:a|b){14}"), "states"),
        "regex_class": (split("[" + r"\p{L}" * 100000 + "]+"), "regular expression of"),
        "regex_of_list": (split(["a"]), "Split at"),
        "behavior": (split(r"\s+", 7), "pre_tokenizer.behavior: 7, expected text"),
        "pattern": (
            with_(pre_tokenizer={"type": "Split", "pattern": "x", "behavior": "Isolated"}),
            "pre_tokenizer.pattern",
        ),
        "negative": (with_(model={**model, "vocab": {"a": -1, "b": 1 << 70}}), "has the id -1"),
        "large_id": (with_(model={**model, "vocab": {"a": 1 << 40}}), "has the id"),
        "gaps": (
            with_(model={**model, "vocab": {"a": (1 << 24) - 1}}, added_tokens=[]),
            "of 1 pieces",
        ),
        "text_id": (with_(model={**model, "vocab": {"a": "0"}}), "has the id '0'"),
        "flag_id": (with_(model={**model, "vocab": {"a": False}}), "has the id False"),
        "vocab_list": (with_(model={**model, "vocab": ["a"]}), "model.vocab"),
        "vocab_text": (with_(model={**model, "vocab": "a"}), "model.vocab"),
        "no_vocab": (with_(model={"type": "BPE"}), "model.vocab is missing"),
        "merges": (with_(model={**model, "merges": [["a"], 3, None]}), "is not a pair"),
        "merge_of_texts": (with_(model={**model, "merges": ["x" * 100, "a b c"]}), "not a pair"),
        "merge_of_lists": (with_(model={**model, "merges": [[["a"], "b"]]}), "not a pair"),
        "merges_7": (with_(model={**model, "merges": 7}), "model.merges"),
        "merge_unknown": (
            with_(model={**model, "merges": [["never", "seen"]]}),
            "not in the vocabulary",
        ),
        "unknown": (with_(model={**model, "unk_token": ["a"]}), "model.unk_token"),
        "added_large": (with_(added_tokens=[{**token, "id": 1 << 62}]), "has the id"),
        "added_7": (with_(added_tokens=7), "added_tokens"),
        "added_text": (with_(added_tokens=["a"]), "not an object"),
        "added_content": (with_(added_tokens=[{**token, "content": 3}]), "added_tokens.content"),
        "added_no_content": (with_(added_tokens=[{"id": 0}]), "added_tokens.content is missing"),
        "added_flag": (with_(added_tokens=[{**token, "lstrip": "yes"}]), "added_tokens.lstrip"),
        "added_long": (with_(added_tokens=[{**token, "content": "x" * 5000}]), "5000 characters"),
        "added_twice": (with_(added_tokens=[token, token]), "is there twice"),
        "surrogate": (json.dumps(with_(model={**model, "vocab": {"\ud800": 0}})), "surrogate"),
        "surrogate_added": (
            json.dumps(with_(added_tokens=[{**token, "content": "\ud800"}])),
            "surrogate",
        ),
        "model_7": (with_(model=7), "tokenizer.json.model"),
        "model_kind": (with_(model={**model, "type": ["BPE"]}), "model ['BPE']"),
        "field": (with_(new_field=1), "new_field"),
        "sequence": (sequence({"type": "NFC"}, "normalizer", "normalizers", 3000), "nested deeper"),
        "sequence_wide": (
            with_(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}] * 100000}),
            "steps",
        ),
        "sequence_7": (
            with_(normalizer={"type": "Sequence", "normalizers": 7}),
            "normalizer.normalizers",
        ),
        "step_7": (with_(normalizer={"type": "Sequence", "normalizers": [7]}), "normalizer"),
        "no_type": (with_(pre_tokenizer={}), "pre_tokenizer"),
        "type_7": (with_(decoder={"type": 7}), "decoder"),
        "post_7": (with_(post_processor=7), "post_processor"),
        "post_sep": (
            with_(post_processor={"type": "RobertaProcessing", "sep": ["</s>"], "cls": ["<s>", 0]}),
            "post_processor.sep",
        ),
        "post_cls": (
            with_(
                post_processor={"type": "BertProcessing", "sep": ["</s>", [2]], "cls": ["<s>", 0]}
            ),
            "post_processor.sep",
        ),
        "template": (
            with_(
                post_processor={
                    "type": "TemplateProcessing",
                    "single": [7],
                    "pair": [],
                    "special_tokens": {},
                }
            ),
            "expected a Sequence",
        ),
        "template_ids": (
            with_(
                post_processor={
                    "type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}],
                    "pair": [],
                    "special_tokens": {},
                }
            ),
            "no list of ids",
        ),
        "template_many": (
            with_(
                post_processor={
                    "type": "TemplateProcessing",
                    "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 1000,
                    "pair": [],
                    "special_tokens": {},
                }
            ),
            "1000 parts",
        ),
        "wordpiece": (
            with_(
                model={
                    "type": "WordPiece",
                    "vocab": {},
                    "unk_token": None,
                    "continuing_subword_prefix": "##",
                    "max_input_chars_per_word": 1 << 40,
                },
                normalizer=None,
                pre_tokenizer={"type": "BertPreTokenizer"},
            ),
            "max_input_chars_per_word",
        ),
        "unigram": (
            with_(
                model={"type": "Unigram", "unk_id": 9, "vocab": [["a", 0.0]]},
                added_tokens=[],
                pre_tokenizer={"type": "Metaspace", "replacement": "\u2581"},
            ),
            "model.unk_id",
        ),
        "unigram_entry": (
            with_(model={"type": "Unigram", "unk_id": 0, "vocab": [["a", "0"]]}),
            "model.vocab",
        ),
        "unigram_score": (
            with_(model={"type": "Unigram", "unk_id": 0, "vocab": [["a", 10**400]]}),
            "model.vocab",
        ),
        "charsmap": (
            with_(
                model={"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0]]},
                normalizer={"type": "Precompiled", "precompiled_charsmap": "\u00e9"},
                added_tokens=[],
                pre_tokenizer={"type": "Metaspace", "replacement": "\u2581"},
                decoder={"type": "Metaspace", "replacement": "\u2581"},
            ),
            "precompiled_charsmap",
        ),
        "replaced_half": (
            with_(
                model={"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0]]},
                normalizer={"type": "Replace", "pattern": {"String": "\ud800"}, "content": "a"},
                added_tokens=[],
                pre_tokenizer={"type": "Metaspace", "replacement": "\u2581"},
                decoder={"type": "Metaspace", "replacement": "\u2581"},
            ),
            "",
        ),
        "replaced_long": (
            with_(
                model={"type": "Unigram", "unk_id": 0, "vocab": [["a", 0.0]]},
                normalizer={
                    "type": "Sequence",
                    "normalizers": [
                        {"type": "Replace", "pattern": {"String": "a"}, "content": "b" * 65},
                        {"type": "NFKD"},
                    ],
                },
                added_tokens=[],
                pre_tokenizer={"type": "Metaspace", "replacement": "\u2581"},
                decoder={"type": "Metaspace", "replacement": "\u2581"},
            ),
            "that make 715 bytes of one",
        ),
    }


BOMBS = sorted(bombs({"model": {}, "added_tokens": [{}]}))
# Files of a Hugging Face directory -> what is in them, what the line says.
CONFIGS = {
    "config_nested": ("config.json", DEEP, "config.json"),
    "config_list": ("config.json", "[]", "not a JSON object"),
    "config_utf8": ("config.json", b"{\xff}", "config.json"),
    "config_digits": ("config.json", '{"vocab_size": ' + "9" * 100000 + "}", "config.json"),
    "tokenizer_config_nested": ("tokenizer_config.json", DEEP, "tokenizer_config.json"),
    "tokenizer_config_list": ("tokenizer_config.json", "[]", "tokenizer_config.json"),
    "special_tokens_nested": ("special_tokens_map.json", DEEP, "special_tokens_map.json"),
    "token_of_list": ("tokenizer_config.json", {"bos_token": {"content": ["a"]}}, "bos_token"),
    "token_of_number": ("tokenizer_config.json", {"pad_token": 7}, "pad_token: 7"),
    "generation_nested": ("generation_config.json", DEEP, "generation_config.json"),
    "modules_nested": ("modules.json", "{}", "modules.json"),
}
_PIECES = {"a": 0, "b": 1, "<|endoftext|>": 2}
_GPT2 = {"tokenizer_class": "GPT2Tokenizer"}


def _table(**tokens: object) -> tuple[str, object]:
    ids = {name.removeprefix("id_"): token for name, token in tokens.items()}
    return "tokenizer_config.json", {**_GPT2, "added_tokens_decoder": ids}


# Files beside a vocab.json of _PIECES: added tokens, and a vocabulary that is none.
ADDED = {
    "id_text": ("vocab.json", {**_PIECES, "<|endoftext|>": "x"}, "has the id 'x'"),
    "id_null": ("vocab.json", {**_PIECES, "<|endoftext|>": None}, "has the id None"),
    "id_list": ("vocab.json", {**_PIECES, "<|endoftext|>": [1]}, "has the id"),
    "id_true": ("vocab.json", {**_PIECES, "<|endoftext|>": True}, "has the id True"),
    "nested": ("added_tokens.json", DEEP, "added_tokens.json"),
    "list": ("added_tokens.json", "[1]", "added_tokens.json: not a JSON object"),
    "number": ("added_tokens.json", {"<x>": 3.0}, "added_tokens.json: '<x>' has the id 3.0"),
    "true": ("added_tokens.json", {"<x>": True}, "added_tokens.json: '<x>' has the id True"),
    "below": ("added_tokens.json", {"<x>": -1}, "added_tokens.json: '<x>' has the id -1"),
    "large": ("added_tokens.json", {"<x>": 1 << 62}, "added_tokens.json: '<x>' has the id"),
    "far": ("added_tokens.json", {"<x>": (1 << 24) - 1}, "the package would give it 3"),
    "twice": ("added_tokens.json", {"<x>": 3, "<y>": 3}, "added_tokens.json: '<y>' has the id 3"),
    "long": ("added_tokens.json", {"x" * 5000: 3}, "5000 characters"),
    "zeros": (*_table(id_3="<x>", id_03="<y>"), "added_tokens_decoder: '03', expected an id"),
    "digits": (*_table(**{"9" * 5000: "<x>"}), "expected an id"),
    "same": (*_table(id_3="<x>", id_4="<x>"), "added_tokens_decoder: '<x>' is there twice"),
    "content": (*_table(id_3={"content": [1]}), "added_tokens_decoder: "),
    "flag": (*_table(id_3={"content": "<x>", "lstrip": "yes"}), "added_tokens_decoder: "),
    "more": (
        "special_tokens_map.json",
        {"additional_special_tokens": [7]},
        "additional_special_tokens: 7, expected a text",
    ),
}
CHANGES = {
    "hidden": {"hidden_size": -32},
    "hidden_huge": {"hidden_size": 1 << 62},
    "layers": {"num_hidden_layers": 1 << 40},
    "heads": {"num_attention_heads": 0},
    "heads_text": {"num_attention_heads": "2"},
    "eps": {"rms_norm_eps": float("nan")},
    "vocabulary": {"vocab_size": 1 << 40},
    "rope": {"rope_theta": 0},
    "rope_factor": {"rope_scaling": {"rope_type": "linear", "factor": 0}},
}
TOML = (
    'preset = "torch-transformer"\nstack = "encoder"\nheads = 2\nposition = '
    '"none"\nembedding_scale = "one"\n'
)
DESCRIPTIONS = {
    "nested": ("x = " + DEEP[:30000], "nested too deep"),
    "tables": (TOML + "x = " + "{a=" * 1000, "not TOML"),
    "dots": ("a" + ".a" * 20000 + " = 1", "dots"),
    "digits": ("heads = " + "9" * 5000, "not TOML"),
    "not_utf8": (b"\xff = 1", "is not UTF-8"),
    "long": ("#" * 100000, "longer than"),
    "layers": (TOML + "layers = 1000000000\n", "layers"),
    "heads": (TOML.replace("2", "9" * 30), "heads"),
    "date": ("heads = 2020-01-01", "heads"),
    "infinite": (TOML + "norm_eps = inf\n", "norm_eps"),
    "ids": (TOML + "[source]\nprefix = [99999999999999999999]\n", "prefix"),
    "outside": (TOML + '[source]\ntokenizer = "../../words.txt"\n', "not beside the description"),
    "absolute": (TOML + '[source]\ntokenizer = "/etc/words.txt"\n', "not beside the description"),
    "ignore": (TOML + "[checkpoint]\nignore = [" + '"a*",' * 1000 + "]\n", "1000 entries"),
    "ignore_class": (TOML + '[checkpoint]\nignore = ["[a-z]*"]\n', "not supported"),
    "layer": (TOML + '[names]\nencoder.ffn_in = "w"\n', "{layer}"),
    "key": (TOML + "[checkpoint]\nkey = 7\n", "checkpoint"),
    "escape": (TOML + '"a\\u001b[2J" = 1\n', "a?[2J"),
}
WORDS = {
    "words.json": (DEEP, "nested deeper"),
    "mixed.json": ('{"a": 0, "b": "1"}', "ids of the words"),
    "flags.json": ('{"a": false}', "ids of the words"),
    "number.json": ("7", "list of words"),
    "surrogate.json": ('["\\ud800"]', "surrogate"),
    "words.txt": (b"\xff\n", "is not UTF-8"),
    "piece.model": (b"\x0a\xff\xff\xff\xff\x0f", "cut off"),
    "words.bin": (b"", "llama2.c's tokenizer: the header is cut off"),
}


def _put(path: Path, content: object) -> None:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[dict, dict]:
    folder = tmp_path_factory.mktemp("hostile")
    good = chat_model.write(folder / "good", None)
    config, spec = (
        json.loads((good / f"{name}.json").read_text()) for name in ("config", "tokenizer")
    )
    sources: dict[str, tuple[Path, str]] = {}
    cases: dict[str, list[str]] = {}

    def directory(name: str, file: str, content: object, says: str) -> None:
        (folder / name).mkdir()
        for path in good.iterdir():
            os.link(path, folder / name / path.name)
        (folder / name / file).unlink(missing_ok=True)
        _put(folder / name / file, content)
        sources[name], cases[name] = (folder / name, says), [str(folder / name)]

    for name, (content, says) in bombs(spec).items():
        directory(f"tokenizer-{name}", "tokenizer.json", content, says)
        cases[f"tokenizer-{name}"] += ["--chat", "none"]
    for name, (file, content, says) in CONFIGS.items():
        directory(name, file, content, says)
    for name, (file, content, says) in ADDED.items():
        directory(f"added-{name}", "merges.txt", "#version: 0.2\n", says)
        (folder / f"added-{name}" / "tokenizer.json").unlink()
        for other, values in {
            "vocab.json": _PIECES,
            "tokenizer_config.json": _GPT2,
            file: content,
        }.items():
            (folder / f"added-{name}" / other).unlink(missing_ok=True)
            _put(folder / f"added-{name}" / other, values)
    for name, change in CHANGES.items():
        directory(f"config-{name}", "config.json", {**config, **change}, next(iter(change)))
    checkpoint = torch_zip.save(
        folder / "m.pt",
        {name: np.zeros((4, 4), np.float32) for name in ("w", "src_embedding.weight")},
    )
    for name, (content, says) in DESCRIPTIONS.items():
        path = folder / f"{name}.toml"
        _put(path, content)
        sources[f"toml-{name}"], cases[f"toml-{name}"] = (
            (path, says),
            [str(checkpoint), "--describe", str(path)],
        )
    golden = hostile.ROOT / "tests" / "golden" / "pytorch" / "separate.pt"
    for name, (content, says) in WORDS.items():
        path = folder / name
        _put(path, content)
        sources[f"words-{name}"], cases[f"words-{name}"] = (
            (path, says),
            [str(golden), "--tokenizer", str(path)],
        )
    return sources, hostile.run(cases, folder)


NAMES = [
    *(f"tokenizer-{n}" for n in BOMBS),
    *CONFIGS,
    *(f"added-{n}" for n in ADDED),
    *(f"config-{n}" for n in CHANGES),
    *(f"toml-{n}" for n in DESCRIPTIONS),
    *(f"words-{n}" for n in WORDS),
]


@pytest.mark.parametrize("name", NAMES)
def test_one_line(made, name):
    sources, results = made
    hostile.check(name, results, *sources[name])


# ---- JSON


@pytest.mark.parametrize(
    "text,says",
    [
        ("[" * 70 + "]" * 70, "nested deeper"),
        ('{"a": NaN}', "a: nan"),
        ('{"a": [-Infinity]}', "a: -inf"),
        ('{"a": {"b": 1, "b": 1}}', "'b' is there twice"),
        ("9" * 4301, "too many digits"),
        ('"\\udc00"', "surrogate"),
        ('{"\\uD800": 1}', "surrogate"),
        ("\xff", "UTF-8"),
        ("", "not JSON"),
        ("nul", "not JSON"),
    ],
)
def test_json_that_is_refused(text, says):
    with pytest.raises(PhasorError, match=says):
        parse_json(text.encode("latin-1"))


def test_json_that_is_not():
    assert parse_json(b'\xef\xbb\xbf{"a": [1, 2.5, "\\ud83d\\ude00", null, true]}') == {
        "a": [1, 2.5, "\U0001f600", None, True]
    }
    assert parse_json(b"[" * 60 + b"]" * 60) is not None


def test_values_are_shown_in_bounded_time():
    pairs = ()
    for _ in range(60):
        pairs = (pairs, pairs)
    assert (
        len(shown(pairs)) <= 201
        and len(shown(1 << 100000)) < 40
        and len(shown(["x" * 10**6] * 10**5)) <= 201
    )
    assert shown("a\nb\x1b") == r"'a\nb\x1b'"


# ---- Patterns


@pytest.mark.parametrize(
    "pattern,name,whether",
    [
        ("*", "", True),
        ("a*b*c", "a.x.b.c", True),
        ("a*b*c", "a.x.c", False),
        ("?.w", "a.w", True),
        ("?.w", ".w", False),
        ("scratch.*", "scratch.a", True),
        ("a", "ab", False),
        ("*a", "ba", True),
    ],
)
def test_patterns_of_names(pattern, name, whether):
    assert fits(pattern, name) is whether


def test_patterns_take_the_product_of_the_lengths():
    assert not fits("*a" * 200 + "b", "a" * 2000)  # a regular expression would try for ever


@pytest.mark.parametrize(
    "pattern,module,whether",
    [
        ("q_proj", "model.layers.0.self_attn.q_proj", True),
        ("proj", "model.q_proj", False),
        (r"layers\.1\.q", "model.layers.1.q", True),
        ("layers.1.q", "model.layersX1.q", True),
        (r"layers\.1\.q", "model.layersX1.q", False),
        (".*q", "model.q", True),
        ("^model.q", "model.q", True),
        ("^q", "model.q", False),
        ("layers.*.q", "m.layers.17.q", True),
        ("q", "q", True),
    ],
)
def test_patterns_of_an_adapter_are_pefts(pattern, module, whether):
    """As re.match(rf"(.*\\.)?({pattern})$", module), of which no more is built than this."""
    import re

    config = Config(Path("adapter_config.json"), {}, {})
    assert (
        _is_end(_tokens(config, "rank_pattern", pattern), module)
        is whether
        is bool(re.match(rf"(.*\.)?({pattern})$", module))
    )


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "a|b", "[qk]_proj", "a{9}", r"\d+", "q\n", "", "^", "a" * 300, "a+", "(?R)"],
)
def test_patterns_of_an_adapter_that_are_refused(pattern):
    with pytest.raises(PhasorError, match="rank_pattern: .* is not supported"):
        _tokens(Config(Path("adapter_config.json"), {}, {}), "rank_pattern", pattern)


# ---- SentencePiece


def field(number: int, data: bytes) -> bytes:
    size, head = len(data), b""
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + head + bytes([size]) + data


def test_a_specification_in_a_million_parts():
    """Each is joined to the last: that must not take the square of their number."""
    with pytest.raises(TokenizerError, match="no pieces"):
        build_sentencepiece_section(field(3, b"\x18\x01") * 1_000_000)


@pytest.mark.long
def test_a_name_before_an_error_of_any_kind():
    for error in (PhasorError("x"), ProgramFailed("x", "y"), Problems(["x"]), Refused("x", None)):
        found = named("a", error)
        assert type(found) is type(error) and str(found) == "a: x"
        assert found.__dict__ == error.__dict__ and named("a", found) is found


def test_a_tokenizer_without_a_piece(tmp_path):
    """Nor do the files beside it name one: what they name is added, as transformers adds it."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(bert_words({})))
    with pytest.raises(TokenizerError, match="model.vocab: is empty"):
        build_hf_section(tmp_path)


METASPACE = {"type": "Metaspace", "replacement": "\u2581"}
PAIRS = {
    "added_tokens": [],
    "pre_tokenizer": METASPACE,
    "decoder": METASPACE,
    "model": {"type": "BPE", "vocab": {"a": 0, "<unk>": 1}, "merges": [], "unk_token": "<unk>"},
}
# What the models for well-known tokenizers do not take, and a pipeline does.
PIPELINES = {
    "pairs_unknown": {**PAIRS, "model": {**PAIRS["model"], "unk_token": None}},
    "pairs_bytes": {**PAIRS, "model": {**PAIRS["model"], "byte_fallback": True}},
    "pairs_whole": {**PAIRS, "model": {**PAIRS["model"], "ignore_merges": True}},
    "pairs_words": {**PAIRS, "pre_tokenizer": None},
    "pairs_normalizer": {**PAIRS, "normalizer": {"type": "Nmt"}},
    "words_space": bert_words({"a ": 0}),
    "words_added_space": bert_words({"a</w>": 0}, "a "),
    "words_added_end": bert_words({"b": 0}, "a</w>"),
    "replace": {
        **bert_words({"a": 0}),
        "normalizer": {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": "z"},
    },
}


@pytest.mark.parametrize("name", PIPELINES)
def test_what_is_a_pipeline(tmp_path, name):
    (tmp_path / "tokenizer.json").write_text(json.dumps(PIPELINES[name]))
    assert struct.unpack_from("<I", build_hf_section(tmp_path)[0]) == (9,)


@pytest.mark.parametrize("token", ["a", 1, None, {}, {"content": "<mask>", "id": "9"}])
def test_an_added_token_that_is_none_where_a_mask_may_be_left_out(tmp_path, token):
    (tmp_path / "tokenizer.json").write_text(
        json.dumps({**bert_words({"a": 0}), "added_tokens": [token]})
    )
    with pytest.raises(TokenizerError, match="added_tokens"):
        build_hf_section(tmp_path, rows=1)


@pytest.mark.parametrize("odd", ["</c", "<pad>"])
def test_fairseqs_first_three_pieces(tmp_path, odd):
    """XLM-RoBERTa's ids leave out a model's first three pieces: they must be the usual ones."""
    config = {"tokenizer_class": "XLMRobertaTokenizer"}
    pieces = [*CONTROLS, ("a", -1.0, 1)]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "sentencepiece.bpe.model").write_bytes(proto(pieces))
    build_hf_section(tmp_path)
    pieces[2] = (odd, 0.0, 3)
    (tmp_path / "sentencepiece.bpe.model").write_bytes(proto(pieces))
    with pytest.raises(TokenizerError, match=f"model with '{odd}' among its first three pieces"):
        build_hf_section(tmp_path)


@pytest.mark.parametrize("id_", ["0", None, [0], {"a": 0}, 1.5, True, -1, 1 << 70])
@pytest.mark.parametrize("text", ["<|endoftext|>", "a"])
def test_ids_of_a_vocabulary_beside_its_merges(tmp_path, text, id_):
    """Also that of a token with a name, which is put together before the vocabulary is."""
    vocabulary = {"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}
    (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    build_hf_section(tmp_path)
    (tmp_path / "vocab.json").write_text(json.dumps({**vocabulary, text: id_}))
    with pytest.raises(TokenizerError, match=re.escape(f"model.vocab: '{text}' has the id ")):
        build_hf_section(tmp_path)


def test_merges_that_no_word_has(tmp_path):
    """What goes on behind a word's end, and what spells that end, is left out."""
    pieces = "a b < /w> a< a</w> b</w> ab</w> a</w>b a</w>b</w> </w>".split()
    merges = ["a b</w>", "a</w> b", "a</w> b</w>", "< /w>", "a< /w>"]
    tree = bert_words({piece: id_ for id_, piece in enumerate(pieces)}, "", merges)
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree))
    section, _ = build_hf_section(tmp_path)
    (count,) = struct.unpack_from("<I", section, 104)
    tree["model"]["merges"] = merges[:1]
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree))
    assert count == 1 and build_hf_section(tmp_path)[0] == section


@pytest.mark.parametrize("odd", [1, "yes", [True], {}])
@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word", "normalized"])
def test_a_flag_of_a_token_with_a_name(tmp_path, flag, odd):
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    for value in (True, None, odd):
        config = {"mask_token": {"content": "[MASK]", flag: value}}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        if value is not odd:
            build_hf_section(tmp_path)
    with pytest.raises(TokenizerError, match=f"mask_token: {flag}: .*, expected true or false"):
        build_hf_section(tmp_path)


def test_a_map_whose_values_overlap():
    """Thousands of replacements that are ends of one long text: their lengths are counted without
    copying them."""
    keys = {bytes([1 + i % 250, 1 + i // 250]): i for i in range(20_000)}
    assert map_bounds(build_trie(keys), b" " * 4_000_000 + b"\0", True) == (6_000_000, 2)
    assert map_bounds(build_trie({b"a": 2, b"bc": 0}), b"xy\0", False) == (3, 2)


def test_a_trie_with_more_paths_than_nodes():
    """Every node's children are all nodes of the next block: 255^1024 keys."""
    blocks = 6
    units = np.zeros(256 * blocks, dtype="<u4")
    for block in range(blocks - 1):
        for byte in range(256):
            at = 256 * block + byte
            units[at] = (byte if at else 0) | (at ^ 256 * (block + 1)) << 10
    for byte in range(256):
        units[256 * (blocks - 1) + byte] = (
            byte | ((256 * (blocks - 1) + byte) ^ 256) << 10
        )  # and back
    with pytest.raises(TokenizerError, match="more paths|too long"):
        map_bounds(units.tobytes(), b"\0", True)


def changed_unit(at: int, unit: int) -> bytes:
    """A sound trie with one unit another, to which no text leads."""
    units = np.frombuffer(build_trie({b"a": 0}), "<u4").copy()
    units[at] = unit
    return units.tobytes()


@pytest.mark.parametrize(
    "at,unit,says",
    [
        (200, 0x80000002, "outside the strings"),
        (0, 0x80000000, "outside the strings"),
        (200, 0x3FF << 10, "outside itself"),
        (200, 0x100, "without a value"),
    ],
)
def test_a_trie_of_which_a_part_that_nobody_reaches_is_damaged(at, unit, says):
    """The engine checks every unit, and would refuse the model that is made."""
    assert map_bounds(changed_unit(200, 0), b"a\0", False) == (3, 1)
    with pytest.raises(TokenizerError, match=says):
        map_bounds(changed_unit(at, unit), b"a\0", False)


# ---- A small source, a large model


def test_one_tensor_for_every_layer(tmp_path, capsys):
    """Names without {layer} and a thousand layers: 300 KB would become 300 MB."""
    rng = np.random.default_rng(0)
    arrays = {
        "src_embedding.weight": rng.normal(size=(8, 64)),
        "qkv": rng.normal(size=(192, 64)),
        "out": rng.normal(size=(64, 64)),
        "n1": np.ones(64),
        "n2": np.ones(64),
        "w1": rng.normal(size=(256, 64)),
        "w2": rng.normal(size=(64, 256)),
        "encoder.norm.weight": np.ones(64),
    }
    torch_zip.save(
        tmp_path / "m.pt", {name: value.astype(np.float32) for name, value in arrays.items()}
    )
    parts = {
        "qkv": "qkv",
        "attention_out": "out",
        "attention_norm": "n1",
        "ffn_norm": "n2",
        "ffn_in": "w1",
        "ffn_out": "w2",
    }
    described = (
        TOML
        + "layers = %d\n[names]\n"
        + "".join(f'encoder.{part} = "{name}"\n' for part, name in parts.items())
    )
    for layers, status in ((2, 0), (1024, 1)):
        (tmp_path / "m.toml").write_text(described % layers)
        assert (
            convert.main([str(tmp_path / "m.pt"), "-o", str(tmp_path / "m.phasor"), "--quiet"])
            == status
        ), capsys.readouterr().err
        said = capsys.readouterr().err
        assert ("stands for too many parts" in said) == bool(status)
        (tmp_path / "m.phasor").unlink(missing_ok=bool(status))


def test_tables_as_long_as_the_description_says(tmp_path, capsys):
    arrays = {
        name: value
        for name, value in _weights(hostile.ROOT / "tests/golden/pytorch/separate.pt").items()
    }
    for stack in ("encoder", "decoder"):
        arrays[f"{stack}.layers.0.self_attention.position.bias.weight"] = np.zeros(
            (32, 2), np.float32
        )
    torch_zip.save(tmp_path / "m.pt", arrays)
    text = (hostile.ROOT / "tests/golden/pytorch/separate.toml").read_text()
    (tmp_path / "m.toml").write_text('attention_position = "t5"\nmax_distance = 16777216\n' + text)
    assert convert.main([str(tmp_path / "m.pt"), "-o", str(tmp_path / "m.phasor"), "--quiet"]) == 1
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and "more than 16,777,216 values" in said, said


def _weights(path: Path) -> dict[str, np.ndarray]:
    checkpoint = open_checkpoint(path)
    return {name: checkpoint.load(name) for name in checkpoint}


# ---- Moments


@pytest.mark.parametrize(
    "data,says",
    [
        (b"", "not a .npy"),
        (b"PK\x03\x04" + b"\0" * 60, "not a .npy"),
        (b"\x93NUMPY\x01\0\xff\xff" + b"(" * 200, "its head is not one"),
        (
            b"\x93NUMPY\x01\0\x40\0"
            + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(64),
            "its head is not one",
        ),
        (
            b"\x93NUMPY\x01\0\x40\0"
            + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }".ljust(64)
            + b"\0" * 8,
            "expected one row of f32",
        ),
        (
            b"\x93NUMPY\x01\0\x50\0"
            + b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999,), }".ljust(80),
            "expected one row of f32",
        ),
    ],
)
def test_moments_that_are_none(tmp_path, data, says):
    (tmp_path / "m.npy").write_bytes(data)
    with pytest.raises(PhasorError, match=says):
        read_moments(tmp_path / "m.npy")


def test_moments_as_numpy_writes_them(tmp_path):
    np.save(tmp_path / "m.npy", np.arange(3, dtype="<f4"))
    assert read_moments(tmp_path / "m.npy").values.tolist() == [0, 1, 2]


@pytest.mark.long
@pytest.mark.skipif(
    not SHARED.is_dir(), reason="the reproductions beside the checkout are not there"
)
def test_the_reproductions_beside_the_checkout(tmp_path):
    chat_model.write(tmp_path / "build" / "evil_dir", None)
    done = subprocess.run(
        [sys.executable, str(SHARED / "tok_bombs.py")],
        cwd=tmp_path,
        env={**os.environ, "PHASOR_ROOT": str(hostile.ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 23 and not done.returncode
    # (a+)+$ and (x+x+)+y are regular: their tables of states have no bad text
    converts = {"regex", "regexnorm"}
    for line in lines:
        if line.split()[0] in converts:
            assert " rc=0 " in line, line
            continue
        assert " rc=1 convert: build/tokb/" in line and "internal error" not in line, line
