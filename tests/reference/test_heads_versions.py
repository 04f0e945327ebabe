"""Heads on directories of the newer transformers: embedders with their modules, cross-encoders,
language models that judge pairs, late interaction, sparse vectors. The models are those of the
tests that compare each with transformers 4.57; 5.x loads their directories and saves them again.
Both convert to the same file, and what the newer version computes is what the older one does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import test_classifiers as classifiers
import test_embedders as embedders
import test_late as late
import torch
import transformers
from answers import headed, newer_answers
from test_spans import WORDS, _wordpiece

from conversions import contents, convert_to

TOLERANCE = 1e-5
LINES = [["how many people"], ["Bread is made of FLOUR."], ["a"], ["people live in a town " * 3]]
PAIRS = [["how many", line[0]] for line in LINES]


class Made(NamedTuple):
    kind: str  # the class that loads it
    asks: list[list[str]]
    flags: list[str]
    how: dict[str, Any]  # it is loaded


def _bert(folder: Path, kind: str, **more: Any) -> None:
    torch.manual_seed(3)
    sizes = dict(vocab_size=len(WORDS), hidden_size=24, num_hidden_layers=2, num_attention_heads=3)
    config = transformers.BertConfig(
        **sizes, intermediate_size=40, max_position_embeddings=40, **more
    )
    net = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn_like(p) * 0.4 + (p.dim() == 1))
    net.save_pretrained(folder)
    _wordpiece(folder)


def _embedder(name: str, folder: Path) -> Made:
    folder.mkdir()
    kind = type(embedders.Embedder(name, folder).model).__name__
    return Made(kind, [[line] for line in embedders.LINES], [], {})


def _late(kind: str, model: str, folder: Path) -> Made:
    saved = getattr(late, kind)(folder, model)
    name = "HF_ColBERT" if kind == "Stanford" else type(saved.net).__name__
    return Made(name, LINES, [], {"dim": late.VECTOR} if kind == "Stanford" else {})


def _ranks(activation: str, folder: Path) -> Made:
    function = f"torch.nn.modules.{activation}"
    _bert(folder, "BertForSequenceClassification", num_labels=1, sentence_transformers={
        "activation_fn": function, "version": "5.0.0"})  # fmt: skip
    return Made("BertForSequenceClassification", PAIRS, [], {})


def _sparse(folder: Path) -> Made:
    _bert(folder, "BertForMaskedLM")
    types = [("", "MLMTransformer"), ("1_SpladePooling", "SpladePooling")]
    named = "sentence_transformers.sparse_encoder.models"
    rows = [dict(idx=i, name=str(i), path=p, type=f"{named}.{t}") for i, (p, t) in enumerate(types)]
    late._write(folder, "modules.json", rows)
    late._write(folder, "sentence_bert_config.json", {"max_seq_length": 32})
    pooling = {"pooling_strategy": "max", "activation_function": "relu"}
    late._write(folder, "1_SpladePooling/config.json", pooling)
    return Made("BertForMaskedLM", LINES, [], {})


def _judge(name: str, tokens: str, folder: Path) -> Made:
    sizes = {**classifiers._SIZES, "head_dim": 8}
    sizes |= {"query_pre_attn_scalar": 8} if name == "Gemma2ForCausalLM" else {}
    classifiers._judge(folder, getattr(transformers, name), sizes, True)
    flags = ["--rank-template", classifiers.TEMPLATE, "--rank-tokens", tokens]
    return Made(name, LINES, flags, {"attn_implementation": "eager"})


MAKERS = {
    **{f"embedder {name}": (_embedder, name) for name in embedders.CASES},
    "late Stanford": (_late, "Stanford", "bert"),
    "late PyLate": (_late, "PyLate", "bert"),
    "late PyLate, ModernBERT": (_late, "PyLate", "modernbert"),
    "rank": (_ranks, "activation.Sigmoid"),
    "rank, plain": (_ranks, "linear.Identity"),
    "sparse": (_sparse,),
    "judge Qwen3": (_judge, "Qwen3ForCausalLM", "yes,no"),
    "judge Gemma2": (_judge, "Gemma2ForCausalLM", "yes"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """By name: the older directory, the newer one's, what made it, and the newer one's answers."""
    root, found, jobs = tmp_path_factory.mktemp("heads"), {}, []
    for number, (name, (maker, *how)) in enumerate(MAKERS.items()):
        (root / str(number)).mkdir()
        older, newer = root / str(number) / "m", root / str(number) / "again" / "m"
        made = maker(*how, older)
        found[name] = (older, newer, made)
        job = {"kind": "headed", "class": made.kind, "how": made.how, "asks": made.asks}
        jobs.append({**job, "folder": str(older), "again": str(newer)})
    answers = newer_answers(root, jobs)
    for older, newer, _ in found.values():  # what transformers does not save is beside it
        for file in older.rglob("*"):
            to = newer / file.relative_to(older)
            if file.is_file() and not to.exists() and file.suffix != ".txt":
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, to)
    return {name: (*three, answer) for (name, three), answer in zip(found.items(), answers)}


@pytest.mark.parametrize("name", MAKERS)
def test_both_versions(name, saved, tmp_path):
    older, newer, made, theirs = saved[name]
    assert '"transformers_version": "5.' in (newer / "config.json").read_text()
    files = [tmp_path / "older.phasor", tmp_path / "newer.phasor"]
    for folder, file in zip((older, newer), files):
        convert_to(folder, file, *made.flags)
    assert contents(files[0]) == contents(files[1])
    ours = headed(made.kind, str(older), made.how, made.asks, None)
    for (ids, out), (their_ids, their) in zip(ours, theirs, strict=True):
        assert ids == their_ids
        out, their = np.array(out), np.array(their)
        assert np.abs(out - their).max() < TOLERANCE * max(1.0, np.abs(their).max())
