"""`phasor tokenize --export` of weight files whose tokenizer came from each kind of file: the
`tokenizers` package gives the ids of `phasor tokenize` with the tokenizer.json. A SentencePiece
model has none with exactly its ids, and is refused."""

from __future__ import annotations

import base64
import io
import itertools
import json
import subprocess
from pathlib import Path
from typing import Callable

import pytest

gguf = pytest.importorskip("gguf")

import sentencepiece
import tokenizer_draws as draws
from test_tokenizer_hf import golden
from tokenizers import Tokenizer, implementations

import gguf_models
import tekken_model
from conversions import convert_to
from exported import weight_file
from phasor.sources.hugging_face.tokenizer_json import build_hf_section
from phasor.sources.tokenizer_files import tokenizer_section
from places import told

ROWS = 900
TEXTS = [
    *(line for line in draws.corpus()[:30] if line.strip()),
    *golden.sentences()[:60],
    "",
    "  two  spaces ",
    "na\u00efve caf\u00e9, \u6771\u4eac, \U0001f642\U0001f469\u200d\U0001f680",
    "don't DON'T 1234567 x\u00b2",
    "<s>control</s> <unk> <|endoftext|> [MASK]",
    "a\u0301\u0301 \u1100\u1161\u11a8 \u2581\u2581x",
]


def _byte_level(*special: str) -> implementations.ByteLevelBPETokenizer:
    tokenizer = implementations.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        draws.corpus(), vocab_size=ROWS, special_tokens=[*special], show_progress=False
    )
    return tokenizer


def _of_file(folder: Path, path: Path) -> Path:
    side = dict.fromkeys(("unknown", "pad", "start", "decoder_start", "mask"))
    weight_file(folder / "m.phasor", tokenizer_section(path, {**side, "end": []}))
    return folder / "m.phasor"


def _of_hugging_face(folder: Path, path: Path, **config: str) -> Path:
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    section, info = build_hf_section(path)
    weight_file(folder / "m.phasor", section, info)
    return folder / "m.phasor"


def _vocab_txt(folder: Path) -> Path:
    tokenizer = implementations.BertWordPieceTokenizer()
    tokenizer.train_from_iterator(draws.corpus(), vocab_size=ROWS, show_progress=False)
    tokenizer.save_model(str(folder))
    return _of_hugging_face(folder, folder / "vocab.txt", tokenizer_class="BertTokenizer")


def _merges(folder: Path) -> Path:
    _byte_level("<|endoftext|>").save_model(str(folder))
    return _of_hugging_face(folder, folder / "vocab.json", tokenizer_class="GPT2Tokenizer")


def _pieces(folder: Path, name: str, kind: str) -> Path:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(draws.corpus()),
        model_writer=out,
        vocab_size=1500,
        model_type=kind,
        num_threads=1,
        minloglevel=2,
    )
    (folder / name).write_bytes(out.getvalue())
    return folder / name


def _xlm_roberta(folder: Path) -> Path:
    path = _pieces(folder, "sentencepiece.bpe.model", "unigram")
    return _of_hugging_face(folder, path, tokenizer_class="XLMRobertaTokenizer")


def _tiktoken(folder: Path, name: str, count: int) -> Path:
    """As many tokens as the encoding has: all bytes, a few words, then texts of two bytes and of
    three."""
    every = [bytes([byte]) for byte in range(256)]
    tokens = tekken_model.tokens(count)
    two = [a + b for a in every for b in every if a + b not in tekken_model.MORE]
    three = (b"a" + token for token in two if b"a" + token not in tekken_model.MORE)
    tokens += itertools.islice(itertools.chain(two, three), count - len(tokens))
    lines = (f"{base64.b64encode(token).decode()} {i}\n" for i, token in enumerate(tokens))
    (folder / name).write_text("".join(lines))
    return _of_file(folder, folder / name)


def _tekken(folder: Path) -> Path:
    (folder / "tekken.json").write_text(json.dumps(tekken_model.tree(275)))
    return _of_file(folder, folder / "tekken.json")


def _gguf(folder: Path) -> Path:
    spec = json.loads(_byte_level("<s>", "</s>").to_str())["model"]

    def tokenizer(writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("llama-bpe")
        writer.add_token_list(sorted(spec["vocab"], key=spec["vocab"].__getitem__))
        writer.add_token_types([3, 3] + [1] * (len(spec["vocab"]) - 2))
        writer.add_token_merges([pair if type(pair) is str else " ".join(pair)
                                 for pair in spec["merges"]])  # fmt: skip
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)

    case = {**gguf_models.CASES["llama"], "rows": len(spec["vocab"])}
    gguf_models.write(folder / "m.gguf", case, tokenizer=tokenizer)
    convert_to(folder / "m.gguf", folder / "m.phasor")
    return folder / "m.phasor"


FILES: dict[str, Callable[[Path], Path]] = {
    "vocab.txt": _vocab_txt,
    "vocab.json, merges.txt": _merges,
    "sentencepiece.bpe.model": _xlm_roberta,
    "r50k_base.tiktoken": lambda folder: _tiktoken(folder, "r50k_base.tiktoken", 50256),
    "cl100k_base.tiktoken": lambda folder: _tiktoken(folder, "cl100k_base.tiktoken", 100256),
    "tekken.json": _tekken,
    "gguf": _gguf,
}


@pytest.mark.parametrize("name", FILES)
def test_the_package_gives_the_same_ids(phasor, tmp_path, name):
    model, out = FILES[name](tmp_path), tmp_path / "exported.json"
    told(phasor, "tokenize", model, "--export", out)
    theirs = Tokenizer.from_file(str(out))
    texts = [text for text in TEXTS if "\n" not in text]
    found = told(phasor, "tokenize", model, "--print-ids", stdin="\n".join(texts) + "\n")
    lines = found.split("\n")[: len(texts)]
    ours = [[int(id_) for id_ in line.split(",") if id_] for line in lines]
    assert ours == [theirs.encode(text).ids for text in texts]
    assert len({id_ for ids in ours for id_ in ids}) > 100


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_sentencepiece_model_is_refused(phasor, tmp_path, kind):
    model, out = _of_file(tmp_path, _pieces(tmp_path, "spm.model", kind)), tmp_path / "out.json"
    command = [str(phasor), "tokenize", str(model), "--export", str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and not out.exists()
    assert "the tokenizers package can read" in done.stderr and done.stderr.count("\n") == 1
