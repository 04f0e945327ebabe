"""What the files beside a tokenizer.json change in it: the ids of AutoTokenizer of transformers
4.57 and 5.x, or a line. As a program it prints those of the transformers first on the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tokenizers
import transformers

ROOT = Path(__file__).resolve().parents[2]
NEWER = Path(os.environ.get("TRANSFORMERS5", ROOT / ".venv-reference" / "transformers5")).absolute()
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
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    if more := config.pop("map", None):
        (folder / "special_tokens_map.json").write_text(json.dumps(more))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def ids_of(folder: Path) -> list[list[int]]:
    made = transformers.AutoTokenizer.from_pretrained(folder)
    return [made(text, add_special_tokens=False)["input_ids"] for text in TEXTS]


@pytest.fixture(scope="module")
def newer(tmp_path_factory) -> dict[str, list[list[int]]]:
    if not (NEWER / "transformers").is_dir():
        message = f"no newer transformers at {NEWER}: run make test-reference, or set TRANSFORMERS5"
        pytest.fail(message) if os.environ.get("PHASOR_REQUIRED") == "1" else pytest.skip(message)
    folders = []
    for name, (made, config, versions) in CASES.items():
        if "5" in versions:
            folder = tmp_path_factory.mktemp("newer") / name.replace(" ", "_")
            folder.mkdir()
            folders.append(written(folder, made, config))
    done = subprocess.run(
        [sys.executable, __file__, *folders],
        env={**os.environ, "PYTHONPATH": str(NEWER), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("version").startswith("5.")
    return found


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


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    every = {Path(folder).name: ids_of(Path(folder)) for folder in sys.argv[1:]}
    print(json.dumps({"version": transformers.__version__, **every}))
