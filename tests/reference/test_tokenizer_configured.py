"""What the files beside a tokenizer.json change in it: the ids of AutoTokenizer of transformers
4.57 and 5.x, or a line. As a program it prints those of the transformers first on the path."""

from __future__ import annotations

import functools
import json
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tokenizers
import transformers

from places import run_newer
from texts import write_json

PIECES = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] how many people Bread bread of the town The e ##e x y ##x"
    " < > . , [NEW] <eos> [ ] new eos ##w a"
).split()
TEXTS = [
    "The Bread of the town, é",
    "<eos> people [NEW] a",
    "the<eos>town  [NEW]",
    "[MASK] how <new> many <pad> x",
    "a<|endoftext|>b",
    " people",
]
_BERT, _GPT2 = {"tokenizer_class": "BertTokenizer"}, {"tokenizer_class": "GPT2Tokenizer"}
_BARE = {"tokenizer_class": "PreTrainedTokenizerFast"}
_MPNET = {"tokenizer_class": "MPNetTokenizer", "tokenize_chinese_chars": False}
_EOS = ("<eos>", "[NEW]")  # of a vocabulary, and no added tokens
_MAP = {"eos_token": "[NEW]", "pad_token": "<pad>"}  # special_tokens_map.json
_PLAIN = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False)


def wordpiece(lower: bool = True, special: int = 5) -> tokenizers.Tokenizer:
    model = tokenizers.models.WordPiece({p: i for i, p in enumerate(PIECES)}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lower)
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.decoder = tokenizers.decoders.WordPiece()
    made.add_special_tokens(PIECES[:special])
    return made


def byte_bpe(prefix: bool = False, more: tuple[str, ...] = ()) -> tokenizers.Tokenizer:
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    pieces = [*letters, "in", "to", "Ġt", "eo", "<|endoftext|>", *more]
    merges = [("i", "n"), ("t", "o"), ("Ġ", "t"), ("e", "o")]
    made = tokenizers.Tokenizer(tokenizers.models.BPE({p: i for i, p in enumerate(pieces)}, merges))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<|endoftext|>"])
    return made


# A tokenizer.json, what the files beside it say, and the versions that read it (all the same ids).
CASES = {
    "another case": (wordpiece(False), {**_BERT, "do_lower_case": True}, "45"),
    "case that is kept": (wordpiece(), {**_BERT, "do_lower_case": False}, "45"),
    "accents that are kept": (wordpiece(), {**_BERT, "strip_accents": False}, "45"),
    "the class's case": (wordpiece(False), _BERT, "45"),
    "the type's case": (wordpiece(False), {}, "45"),
    "no class of its own": (wordpiece(), {**_BARE, "do_lower_case": False}, "45"),
    "an end": (wordpiece(), {**_BERT, "eos_token": "<eos>"}, "45"),
    "an end, no class": (byte_bpe(more=_EOS), {**_BARE, "eos_token": "<eos>"}, "45"),
    "a padding that is new": (byte_bpe(), {**_GPT2, "pad_token": "<pad>"}, "45"),
    "a mask by the class": (wordpiece(special=4), _BERT, "45"),
    "more": (wordpiece(), {**_BERT, "additional_special_tokens": ["[NEW]"]}, "45"),
    "more of both": (
        byte_bpe(more=_EOS),
        {**_BARE, "additional_special_tokens": ["[NEW]", "<new>"], "pad_token": "<pad>"},
        "45",
    ),
    "a name of the model": (
        wordpiece(),
        {**_BERT, "extra_special_tokens": {"image_token": "[NEW]"}},
        "45",
    ),
    "more, the newer name": (wordpiece(), {**_BERT, "extra_special_tokens": ["[NEW]"]}, "5"),
    "a map": (byte_bpe(more=_EOS), {**_BARE, "eos_token": "<eos>", "map": _MAP}, "45"),
    "a map beside a table": (
        byte_bpe(more=_EOS),
        {**_BARE, "eos_token": "<eos>", "map": _MAP, "added_tokens_decoder": {}},
        "45",
    ),
    "a table": (
        wordpiece(),
        {
            **_BERT,
            "added_tokens_decoder": {
                "4": {"content": "[MASK]", **_PLAIN, "special": True, "lstrip": True},
                str(len(PIECES)): {"content": "<new>", **_PLAIN, "special": False},
            },
        },
        "45",
    ),
}


def written(folder: Path, made: tokenizers.Tokenizer, config: dict) -> Path:
    made.save(str(folder / "tokenizer.json"))
    kind = "gpt2" if config.get("tokenizer_class") == "GPT2Tokenizer" else "bert"
    config = dict(config)
    write_json(folder / "config.json", {"model_type": kind})
    if more := config.pop("map", None):
        write_json(folder / "special_tokens_map.json", more)
    write_json(folder / "tokenizer_config.json", config)
    return folder


def ids_of(folder: Path) -> list[list[int]]:
    made = transformers.AutoTokenizer.from_pretrained(folder)
    return [made(text, add_special_tokens=False)["input_ids"] for text in TEXTS]


def newer_ids(words: list) -> dict[str, Any]:
    """What this program prints with the newer transformers."""
    found = json.loads(run_newer(__file__, *words).splitlines()[-1])
    assert found.pop("version").startswith("5.")
    return found


@pytest.fixture(scope="module")
def newer(tmp_path_factory) -> dict[str, list[list[int]]]:
    folders = []
    for name, (made, config, versions) in CASES.items():
        if "5" in versions:
            folder = tmp_path_factory.mktemp("newer") / name.replace(" ", "_")
            folder.mkdir()
            folders.append(written(folder, made, config))
    return newer_ids(folders)


@pytest.mark.parametrize("name", CASES)
def test_the_ids_are_those_of_both_versions(name, newer, tmp_path, monkeypatch):
    from phasor.sources.hugging_face import tokenizer_json as hf

    made, config, versions = CASES[name]
    written(tmp_path, made, config)
    specs, read_spec = [], hf._read_spec
    monkeypatch.setattr(
        hf, "_read_spec", lambda *given: specs.append(read_spec(*given)) or specs[0]
    )
    hf.build_hf_section(tmp_path)
    read = tokenizers.Tokenizer.from_str(json.dumps(specs[0]))
    ours = [read.encode(text, add_special_tokens=False).ids for text in TEXTS]
    if "4" in versions:
        assert ours == ids_of(tmp_path)
    assert ours == newer[name.replace(" ", "_")]
    plain = [made.encode(text, add_special_tokens=False).ids for text in TEXTS]
    assert (ours == plain) == (name == "no class of its own")


@pytest.mark.parametrize(
    "made, config, line",
    [
        (byte_bpe(True), _GPT2, "add_prefix_space is false, and the pre_tokenizer of"),
        (byte_bpe(), {**_GPT2, "add_prefix_space": True}, "add_prefix_space is true, and"),
        (byte_bpe(), {**_GPT2, "split_special_tokens": True}, "split_special_tokens"),
        (byte_bpe(), {**_GPT2, "extra_special_tokens": "x"}, "extra_special_tokens: 'x', expected"),
        (wordpiece(), _MPNET, "handle_chinese_chars is not tokenizer_config.json's"),
    ],
)
def test_what_is_refused(made, config, line, tmp_path):
    from phasor.errors import PhasorError
    from phasor.sources.hugging_face import tokenizer_json as hf

    with pytest.raises(PhasorError, match=line):
        hf.build_hf_section(written(tmp_path, made, config))


# ---- A space before a text: add_prefix_space beside Metaspace, which has another name for it

_STEPS = ("always", "first", "never", "Prepend")
_MADE_OF = {"Llama": "tokenizer.model", "T5": "spiece.model"}  # by transformers 4, where it is said
_SPACES = ["the dog", " the dog", "the</s>dog", "  two  x", "a</s> b"]


class Space(NamedTuple):
    kind: str
    step: str
    said: bool | None
    more: dict = {}
    model: bool = False  # the SentencePiece file is there too

    @property
    def name(self) -> str:
        return ",".join(map(str, (self.kind, self.step, self.said, *self.more, self.model)))


SPACES = [
    Space(kind, step, said, more, model)
    for kind in ("Llama", "T5", "PreTrained", "XLNet")
    for step in _STEPS
    for said in (None, True, False)
    for model in ((False, True) if kind in _MADE_OF else (False,))
    for more in (({}, {"legacy": False}) if model and said else ({},))
    if step != "Prepend" or kind in ("Llama", "PreTrained")
]


@functools.lru_cache
def _made(root: Path, bpe: bool) -> tuple[Path, dict]:
    """A SentencePiece model, and the tokenizer.json of it."""
    from test_same_ids import _BYTES, sentences
    from test_tokenizer_listed import train

    path = root / ("tokenizer.model" if bpe else "spiece.model")
    if bpe:
        train(path, sentences(), 400, "bpe", **_BYTES)
        made = transformers.LlamaTokenizerFast(str(path), legacy=False)
    else:
        train(path, sentences(), 300, "unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
        made = transformers.T5TokenizerFast(str(path), extra_ids=0)
    return path, json.loads(made.backend_tokenizer.to_str())


def spaced(root: Path, space: Space) -> Path:
    folder = root / space.name
    folder.mkdir()
    bpe = space.kind in ("Llama", "PreTrained")
    model, spec = _made(root, bpe)
    spec = {**spec, "post_processor": None}
    if space.step == "Prepend":
        steps = [{"type": "Prepend", "prepend": "▁"}]
        steps += [{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]
        spec |= {"normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": None}
    else:
        spec["pre_tokenizer"] = {
            **{"type": "Metaspace", "replacement": "▁"},
            **{"prepend_scheme": space.step, "split": not bpe},
        }
    kind = f"{space.kind}Tokenizer{'Fast' * (space.kind == 'PreTrained')}"
    config = {"tokenizer_class": kind, "eos_token": "</s>", "unk_token": "<unk>", **space.more}
    config |= {"extra_ids": 0, "pad_token": "<pad>"} if space.kind == "T5" else {}
    config |= {} if space.said is None else {"add_prefix_space": space.said}
    named = {"Llama": {"model_type": "llama"}, "T5": {"model_type": "t5"}}.get(space.kind, {})
    for name, content in (
        ("tokenizer.json", spec),
        ("tokenizer_config.json", config),
        ("config.json", named),
    ):
        (folder / name).write_text(json.dumps(content))
    if space.model:
        shutil.copy(model, folder / model.name)
    return folder


@pytest.fixture(scope="module")
def spaces(tmp_path_factory) -> dict[str, tuple[Path, Any, Any]]:
    """By case: the directory, and the ids of both versions; None: it cannot open it."""
    root = tmp_path_factory.mktemp("spaces")
    folders = {space.name: spaced(root, space) for space in SPACES}
    newer = newer_ids(["--spaces", *folders.values()])
    return {n: (folder, _ids_or_none(folder), newer[n]) for n, folder in folders.items()}


def _ids_or_none(folder: Path) -> list[list[int]] | None:
    try:
        made = transformers.AutoTokenizer.from_pretrained(folder)
    except (ValueError, TypeError):  # of a SentencePiece file that is not there
        return None
    return [made(text, add_special_tokens=False)["input_ids"] for text in _SPACES]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)
def test_a_space_before_a_text(space, spaces):
    """The ids are those of 4.57, or the directory is refused, and then with a reason. Where 4.57
    opens none, or 5.x has other ids, a line says so."""
    from phasor.sources.hugging_face import configured
    from phasor.tokenizers.section import TokenizerError

    folder, older, newer = spaces[space.name]
    file = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    own = [file.encode(text, add_special_tokens=False).ids for text in _SPACES]
    spec, config = (
        json.loads((folder / name).read_text())
        for name in ("tokenizer.json", "tokenizer_config.json")
    )
    try:
        configured.configured(spec, folder, {**config})
    except TokenizerError as error:
        assert "add_prefix_space is" in str(error) and own != older, (older, own)
        return
    assert older in (None, own)
    if space.kind in _MADE_OF:
        assert (configured.other_ids(folder) is not None) == (newer != own)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    spaces_are_asked = sys.argv[1:2] == ["--spaces"]
    one = _ids_or_none if spaces_are_asked else ids_of
    every = {Path(folder).name: one(Path(folder)) for folder in sys.argv[1 + spaces_are_asked :]}
    print(json.dumps({"version": transformers.__version__, **every}))
